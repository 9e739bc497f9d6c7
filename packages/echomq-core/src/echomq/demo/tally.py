"""Counts what finished. Pure; its size does not grow with the number of jobs."""

import heapq
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import attrs

from echomq.job import Job

__all__ = ["FileResult", "Tally", "percentile"]

LARGEST_COUNT = 10
RECENT_COUNT = 8


@attrs.frozen(kw_only=True)
class FileResult:
    """What a job found out about one file.

    Attributes:
        path: Below the demo's folder.
        line_count: Ends of lines in it.
        word_count: Words in it.
        frequent: Its most frequent words, with how often each occurs.
        sha256: Its digest, in hexadecimal digits.
        took_ms: How long the job ran.
        process: Which worker ran it.
    """

    path: str
    line_count: int
    word_count: int
    frequent: tuple[tuple[str, int], ...]
    sha256: str
    took_ms: int
    process: str


@attrs.define(kw_only=True)
class Tally:
    """What finished so far.

    Attributes:
        completed_count: Jobs whose code returned.
        failed_count: Jobs that used up their attempts.
        attempt_count: Attempts of all these.
        latencies_ms: Of the files: from added to finished -> how many.
        by_process: Worker -> jobs.
        recent: Last files, newest last.
        first_ms: When the first file was added.
        last_ms: When the last one finished.
    """

    completed_count: int = 0
    failed_count: int = 0
    attempt_count: int = 0
    latencies_ms: Counter[int] = attrs.field(factory=Counter)
    by_process: Counter[str] = attrs.field(factory=Counter)
    recent: deque[FileResult] = attrs.field(factory=lambda: deque(maxlen=RECENT_COUNT))
    first_ms: int = 0
    last_ms: int = 0
    _largest: list[tuple[int, str, FileResult]] = attrs.field(factory=list)

    @property
    def finished_count(self) -> int:
        """Jobs that ended, one way or the other."""
        return self.completed_count + self.failed_count

    @property
    def file_count(self) -> int:
        """Files that were read."""
        return sum(self.latencies_ms.values())

    @property
    def retry_count(self) -> int:
        """Attempts beyond each job's first."""
        return self.attempt_count - self.finished_count

    @property
    def per_s(self) -> float:
        """Files read in a second, from the first added to the last finished."""
        return self.file_count * 1000 / max(1, self.last_ms - self.first_ms)

    @property
    def largest(self) -> list[FileResult]:
        """Files with the most words, the largest first."""
        return [result for _, _, result in sorted(self._largest, key=lambda entry: entry[:2], reverse=True)]

    def take(self, job: Job, folder: str) -> None:
        """Count a finished job.

        Args:
            job: As read from the server after it ended.
            folder: Paths are shown below it.
        """
        self.completed_count += job.is_completed
        self.failed_count += job.is_failed
        self.attempt_count += job.attempts_made
        self.by_process[job.processed_by or "?"] += 1
        if job.name == "text" and isinstance(job.return_value, Mapping):
            self._take_file(job, job.return_value, folder)

    def _take_file(self, job: Job, found: Mapping[str, Any], folder: str) -> None:
        finished_ms = job.finished_on_ms or 0
        self.first_ms = min(self.first_ms or job.timestamp_ms, job.timestamp_ms)
        self.last_ms = max(self.last_ms, finished_ms)
        self.latencies_ms[finished_ms - job.timestamp_ms] += 1
        result = _file_result(job, found, folder)
        self.recent.append(result)
        heapq.heappush(self._largest, (result.word_count, result.path, result))
        if len(self._largest) > LARGEST_COUNT:
            heapq.heappop(self._largest)


def _file_result(job: Job, found: Mapping[str, Any], folder: str) -> FileResult:
    return FileResult(
        path=str(job.data["path"]).removeprefix(folder).lstrip("/\\"),
        line_count=found["lines"],
        word_count=found["words"],
        frequent=tuple((word, count) for word, count in found["frequent"]),
        sha256=found["sha256"],
        took_ms=(job.finished_on_ms or 0) - (job.processed_on_ms or 0),
        process=job.processed_by or "?",
    )


def percentile(counted: Mapping[int, int], share: float) -> int:
    """Return the smallest value that at least this share of all does not exceed; 0 for none at all.

    Args:
        counted: Value -> how often it occurred.
        share: 0.5 for the median.
    """
    wanted = share * sum(counted.values())
    seen = 0
    for value in sorted(counted):
        seen += counted[value]
        if seen >= wanted:
            return value
    return 0
