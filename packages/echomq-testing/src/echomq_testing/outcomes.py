"""How the attempts of a worker ended, so that a test can be told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from echomq.stacktraces import in_users_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from echomq import Job, Keys

__all__ = ["Drained", "Failure", "Outcomes"]


@attrs.frozen
class Failure:
    """A job whose last attempt failed.

    Attributes:
        job: The job.
        error: What its code raised.
    """

    job: Job
    error: BaseException


@attrs.frozen(kw_only=True)
class Drained:
    """What a drain did.

    Attributes:
        completed: The jobs that completed, in the order in which they did.
        results: What they returned, in the same order.
        failed: The jobs whose last attempt failed, in the order in which they did; each may run again later.
    """

    completed: tuple[Job, ...]
    results: tuple[Any, ...]
    failed: tuple[Failure, ...]


class _Listened(Protocol):
    """A worker of either shell."""

    def on(self, event: str, listener: Callable[..., Any], /) -> Any: ...


@attrs.define(eq=False)
class Outcomes:
    """Listens to workers. Safe in any thread."""

    ended: int = 0
    _completed: list[tuple[Job, Any]] = attrs.field(factory=list)
    _failed: dict[tuple[Keys, str], Failure] = attrs.field(factory=dict)
    _errors: list[BaseException] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def listen(self, worker: _Listened) -> None:
        """Listen to a worker."""
        worker.on("completed", self._note_result)
        worker.on("failed", self._note_failure)
        worker.on("error", self._errors.append)

    def _note_result(self, job: Job, result: Any) -> None:
        with self._lock:
            self.ended += 1
            self._failed.pop((job.keys, job.id), None)
            self._completed.append((job, result))

    def _note_failure(self, job: Job, error: BaseException) -> None:
        with self._lock:
            self.ended += 1
            self._failed.pop((job.keys, job.id), None)  # the last failure counts, and its place
            self._failed[job.keys, job.id] = Failure(job, error)

    def drained(self) -> Drained:
        """Return what happened so far."""
        with self._lock:
            return Drained(
                completed=tuple(job for job, _ in self._completed),
                results=tuple(result for _, result in self._completed),
                failed=tuple(self._failed.values()),
            )

    def check(self) -> None:
        """Make sure that nothing went wrong.

        Raises:
            AssertionError: Something did; names it, and comes from the first error.
        """
        failed = self.drained().failed
        problems = [
            f"job {one.job.id} {one.job.name!r} of queue {one.job.keys.queue!r}: {one.error!r}" for one in failed
        ]
        problems += [f"worker: {error!r}" for error in self._errors]
        if problems:
            text = "\n  ".join(["in the workers of this test something failed:", *problems])
            raise AssertionError(text) from (failed[0].error if failed else self._errors[0])

    def raise_first(self) -> None:
        """Raise what went wrong first: the error of a job, or one that is no job's fault."""
        failed = self.drained().failed
        if failed:
            error = failed[0].error
            raise error.with_traceback(in_users_code(error.__traceback__) or error.__traceback__)
        if self._errors:
            raise self._errors[0]
