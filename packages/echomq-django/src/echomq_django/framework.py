"""The tasks framework in use: Django's own from 6.0 on, before that its backport, the package ``django-tasks``.

Both have the same interface. Type checkers are shown the backport, which is typed.
"""

from typing import TYPE_CHECKING

import django

if TYPE_CHECKING or django.VERSION < (6, 0):
    try:
        from django_tasks import (
            DEFAULT_TASK_BACKEND_ALIAS,
            TaskContext,
            TaskResult,
            TaskResultStatus,
            task,
            task_backends,
        )
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, Task, TaskError
        from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    except ImportError as error:
        from django.core.exceptions import ImproperlyConfigured

        raise ImproperlyConfigured(
            f"Django {django.__version__} has no tasks of its own, and their backport cannot be imported ({error}); "
            'next step: pip install "echomq-django[backport]", or use Django 6'
        ) from error
else:
    from django.tasks import (
        DEFAULT_TASK_BACKEND_ALIAS,
        TaskContext,
        TaskResult,
        TaskResultStatus,
        task,
        task_backends,
    )
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, Task, TaskError
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "FAILED",
    "READY",
    "RUNNING",
    "SUCCESSFUL",
    "TASK_MAX_PRIORITY",
    "TASK_MIN_PRIORITY",
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]

READY, RUNNING = TaskResultStatus("READY"), TaskResultStatus("RUNNING")
SUCCESSFUL, FAILED = TaskResultStatus("SUCCESSFUL"), TaskResultStatus("FAILED")
