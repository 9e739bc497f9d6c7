"""Events of a queue: what readers see, from where on, and through what outages."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from echomq import InvalidOption, Queue, QueueEvents, UsageError, events
from echomq.errors import ConnectionClosed, ServerRefused
from echomq.states import JobState
from support.desk import happens, until
from support.limits import at_once, best_of
from support.proxy import proxy_to
from support.servers import Server
from support.shells import Shell


@pytest.fixture
async def reader(shell: Shell, server: Server, prefix: str) -> AsyncIterator[QueueEvents]:
    """A reader of each shell on each server, that is ready."""
    async with shell.events("mail", server.url, prefix=prefix) as opened:
        yield opened


async def read(reader: QueueEvents, count: int) -> list[Any]:
    """The next events."""

    async def some() -> list[Any]:
        return [await reader.__anext__() for _ in range(count)]

    return list(await happens(some()))


async def until_waiting(server: Server, prefix: str) -> None:
    """Wait until the server holds back the answer to a reader."""
    with server.client(decode_responses=True) as client:

        async def waits() -> bool:
            return any(one["name"].startswith(prefix) and "b" in one["flags"] for one in client.client_list())

        await until(waits)


async def test_events_are_typed(queue: Queue, reader: QueueEvents) -> None:
    """What is done to a queue comes as values of the classes of these events, in order."""
    job = await queue.add("welcome", delay=60_000)
    await queue.update_progress(job.id, {"step": 1})
    await queue.pause()
    await queue.remove(job.id)

    added, delayed, progress, paused, removed = await read(reader, 5)

    assert (type(added), added.job_id, added.name) == (events.Added, job.id, "welcome")
    assert delayed == events.Delayed(id=delayed.id, job_id=job.id, due_ms=job.timestamp_ms + 60_000)
    assert progress == events.Progress(id=progress.id, job_id=job.id, progress={"step": 1})
    assert paused == events.Paused(id=paused.id)
    assert removed == events.Removed(id=removed.id, job_id=job.id, previous=JobState.DELAYED)


async def test_ready_fixes_the_position(queue: Queue, shell: Shell, server: Server, prefix: str) -> None:
    """A reader gets nothing from before it was ready, and everything after, though it begins to read later."""
    await queue.add("before")
    async with shell.events("mail", server.url, prefix=prefix) as reader:
        job = await queue.add("after")
        (first,) = await read(reader, 1)

    assert (first.job_id, first.name) == (job.id, "after")


async def test_resume_from_an_id(queue: Queue, shell: Shell, server: Server, prefix: str) -> None:
    """A second reader goes on after the last event that a first one handed out."""
    jobs = [await queue.add("n") for _ in range(3)]
    async with shell.events("mail", server.url, prefix=prefix, last_event_id=events.BEGINNING) as reader:
        seen = await read(reader, 3)
        last = reader.last_event_id
    async with shell.events("mail", server.url, prefix=prefix, last_event_id=last) as reader:
        seen += await read(reader, 3)

    assert [event.job_id for event in seen] == [job.id for job in jobs for _ in range(2)]


async def test_no_event_is_lost_in_an_outage(queue: Queue, shell: Shell, server: Server, prefix: str) -> None:
    """Events that happen while a reader's link is down are read when it is back, from its start position on."""
    with proxy_to(server.host, server.port) as proxy:
        async with shell.events("mail", proxy.url, prefix=prefix) as reader:
            reading = asyncio.ensure_future(read(reader, 2))
            await until_waiting(server, prefix)
            proxy.refuse()
            proxy.cut()
            job = await queue.add("meanwhile")
            proxy.accept()

            assert [event.job_id for event in await reading] == [job.id, job.id]


