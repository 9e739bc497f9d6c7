"""dramatiq: see harness.py."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import ResultMissing, Results
from dramatiq.results.backends import RedisBackend
from harness import TASK, job, main


class Peer:
    """dramatiq with results kept in Redis."""

    def open(self) -> None:
        self.broker = RedisBroker(url=TASK["url"])
        self.backend = RedisBackend(url=TASK["url"])
        self.broker.add_middleware(Results(backend=self.backend))
        dramatiq.set_broker(self.broker)
        self.actor = dramatiq.actor(job, actor_name="job", queue_name=TASK["queue"], store_results=True)
        self.messages: list[dramatiq.Message[int]] = []

    def add(self, n: int, at: float, delay_s: float) -> None:
        self.messages.append(self.actor.send_with_options(args=(n, at), delay=int(delay_s * 1000) or None))

    def work(self, concurrency: int) -> None:
        dramatiq.Worker(self.broker, worker_threads=concurrency).start()

    def results(self) -> list[int]:
        values = []
        for message in self.messages:
            try:
                values.append(self.backend.get_result(message))
            except ResultMissing:
                break
        return values


main(Peer())
