"""A Django project in this process, whose tasks go to a server of the tests."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import django
import pytest
from django.core.management import call_command
from django.db import connections
from django.test.utils import override_settings

from support.servers import Server

if "SHOP_FOLDER" not in os.environ:
    os.environ["SHOP_FOLDER"] = tempfile.mkdtemp(prefix="echomq-shop-")
    atexit.register(shutil.rmtree, os.environ["SHOP_FOLDER"], ignore_errors=True)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "frameworks.shop.settings")
django.setup()

from echomq import sync  # noqa: E402  # the settings come first
from echomq_django.backend import EchoMQBackend  # noqa: E402
from echomq_django.connecting import close_connections  # noqa: E402
from echomq_django.framework import task_backends  # noqa: E402
from frameworks.shop.models import Order  # noqa: E402

BACKEND = "echomq_django.backend.EchoMQBackend"


@attrs.define
class Site:
    """The project, on one server and under one prefix.

    Attributes:
        url: The server.
        prefix: Of its queues.
    """

    url: str
    prefix: str
    _stack: ExitStack

    def configure(self, queues: Any = ("default", "emails"), **options: Any) -> None:
        """Set ``TASKS`` anew."""
        options = {"url": self.url, "prefix": self.prefix, **options}
        tasks = {"default": {"BACKEND": BACKEND, "QUEUES": list(queues), "OPTIONS": options}}
        self._stack.enter_context(override_settings(TASKS=tasks))

    @property
    def backend(self) -> EchoMQBackend:
        """The backend of this thread."""
        backend = task_backends["default"]
        assert isinstance(backend, EchoMQBackend)
        return backend

    def queue(self, name: str = "default") -> sync.Queue:
        """A queue of the backend."""
        return self.backend.queue(name)

    def work(self, **options: Any) -> None:
        """Run the worker command until nothing is left to do."""
        call_command("echomq_worker", until_drained=True, **options)


@pytest.fixture(scope="session", autouse=True)
def tables() -> None:
    """The tables of both databases."""
    for alias in connections:
        call_command("migrate", run_syncdb=True, verbosity=0, database=alias)
    connections.close_all()


@pytest.fixture
def make_site(prefix: str) -> Iterator[Callable[[Server], Site]]:
    """Makes a site whose queues are empty."""
    with ExitStack() as stack:

        def make(server: Server) -> Site:
            site = Site(server.url, prefix, stack)
            site.configure()
            return site

        yield make
        close_connections()
    for alias in connections:
        Order.objects.using(alias).all().delete()
    connections.close_all()


@pytest.fixture
def site(make_site: Callable[[Server], Site], redis_server: Server) -> Site:
    """A site on Redis."""
    return make_site(redis_server)
