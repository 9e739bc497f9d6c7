"""Opens the queues that commands name; one that does not exist is told, for a typo looks like an empty queue."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from echomq import diagnosis, sync, watching
from echomq.call import Command
from echomq.calls.remove import count_existing
from echomq.driver import Connection
from echomq.errors import ServerRefused, UsageError
from echomq.keys import Keys
from echomq.sync.run import perform

from .connecting import connected

__all__ = ["all_queues", "exists", "must_exist", "named_or_all", "none_found", "open_queue"]

_BUDGET = 1_000_000
_NAMED_QUEUES = 10


@contextmanager
def open_queue(url: str | None, name: str, prefix: str) -> Iterator[sync.Queue]:
    """Give a queue that exists, for the length of a ``with`` block.

    Raises:
        UsageError: There is no such queue; or as :func:`~echomq.cli.connecting.connected`.
        DriverError: As there.
    """
    keys = Keys(name, prefix)  # a wrong name is told before the server is asked
    with connected(url) as connection, sync.Queue(name, connection, prefix=prefix, write_meta=False) as opened:
        must_exist(connection, [keys])
        yield opened


def named_or_all(connection: Connection, names: Sequence[str] | None, prefix: str) -> list[Keys]:
    """Return the queues that were named; all of the prefix if none was.

    Raises:
        UsageError: One that was named does not exist.
    """
    if not names:
        return all_queues(connection, prefix)
    named = [Keys(name, prefix) for name in dict.fromkeys(names)]
    must_exist(connection, named)
    return named


def all_queues(connection: Connection, prefix: str) -> list[Keys]:
    """Return all queues of a prefix, by name."""
    return [Keys(name, prefix) for name in perform(connection, diagnosis.find_queues(prefix, budget=_BUDGET))]


def none_found(prefix: str) -> str:
    """Say that a prefix has no queue."""
    return f"no queue with the prefix {prefix!r} was found"


def must_exist(connection: Connection, queues: Sequence[Keys]) -> None:
    """Refuse queues that neither hold anything nor have a worker.

    Raises:
        UsageError: Names the first of them, and those that there are.
    """
    for keys in queues:
        if not _exists(connection, keys):
            known = [other.queue for other in all_queues(connection, keys.prefix)]
            raise UsageError(f"there is no queue {keys.queue!r} with the prefix {keys.prefix!r}{_told(keys, known)}")


def exists(keys: Keys) -> Command[int]:
    """Ask whether a queue holds anything: how many kinds of keys."""
    places = (keys.wait, keys.active, keys.prioritized, keys.delayed, keys.waiting_children, keys.paused)
    return count_existing((*places, keys.completed, keys.failed, keys.repeat, keys.meta, keys.id_counter, keys.events))


def _exists(connection: Connection, keys: Keys) -> bool:
    if connection.send(exists(keys)):
        return True
    try:
        return bool(perform(connection, watching.workers(keys)))  # it waits for the first job
    except ServerRefused:  # the server does not list its clients
        return False


def _told(keys: Keys, known: Sequence[str]) -> str:
    if not known:
        return ", nor any other; look at --prefix and --url"
    near = get_close_matches(keys.queue, known, _NAMED_QUEUES)
    shown = near or known[:_NAMED_QUEUES]
    more = len(known) - len(shown)
    return f"; there are: {', '.join(shown)}{f' and {more:,} more' if more else ''}"
