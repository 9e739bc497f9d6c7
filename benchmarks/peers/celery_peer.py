"""Celery: see harness.py."""

from __future__ import annotations

from celery import Celery
from harness import TASK, job, main


class Peer:
    """Celery on Redis: one job at a time in the worker itself, more in threads."""

    def open(self) -> None:
        self.app = Celery("bench", broker=TASK["url"], backend=TASK["url"])
        self.app.conf.task_default_queue = TASK["queue"]
        self.app.conf.worker_hijack_root_logger = False
        self.task = self.app.task(name="job")(job)
        self.sent: list = []

    def add(self, n: int, at: float, delay_s: float) -> None:
        self.sent.append(self.task.apply_async((n, at), countdown=delay_s or None))

    def work(self, concurrency: int) -> None:
        pool = "solo" if concurrency == 1 else "threads"
        worker = self.app.Worker(
            pool=pool, concurrency=concurrency, without_gossip=True, without_mingle=True, loglevel="ERROR"
        )
        worker.start()

    def results(self) -> list[int]:
        return [sent.result for sent in self.sent if sent.ready()]


main(Peer())
