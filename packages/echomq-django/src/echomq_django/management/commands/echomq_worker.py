"""``manage.py echomq_worker``: runs the tasks of one backend, until it is told to end."""

import argparse
import atexit
import os
import socket
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils import autoreload

from echomq.errors import UsageError
from echomq.moments import read_duration_ms
from echomq.sync import WorkerGroup
from echomq_django.backend import EchoMQBackend
from echomq_django.connecting import shared_connection
from echomq_django.framework import DEFAULT_TASK_BACKEND_ALIAS, InvalidTaskBackend, task_backends
from echomq_django.registry import discover
from echomq_django.running import Runner

__all__ = ["Command"]

_PATIENCE_S = 3.0
"""How long a reload waits for running jobs to be given back."""


class Command(BaseCommand):
    """Runs the tasks of one backend."""

    help = (
        "Runs the tasks of a backend until Ctrl-C or SIGTERM: running ones end first; a second one gives them back. "
        "Start as many as you want; they share the work."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say what may stand on the command line."""
        parser.add_argument("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, help="Alias in TASKS. Default: default.")
        parser.add_argument(
            "--queue",
            action="append",
            dest="queues",
            metavar="NAME[=WEIGHT]",
            help="Queue to work, as often as you want; one of weight 3 starts three tasks while another starts one. "
            "Default: the QUEUES of the backend.",
        )
        parser.add_argument("--concurrency", type=int, help="Tasks at one time, each in a thread. Default: 1.")
        parser.add_argument("--name", help="Name among workers, and in results. Default: host and process id.")
        parser.add_argument("--close-timeout", metavar="TIME", help="Longest wait for running tasks at the end: 25s.")
        parser.add_argument("--until-drained", action="store_true", help="End when there is nothing to do.")
        parser.add_argument(
            "--reload",
            action=argparse.BooleanOptionalAction,
            default=settings.DEBUG,
            help="Start anew when code changes. Default: if DEBUG is set.",
        )

    def handle(self, **options: Any) -> None:
        """Run the command."""
        if options["reload"] and not options["until_drained"]:
            autoreload.run_with_reloader(self._work, **options)
        else:
            self._work(**options)

    def _work(self, **options: Any) -> None:
        autoreload.raise_last_exception()
        try:
            backend = _backend(options["backend"])
            discover(backend.settings.modules)
            group = _group(backend, options)
        except (UsageError, InvalidTaskBackend) as error:
            raise CommandError(str(error)) from error
        connections.close_all()  # what system checks have opened in this thread is of no use to the jobs' threads
        self.stdout.write(
            f"Working queues {', '.join(group.workers)} of {backend.alias!r}, {group.concurrency} at a time; "
            "quit with Ctrl-C."
        )
        if threading.current_thread() is not threading.main_thread():
            _give_back_at_exit(group)
        group.run("drained" if options["until_drained"] else None)


def _backend(alias: str) -> EchoMQBackend:
    if alias not in task_backends.settings:
        raise CommandError(f"TASKS has no {alias!r}; there are: {', '.join(task_backends.settings)}")
    backend = task_backends[alias]
    if not isinstance(backend, EchoMQBackend):
        raise CommandError(f"the backend of TASKS[{alias!r}] is {type(backend).__name__}, not EchoMQBackend")
    return backend


def _group(backend: EchoMQBackend, options: dict[str, Any]) -> WorkerGroup:
    weights = dict(map(_weight, options["queues"] or sorted(backend.queues)))
    if not weights:
        raise CommandError(f"TASKS[{backend.alias!r}] names no QUEUES; next step: pass --queue NAME")
    if strange := [name for name in weights if backend.queues and name not in backend.queues]:
        raise CommandError(
            f"TASKS[{backend.alias!r}] has no queue {strange[0]!r}; its QUEUES: {', '.join(sorted(backend.queues))}"
        )
    said = dict(backend.settings.worker)
    if options["concurrency"] is not None:
        said["concurrency"] = options["concurrency"]
    if options["close_timeout"] is not None:
        said["close_timeout"] = read_duration_ms("--close-timeout", options["close_timeout"])
    said["name"] = options["name"] or said.get("name") or f"{socket.gethostname()}-{os.getpid()}"
    runner = Runner(backend, said["name"])
    group = WorkerGroup(
        dict.fromkeys(weights, runner.run),
        shared_connection(backend.settings.url),
        weights=weights,
        prefix=backend.settings.prefix,
        **said,
    )
    group.on("completed", runner.completed)
    group.on("failed", runner.failed)
    return group


def _weight(text: str) -> tuple[str, int]:
    name, _, weight = text.rpartition("=")
    return (name, int(weight)) if name and weight.isdecimal() else (text, 1)


def _give_back_at_exit(group: WorkerGroup) -> None:
    """Under the reloader the process ends from another thread: what runs then waits again, for the next process."""
    ended = threading.Event()
    group.on("closed", ended.set)

    def end() -> None:
        group.stop(0)
        ended.wait(_PATIENCE_S)

    atexit.register(end)
