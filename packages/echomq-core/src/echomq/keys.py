"""Every key of a queue, by name.

A queue is a prefix and a name; all its keys are ``<prefix>:<name>:<suffix>``.
The suffix is a family name (``wait``) or a job id, and both share one name
space: job ids equal to a family name are refused.

Source: protocol spec 01 sections 1 and 2.
"""

import re
from base64 import b64encode
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import attrs

from .checks import filled
from .errors import InvalidOption

__all__ = ["DEFAULT_PREFIX", "FAMILY_NAMES", "Keys", "keys_of", "names_family"]

DEFAULT_PREFIX = "bull"

FAMILY_NAMES = frozenset(
    [
        "wait",
        "active",
        "paused",
        "prioritized",
        "delayed",
        "waiting-children",
        "completed",
        "failed",
        "stalled",
        "stalled-check",
        "limiter",
        "meta",
        "id",
        "pc",
        "marker",
        "events",
        "repeat",
        "priority",
        "delay",
    ]
)
"""Suffixes that name a key of the queue itself, and so cannot be job ids."""

_NOT_JOBS = FAMILY_NAMES - {"priority", "delay"}  # keys of old clients; a job of another client may be called so
_NO_JOB = re.compile(r"metrics:.*|d[en]:.*|repeat:(?!.*:\d+$).*", re.DOTALL)
"""Further keys of the queue; ``repeat:<scheduler>:<ms>`` is a job."""


def names_family(job_id: str) -> bool:
    """Tell whether a job of that id would share its key with one of the queue itself."""
    return job_id in FAMILY_NAMES or _NO_JOB.fullmatch(job_id) is not None


_IN_CLIENT_NAMES = "".join(map(chr, range(0x21, 0x7F)))


def _valid_queue(_: object, __: object, value: Any) -> None:
    if "://" in filled("queue", value, "a queue name is text that is not empty"):  # not shown: it may hold a password
        raise InvalidOption(
            "queue", "expected the name of a queue, not a URL; the name comes first, then the connection"
        )
    if ":" in value:
        raise InvalidOption("queue", f"a queue name holds no colon, but {value!r} does; use the prefix for name spaces")


def _valid_prefix(_: object, __: object, value: Any) -> None:
    filled("prefix", value, "a prefix is text that is not empty")


