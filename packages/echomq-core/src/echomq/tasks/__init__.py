"""Tasks: functions whose calls are jobs, typed on both sides.

Decorate a function, call it by ``delay``; a worker checks the arguments against
the annotations and calls it. Data of jobs stay plain JSON, an object of named
arguments, so that producers in other languages can call tasks too.

Source: design.md section 1; issue "Tasks".
"""

from .depends import INJECTED, CurrentJob, Depends
from .registry import Tasks
from .task import Enqueued, Prepared, Task

__all__ = ["INJECTED", "CurrentJob", "Depends", "Enqueued", "Prepared", "Task", "Tasks"]
