"""A worker in a process of its own, to be killed: ``python process.py URL PREFIX OPTIONS``.

Each run of a job is noted in the list ``<prefix>:runs``, by another connection
(to the server of the queue, unless ``notes`` names another one by its URL), so
that the test sees every run whatever becomes of its result. The line ``ready``
on standard output says that the worker works, ``closing`` that it was told to end.

Besides a worker's options, OPTIONS (JSON) may say: ``shell`` (``"blocking"``;
else asyncio), ``sleep_ms``, ``skew_ms`` (how far ahead the clock is),
``deadly`` (jobs numbered from here on each kill a process, once), ``queue``,
``slow`` and ``slow_ms`` (jobs numbered from here on hold up their process, and how long), ``notes``.
"""

import asyncio
import json
import os
import sys
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import redis
import redis.exceptions

import echomq.clock
import echomq.sync
from echomq import Worker


def note(notes: redis.Redis, prefix: str, job_id: str) -> None:
    """Note that a job runs, whatever the server does just now."""
    while True:
        try:
            notes.rpush(f"{prefix}:runs", job_id)
        except (redis.exceptions.ConnectionError, redis.exceptions.ResponseError):
            time.sleep(0.05)
        else:
            return


def begin(notes: redis.Redis, prefix: str, given: dict[str, Any], job: Any) -> int:
    """What each job does before it sleeps."""
    number = int(job.data)
    if given["deadly"] and number >= given["deadly"] and notes.set(f"{prefix}:died:{number}", 1, nx=True):
        os._exit(1)
    if given["slow"] and number >= given["slow"] and notes.set(f"{prefix}:slow:{number}", 1, nx=True):
        time.sleep(given["slow_ms"] / 1000)
    if job.attempts_made + 1 < job.options.attempts:
        raise ValueError("as planned")
    return number * 2


def main(url: str, prefix: str, text: str) -> None:
    """Work until killed, or until told to end by a signal."""
    options: dict[str, Any] = json.loads(text)
    names = ("sleep_ms", "skew_ms", "deadly", "slow", "slow_ms", "shell", "queue", "notes")
    given = {name: options.pop(name, None) or 0 for name in names}
    notes = redis.Redis.from_url(str(given["notes"] or f"redis{url[url.index('://') :]}"), protocol=2)
    wrong_clock = SimpleNamespace(
        time_ns=lambda: time.time_ns() + given["skew_ms"] * 1_000_000, monotonic_ns=time.monotonic_ns
    )
    setattr(echomq.clock, "time", wrong_clock)  # noqa: B010  # the clock of this process alone is wrong

    def work(job: Any) -> int:
        note(notes, prefix, job.id)
        result = begin(notes, prefix, given, job)
        time.sleep(given["sleep_ms"] / 1000)
        return result

    async def work_async(job: Any) -> int:
        await asyncio.to_thread(note, notes, prefix, job.id)
        result = begin(notes, prefix, given, job)
        await asyncio.sleep(given["sleep_ms"] / 1000)
        return result

    queue = str(given["queue"] or "work")
    worker: Any
    if given["shell"] == "blocking":
        worker = echomq.sync.Worker(queue, work, url, prefix=prefix, **options)
    else:
        worker = Worker(queue, work_async, url, prefix=prefix, **options)
    for event in ("ready", "closing"):
        worker.on(event, partial(print, event, flush=True))
    worker.run() if given["shell"] == "blocking" else worker.run_sync()
    notes.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
