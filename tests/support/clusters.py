"""Clusters of three masters and three replicas, each node a server of its own."""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import attrs
import redis

from support.proxy import Proxy, proxy_to
from support.servers import ServerProcess, free_port, needed_file
from support.tls import Certificates, file_with_tls

__all__ = [
    "Cluster",
    "Listening",
    "ask",
    "has_equal_replica",
    "has_replica",
    "kill_connections",
    "node_id",
    "start_cluster",
    "wait_for",
]

MASTERS = 3
SLOTS = 16384
WITHIN_S = 90.0
_HASTY_MS = 800
"""When a node counts as dead while one is: soon."""
_PATIENT_MS = 8_000
"""And while none is: a busy machine must not let a living one be replaced, whose last writes are lost then."""


def wait_for(is_so: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Wait until something is so; a node that cannot be asked is a no.

    Raises:
        TimeoutError: It was not in time.
    """
    give_up = time.monotonic() + within_s
    while True:
        with contextlib.suppress(redis.RedisError):
            if is_so():
                return
        if time.monotonic() > give_up:
            raise TimeoutError(f"not within {within_s} s: {what}")
        time.sleep(0.02)


class Listening(Protocol):
    """Whatever has an address."""

    @property
    def host(self) -> str:
        """Name or address."""
        ...

    @property
    def port(self) -> int:
        """TCP port."""
        ...


def ask(node: Listening, *parts: object) -> Any:
    """Send one command to one node, whatever its slots."""
    client = redis.Redis(node.host, node.port, protocol=2, decode_responses=True, socket_timeout=5)
    with contextlib.closing(client):
        return client.execute_command(*parts)  # type: ignore[no-untyped-call]


def kill_connections(node: Listening) -> None:
    """Let a server end all connections of clients; one that is down has none."""
    with contextlib.suppress(redis.RedisError):
        ask(node, "CLIENT", "KILL", "TYPE", "normal")


def node_id(node: ServerProcess) -> str:
    """Name of a node in its cluster."""
    return str(ask(node, "CLUSTER", "MYID"))


@attrs.define(kw_only=True)
class Cluster:
    """A running cluster and what tests do to it.

    Attributes:
        name: Kind of server, ``"redis"``.
        nodes: All six; who is master changes.
        tls_ports: Where each of them speaks TLS, if they do.
        proxies: In front of each of them, see :meth:`put_proxies`.
        down: Those that were killed or hang.
        has_moods: Whether nodes are patient with each other until one is killed; else all is as they were started.
    """

    name: str
    nodes: list[ServerProcess]
    has_moods: bool = False
    tls_ports: list[int] = attrs.field(factory=list)
    proxies: list[Proxy] = attrs.field(factory=list)
    down: list[ServerProcess] = attrs.field(factory=list)

    @property
    def up(self) -> list[ServerProcess]:
        """The nodes that run."""
        return [node for node in self.nodes if node not in self.down]

    def url(self, scheme: str | None = None, user: str = "", **options: object) -> str:
        """URL of all nodes."""
        ports = self.tls_ports or self._told_ports()
        hosts = ",".join(f"{node.host}:{port}" for node, port in zip(self.nodes, ports, strict=True))
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{scheme or f'{self.name}+cluster'}://{user and f'{user}@'}{hosts}?{query}".rstrip("?")

    def ask(self, node: ServerProcess, *parts: object) -> Any:
        """Send one command to one node."""
        return ask(node, *parts)

    def slot(self, key: str) -> int:
        """Slot of a key, as the servers compute it."""
        return int(ask(self.up[0], "CLUSTER", "KEYSLOT", key))

    def master(self, key: str) -> ServerProcess:
        """Who serves a key now, as the survivors see it."""
        return self._owner(self.slot(key))

    def _owner(self, slot: int) -> ServerProcess:
        for first, last, place, *_ in ask(self.up[0], "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return self._node_at(place[1])
        raise LookupError(f"no node serves slot {slot}")

    def replica(self, master: ServerProcess) -> ServerProcess:
        """The replica of a master."""
        for _, _, place, *replicas in ask(self.up[0], "CLUSTER", "SLOTS"):
            if replicas and self._node_at(place[1]) is master:
                return self._node_at(replicas[0][1])
        raise LookupError(f"node {master.port} has no replica")

    def _told_ports(self) -> list[int]:
        """Where the nodes tell clients and each other to find them."""
        return [one.port for one in self.proxies or self.nodes]

    def _node_at(self, port: int) -> ServerProcess:
        return self.nodes[self._told_ports().index(port)]

    def another_master(self, node: ServerProcess) -> ServerProcess:
        """A master that is not this one."""
        return next(one for one in self.masters() if one is not node)

    def kill(self, node: ServerProcess) -> None:
        """Crash a node, once its replicas have all that it acknowledged.

        Writes are held back from the moment of the look to the end, so what was acknowledged is not lost
        to asynchronous replication; what waits for its reply meanwhile learns nothing.
        """
        self.hold_writes(node)
        node.kill()
        self.down.append(node)
        self._be(_HASTY_MS)

    def _be(self, node_timeout_ms: int) -> None:
        """Let nodes take each other for dead after so long a silence."""
        for node in self.up if self.has_moods else ():
            ask(node, "CONFIG", "SET", "cluster-node-timeout", node_timeout_ms)

    def hold_writes(self, node: ServerProcess) -> None:
        """Let a node acknowledge no write any more, and wait until a replica has all that it did."""
        ask(node, "CLIENT", "PAUSE", 60_000, "WRITE")
        wait_for(lambda: has_equal_replica(node), "a replica caught up")

    def cut_off(self, node: ServerProcess) -> None:
        """Freeze a node, once its replicas have all that it acknowledged: links stay open, nothing is answered."""
        self.hold_writes(node)
        node.pause()
        self.down.append(node)
        self._be(_HASTY_MS)

    def fail_over(self, master: ServerProcess) -> None:
        """Let the replica of a healthy master take its place, both in step."""
        heir = self.replica(master)
        ask(heir, "CLUSTER", "FAILOVER")
        wait_for(lambda: heir in self.masters(), "the replica took over")
        self.wait_until_well()

    def heal(self) -> None:
        """Start what was killed again, and wait until all is well."""
        was_down = bool(self.down)
        for node in self.down:
            if node.is_running:
                node.resume()
            else:
                # Not sooner: a master that comes back empty before its replica stood for it is master still.
                wait_for(partial(self._is_replaced, node), f"a replica took over from {node.port}")
                node.start()
        self.down.clear()
        self.wait_until_well()
        # Not sooner: a master that was frozen takes writes until it hears of its heir.
        for node in self.nodes:
            with contextlib.suppress(redis.RedisError):
                ask(node, "CLIENT", "UNPAUSE")
        if was_down:
            self._be(_PATIENT_MS)

    def _is_replaced(self, node: ServerProcess) -> bool:
        return node not in self._serving()

    def wait_until_well(self) -> None:
        """Wait until each node is in the cluster and each replica in step."""
        for node in self.nodes:
            wait_for(partial(_is_well, node), f"node {node.port} is well")

    def flush(self) -> None:
        """Empty it."""
        for node in self.masters():
            ask(node, "FLUSHALL")

    def masters(self) -> list[ServerProcess]:
        """The nodes that serve slots."""
        serving = self._serving()
        return [node for node in self.up if node in serving]

    def _serving(self) -> list[ServerProcess]:
        return [self._node_at(place[1]) for _, _, place, *_ in ask(self.up[0], "CLUSTER", "SLOTS")]

    def start_moving(self, slot: int, source: ServerProcess, target: ServerProcess) -> None:
        """Let a slot be about to move; keys stay where they are."""
        ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target))

    def move_keys(self, slot: int, source: ServerProcess, target: ServerProcess, count: int) -> int:
        """Move some keys of a slot; returns how many there were."""
        keys = ask(source, "CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            ask(source, "MIGRATE", target.host, target.port, "", 0, 5_000, "KEYS", *keys)
        return len(keys)

    def end_moving(self, slot: int, source: ServerProcess, target: ServerProcess) -> None:
        """Make the target own the slot."""
        for node in (target, source, *self.up):
            with contextlib.suppress(redis.ResponseError):  # replicas take no such command
                ask(node, "CLUSTER", "SETSLOT", slot, "NODE", node_id(target))

    def move_slot(self, slot: int, source: ServerProcess, target: ServerProcess, step: int = 10) -> None:
        """Move a slot with its keys, a few at a time."""
        self.start_moving(slot, source, target)
        while self.move_keys(slot, source, target, step):
            pass
        self.end_moving(slot, source, target)

    @property
    def moves_at_once(self) -> bool:
        """Whether these servers can move a slot as a whole."""
        return self.name == "valkey" and self.nodes[0].file.version >= (9, 0)

    def move_at_once(self, slot: int, source: ServerProcess, target: ServerProcess) -> None:
        """Move a slot as a whole; see :attr:`moves_at_once`."""
        ask(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", node_id(target))
        wait_for(lambda: self._owner(slot) is target, "the slot has moved")

    def put_proxies(self, proxies: contextlib.ExitStack) -> None:
        """Let clients and replicas reach each node by a proxy, until the stack closes."""
        found = [proxies.enter_context(proxy_to(node.host, node.port)) for node in self.nodes]
        for node, proxy in zip(self.nodes, found, strict=True):
            node.args += ("--cluster-announce-port", str(proxy.port))
            ask(node, "CONFIG", "SET", "cluster-announce-port", proxy.port)
        self.proxies += found
        for node in self.nodes:
            wait_for(partial(self._knows_proxies, node), f"node {node.port} knows where the others are")
        self.wait_until_well()

    def _knows_proxies(self, node: ServerProcess) -> bool:
        places = [line.split()[1].partition("@")[0] for line in ask(node, "CLUSTER", "NODES").splitlines()]
        return {int(place.rpartition(":")[2]) for place in places} == set(self._told_ports())

    def close(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            if node in self.down and node.is_running:
                node.resume()
            node.kill()
            node.close()


def _is_well(node: ServerProcess) -> bool:
    info = {
        line.split(":")[0]: line.split(":")[1].strip() for line in ask(node, "CLUSTER", "INFO").splitlines() if line
    }
    ready = info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(2 * MASTERS)
    entries = [line.split() for line in ask(node, "CLUSTER", "NODES").splitlines()]
    links = all("fail" not in entry[2] and entry[7] == "connected" for entry in entries)
    masters = [entry for entry in entries if "master" in entry[2]]
    replicas = {entry[3] for entry in entries if "slave" in entry[2]}
    own = ask(node, "INFO", "replication")
    in_step = own["role"] == "master" or own["master_link_status"] == "up"
    return ready and links and in_step and {entry[0] for entry in masters} == replicas


def has_replica(node: Listening) -> bool:
    """Tell whether a replica follows a master, though it may be a moment behind."""
    return bool(_offsets(ask(node, "INFO", "replication")))


def has_equal_replica(node: Listening) -> bool:
    """Tell whether a replica has all that its master has; under load, hold writes to see it."""
    own = ask(node, "INFO", "replication")
    return own["master_repl_offset"] in _offsets(own)


def _offsets(own: dict[str, Any]) -> list[int]:
    replicas = [value for name, value in own.items() if name.startswith("slave") and isinstance(value, dict)]
    return [replica["offset"] for replica in replicas if replica.get("state") == "online"]


def start_cluster(name: str, *args: str, tls: Certificates | None = None) -> Cluster:
    """Start a cluster of six from server files; close it after use.

    Args:
        name: One of :data:`support.server_files.KINDS`.
        args: Further arguments of each node.
        tls: Let the nodes speak TLS to each other and to clients; their plain ports are for tests only. See
            :func:`support.tls.file_with_tls`.
    """
    file = needed_file(name) if tls is None else file_with_tls(name, tls)
    cluster = Cluster(name=name.partition("-")[0], nodes=[], has_moods="--cluster-node-timeout" not in args)
    own = [*("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--repl-diskless-sync-delay", "0")]
    own += ["--cluster-node-timeout", str(_HASTY_MS), "--cluster-replica-validity-factor", "0", *args]
    try:
        for _ in range(2 * MASTERS):
            # The usual bus port, 10,000 above, may be taken by any outgoing connection of this machine.
            bus = ("--cluster-port", str(free_port())) if file.version >= (7, 0) else ()
            secure: tuple[str, ...] = ()
            if tls is not None:
                cluster.tls_ports.append(free_port())
                secure = ("--tls-cluster", "yes", "--tls-replication", "yes", *tls.of_server(cluster.tls_ports[-1]))
            cluster.nodes.append(ServerProcess(file=file, args=(*own, *secure, *bus)))
            cluster.nodes[-1].start()
        _form(cluster)
        cluster._be(_PATIENT_MS)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _form(cluster: Cluster) -> None:
    first, *others = cluster.nodes
    for epoch, node in enumerate(cluster.nodes, 1):
        ask(node, "CLUSTER", "SET-CONFIG-EPOCH", epoch)
    for place, node in enumerate(cluster.nodes[:MASTERS]):
        # Each slot by itself: Redis 6.2 knows no ADDSLOTSRANGE.
        ask(node, "CLUSTER", "ADDSLOTS", *range(place * SLOTS // MASTERS, (place + 1) * SLOTS // MASTERS))
    for node in others:
        at = cluster.tls_ports[cluster.nodes.index(node)] if cluster.tls_ports else node.port
        bus = node.args[-1] if "--cluster-port" in node.args else node.port + 10_000
        ask(first, "CLUSTER", "MEET", node.host, at, bus)
    for node in cluster.nodes:
        wait_for(partial(_knows_all, node), "the nodes have met")
    for master, replica in zip(cluster.nodes, cluster.nodes[MASTERS:], strict=False):
        ask(replica, "CLUSTER", "REPLICATE", node_id(master))
    cluster.wait_until_well()


def _knows_all(node: ServerProcess) -> bool:
    return len(ask(node, "CLUSTER", "NODES").splitlines()) == 2 * MASTERS
