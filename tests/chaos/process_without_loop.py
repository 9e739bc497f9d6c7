"""A blocking worker in a process of its own, to be killed: ``python process_without_loop.py URL PREFIX OPTIONS``.

As ``process.py``, without an event loop.
"""

import json
import sys
import time
from functools import partial

import redis
import redis.exceptions

from echomq import Job
from echomq.sync import Worker


def main(url: str, prefix: str, options: str) -> None:
    """Work until killed, or until told to end by a signal."""
    notes = redis.Redis.from_url(url, protocol=2)
    given = json.loads(options)
    sleep_s = given.pop("sleep_ms", 0) / 1000

    def note(job_id: str) -> None:
        while True:
            try:
                notes.rpush(f"{prefix}:runs", job_id)
            except redis.exceptions.ConnectionError:
                time.sleep(0.05)
            else:
                return

    def work(job: Job) -> int:
        note(job.id)
        time.sleep(sleep_s)
        return int(job.data) * 2

    worker = Worker("work", work, url, prefix=prefix, **given)
    for event in ("ready", "closing"):
        worker.on(event, partial(print, event, flush=True))
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
