"""Where a soak happens: one server, a master that sentinels watch, or a cluster; and what may happen to each.

On a single server every write is on disk before it is acknowledged. Elsewhere
replication is asynchronous, and what a master acknowledged and did not pass on
is lost with it, which nobody promises otherwise; so masters are killed, hung
and replaced only once their replica has all that they acknowledged.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import attrs
import redis

from support.clusters import Cluster, start_cluster
from support.proxy import Proxy, proxy_to
from support.sentinels import SERVICE, Watched, start_sentinels
from support.servers import Server, ServerProcess, started

__all__ = ["TOPOLOGIES", "Evil", "Place", "opened"]

Evil: TypeAlias = Callable[[], Awaitable[object]]
"""Something that happens, and is over when it returns."""

PREFIX = "soak"
DEADLINE_MS = 2_000
"""Who waits for a master that hangs is freed by it."""

PATIENCE_MS = 4_000
"""When a master counts as dead: longer than by default, since a living one that is taken for dead loses writes."""


class Place(Protocol):
    """Servers, and what may happen to them."""

    @property
    def prefixes(self) -> Sequence[str]:
        """Prefixes of the queues, each on a master of its own."""
        ...

    @property
    def urls(self) -> Sequence[str]:
        """Two ways in."""
        ...

    @property
    def proxies(self) -> Sequence[Proxy]:
        """What clients come by, or some of them."""
        ...

    def client(self, prefix: str, **settings: Any) -> redis.Redis:
        """Return a plain client of the master that holds a prefix now; close it after use."""
        ...

    def masters(self) -> Collection[int]:
        """Ports of those that are masters now."""
        ...

    def evils(self, dice: random.Random) -> Mapping[str, Evil]:
        """What may happen here only, by name; all is well again when it is over."""
        ...


@attrs.frozen(kw_only=True)
class Single:
    """One server; half of its clients come by way of a proxy."""

    server: Server
    proxies: Sequence[Proxy]
    prefixes: Sequence[str] = (PREFIX,)

    @property
    def urls(self) -> Sequence[str]:
        """See :class:`Place`."""
        return self.proxies[0].url, self.server.url_as("valkey")

    def client(self, prefix: str, **settings: Any) -> redis.Redis:  # noqa: ARG002  # one server has them all
        """See :class:`Place`."""
        return self.server.client(**settings)

    def masters(self) -> Collection[int]:
        """See :class:`Place`."""
        return {self.server.port}

    def evils(self, dice: random.Random) -> Mapping[str, Evil]:
        """See :class:`Place`."""

        async def crash() -> None:
            await asyncio.to_thread(self.server.kill)
            await asyncio.sleep(dice.uniform(0, 1))
            await asyncio.to_thread(self.server.restart)

        async def freeze() -> None:
            self.server.pause()
            await asyncio.sleep(dice.uniform(0.2, 3))
            self.server.resume()

        async def demote() -> None:
            with contextlib.closing(self.server.client()) as client:
                client.replicaof("127.0.0.1", str(self.server.port))
                await asyncio.sleep(dice.uniform(0, 1))
                client.replicaof("NO", "ONE")

        return {"server killed": crash, "server frozen": freeze, "server read-only": demote}


@attrs.frozen(kw_only=True)
class Replicated:
    """What a watched master and a cluster have in common."""

    servers: Watched | Cluster
    prefixes: Sequence[str] = (PREFIX,)

    @property
    def urls(self) -> Sequence[str]:
        """See :class:`Place`."""
        kind = "cluster" if isinstance(self.servers, Cluster) else "sentinel"
        return [self.servers.url(f"{driver}+{kind}", deadline_ms=DEADLINE_MS) for driver in ("redis", "valkey")]

    @property
    def proxies(self) -> Sequence[Proxy]:
        """See :class:`Place`."""
        return self.servers.proxies

    def master(self, prefix: str) -> ServerProcess:
        """The master that holds a prefix now."""
        return self.servers.master(prefix) if isinstance(self.servers, Cluster) else self.servers.master()

    def client(self, prefix: str, **settings: Any) -> redis.Redis:
        """See :class:`Place`."""
        master = self.master(prefix)
        return redis.Redis(master.host, master.port, **{"protocol": 2, **settings})

    def masters(self) -> Collection[int]:
        """See :class:`Place`."""
        return {self.master(prefix).port for prefix in self.prefixes}

    def evils(self, dice: random.Random) -> Mapping[str, Evil]:
        """See :class:`Place`."""

        def strike(how: Callable[[ServerProcess], object]) -> Evil:
            async def act() -> None:
                await asyncio.to_thread(lambda: how(self.master(dice.choice(self.prefixes))))
                await asyncio.sleep(dice.uniform(0, 6))
                await asyncio.to_thread(self.servers.heal)

            return act

        def move(how: str, *settings: int) -> Evil:
            def act() -> None:
                assert isinstance(self.servers, Cluster)
                prefix = dice.choice(self.prefixes)
                source = self.master(prefix)
                target = self.servers.another_master(source)
                getattr(self.servers, how)(self.servers.slot(prefix), source, target, *settings)

            return lambda: asyncio.to_thread(act)

        found = {
            "master killed": strike(self.servers.kill),
            "master hung": strike(self.servers.cut_off),
            "healthy master replaced": strike(self.servers.fail_over),
        }
        if isinstance(self.servers, Cluster):
            found["slot moved key by key"] = move("move_slot", 100)
            if self.servers.moves_at_once:
                found["slot moved at once"] = move("move_at_once")
        return found


def _on_all_masters(cluster: Cluster) -> list[str]:
    """A prefix for each master, whose queues share a slot."""
    names = [f"{{{PREFIX}{number}}}" for number in range(60)]
    return list({cluster.master(name).port: name for name in names}.values())


@contextlib.contextmanager
def _single(server: str) -> Iterator[Place]:
    with started(server, aof=True) as found, proxy_to(found.host, found.port) as proxy:
        yield Single(server=found, proxies=[proxy])


@contextlib.contextmanager
def _sentinel(server: str) -> Iterator[Place]:
    patience = f"sentinel down-after-milliseconds {SERVICE} {PATIENCE_MS}"
    with contextlib.ExitStack() as proxies:
        watched = start_sentinels(server, patience, proxies=proxies)
        proxies.callback(watched.close)
        yield Replicated(servers=watched)


@contextlib.contextmanager
def _cluster(server: str) -> Iterator[Place]:
    with contextlib.ExitStack() as proxies:
        cluster = start_cluster(server, "--cluster-node-timeout", str(PATIENCE_MS))
        proxies.callback(cluster.close)
        cluster.put_proxies(proxies)
        yield Replicated(servers=cluster, prefixes=_on_all_masters(cluster))


TOPOLOGIES = {"single": _single, "sentinel": _sentinel, "cluster": _cluster}


def opened(topology: str, server: str) -> contextlib.AbstractContextManager[Place]:
    """Start servers for the length of a ``with`` block.

    Args:
        topology: One of :data:`TOPOLOGIES`.
        server: Kind of the servers, ``"valkey"``.
    """
    return TOPOLOGIES[topology](server)
