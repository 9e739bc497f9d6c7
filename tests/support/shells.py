"""Both shells in one shape, so that one test covers the asyncio one and the blocking one."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol, cast

import attrs
from typing_extensions import Self

import echomq
import echomq.sync
from echomq import FlowProducer, Job, Queue, QueueEvents, QueueEventsProducer
from echomq.driver import ConnectionSource

__all__ = ["SHELLS", "Shell"]


class Shell(Protocol):
    """What a producer uses; whatever the shell is, tests await it."""

    def queue(self, name: str, connection: ConnectionSource = None, **settings: Any) -> Queue:
        """Make a queue."""
        ...

    def flows(self, connection: ConnectionSource = None, **settings: Any) -> FlowProducer:
        """Make a producer of flows."""
        ...

    def events(self, name: str, connection: ConnectionSource = None, **settings: Any) -> QueueEvents:
        """Make a reader of events."""
        ...

    def producer(self, name: str, connection: ConnectionSource = None, **settings: Any) -> QueueEventsProducer:
        """Make a producer of events."""
        ...

    async def add(self, queue: str, name: str, data: object = None, **options: Any) -> Job:
        """Add one job."""
        ...

    async def add_bulk(self, queue: str, jobs: Any, **options: Any) -> list[Job]:
        """Add many jobs."""
        ...

    def connect(self, source: ConnectionSource) -> Any:
        """Make a connection of this shell, as it is."""
        ...

    async def close(self, connection: Any) -> None:
        """Close such a connection."""
        ...


_END = object()

_PLAIN = {"on", "off"}
"""Methods that neither shell waits for."""

_ITERATED = {"iter_jobs"}
"""Methods whose values are gone through."""


async def _iterated(found: Iterator[Any]) -> AsyncIterator[Any]:
    while (item := await asyncio.to_thread(next, found, _END)) is not _END:
        yield item


class _Asyncio:
    """The shell for asyncio, as it is."""

    def queue(self, name: str, connection: ConnectionSource = None, **settings: Any) -> Queue:
        return Queue(name, connection, **settings)

    def flows(self, connection: ConnectionSource = None, **settings: Any) -> FlowProducer:
        return FlowProducer(connection, **settings)

    def events(self, name: str, connection: ConnectionSource = None, **settings: Any) -> QueueEvents:
        return QueueEvents(name, connection, **settings)

    def producer(self, name: str, connection: ConnectionSource = None, **settings: Any) -> QueueEventsProducer:
        return QueueEventsProducer(name, connection, **settings)

    async def add(self, queue: str, name: str, data: object = None, **options: Any) -> Job:
        return await echomq.add(queue, name, data, **options)

    async def add_bulk(self, queue: str, jobs: Any, **options: Any) -> list[Job]:
        return await echomq.add_bulk(queue, jobs, **options)

    def connect(self, source: ConnectionSource) -> Any:
        return echomq.connect(source)

    async def close(self, connection: Any) -> None:
        await connection.close()


@attrs.frozen
class _Awaited:
    """An object whose methods run in threads, so that they can be awaited."""

    target: Any

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.target, name)
        if name in _ITERATED:
            return lambda *args, **kwargs: _iterated(found(*args, **kwargs))
        if not inspect.ismethod(found) or name in _PLAIN:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(found, *args, **kwargs)

        return call

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.target.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.target.__exit__, *error)

    def __aiter__(self) -> Self:
        iter(self.target)
        return self

    async def __anext__(self) -> Any:
        found = await asyncio.to_thread(next, self.target, _END)
        if found is _END:
            raise StopAsyncIteration
        return found


class _Blocking:
    """The blocking shell, each call in a thread."""

    def queue(self, name: str, connection: ConnectionSource = None, **settings: Any) -> Queue:
        return cast("Queue", _Awaited(echomq.sync.Queue(name, connection, **settings)))

    def flows(self, connection: ConnectionSource = None, **settings: Any) -> FlowProducer:
        return cast("FlowProducer", _Awaited(echomq.sync.FlowProducer(connection, **settings)))

    def events(self, name: str, connection: ConnectionSource = None, **settings: Any) -> QueueEvents:
        return cast("QueueEvents", _Awaited(echomq.sync.QueueEvents(name, connection, **settings)))

    def producer(self, name: str, connection: ConnectionSource = None, **settings: Any) -> QueueEventsProducer:
        return cast("QueueEventsProducer", _Awaited(echomq.sync.QueueEventsProducer(name, connection, **settings)))

    async def add(self, queue: str, name: str, data: object = None, **options: Any) -> Job:
        return await asyncio.to_thread(echomq.sync.add, queue, name, data, **options)

    async def add_bulk(self, queue: str, jobs: Any, **options: Any) -> list[Job]:
        return await asyncio.to_thread(echomq.sync.add_bulk, queue, jobs, **options)

    def connect(self, source: ConnectionSource) -> Any:
        return echomq.sync.connect(source)

    async def close(self, connection: Any) -> None:
        await asyncio.to_thread(connection.close)


SHELLS: dict[str, Shell] = {"asyncio": _Asyncio(), "blocking": _Blocking()}
"""Both, by name."""
