"""What a driver must do, and what it is given.

A driver is a plugin (:mod:`echomq.plugins`) that opens connections with one
client library. The core tells it where the server is, in one of three forms: a
URL, :class:`ConnectionOptions`, or a ready client of that library. It answers
with a connection that sends calls, commands and batches and hides everything
else: scripts the server does not know yet, broken links, the client's errors.

Rules every connection keeps:

* Replies reach ``decode`` raw: bytes, int, None, lists of these; never decoded text.
* A script the server does not know (NOSCRIPT) is sent again with its text, inside.
* A broken link is opened again with backoff and jitter. A request that was not
  yet written waits for it. One that may have run is repeated only if it is
  ``repeatable``; otherwise the caller gets :class:`~echomq.errors.ConnectionLost`
  with ``may_have_run`` set.
* Every request has a deadline. When it passes, the caller gets
  :class:`~echomq.errors.ReplyTimeout`, or ``ConnectionLost`` if it was never written.
* A cancelled caller never shifts the replies of others.
* The client's errors become ours (:class:`~echomq.errors.DriverError`), raised from them.

``Connection`` and ``AsyncConnection`` differ by ``await`` alone.

Source: design.md section 4.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar

import attrs

from .call import Batch, Request
from .errors import InvalidOption

__all__ = [
    "Address",
    "AsyncConnection",
    "ClusterOptions",
    "Connection",
    "ConnectionOptions",
    "ConnectionSource",
    "DriverPlugin",
    "SentinelOptions",
    "ServerInfo",
    "TLSOptions",
]

T = TypeVar("T")


@attrs.frozen
class Address:
    """Where one server of several listens.

    Attributes:
        host: Name or address; a name is looked up at every attempt to connect.
        port: TCP port.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _addresses(given: Iterable[Address | tuple[str, int]]) -> tuple[Address, ...]:
    return tuple(one if isinstance(one, Address) else Address(*one) for one in given)


def _at_least_one(_: object, attribute: Any, value: tuple[Address, ...]) -> None:
    if not value:
        raise InvalidOption(attribute.name, "expected at least one pair of host and port")


@attrs.frozen(kw_only=True)
class TLSOptions:
    """How to speak TLS.

    Attributes:
        ca_file: PEM file of the authority to trust; None trusts the system's.
        cert_file: PEM file of the client's certificate, if the server wants one.
        key_file: PEM file of the client's key.
        verify: False accepts any certificate. Only for tests.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True


@attrs.frozen(kw_only=True)
class SentinelOptions:
    """Which sentinels know where the master is, and how to talk to them.

    Attributes:
        service: Name the sentinels have for the master, ``"mymaster"``.
        addresses: The sentinels, or some of them: :class:`Address` or pairs of host and port. They are asked in this
            order at every attempt to connect.
        username: ACL user at the sentinels; that of the master is in :class:`ConnectionOptions`.
        password: Of that user. Never shown.
        tls: Set for TLS to the sentinels.
    """

    service: str
    addresses: tuple[Address, ...] = attrs.field(converter=_addresses, validator=_at_least_one)
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    tls: TLSOptions | None = None


@attrs.frozen(kw_only=True)
class ClusterOptions:
    """Which nodes tell who else belongs to a cluster.

    Attributes:
        seeds: One of them must answer at the start: :class:`Address` or pairs of host and port. User, password and
            TLS of :class:`ConnectionOptions` serve for all nodes.
    """

    seeds: tuple[Address, ...] = attrs.field(converter=_addresses, validator=_at_least_one)


@attrs.frozen(kw_only=True)
class ConnectionOptions:
    """Where a server is and how patiently to talk to it; URLs are parsed into this.

    Attributes:
        scheme: ``"redis"``, ``"valkey"``, ...; the driver is chosen by it.
        host: Name or address; unused with a path.
        port: TCP port; unused with a path.
        path: Unix socket, or None for TCP.
        db: Number of the database.
        username: ACL user, or None for the default user.
        password: Never shown in a repr or a message.
        tls: Set for TLS.
        protocol: RESP version, 2 or 3.
        connect_timeout_ms: Longest wait for one attempt to connect.
        deadline_ms: Longest wait for a reply, reconnects included.
        reconnect_min_ms: First pause after a failed attempt; doubles with each.
        reconnect_max_ms: Longest pause between attempts.
        max_pending_bytes: Senders wait while more than this is not yet written.
        sentinel: Set where sentinels name the master; host, port and path are unused then.
        cluster: Set for a cluster; host, port, path and db are unused then.

    Raises:
        InvalidOption: Both are set, or a cluster has another database than 0.
    """

    scheme: str = "redis"
    host: str = "127.0.0.1"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    tls: TLSOptions | None = None
    protocol: int = 2
    connect_timeout_ms: int = 5_000
    deadline_ms: int = 10_000
    reconnect_min_ms: int = 20
    reconnect_max_ms: int = 2_000
    max_pending_bytes: int = 16 * 1024 * 1024
    sentinel: SentinelOptions | None = None
    cluster: ClusterOptions | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.cluster is not None and self.sentinel is not None:
            raise InvalidOption("cluster", "a cluster has no sentinels; leave one of both out")
        if self.cluster is not None and self.db:
            raise InvalidOption("db", f"a cluster has database 0 only, not {self.db}")

    @property
    def where(self) -> str:
        """Who to connect to, for messages."""
        if self.sentinel is not None:
            return f"master {self.sentinel.service!r} of the sentinels {', '.join(map(str, self.sentinel.addresses))}"
        if self.cluster is not None:
            return f"the cluster of {', '.join(map(str, self.cluster.seeds))}"
        return self.path or f"{self.host}:{self.port}"


ConnectionSource: TypeAlias = Any
"""A URL, :class:`ConnectionOptions`, or a ready client of redis-py or valkey-py."""


@attrs.frozen(kw_only=True)
class ServerInfo:
    """What server this is.

    Attributes:
        name: ``"redis"``, ``"valkey"``, or what the server calls itself.
        version: For example ``(7, 0, 15)``; Valkey's own version, not the Redis one it imitates.
        maxmemory_policy: Eviction policy; anything but ``"noeviction"`` can lose jobs.
        is_cluster: Keys live on slots; those of one script or transaction must share theirs.
    """

    name: str
    version: tuple[int, ...]
    maxmemory_policy: str | None = None
    is_cluster: bool = False

    @property
    def eviction_risk(self) -> str | None:
        """What the server's eviction policy may cost; None if it is harmless, or the server does not tell."""
        policy = self.maxmemory_policy
        if policy is None or policy.strip() == "noeviction":
            return None
        return (
            f"the server's maxmemory-policy is {policy.strip()}: when its memory is full it throws away jobs and "
            "locks; set it to noeviction (echomq doctor tells more)"
        )


