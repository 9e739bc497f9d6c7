"""The thread that renews locks, as events of virtual time."""

from collections.abc import Iterator
from contextlib import contextmanager

from echomq.scheduling.timing import renewal_ms
from echomq.sync.renewal import Renewal

from .universe import Process, Universe

__all__ = ["renewals_in"]


def _rounds(renewal: Renewal, process: Process) -> None:
    """Do what the thread does, now and once in each quarter of a lock's life."""
    if renewal._stopped.is_set():
        return
    universe, every_ms = process.universe, renewal_ms(renewal.lock_ms)
    try:
        renewal.ticked()
        renewal._renew_older_than(universe.mono_s() - every_ms / 1000)
    except Exception as error:  # noqa: BLE001  # as the thread does
        renewal._complain(error)
    universe.at(universe.now_ms + every_ms, lambda: _rounds(renewal, process), process)


@contextmanager
def renewals_in(universe: Universe) -> Iterator[None]:
    """Let renewals live in virtual time for the length of a ``with`` block; blocked event loops do not stop them."""

    def start(self: Renewal) -> None:
        process = universe.current
        assert process is not None, "a renewal belongs to a process"
        first = universe.now_ms + renewal_ms(self.lock_ms)
        universe.at(first, lambda: _rounds(self, process), process)

    real = Renewal.start
    Renewal.start = start  # type: ignore[method-assign]  # threads are the one thing that virtual time cannot hold
    try:
        yield
    finally:
        Renewal.start = real  # type: ignore[method-assign]  # as it was
