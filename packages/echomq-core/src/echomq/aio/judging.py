"""What an attempt that failed comes to: the worker's backoff strategies are asked, and may take their time."""

import inspect
from collections.abc import Callable
from typing import Any

from echomq.chance import dice
from echomq.job import Job
from echomq.options import WorkerOptions
from echomq.scheduling.outcome import Outcome, has_attempt_left, of_error, of_unknown_backoff

__all__ = ["judged"]


async def judged(
    job: Job, error: BaseException, options: WorkerOptions, complain: Callable[[BaseException], None]
) -> Outcome:
    """Return the outcome of an attempt that raised.

    Args:
        job: As taken.
        error: What was raised.
        options: The worker's.
        complain: Told what a strategy does wrong.
    """
    try:
        strategies = await _asked_strategy(job, error, options)
        return of_error(job, error, options=options, dice=dice(), strategies=strategies)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as problem:  # noqa: BLE001  # a strategy may raise anything, and the job must go somewhere
        complain(problem)
        return of_unknown_backoff(job, error)


async def _asked_strategy(job: Job, error: BaseException, options: WorkerOptions) -> dict[str, Callable[..., int]]:
    backoff = job.options.backoff
    strategy = options.backoff_strategies.get(backoff.type) if backoff else None
    if backoff is None or strategy is None or not has_attempt_left(job, error, options):
        return {}
    answer: Any = strategy(job.attempts_made + 1, backoff.type, error, job)
    if inspect.isawaitable(answer):
        answer = await answer
    return {backoff.type: lambda *_: answer}
