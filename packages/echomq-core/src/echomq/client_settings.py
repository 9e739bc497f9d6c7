"""Settings of a connection in the spelling that redis-py and its fork valkey-py share. Pure.

Both libraries build a connection from keyword arguments of the same names; the
differences are few and stay in the driver packages. A ready client is only
read: its settings are copied, and neither it nor its pool is used or closed.

Source: design.md section 4; performance.md 7 (timeouts and retries of the clients).
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from .driver import Address, ClusterOptions, ConnectionOptions, ConnectionSource, SentinelOptions, TLSOptions
from .errors import UsageError
from .resp import Resp
from .sentinel import Sentinels

__all__ = ["ClientLibrary", "ClientSettings", "settings_for"]

_KEPT = frozenset(
    [
        "host",
        "port",
        "path",
        "db",
        "username",
        "password",
        "credential_provider",
        "protocol",
        "client_name",
        "socket_keepalive",
        "socket_keepalive_options",
        "socket_type",
        "socket_connect_timeout",
    ]
)
"""What is taken from a ready client, besides ``ssl_*``. Left out on purpose: its retries (a script must not be sent
twice unseen), its socket timeout (it breaks blocking reads), decoding, caches, and hooks of one flavour."""

_DROPPED_TLS = frozenset({"ssl_ocsp_context", "ssl_ocsp_expected_cert"})


@attrs.frozen(kw_only=True)
class ClientLibrary:
    """What a driver uses of its client library.

    Attributes:
        name: ``"redis-py"``, for messages.
        blocking: Its blocking connection classes, by kind: ``"unix"``, ``"tls"``, ``"tcp"``, in this order.
        asyncio: Its asyncio connection classes, likewise.
        exceptions: Its module of exceptions.
        resp: How to pack and parse, by version of the protocol.
    """

    name: str
    blocking: Mapping[str, type]
    asyncio: Mapping[str, type]
    exceptions: Any
    resp: Callable[[int], Resp]


@attrs.frozen(kw_only=True)
class ClientSettings:
    """What to build connections from.

    Attributes:
        kind: ``"tcp"``, ``"tls"`` or ``"unix"``.
        arguments: Keyword arguments for the client's connection class.
        options: Deadlines and limits, and host, port or path for messages.
        connection_class: The class a ready client uses, or None.
        sentinels: Who knows where the master is; None if the place is known.
    """

    kind: str
    arguments: Mapping[str, Any] = attrs.field(repr=False)
    options: ConnectionOptions
    connection_class: type | None = None
    sentinels: "Sentinels[ClientSettings] | None" = None

    @property
    def where(self) -> str:
        """Who to connect to, for messages."""
        return self.options.where

    def at(self, address: Address) -> "ClientSettings":
        """Return the settings for one server of several: the master the sentinels named, or a node of the cluster."""
        options = attrs.evolve(
            self.options, host=address.host, port=address.port, path=None, sentinel=None, cluster=None
        )
        arguments = {**self.arguments, "host": address.host, "port": address.port}
        return attrs.evolve(self, arguments=arguments, options=options, sentinels=None)

    def pick_class(self, usual: Mapping[str, type]) -> type:
        """Return the class to connect with: the ready client's own where it is of this flavour.

        Args:
            usual: Classes of one flavour, by kind.
        """
        given, otherwise = self.connection_class, usual[self.kind]
        return given if given is not None and issubclass(given, otherwise) else otherwise

    def for_class(self, connection_class: type, name: str | None, limit_s: float) -> dict[str, Any]:
        """Return the keyword arguments that this connection class takes.

        Args:
            connection_class: Of either flavour.
            name: For CLIENT LIST; None keeps the client's own.
            limit_s: Longest wait for the network at each step of connecting.

        Raises:
            UsageError: The class cannot do a TLS check that the client asks for.
        """
        known = _parameters(connection_class)
        foreign = {key: value for key, value in self.arguments.items() if key not in known}
        refused = sorted(key for key, value in foreign.items() if key.startswith("ssl_") and value)
        if refused:
            raise UsageError(f"{connection_class.__name__} does not know {', '.join(refused)}; leave it out")
        arguments = {key: value for key, value in self.arguments.items() if key in known}
        arguments |= {"socket_connect_timeout": limit_s, "socket_timeout": limit_s}
        return arguments | ({"client_name": name} if name else {})


def _parameters(connection_class: type) -> frozenset[str]:
    names: set[str] = set()
    for part in connection_class.__mro__:
        init = vars(part).get("__init__")
        code = getattr(getattr(init, "__wrapped__", init), "__code__", None)
        if code is not None:
            names.update(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return frozenset(names)


def settings_for(library: ClientLibrary, source: ConnectionSource) -> ClientSettings:
    """Return the settings that options or a ready client describe.

    Raises:
        UsageError: The client wraps its connections, or reads from replicas.
    """
    return _from_options(source) if isinstance(source, ConnectionOptions) else _from_client(library, source)


def _from_options(options: ConnectionOptions) -> ClientSettings:
    arguments: dict[str, Any] = {"db": options.db, "protocol": options.protocol}
    if options.path:
        arguments["path"] = options.path
    else:
        arguments |= {"host": options.host, "port": options.port}
    if options.username:
        arguments["username"] = options.username
    if options.password is not None:
        arguments["password"] = options.password
    return ClientSettings(
        kind=_kind(options),
        arguments=arguments | _tls_arguments(options),
        options=options,
        sentinels=_sentinels(options),
    )


def _sentinels(options: ConnectionOptions) -> Sentinels[ClientSettings] | None:
    asked = options.sentinel
    if asked is None:
        return None
    own = attrs.evolve(
        options, sentinel=None, path=None, db=0, username=asked.username, password=asked.password, tls=asked.tls
    )
    return Sentinels(asked.service, tuple(_from_options(own).at(address) for address in asked.addresses))


def _kind(options: ConnectionOptions) -> str:
    if options.path:
        return "unix"
    return "tls" if options.tls else "tcp"


def _tls_arguments(options: ConnectionOptions) -> dict[str, Any]:
    tls = options.tls
    if tls is None or options.path:
        return {}
    files = {"ssl_ca_certs": tls.ca_file, "ssl_certfile": tls.cert_file, "ssl_keyfile": tls.key_file}
    checks = {"ssl_cert_reqs": "required" if tls.verify else "none", "ssl_check_hostname": tls.verify}
    return {key: value for key, value in files.items() if value is not None} | checks


def _from_client(library: ClientLibrary, client: object) -> ClientSettings:
    nodes = getattr(client, "nodes_manager", None)
    if nodes is not None:
        return _from_cluster(library, client, nodes)
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        raise UsageError(f"a {type(client).__name__} cannot be used: expected a client of one server or a cluster")
    if hasattr(pool, "sentinel_manager"):
        return _from_sentinel(library, pool)
    settings = _from_pool(library, pool)
    if settings is None or "connection_pool" in pool.connection_kwargs:
        raise UsageError(
            f"a client whose connections are {pool.connection_class.__name__} cannot be used: expected plain, TLS or "
            "unix socket connections; pass the URL of the server instead"
        )
    return settings


def _from_pool(library: ClientLibrary, pool: Any) -> ClientSettings | None:
    """Return the settings of one server; None if the pool's connections are of no kind we know."""
    kind = next((kind for kind in library.blocking if _is_kind(library, kind, pool.connection_class)), None)
    if kind is None:
        return None
    arguments = _kept(pool.connection_kwargs)
    return ClientSettings(
        kind=kind, arguments=arguments, options=_options_of(arguments, kind), connection_class=pool.connection_class
    )


