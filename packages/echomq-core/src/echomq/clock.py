"""The shells' clocks; the core is given the time instead.

The wall clock is for what is stored, the monotonic one for what is measured.
"""

import time

__all__ = ["mono_ms", "wall_ms"]


def wall_ms() -> int:
    """Milliseconds since the Unix epoch, for what is stored."""
    return time.time_ns() // 1_000_000


def mono_ms() -> int:
    """Milliseconds on a clock that never jumps, for what is measured."""
    return time.monotonic_ns() // 1_000_000
