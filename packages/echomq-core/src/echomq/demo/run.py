"""Adds the demo's jobs, collects what they returned, and notices a lost one.

Memory does not grow with the folder: files are found while jobs run, at most
:data:`WINDOW` jobs are outstanding, and finished ones are counted and removed.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import attrs

from echomq.aio import add_bulk
from echomq.aio.run import perform
from echomq.calls import query
from echomq.calls.remove import remove_job
from echomq.clock import wall_ms
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError
from echomq.job import Job
from echomq.keys import Keys
from echomq.plans import NewJob, ask_all
from echomq.states import JobState

from .files import Skipped, text_files
from .stories import STORIES, Story
from .tally import Tally

__all__ = ["Demo", "DemoError", "Workers", "run_demo"]

WINDOW = 200
CHUNK = 100
FEW_FILES = 500
"""Up to so many files are spread over some seconds, to be watched; more run at full speed."""

LOOK_EVERY_S = 0.05
PATIENCE_S = 60.0
UNFINISHED = (JobState.WAITING, JobState.PRIORITIZED, JobState.DELAYED, JobState.ACTIVE)
FINISHED = (JobState.COMPLETED, JobState.FAILED)


class DemoError(EchoMQError):
    """The demo could not go on."""


class Workers(Protocol):
    """Worker processes, as :class:`~echomq.cli.processes.Pool` keeps them."""

    async def run(self) -> None:
        """Run until stopped."""
        ...

    def stop(self) -> None:
        """Ask them to end."""
        ...


@attrs.define(kw_only=True)
class Demo:
    """One run of the demo.

    Attributes:
        folder: Its text files are the work.
        keys: The queue.
        connection: To the server.
        pace_s: Few files are added over so many seconds.
        skipped: Files passed over.
        tally: What finished.
        stories: The special jobs, by name.
        counts: Jobs by state, as last seen.
        added_count: Jobs added so far.
        total_count: Jobs to be added in all, if known.
        outstanding: Ids of jobs that were added and not yet seen finished, with their subjects.
        is_fed: All jobs are added.
        is_paced: They are few, and added slowly.
        is_working: The first worker process took its first job.
        began_s: When the demo began, on the monotonic clock.
    """

    folder: Path
    keys: Keys
    connection: AsyncConnection
    pace_s: float
    skipped: Skipped = attrs.field(factory=Skipped)
    tally: Tally = attrs.field(factory=Tally)
    stories: dict[str, Story] = attrs.field(factory=dict)
    counts: dict[JobState, int] = attrs.field(factory=dict)
    added_count: int = 0
    total_count: int | None = None
    outstanding: dict[str, str] = attrs.field(factory=dict)
    is_fed: bool = False
    is_paced: bool = False
    is_working: bool = False
    began_s: float = attrs.field(factory=time.monotonic)
    _looked: asyncio.Event = attrs.field(factory=asyncio.Event)
    _moved_s: float = attrs.field(factory=time.monotonic)

    @property
    def is_done(self) -> bool:
        """All jobs were added and have finished."""
        return self.is_fed and not self.outstanding

    async def feed(self) -> None:
        """Add all jobs, not faster than they are done."""
        special = [new for _, new in STORIES.values()]
        added = await self._add([(new, new[0]) for new in special])
        self.stories = {job.name: Story(title=STORIES[job.name][0], job_id=job.id) for job in added}
        while not self.is_working:
            await self._next_look()
        files = text_files(self.folder, self.skipped)
        first = await asyncio.to_thread(lambda: list(islice(files, FEW_FILES)))
        self.is_paced = len(first) < FEW_FILES and self.pace_s > 0
        self.total_count = self.added_count + len(first) if len(first) < FEW_FILES else None
        if self.is_paced:
            await self._add_slowly(first)
        else:
            await self._add_fast(chain(first, files))
        self.is_fed = True

    async def _add_slowly(self, files: list[Path]) -> None:
        for path in files:
            await self._add([_text_job(path)])
            await asyncio.sleep(self.pace_s / len(files))

    async def _add_fast(self, files: Iterator[Path]) -> None:
        while chunk := await asyncio.to_thread(lambda: list(islice(files, CHUNK))):
            await self._add([_text_job(path) for path in chunk])
            while len(self.outstanding) > WINDOW:
                await self._next_look()

    async def _add(self, new: list[tuple[NewJob, str]]) -> list[Job]:
        """Add jobs, each given with its subject."""
        jobs = [job for job, _ in new]
        added = await add_bulk(self.keys.queue, jobs, connection=self.connection, prefix=self.keys.prefix)
        self.outstanding |= {job.id: subject for job, (_, subject) in zip(added, new, strict=True)}
        self.added_count += len(added)
        return added

    async def _next_look(self) -> None:
        self._looked.clear()
        await self._looked.wait()

    async def look(self) -> bool:
        """Look at the queue once: count, follow the special jobs, take what finished.

        Returns:
            True if there may be more to take at once.

        Raises:
            DemoError: Jobs are lost, or none has moved for a long time.
        """
        open_stories = [story for story in self.stories.values() if not story.is_over]
        finished, *seen = await self._ask(
            query.get_jobs(self.keys, FINISHED, 0, CHUNK - 1, ascending=True),
            query.get_counts(self.keys, (*UNFINISHED, *FINISHED)),
            *(request for story in open_stories for request in _about(self.keys, story.job_id)),
        )
        self.counts = seen[0]
        now_ms = wall_ms()
        for story, job, state in zip(open_stories, seen[1::2], seen[2::2], strict=True):
            if job is not None:
                story.go_on(job, state, now_ms)
        await self._take(finished)
        self.is_working = self.is_working or bool(finished) or self.counts[JobState.ACTIVE] > 0
        self._looked.set()
        return len(finished) >= CHUNK

    async def _take(self, finished: list[Job]) -> None:
        now_ms = wall_ms()
        for job in finished:
            if self.outstanding.pop(job.id, None) is None:
                raise DemoError(f"job {job.id} finished though it was not outstanding: it ran twice")
            self.tally.take(job, str(self.folder))
            if job.name in self.stories and job.state is not None:
                self.stories[job.name].go_on(job, job.state, now_ms)
        if finished:
            self._moved_s = time.monotonic()
            await self._ask(*(remove_job(self.keys, job.id) for job in finished))
        elif self.is_fed and self.outstanding and not sum(self.counts.values()):
            raise DemoError(f"lost {len(self.outstanding)} jobs: {', '.join(list(self.outstanding.values())[:5])}")
        elif time.monotonic() - self._moved_s > PATIENCE_S:
            raise DemoError(f"no job finished for {PATIENCE_S:.0f} s; {len(self.outstanding)} are outstanding")

    async def _ask(self, *requests: Any) -> list[Any]:
        return await perform(self.connection, ask_all(requests))


def _about(keys: Keys, job_id: str) -> tuple[Any, Any]:
    return query.get_job(keys, job_id), query.get_state(keys, job_id)


def _text_job(path: Path) -> tuple[NewJob, str]:
    return ("text", {"path": str(path)}), path.name


async def run_demo(demo: Demo, workers: Workers, show: Callable[[Demo], None]) -> None:
    """Run the demo to its end; the workers have ended, too, when this returns.

    Args:
        demo: See there.
        workers: Do the jobs.
        show: Called whenever something may have changed.

    Raises:
        DemoError: A job was lost, or there are no workers.
    """
    working = asyncio.ensure_future(workers.run())
    feeding = asyncio.ensure_future(demo.feed())
    try:
        while not demo.is_done:
            if working.done():
                working.result()
                raise DemoError("the worker processes ended before the jobs were done")
            if feeding.done():
                feeding.result()
            more = await demo.look()
            show(demo)
            if not more:
                await asyncio.sleep(LOOK_EVERY_S)
    finally:
        feeding.cancel()
        workers.stop()
        await asyncio.gather(working, feeding, return_exceptions=True)
