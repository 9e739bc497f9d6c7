"""Servers for tests: in memory, embedded, in a container, or one that is there already."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import attrs

from echomq import plugins, sync
from echomq.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["TestServer", "start_server"]

IMAGE = "valkey/valkey:8"
_PORT = 6379
_READY_WITHIN_MS = 60_000


@attrs.frozen(kw_only=True)
class TestServer:
    """A server for tests: a context manager that ends it.

    Attributes:
        kind: ``"memory"``, ``"embedded"``, ``"container"`` or ``"url"``.
        url: What to connect to.
    """

    __test__ = False  # pytest takes it for a class of tests

    kind: str
    url: str
    _end: Callable[[], object] = attrs.field(repr=False, default=lambda: None)

    @property
    def is_memory(self) -> bool:
        """Whether it lives in this process, and by its clock."""
        return self.kind == "memory"

    def close(self) -> None:
        """End it, if it was started here."""
        self._end()

    def __enter__(self) -> Self:
        """Give the server."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.close()


def start_server(kind: str = "auto") -> TestServer:
    """Start a server for tests.

    Args:
        kind: ``"memory"``: queues in this process, by ``echomq-memory``. ``"embedded"``: a real server, from
            ``echomq-valkey[embedded]`` or from PATH. ``"container"`` or ``"container:IMAGE"``: one in a container, by
            the package ``testcontainers``. A URL: that server. ``"auto"``: embedded where it can be had, else in
            memory.

    Raises:
        UsageError: It cannot be had; the message says what to install.
        DriverError: It did not start, or does not answer.
    """
    name, _, rest = kind.partition(":")
    if name == "memory":
        return TestServer(kind="memory", url=kind if rest else "memory://")
    if name == "container":
        return _container(rest or IMAGE)
    if rest:
        with contextlib.closing(sync.connect(kind)) as connection:
            connection.server()  # one that does not answer is told once, not by every test in turn
        return TestServer(kind="url", url=kind)
    if name == "embedded":
        return _embedded()
    if name == "auto":
        try:
            return _embedded()
        except UsageError:
            return TestServer(kind="memory", url="memory://")
    raise UsageError(f"expected auto, memory, embedded, container or a URL, not {kind!r}")


def _embedded() -> TestServer:
    from echomq import embedded

    drivers = plugins.installed_drivers().working.values()
    if not any("unix" in driver.schemes | driver.also for driver in drivers):
        raise UsageError("an embedded server needs a driver: pip install 'echomq-valkey[embedded]'")
    server = embedded.start()
    return TestServer(kind="embedded", url=server.url, end=server.close)


def _container(image: str) -> TestServer:
    try:
        from testcontainers.core.container import DockerContainer
    except ImportError as error:
        raise UsageError("servers in containers need a package: pip install testcontainers") from error
    container: Any = DockerContainer(image).with_exposed_ports(_PORT)
    container.start()
    try:
        url = f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(_PORT)}"
        with contextlib.closing(sync.connect(f"{url}?deadline_ms={_READY_WITHIN_MS}")) as connection:
            connection.server()  # waits until it answers
    except BaseException:
        container.stop()
        raise
    return TestServer(kind="container", url=url, end=container.stop)
