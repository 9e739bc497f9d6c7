"""The backend for Django's tasks.

A task is a job of the queue that is called as its ``queue_name``; the job's name is the task's path.

Source: the reference of Django's tasks; user pains 34 and 35.
"""

from __future__ import annotations

import os
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from asgiref.sync import sync_to_async
from django.core import checks
from django.utils import timezone

from echomq import JobState, plans
from echomq.clock import wall_ms
from echomq.errors import EchoMQError, InvalidOption, UsageError
from echomq.keys import Keys
from echomq.moments import moment_ms
from echomq.sync import Queue

from .commit import after_commits, open_transactions
from .connecting import shared_connection, shared_queue
from .framework import (
    READY,
    BaseTaskBackend,
    InvalidTask,
    InvalidTaskBackend,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from .options import BackendOptions, options_of_task
from .records import TaskData, job_priority, local_time, result_id, split_id, task_result
from .registry import UnknownTask, discover, find_task, is_findable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from echomq import Job

    from .framework import Task

__all__ = ["EchoMQBackend"]

_TRIES = 3
"""How often a result is read again because its job moved on meanwhile."""


class EchoMQBackend(BaseTaskBackend):
    """Enqueues Django's tasks as jobs of EchoMQ.

    Name it in ``TASKS`` as ``"echomq_django.backend.EchoMQBackend"``; ``OPTIONS`` are those of
    :class:`~echomq_django.options.BackendOptions`.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @cached_property
    def settings(self) -> BackendOptions:
        """``OPTIONS``, checked.

        Raises:
            InvalidTaskBackend: They are wrong; names the option.
        """
        try:
            return BackendOptions.read(self.options)
        except UsageError as error:
            raise InvalidTaskBackend(f"TASKS[{self.alias!r}]: {error}") from error

    def queue(self, name: str) -> Queue:
        """Return a queue of this backend, for what Django's interface has no words for.

        Raises:
            UsageError: There is no such server, or no queue can be called so.
        """
        return shared_queue(self.settings.url, self.settings.prefix, name)

    def enqueue(self, task: Task[..., Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Add a job for a task; when the transactions that are open are committed, unless settings say otherwise.

        Until then ``enqueued_at`` of the result is None, and nobody can read it.

        Args:
            task: What to run.
            args: Its arguments.
            kwargs: Those by name.

        Returns:
            The result, whose id is known at once.

        Raises:
            InvalidTask: This backend does not run such a task, or no worker would find it.
            TypeError: An argument is not JSON; also ``ValueError``, as Django says.
            UsageError: An option or an argument is not acceptable.
            DriverError: The server was not reached in time; where the add waits for the commit, the commit raises it.
        """
        self.validate_task(task)
        if not is_findable(task):
            raise InvalidTask(
                f"{task.module_path!r} is not a task at the top of its module, under the name of its function; "
                "workers would not find it."
            )
        job_id = str(uuid4())
        result: TaskResult[Any] = TaskResult(
            task=task,
            id=result_id(task.queue_name, job_id),
            status=READY,
            enqueued_at=None,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        data = TaskData(result.args, result.kwargs).to_json()
        options = {
            **self.settings.job_options,
            **options_of_task(task.func),
            "job_id": job_id,
            "priority": job_priority(task.priority),
        }
        add = partial(self._add, self.queue(task.queue_name), result, data, options)
        aliases = open_transactions() if self.settings.enqueue_on_commit else []
        if aliases:  # what the add would refuse is refused here, not at the commit
            plans.draft(Keys(task.queue_name, self.settings.prefix), task.module_path, data, options, {}, 0)
        after_commits(aliases, add)
        return result

    def _add(self, queue: Queue, result: TaskResult[Any], data: object, options: Mapping[str, Any]) -> None:
        now_ms = wall_ms()
        delay = max(0, _due_ms(result.task.run_after) - now_ms)
        job = queue.add(result.task.module_path, data, timestamp=now_ms, delay=delay, **options)
        object.__setattr__(result, "enqueued_at", local_time(job.timestamp))
        task_enqueued.send_robust(type(self), task_result=result)

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Read a result.

        Args:
            result_id: Its ``id``.

        Raises:
            TaskResultDoesNotExist: There is none, or none any more, or it is that of another backend's queue or of
                a task that this project does not have.
            DriverError: The server was not reached in time, or refused.
        """
        queue_name, job_id = split_id(result_id)
        if not queue_name or not job_id or (self.queues and queue_name not in self.queues):
            raise TaskResultDoesNotExist(result_id)
        try:
            job, state = _read(self._reader(queue_name), job_id)
        except InvalidOption:
            raise TaskResultDoesNotExist(result_id) from None
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        try:
            return task_result(job, state, self.find_task(job.name), self.alias)
        except EchoMQError as error:
            raise TaskResultDoesNotExist(f"{result_id}: {error}") from error

    def _reader(self, name: str) -> Queue:
        """Return a queue that only reads: an id comes from anywhere, and must not leave a queue of its name behind."""
        settings = self.settings
        return Queue(name, shared_connection(settings.url), prefix=settings.prefix, write_meta=False)

    async def aget_result(self, result_id: str) -> TaskResult[Any]:
        """Read a result without holding up the event loop; see :meth:`get_result`."""
        return await sync_to_async(self.get_result, thread_sensitive=False)(result_id)

    def find_task(self, path: str) -> Task[..., Any]:
        """Return the task that a job's name means; see :mod:`echomq_django.registry`.

        Raises:
            UnknownTask: There is none, not even after the modules that the settings name were imported.
        """
        try:
            return find_task(path)
        except UnknownTask:
            discover(self.settings.modules)
            return find_task(path)

    def check(self, **_kwargs: Any) -> Iterator[checks.CheckMessage]:
        """Look at the settings, for ``manage.py check``."""
        place = f"TASKS[{self.alias!r}]"
        try:
            settings = self.settings
        except InvalidTaskBackend as error:
            yield checks.Error(str(error), id="echomq.E001")
            return
        for name in sorted(self.queues):
            try:
                Keys(name, settings.prefix)
            except UsageError as error:
                yield checks.Error(f"{place}: no queue can be called {name!r}: {error}", id="echomq.E002")
        if settings.url is None and not os.environ.get("ECHOMQ_URL"):
            yield checks.Error(
                f"{place}: it is not said where the server is.",
                hint='Set OPTIONS["url"], or the variable ECHOMQ_URL.',
                id="echomq.E003",
            )
            return
        try:
            shared_connection(settings.url)
        except EchoMQError as error:
            yield checks.Error(f"{place}: {error}", id="echomq.E004")


def _read(queue: Queue, job_id: str) -> tuple[Job | None, JobState]:
    """Return a job, and where it is, at one moment."""
    job = queue.get_job(job_id)
    for _ in range(_TRIES):
        if job is None:
            return None, JobState.UNKNOWN
        if job.finished_on_ms is not None:
            break
        state = queue.get_job_state(job_id)
        if not state.is_finished:
            return job, state
        job = queue.get_job(job_id)
    return job, JobState.UNKNOWN if job is None else job.presumed_state


def _due_ms(run_after: datetime | None) -> int:
    if run_after is None:
        return 0
    return moment_ms("run_after", timezone.make_aware(run_after) if timezone.is_naive(run_after) else run_after)
