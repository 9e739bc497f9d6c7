"""The account of a soak: reads all jobs of some queues, in parts, and tells what became of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import redis

from scripts.invariants import faults
from vectors.keyspace import Keyspace, plain_value, text

__all__ = ["Account", "account_of"]

_PART = 2_000
_READ = {"list": ("LRANGE", 0, -1), "set": ("SMEMBERS",), "zset": ("ZRANGE", 0, -1), "string": ("GET",)}
_FIELDS = ("name", "atm", "stc", "parentKey", "ic", "failedReason")


@attrs.frozen(kw_only=True)
class Account:
    """What became of the jobs.

    Attributes:
        added: Acknowledged jobs.
        scheduled: Jobs that schedulers made.
        completed: Jobs that are completed.
        lost: Acknowledged jobs that are not completed.
        twice: Jobs that finished more than once.
        not_run: Jobs whose processor was not seen as often as attempts were counted.
        miscounted: Jobs with another number of attempts than they should have.
        attempts: All attempts.
        runs: All runs of the processor that were noted.
        recovered: How often jobs were taken back from workers that were gone.
        unsound: What is wrong with keys.
    """

    added: int
    scheduled: int
    completed: int
    lost: Sequence[str]
    twice: Sequence[str]
    not_run: Sequence[str]
    miscounted: Sequence[str]
    attempts: int
    runs: int
    recovered: int
    unsound: Mapping[str, str]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.twice or self.not_run or self.miscounted or self.unsound)

    def lines(self) -> Iterator[tuple[str, str]]:
        """The report."""
        yield "jobs added", f"{self.added:,}, and {self.scheduled:,} by schedulers"
        yield "jobs finished", f"{self.completed:,}"
        yield "lost", _told(self.lost)
        yield "finished twice", _told(self.twice)
        yield "not run", _told(self.not_run)
        yield "attempts", f"{self.attempts:,}; miscounted: {_told(self.miscounted)}"
        yield "runs", f"{self.runs:,}, of which {max(self.runs - self.attempts, 0):,} repeat an effect"
        yield "recovered from dead workers", f"{self.recovered:,}"
        yield "keys that are not sound", _told([f"{key} {what}" for key, what in self.unsound.items()])


def _told(items: Sequence[str]) -> str:
    return f"{len(items)} ({', '.join(items[:5])} ...)" if items else "0"


def _in_parts(client: redis.Redis, commands: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    for start in range(0, len(commands), _PART):
        pipe = client.pipeline(transaction=False)
        for command in commands[start : start + _PART]:
            pipe.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py leaves it so
        yield from pipe.execute()


def _keyspace(client: redis.Redis, prefix: str) -> Keyspace:
    """Read the keys, and of hashes what matters here."""
    keys = list(client.scan_iter(f"{prefix}:*", count=_PART))
    client.response_callbacks.clear()
    kinds = [text(kind) for kind in _in_parts(client, [("TYPE", key) for key in keys])]
    found: Keyspace = {}
    commands: list[tuple[Any, ...]] = [
        ("HMGET", key, *_FIELDS) if kind == "hash" else (_READ[kind][0], key, *_READ[kind][1:])
        for key, kind in zip(keys, kinds, strict=True)
        if kind != "stream"
    ]
    kept = [(key, kind) for key, kind in zip(keys, kinds, strict=True) if kind != "stream"]
    for (key, kind), raw in zip(kept, _in_parts(client, commands), strict=True):
        if kind == "hash":
            value: Any = {name: text(item) for name, item in zip(_FIELDS, raw, strict=True) if item is not None}
        elif kind == "zset":
            value = [[text(item), "0"] for item in raw]
        else:
            value = plain_value(kind, raw)
        found[text(key)] = {"type": kind, "value": value}
    return found


def _ends(client: redis.Redis, queue: str) -> "Counter[str]":
    ends: Counter[str] = Counter()
    start = "-"
    while entries := client.execute_command("XRANGE", f"{queue}:events", start, "+", "COUNT", 5_000):  # type: ignore[no-untyped-call]  # as above
        for _, flat in entries:
            event = dict(zip(flat[::2], flat[1::2], strict=True))
            if event[b"event"] in (b"completed", b"failed"):
                ends[text(event[b"jobId"])] += 1
        start = f"({text(entries[-1][0])}"
    return ends


def account_of(
    sources: Sequence[tuple[redis.Redis, str]],
    queues: Sequence[str],
    expected: Mapping[tuple[str, str], int],
    notes: redis.Redis,
) -> Account:
    """Return what became of the jobs of some queues.

    Args:
        sources: Prefixes, and a client of the server that holds the queues of each; its callbacks are removed.
        queues: Names of the queues, without a prefix.
        expected: Attempts of each acknowledged job, by qualified name of the queue and id.
        notes: Client of the server where runs are noted.
    """
    names = [f"{prefix}:{queue}" for _, prefix in sources for queue in queues]
    keyspace: Keyspace = {}
    for client, prefix in sources:
        keyspace.update(_keyspace(client, prefix))
    ends = {name: _ends(client, name) for client, prefix in sources for name in names if name.startswith(f"{prefix}:")}
    completed = {
        (name, item[0]) for name in names for item in keyspace.get(f"{name}:completed", {"value": ()})["value"]
    }
    nothing = {"value": {"atm": "0"}}  # told as unsound
    jobs = {where: keyspace.get(":".join(where), nothing)["value"] for where in completed}
    attempts = {where: int(job["atm"]) for where, job in jobs.items()}
    runs: Counter[tuple[str, str]] = Counter()
    for _, prefix in sources:
        for noted in notes.lrange(f"{prefix}:runs", 0, -1):
            runs[prefix, text(noted)] += 1
    return Account(
        added=len(expected),
        scheduled=len(completed - expected.keys()),
        completed=len(completed),
        lost=[":".join(where) for where in expected.keys() - completed],
        twice=[f"{name}:{job_id}" for name in names for job_id, count in ends[name].items() if count > 1],
        not_run=[
            ":".join(where) for where, count in attempts.items() if runs[where[0].rpartition(":")[0], where[1]] < count
        ],
        miscounted=[":".join(where) for where, count in expected.items() if attempts.get(where, count) != count],
        attempts=sum(attempts.values()),
        runs=runs.total(),
        recovered=sum(int(job.get("stc", 0)) for job in jobs.values()),
        unsound=faults(keyspace, names),
    )
