"""RQ: see harness.py."""

from __future__ import annotations

from harness import TASK, main
from redis import Redis
from rq import Queue, SimpleWorker
from rq.job import Job


class Peer:
    """RQ with its worker that forks no process for each job."""

    def open(self) -> None:
        self.connection = Redis(port=TASK["port"])
        self.queue = Queue(TASK["queue"], connection=self.connection)
        self.ids: list[str] = []

    def add(self, n: int, at: float, _delay_s: float) -> None:
        self.ids.append(self.queue.enqueue("harness.job", n, at).id)

    def add_bulk(self, numbers: range) -> None:
        self.queue.enqueue_many([Queue.prepare_data("harness.job", (n,)) for n in numbers])

    def work(self, _concurrency: int) -> None:
        SimpleWorker([self.queue], connection=self.connection).work(logging_level="ERROR")

    def results(self) -> list[int]:
        jobs = Job.fetch_many(self.ids, connection=self.connection)
        return [job.return_value() for job in jobs if job is not None and job.is_finished]


main(Peer())
