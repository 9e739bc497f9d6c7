"""What workers tell of themselves: who they are, where, and which jobs they run.

Each keeps one text that expires, so one that dies is soon gone; a set of their ids
finds the texts. Ours: other clients do not know these keys, and are listed by the
names of their connections alone (:mod:`echomq.calls.clients`).
"""

from collections.abc import Sequence
from typing import Any

import attrs

from echomq import codec, replies
from echomq.call import Batch, Command, Reply
from echomq.errors import ProtocolError
from echomq.keys import Keys

__all__ = [
    "EVERY_MS",
    "RunningNote",
    "WorkerDetails",
    "forget_worker",
    "forget_workers",
    "list_worker_ids",
    "read_workers",
    "tell_worker",
]

EVERY_MS = 15_000
"""How often a worker tells of itself."""

_LIFE_MS = 3 * EVERY_MS
_MOST_JOBS = 50
"""Running jobs that are named; a worker may have thousands."""


@attrs.frozen(kw_only=True)
class RunningNote:
    """A job that a worker runs.

    Attributes:
        id: The job.
        name: What kind of work it is.
        since_ms: When this attempt began.
    """

    id: str
    name: str
    since_ms: int


@attrs.frozen(kw_only=True)
class WorkerDetails:
    """A worker of ours, as it told of itself a moment ago.

    Attributes:
        id: Made for this run of it.
        name: Of the worker, if it has one.
        host: Name of its machine.
        pid: Its process.
        version: Of the library.
        started_ms: When this run began.
        seen_ms: When it told this, by its own clock.
        concurrency: Jobs that it may run at one time.
        running_count: Jobs that it runs.
        running: The longest-running of them, 50 at most.
    """

    id: str
    name: str | None
    host: str
    pid: int
    version: str
    started_ms: int
    seen_ms: int
    concurrency: int
    running_count: int
    running: tuple[RunningNote, ...] = ()


def tell_worker(keys: Keys, details: WorkerDetails) -> Batch:
    """Keep what a worker tells of itself, for three times as long as until it tells it again. Repeatable."""
    told = attrs.asdict(attrs.evolve(details, running=details.running[:_MOST_JOBS]))
    text = codec.encode_json("what a worker tells", told)
    return Batch(
        requests=(
            Command(parts=("SET", _told(keys, details.id), text, "PX", _LIFE_MS), decode=replies.nothing),
            Command(parts=("SADD", _ids(keys), details.id), decode=replies.nothing),
            Command(parts=("PEXPIRE", _ids(keys), _LIFE_MS), decode=replies.nothing),
        ),
    )


def forget_worker(keys: Keys, worker_id: str) -> Batch:
    """Take back what a worker told. Repeatable."""
    return Batch(
        requests=(
            Command(parts=("DEL", _told(keys, worker_id)), decode=replies.nothing),
            forget_workers(keys, [worker_id]),
        ),
    )


def list_worker_ids(keys: Keys) -> Command[list[str]]:
    """List the workers that told of themselves; some may be gone. Repeatable: it only reads."""
    return Command(parts=("SMEMBERS", _ids(keys)), decode=_texts, repeatable=True)


def read_workers(keys: Keys, ids: Sequence[str]) -> Command[list[WorkerDetails | None]]:
    """Read what workers told; decodes to None for those that are gone. Repeatable: it only reads."""
    names = (_told(keys, worker_id) for worker_id in ids)
    return Command(parts=("MGET", *names), decode=_Read(tuple(ids)), repeatable=True)


def forget_workers(keys: Keys, ids: Sequence[str]) -> Command[None]:
    """Forget the ids of workers that are gone. Repeatable."""
    return Command(parts=("SREM", _ids(keys), *ids), decode=replies.nothing, repeatable=True)


def _ids(keys: Keys) -> str:
    return f"{keys.base}echomq:workers"


def _told(keys: Keys, worker_id: str) -> str:
    return f"{keys.base}echomq:worker:{worker_id}"


def _texts(reply: Reply) -> list[str]:
    # A set, where the connection speaks the newer protocol.
    return [replies.text(item) for item in (reply if isinstance(reply, (list, tuple, set, frozenset)) else ())]


@attrs.frozen
class _Read:
    ids: tuple[str, ...]

    def __call__(self, reply: Reply) -> list[WorkerDetails | None]:
        told = replies.rows(reply, len(self.ids))
        return [_details(worker_id, text) for worker_id, text in zip(self.ids, told, strict=True)]


def _details(worker_id: str, text: Any) -> WorkerDetails | None:
    """Read leniently: a later version may tell more, or less."""
    if text is None:
        return None
    try:
        told = codec.decode_json(replies.text(text))
    except ProtocolError:
        return None
    if not isinstance(told, dict):
        return None
    jobs = told.get("running")
    name = told.get("name")
    return WorkerDetails(
        id=worker_id,
        name=name if isinstance(name, str) else None,
        host=str(told.get("host", "")),
        version=str(told.get("version", "")),
        running=tuple(_note(job) for job in (jobs if isinstance(jobs, list) else ()) if isinstance(job, dict)),
        **{number: _number(told.get(number)) for number in _NUMBERS},
    )


_NUMBERS = ("pid", "started_ms", "seen_ms", "concurrency", "running_count")


def _note(job: dict[str, Any]) -> RunningNote:
    return RunningNote(id=str(job.get("id", "")), name=str(job.get("name", "")), since_ms=_number(job.get("since_ms")))


def _number(value: object) -> int:
    return codec.lenient_int(value) or 0 if isinstance(value, (str, int, float)) else 0
