"""The plugin of pytest: servers, queues, workers and a clock as fixtures.

Every test gets a name space of its own, so tests may run side by side on one server,
in any number of processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import pytest

import echomq
import echomq.sync

from . import sync
from .ageing import forget
from .clock import Clock
from .servers import TestServer, start_server
from .working import Workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from typing_extensions import Unpack

    from echomq.keywords import JobKeywords, WorkerKeywords
    from echomq.processors import Processors

try:
    from pytest_asyncio import fixture as async_fixture
except ImportError:  # with another plugin for asyncio, such as anyio's, a plain fixture may be async
    async_fixture = pytest.fixture  # type: ignore[assignment]  # another overloaded function of the same use

__all__ = [
    "echomq_clock",
    "echomq_prefix",
    "echomq_queue",
    "echomq_queue_sync",
    "echomq_server",
    "echomq_worker",
    "echomq_worker_sync",
]

_HELP = (
    "server of the EchoMQ fixtures: auto (embedded where it can be had, else memory), memory, embedded, container, "
    "container:IMAGE, or a URL"
)


class NewQueue(Protocol):
    """What the fixture :func:`echomq_queue` gives."""

    def __call__(self, name: str = "test", *, default_job_options: JobKeywords | None = None) -> echomq.Queue: ...


class NewQueueSync(Protocol):
    """What the fixture :func:`echomq_queue_sync` gives."""

    def __call__(self, name: str = "test", *, default_job_options: JobKeywords | None = None) -> echomq.sync.Queue: ...


class NewWorker(Protocol):
    """What the fixture :func:`echomq_worker` gives."""

    def __call__(
        self, queue: echomq.Queue, processor: Processors, *, raises: bool = True, **options: Unpack[WorkerKeywords]
    ) -> echomq.Worker: ...


class NewWorkerSync(Protocol):
    """What the fixture :func:`echomq_worker_sync` gives."""

    def __call__(
        self, queue: echomq.sync.Queue, processor: Processors, *, raises: bool = True, **options: Unpack[WorkerKeywords]
    ) -> echomq.sync.Worker: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the option ``--echomq-server`` and the setting ``echomq_server``."""
    parser.getgroup("echomq").addoption("--echomq-server", default=None, metavar="SERVER", help=_HELP)
    parser.addini("echomq_server", _HELP, default="auto")


@pytest.fixture(scope="session")
def echomq_server(pytestconfig: pytest.Config) -> Iterator[TestServer]:
    """The server of all tests of this process; chosen by ``--echomq-server`` or the setting ``echomq_server``."""
    with start_server(pytestconfig.getoption("echomq_server") or pytestconfig.getini("echomq_server")) as server:
        yield server


@pytest.fixture
def echomq_prefix(echomq_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A name space of the test's own; emptied after it. Code that names no server uses the one of the tests."""
    monkeypatch.setenv("ECHOMQ_URL", echomq_server.url)
    prefix = f"test-{uuid4().hex}"
    yield prefix
    forget(echomq_server.url, prefix)


@pytest.fixture
def echomq_queue(echomq_server: TestServer, echomq_prefix: str) -> NewQueue:
    """Makes clean queues: ``echomq_queue("emails")``. They end with the event loop of the test."""

    def make(name: str = "test", *, default_job_options: JobKeywords | None = None) -> echomq.Queue:
        return echomq.Queue(name, echomq_server.url, prefix=echomq_prefix, default_job_options=default_job_options)

    return make


@pytest.fixture
def echomq_queue_sync(echomq_server: TestServer, echomq_prefix: str) -> Iterator[NewQueueSync]:
    """Makes clean blocking queues: ``echomq_queue_sync("emails")``."""
    made: list[echomq.sync.Queue] = []

    def make(name: str = "test", *, default_job_options: JobKeywords | None = None) -> echomq.sync.Queue:
        queue = echomq.sync.Queue(
            name, echomq_server.url, prefix=echomq_prefix, default_job_options=default_job_options
        )
        made.append(queue)
        return queue

    yield make
    for queue in made:
        queue.close()


@async_fixture
async def echomq_worker() -> AsyncIterator[NewWorker]:
    """Starts workers: ``echomq_worker(queue, processor, **options)``; see :meth:`echomq_testing.Workers.start`.

    They are closed after the test, which fails if one of their jobs did.
    """
    async with Workers() as workers:
        yield workers.start


@pytest.fixture
def echomq_worker_sync() -> Iterator[NewWorkerSync]:
    """Starts workers in threads; see :func:`echomq_worker`."""
    with sync.Workers() as workers:
        yield workers.start


@pytest.fixture
def echomq_clock(echomq_server: TestServer, echomq_prefix: str) -> Iterator[Clock]:
    """A clock that stands still until the test sets it forward; see :class:`echomq_testing.Clock`."""
    with Clock() as clock:
        if not echomq_server.is_memory:
            clock.follow(echomq_server.url, echomq_prefix)
        yield clock