async def test_long_outage(
    queue: Queue, shell: Shell, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage longer than the deadline of requests is waited out, and told once in the log."""
    with proxy_to(server.host, server.port) as proxy:
        url = f"{proxy.url}?deadline_ms=1000"
        async with shell.events("mail", url, prefix=prefix, block=100) as reader:
            reading = asyncio.ensure_future(read(reader, 1))
            await until_waiting(server, prefix)
            caplog.clear()
            proxy.refuse()
            proxy.cut()
            job = await queue.add("meanwhile")

            async def is_told() -> bool:
                return "goes on after an outage" in caplog.text

            await until(is_told)
            assert not reading.done()
            proxy.accept()

            assert [event.job_id for event in await reading] == [job.id]
    assert caplog.text.count("goes on after an outage") == 1


async def test_closing_in_an_outage(shell: Shell, server: Server, prefix: str) -> None:
    """Closing ends a loop at once that waits for the server to come back."""
    with proxy_to(server.host, server.port) as proxy:
        async with shell.events("mail", f"{proxy.url}?deadline_ms=1000", prefix=prefix, block=100) as reader:
            looping = asyncio.ensure_future(read(reader, 1))
            await until_waiting(server, prefix)
            proxy.refuse()
            proxy.cut()
            with at_once():
                await reader.close()
                with pytest.raises(StopAsyncIteration):
                    await happens(looping)


async def test_broken_entries_do_not_end_the_loop(queue: Queue, reader: QueueEvents, server: Server) -> None:
    """Entries that no client should write come as Broken, and reading goes on."""
    with server.client() as client:
        client.xadd(queue.keys.events, {"event": "completed", "jobId": "1", "returnvalue": "{"})
        client.xadd(queue.keys.events, {"event": "progress", "jobId": "1"})
        client.xadd(queue.keys.events, {b"\xff": b"\xfe"})
        client.xadd(queue.keys.events, {"event": "delayed", "jobId": "1", "delay": "soon"})
    await queue.pause()

    seen = await read(reader, 5)

    assert [type(event) for event in seen] == [events.Broken] * 4 + [events.Paused]
    assert "returnvalue" in seen[0].problem
    assert seen[1].problem == "it has no field 'data'"
    assert seen[3].fields["delay"] == "soon"


async def test_own_events(shell: Shell, reader: QueueEvents, server: Server, prefix: str) -> None:
    """An own event arrives with its name and its fields as text, under the id that publish returned."""
    async with shell.producer("mail", server.url, prefix=prefix) as producer:
        event_id = await producer.publish("invoice-sent", {"number": 7, "to": "ada"})

    assert await read(reader, 1) == [events.Own(id=event_id, name="invoice-sent", fields={"number": "7", "to": "ada"})]


@pytest.mark.parametrize(
    ("name", "fields"), [("completed", {}), ("", {}), ("own", {"event": "x"}), ("own", {"x": None}), ("own", {"": 1})]
)
async def test_own_events_are_checked(shell: Shell, server: Server, prefix: str, name: str, fields: Any) -> None:
    """An own event that would pass for one of the queue's, or cannot be stored, is refused."""
    async with shell.producer("mail", server.url, prefix=prefix) as producer:
        with pytest.raises(InvalidOption):
            await producer.publish(name, fields)


async def test_producer_keeps_the_log_long(shell: Shell, queue: Queue, server: Server, prefix: str) -> None:
    """Publishing trims the log no shorter than the queue does, so that no reader misses events."""
    with server.client() as client:
        with client.pipeline() as pipeline:
            for number in range(3_000):
                pipeline.xadd(queue.keys.events, {"event": "n", "n": number})
            pipeline.execute()
        async with shell.producer("mail", server.url, prefix=prefix) as producer:
            await producer.publish("own")

        assert client.xlen(queue.keys.events) == 3_001


async def test_listeners(queue: Queue, reader: QueueEvents) -> None:
    """Listeners hear of the kinds they asked for, by class or by name, whatever another listener raises."""
    heard: list[Any] = []

    def fails(event: events.Added) -> None:
        raise RuntimeError(event.job_id)

    reader.on(events.Added, fails)
    reader.on("added", heard.append)
    reader.on(events.Paused, heard.append)
    reader.on("added", print)
    reader.off("added", print)
    running = asyncio.ensure_future(reader.run())
    job = await queue.add("welcome")
    await queue.pause()

    async def both_came() -> bool:
        return len(heard) == 2

    await until(both_came)
    await reader.close()
    await happens(running)

    assert [type(event) for event in heard] == [events.Added, events.Paused]
    assert heard[0].job_id == job.id


async def test_listener_for_nothing(reader: QueueEvents) -> None:
    """A listener for what is no kind of event is refused at once."""
    with pytest.raises(InvalidOption):
        reader.on(int, print)  # type: ignore[type-var]


async def test_close_is_quick(shell: Shell, server: Server, prefix: str) -> None:
    """Closing ends a loop that waits for events within 50 ms."""

    async def took_s() -> float:
        async with shell.events("mail", server.url, prefix=prefix) as reader:

            async def loop() -> int:
                return len([event async for event in reader])

            looping = asyncio.ensure_future(loop())
            await until_waiting(server, prefix)
            began = time.monotonic()
            await reader.close()
            assert await happens(looping) == 0
            took = time.monotonic() - began
            await reader.close()
            return took

    await best_of(took_s, 0.05)


async def test_closed_reader_says_so(reader: QueueEvents) -> None:
    """To read from a closed reader is an error at once, not a wait."""
    await reader.close()

    with pytest.raises(ConnectionClosed):
        [event async for event in reader]


async def test_one_reader_at_a_time(reader: QueueEvents, server: Server, prefix: str) -> None:
    """Two loops cannot share one reader, since each would get a part of the events."""
    first = asyncio.ensure_future(reader.__anext__())
    await until_waiting(server, prefix)

    with pytest.raises(UsageError):
        await reader.__anext__()
    await reader.close()
    with pytest.raises(StopAsyncIteration):
        await first


@pytest.mark.usefixtures("reader")
async def test_connection_is_named(queue: Queue, server: Server) -> None:
    """A reader's connection has the name by which other clients find the readers of a queue."""
    assert await queue.count() == 0
    with server.client(decode_responses=True) as client:
        names = [one["name"] for one in client.client_list()]

    assert f"{queue.keys.prefix}:bWFpbA==:qe" in names


async def test_refusal_is_told(queue: Queue, reader: QueueEvents, server: Server) -> None:
    """A log that cannot be read, which does not pass by itself, ends the loop with the server's reason."""
    with server.client() as client:
        client.delete(queue.keys.events)
        client.set(queue.keys.events, "no log")

    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await read(reader, 1)


@pytest.mark.parametrize("last_event_id", ["soon", "", "1-2-3", 7])
async def test_ids_are_checked(shell: Shell, server: Server, last_event_id: Any) -> None:
    """An id that no event can have is refused."""
    with pytest.raises(InvalidOption):
        shell.events("mail", server.url, last_event_id=last_event_id)
