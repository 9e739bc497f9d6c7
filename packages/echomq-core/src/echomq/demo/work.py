"""What the demo's worker processes do: ``echomq worker echomq.demo.work:make_worker``."""

import codecs
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from echomq.aio.worker import Worker
from echomq.job import Job

__all__ = ["CONCURRENCY", "PREFIX_VARIABLE", "QUEUE", "ServiceError", "make_worker"]

QUEUE = "demo"
CONCURRENCY = 4
PREFIX_VARIABLE = "ECHOMQ_DEMO_PREFIX"
"""Environment variable that tells the workers the queue's prefix."""

CHUNK_BYTES = 65_536
LONGEST_WORD = 1_000
"""What goes on beyond is cut."""

MOST_WORDS = 50_000
"""Different words counted at one time; the rarest are dropped beyond, so that memory is bounded."""

_WORD = re.compile(r"[^\W\d_]+")
_FREQUENT_LENGTH = 4
"""Shorter words are in every text."""


class ServiceError(Exception):
    """What the flaky job raises, on purpose."""


def read_text(job: Job) -> dict[str, Any]:
    """Count lines and words of a file, find its most frequent words, and hash it."""
    digest, words = hashlib.sha256(), Counter[str]()
    line_count = word_count = 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = ""
    with Path(job.data["path"]).open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            line_count += chunk.count(b"\n")
            # A word may go on in the next chunk.
            text, left = _split(left + decoder.decode(chunk))
            word_count += _count(words, text)
    word_count += _count(words, left)
    frequent = [[word, count] for word, count in words.most_common() if len(word) >= _FREQUENT_LENGTH][:3]
    return {"lines": line_count, "words": word_count, "frequent": frequent, "sha256": digest.hexdigest()}


def _split(text: str) -> tuple[str, str]:
    """Part a text where its last word begins."""
    end = len(text)
    while end > 0 and len(text) - end < LONGEST_WORD and text[end - 1].isalpha():
        end -= 1
    return text[:end], text[end:]


def _count(words: "Counter[str]", text: str) -> int:
    found = [word.lower() for word in _WORD.findall(text)]
    words.update(found)
    if len(words) > MOST_WORDS:
        kept = words.most_common(MOST_WORDS // 2)
        words.clear()
        words.update(dict(kept))
    return len(found)


def fail_twice(job: Job) -> str:
    """Fail the first two attempts, as a service does that is down for a moment."""
    if job.attempts_made < 2:
        raise ServiceError("service down, on purpose")
    return "worked at last"


def remind(_job: Job) -> str:
    """Do what was to be done later."""
    return "on time"


def report(_job: Job) -> str:
    """Do what has a priority."""
    return "done"


TASKS: Mapping[str, Callable[[Job], Any]] = {
    "text": read_text,
    "flaky": fail_twice,
    "delayed": remind,
    "prioritized": report,
}
"""Name of a job -> what is done for it."""


def process(job: Job) -> Any:
    """Do one job. A plain function: it runs in a thread and may block."""
    return TASKS[job.name](job)


def make_worker() -> Worker:
    """Return the worker of one process."""
    name = f"process {os.environ.get('ECHOMQ_PROCESS', '1')}"
    return Worker(QUEUE, process, prefix=os.environ[PREFIX_VARIABLE], name=name, concurrency=CONCURRENCY)
