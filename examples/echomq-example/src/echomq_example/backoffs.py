"""A backoff type: waits that grow as Fibonacci's numbers do."""

from collections.abc import Mapping

from echomq import Job
from echomq.backoff import BackoffStrategy
from echomq.hookspecs import hookimpl


def fibonacci(attempts_made: int, kind: str, error: BaseException, job: Job) -> int:
    """Wait 1, 1, 2, 3, 5, 8 ... times the delay of the job's backoff, in ms."""
    del kind, error
    before, now = 0, 1
    for _ in range(attempts_made - 1):
        before, now = now, before + now
    return now * (job.options.backoff.delay if job.options.backoff else 0)


@hookimpl
def echomq_register_backoffs() -> Mapping[str, BackoffStrategy]:
    """Let jobs say ``backoff=Backoff("fibonacci", 1_000)``."""
    return {"fibonacci": fibonacci}
