"""Checks on what is in a queue, for asyncio; the twin is :mod:`echomq_testing.checking_sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .matching import ANYTHING, ENQUEUED, Expected

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from echomq import Job, Queue
    from echomq.keywords import JobKeywords

__all__ = ["assert_enqueued", "assert_not_enqueued"]


async def assert_enqueued(
    queue: Queue, name: str, data: Any = ANYTHING, *, count: int | None = None, **options: Unpack[JobKeywords]
) -> list[Job]:
    """Make sure that a queue has a job that has not ended.

    Args:
        queue: Where it should be.
        name: Of the job.
        data: What should equal its data; ``unittest.mock.ANY`` may stand for parts of it.
        count: How many such jobs there should be; None: at least one.
        **options: Options it should have been added with, as of :meth:`echomq.Queue.add`; others are not looked at.

    Returns:
        The jobs that are like that.

    Raises:
        AssertionError: There are not as many; tells in what the nearest ones differ.
        UsageError: An option is wrong.
    """
    expected = Expected(queue=queue.name, name=name, data=data, options=options, count=count)
    return expected.check(await queue.get_jobs(*ENQUEUED, ascending=True))


async def assert_not_enqueued(queue: Queue, name: str, data: Any = ANYTHING, **options: Unpack[JobKeywords]) -> None:
    """Make sure that a queue has no such job; arguments as :func:`assert_enqueued`.

    Raises:
        AssertionError: It has; shows it.
        UsageError: An option is wrong.
    """
    expected = Expected(queue=queue.name, name=name, data=data, options=options)
    expected.check_none(await queue.get_jobs(*ENQUEUED, ascending=True))
