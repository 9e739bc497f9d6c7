"""Which task a job means: the rule by which a name in a job finds code.

A job's name is the path of its task, ``"shop.tasks.send"``. It only chooses among
what is there: a :class:`Task` that stands, under its own name, at the top of a
module which the project has imported. Nothing is imported, looked up through
attributes, or called because a job says so.

What is imported is said by the project: ``tasks.py`` of each installed application,
``OPTIONS["modules"]``, and whatever else it imports itself.

Source: issue "Security"; user pain 57.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import autodiscover_modules

from echomq.errors import EchoMQError

from .framework import Task

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["UnknownTask", "discover", "find_task", "is_findable"]


class UnknownTask(EchoMQError):
    """A job names no task of this project; its attempt fails, and no other job is concerned."""


def discover(modules: Iterable[str]) -> None:
    """Import the modules with tasks that the settings name.

    Args:
        modules: Beside ``tasks.py`` of each installed application.
    """
    autodiscover_modules("tasks")
    for name in modules:
        importlib.import_module(name)


def find_task(path: str) -> Task[..., Any]:
    """Return the task of a path, among the modules that are imported.

    Raises:
        UnknownTask: There is none.
    """
    module, _, name = path.rpartition(".")
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    if isinstance(found, Task) and found.module_path == path:
        return found
    raise UnknownTask(
        f"no task {path!r} is imported here; tasks are found in tasks.py of each installed application and in the "
        'modules that OPTIONS["modules"] names'
    )


def is_findable(task: Task[..., Any]) -> bool:
    """Tell whether a worker would find this task by its path."""
    try:
        return find_task(task.module_path).func is task.func
    except UnknownTask:
        return False
