"""The shells' clocks; the core is given the time instead.

The wall clock is for what is stored, the monotonic one for what is measured.
"""

import os
import time
from collections.abc import Callable
from datetime import datetime, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

__all__ = ["local_zone", "mono_ms", "set_wall", "wall_ms"]

_LOCALTIME = Path("/etc/localtime")
_stand_in: Callable[[], int] | None = None


def wall_ms() -> int:
    """Milliseconds since the Unix epoch, for what is stored."""
    return time.time_ns() // 1_000_000 if _stand_in is None else _stand_in()


def set_wall(read: Callable[[], int] | None) -> None:
    """Let :func:`wall_ms` ask this, in the whole process; for tests.

    Args:
        read: Returns milliseconds since the Unix epoch, in any thread. None: the system's clock again.
    """
    global _stand_in
    _stand_in = read


def mono_ms() -> int:
    """Milliseconds on a clock that never jumps, for what is measured."""
    return time.monotonic_ns() // 1_000_000


def local_zone() -> tzinfo:
    """Return the zone of this process with its rules; only its present offset where the system does not name it."""
    named = os.environ.get("TZ") or str(_LOCALTIME.resolve()).rpartition("/zoneinfo/")[2]
    try:
        return ZoneInfo(named.removeprefix(":"))
    except (KeyError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or timezone.utc