class Connection(Protocol):
    """A blocking connection. Safe to share between threads."""

    @property
    def is_cluster(self) -> bool:
        """Whether keys live on slots of several servers, so that a queue needs a hash tag in its keys."""
        ...

    def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """Send one request and return its decoded reply.

        Args:
            request: A script call or command.
            deadline_ms: Longest wait for the reply, in place of the connection's own.

        Raises:
            ScriptError: The script declined.
            ConnectionLost: No link; see ``may_have_run``.
            ServerRefused: The server answered with an error.
        """
        ...

    def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """Send several requests in one write and return their outcomes, in order.

        Raises:
            ConnectionLost: The link broke before all replies came.
            ServerRefused: An atomic batch was refused as a whole; nothing ran.
        """
        ...

    def server(self) -> ServerInfo:
        """Ask the server who it is; asked once, then remembered."""
        ...

    def dedicated(self, *, name: str | None = None) -> "Connection":
        """Return a new connection to the same server, for blocking commands.

        Args:
            name: Shown for it by CLIENT LIST, set again after each reconnect.
        """
        ...

    def close(self) -> None:
        """Close the link; requests still open fail with ``ConnectionLost``. Twice does no harm."""
        ...


class AsyncConnection(Protocol):
    """A connection for asyncio; many tasks share it. The same contract as :class:`Connection`.

    Opened on the first send, in the loop that sends. A ready client given by
    the user is never closed; connections made from its settings are.
    """

    @property
    def is_cluster(self) -> bool:
        """See :attr:`Connection.is_cluster`."""
        ...

    async def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :meth:`Connection.send`."""
        ...

    async def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :meth:`Connection.send_batch`."""
        ...

    async def server(self) -> ServerInfo:
        """See :meth:`Connection.server`."""
        ...

    def dedicated(self, *, name: str | None = None) -> "AsyncConnection":
        """See :meth:`Connection.dedicated`."""
        ...

    def blocking_twin(self) -> Connection:
        """Return a new blocking connection to the same server, for a thread of its own."""
        ...

    async def close(self) -> None:
        """See :meth:`Connection.close`."""
        ...


@attrs.frozen(kw_only=True)
class DriverPlugin:
    """What a driver tells the core about itself.

    Attributes:
        name: ``"redis"``; what users write as ``driver="redis"``.
        schemes: URL schemes this driver is the first choice for.
        also: Schemes it serves when the first choice is not installed.
        owns: Tells whether an object is a ready client of this driver's library;
            must not import the library to find out.
        connect: Opens a blocking connection from :class:`ConnectionOptions` or a ready client.
        connect_async: The same for asyncio; does not touch a loop or a socket yet.
    """

    name: str
    schemes: frozenset[str]
    also: frozenset[str] = frozenset()
    owns: Callable[[object], bool]
    connect: Callable[[ConnectionSource], Connection]
    connect_async: Callable[[ConnectionSource], AsyncConnection]
