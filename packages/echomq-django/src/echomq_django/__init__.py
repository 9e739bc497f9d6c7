"""EchoMQ for Django.

``echomq_django.backend.EchoMQBackend`` is the backend to name in ``TASKS``; put
``echomq_django`` into ``INSTALLED_APPS`` for the command ``echomq_worker``.
"""

from .commit import on_commit, on_commit_of
from .options import job_options

__all__ = ["job_options", "on_commit", "on_commit_of"]