@attrs.frozen
class Keys:
    """Names of all keys of one queue.

    Attributes:
        queue: Name of the queue; not empty, no colon.
        prefix: Name space in front of it; may hold colons or a hash tag, ``"{bull}"``.

    Raises:
        InvalidOption: A name breaks these rules.

    Source: protocol spec 01 section 2.
    """

    queue: str = attrs.field(validator=_valid_queue)
    prefix: str = attrs.field(default=DEFAULT_PREFIX, validator=_valid_prefix)
    qualified_name: str = attrs.field(init=False, eq=False, repr=False)
    base: str = attrs.field(init=False, eq=False, repr=False)
    wait: str = attrs.field(init=False, eq=False, repr=False)
    active: str = attrs.field(init=False, eq=False, repr=False)
    paused: str = attrs.field(init=False, eq=False, repr=False)
    prioritized: str = attrs.field(init=False, eq=False, repr=False)
    delayed: str = attrs.field(init=False, eq=False, repr=False)
    waiting_children: str = attrs.field(init=False, eq=False, repr=False)
    completed: str = attrs.field(init=False, eq=False, repr=False)
    failed: str = attrs.field(init=False, eq=False, repr=False)
    stalled: str = attrs.field(init=False, eq=False, repr=False)
    stalled_check: str = attrs.field(init=False, eq=False, repr=False)
    limiter: str = attrs.field(init=False, eq=False, repr=False)
    meta: str = attrs.field(init=False, eq=False, repr=False)
    id_counter: str = attrs.field(init=False, eq=False, repr=False)
    priority_counter: str = attrs.field(init=False, eq=False, repr=False)
    marker: str = attrs.field(init=False, eq=False, repr=False)
    events: str = attrs.field(init=False, eq=False, repr=False)
    repeat: str = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Spell the names once, since hot calls read them for every job."""
        qualified = f"{self.prefix}:{self.queue}"
        object.__setattr__(self, "qualified_name", qualified)
        object.__setattr__(self, "base", qualified + ":")
        for field, suffix in _SUFFIXES.items():
            object.__setattr__(self, field, f"{qualified}:{suffix}")

    @staticmethod
    def of_job(job_key: str) -> "tuple[Keys, str]":
        """Return queue and id of the job whose hash has this key: the id has no colon, as in all flows.

        Raises:
            InvalidOption: It is no key of a job.

        Source: protocol spec 03 section 4.1.
        """
        base, _, job_id = job_key.rpartition(":")
        prefix, _, queue = base.rpartition(":")
        return Keys(queue, prefix), job_id

    def job(self, job_id: str) -> str:
        """Key of a job's hash."""
        return self.base + job_id

    def job_named(self, job_id: object) -> str:
        """Key of the hash of a job that a user named.

        Raises:
            InvalidOption: The id is no text or empty, or what stands at that key is no job: removing ``meta``
                would forget the settings of the queue.
        """
        job_id = filled("job_id", job_id)
        if job_id in _NOT_JOBS or _NO_JOB.fullmatch(job_id):
            raise InvalidOption("job_id", f"{job_id!r} names a key of the queue itself, not a job")
        return self.base + job_id

    def lock(self, job_id: str) -> str:
        """Key of a job's lock."""
        return f"{self.base}{job_id}:lock"

    def logs(self, job_id: str) -> str:
        """Key of a job's log rows."""
        return f"{self.base}{job_id}:logs"

    def dependencies(self, job_id: str) -> str:
        """Key of the set of a parent's unfinished children."""
        return f"{self.base}{job_id}:dependencies"

    def processed(self, job_id: str) -> str:
        """Key of the results of a parent's completed children."""
        return f"{self.base}{job_id}:processed"

    def failed_children(self, job_id: str) -> str:
        """Key of the failures of a parent's ignored children."""
        return f"{self.base}{job_id}:failed"

    def unsuccessful(self, job_id: str) -> str:
        """Key of the set of children whose failure fails the parent."""
        return f"{self.base}{job_id}:unsuccessful"

    def deduplication(self, deduplication_id: str) -> str:
        """Key that holds the id of the job that owns a deduplication id."""
        return f"{self.base}de:{deduplication_id}"

    def deduplication_next(self, deduplication_id: str) -> str:
        """Key of the job to create when the active owner of a deduplication id ends."""
        return f"{self.base}dn:{deduplication_id}"

    def client_name(self, worker: str | None = None) -> str:
        """Name of a worker's blocking connection, by which other clients find the workers of a queue.

        What servers do not allow in names of clients is percent-encoded. Other runtimes send such a prefix as it is,
        are refused, and go on without a name, so nobody finds their workers.

        Args:
            worker: Name of the worker, if it has one.

        Source: protocol spec 05 section 1.
        """
        name = f"{quote(self.prefix, safe=_IN_CLIENT_NAMES)}:{b64encode(self.queue.encode()).decode()}"
        return name if worker is None else f"{name}:w:{quote(worker, safe=_IN_CLIENT_NAMES)}"

    def scheduler(self, scheduler_id: str) -> str:
        """Key of a job scheduler's record."""
        return f"{self.base}repeat:{scheduler_id}"

    def metrics(self, kind: str) -> str:
        """Key of the counters of ``"completed"`` or ``"failed"`` jobs."""
        return f"{self.base}metrics:{kind}"

    def metrics_data(self, kind: str) -> str:
        """Key of the points per minute of ``"completed"`` or ``"failed"`` jobs."""
        return f"{self.base}metrics:{kind}:data"


def keys_of(queue: str, prefix: str) -> Keys:
    """Return the keys of a queue; spelled once for all that name it again and again."""
    if type(queue) is type(prefix) is str:
        return _spelled(queue, prefix)
    return Keys(queue, prefix)


_spelled = lru_cache(maxsize=256)(Keys)

_SUFFIXES = {
    "wait": "wait",
    "active": "active",
    "paused": "paused",
    "prioritized": "prioritized",
    "delayed": "delayed",
    "waiting_children": "waiting-children",
    "completed": "completed",
    "failed": "failed",
    "stalled": "stalled",
    "stalled_check": "stalled-check",
    "limiter": "limiter",
    "meta": "meta",
    "id_counter": "id",
    "priority_counter": "pc",
    "marker": "marker",
    "events": "events",
    "repeat": "repeat",
}
