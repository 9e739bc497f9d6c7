"""The shells' clocks; the core is given the time instead.

The wall clock is for what is stored, the monotonic one for what is measured.
"""

import os
import time
from datetime import datetime, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

__all__ = ["local_zone", "mono_ms", "wall_ms"]

_LOCALTIME = Path("/etc/localtime")


def wall_ms() -> int:
    """Milliseconds since the Unix epoch, for what is stored."""
    return time.time_ns() // 1_000_000


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
