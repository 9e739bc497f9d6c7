"""The loop of the thread that runs one blocking worker, or all those of a group."""

import time
from collections.abc import Sequence

from .errands import Errands
from .shift import Shift

__all__ = ["work"]


def work(shifts: Sequence[Shift], errands: Errands) -> None:
    """Run shifts until all have ended.

    Args:
        shifts: They leave their errands to this thread.
        errands: Those.

    Raises:
        ConnectionClosed: The connection's owner closed it.
        KeyboardInterrupt: Ctrl-C, where it is not handled; running jobs wait again. At once if it comes twice.
    """
    interrupted: KeyboardInterrupt | None = None
    try:
        for shift in shifts:
            shift.begin()
        while not all(shift.is_over for shift in shifts):
            try:
                _do_next(shifts, errands)
            except KeyboardInterrupt as error:
                if interrupted is not None:
                    raise
                interrupted = error
                _end(shifts)
            if any(shift.fatal for shift in shifts):
                _end([shift for shift in shifts if not shift.fatal])
    finally:
        for shift in shifts:
            shift.leave()
    for shift in shifts:
        if shift.fatal is not None:
            raise shift.fatal
    if interrupted is not None:
        raise interrupted


def _do_next(shifts: Sequence[Shift], errands: Errands) -> None:
    alarms = [(shift.alarm_s(), shift) for shift in shifts if not shift.is_over]
    errand = errands.next(min((at for at, _ in alarms if at is not None), default=None))
    if errand is not None:
        errand()
        return
    for at, shift in alarms:
        if at is not None and at <= time.monotonic():
            shift.ring()


def _end(shifts: Sequence[Shift]) -> None:
    for shift in shifts:
        shift.force()