def _from_sentinel(library: ClientLibrary, pool: Any) -> ClientSettings:
    """Read what ``Sentinel(...).master_for(...)`` has made."""
    settings = _from_pool(library, pool)
    if settings is None or not pool.is_master:
        raise UsageError("a Sentinel client of replicas cannot be used, as they take no writes: pass master_for()")
    found = [_from_pool(library, sentinel.connection_pool) for sentinel in pool.sentinel_manager.sentinels]
    places = tuple(place for place in found if place is not None)
    asked = SentinelOptions(
        service=pool.service_name,
        addresses=tuple(Address(place.options.host, place.options.port) for place in places),
        tls=TLSOptions() if places and places[0].kind == "tls" else None,
    )
    # Its connection class asks its own sentinels, so the usual one connects in its place.
    return attrs.evolve(
        settings,
        options=attrs.evolve(settings.options, sentinel=asked),
        connection_class=None,
        sentinels=Sentinels(pool.service_name, places),
    )


def _from_cluster(library: ClientLibrary, client: object, nodes: Any) -> ClientSettings:
    """Read the client of a cluster, of either flavour."""
    given = getattr(nodes, "connection_kwargs", None) or getattr(client, "connection_kwargs", {})
    connection_class = given.get("connection_class", object)
    has_tls = bool(given.get("ssl")) or _is_kind(library, "tls", connection_class)
    kind = "tls" if has_tls else "tcp"
    arguments = {**_kept(given), "db": 0}
    seeds = tuple(Address(str(node.host), int(node.port)) for node in nodes.startup_nodes.values())
    options = attrs.evolve(_options_of(arguments, kind), cluster=ClusterOptions(seeds=seeds))
    return ClientSettings(kind=kind, arguments=arguments, options=options)


def _kept(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in given if _is_kept(key) and given[key] is not None}


def _is_kind(library: ClientLibrary, kind: str, connection_class: type) -> bool:
    return issubclass(connection_class, (library.blocking[kind], library.asyncio[kind]))


def _is_kept(key: str) -> bool:
    return key in _KEPT or (key.startswith("ssl_") and key not in _DROPPED_TLS)


def _options_of(arguments: Mapping[str, Any], kind: str) -> ConnectionOptions:
    options = ConnectionOptions(
        host=str(arguments.get("host", "localhost")),
        port=int(arguments.get("port", 6379)),
        path=arguments["path"] if kind == "unix" else None,
        db=int(arguments.get("db") or 0),
        protocol=int(arguments.get("protocol", 2)),
    )
    timeout_s = arguments.get("socket_connect_timeout")
    return attrs.evolve(options, connect_timeout_ms=int(timeout_s * 1000)) if timeout_s else options
