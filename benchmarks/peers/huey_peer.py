"""huey: see harness.py."""

from __future__ import annotations

import logging

from harness import TASK, job, main
from huey import RedisHuey


class Peer:
    """huey with threads, results kept in Redis."""

    def open(self) -> None:
        logging.disable(logging.CRITICAL)
        self.huey = RedisHuey(TASK["queue"], url=TASK["url"])
        self.task = self.huey.task(name="job")(job)
        self.sent: list = []

    def add(self, n: int, at: float, delay_s: float) -> None:
        self.sent.append(self.task.schedule((n, at), delay=delay_s) if delay_s else self.task(n, at))

    def work(self, concurrency: int) -> None:
        self.huey.create_consumer(workers=concurrency).run()

    def results(self) -> list[int]:
        return [value for sent in self.sent if (value := sent.get(preserve=True)) is not None]


main(Peer())
