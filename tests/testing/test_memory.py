"""Servers in memory: what they have in common with real ones, and what they have not."""

import asyncio
import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

import echomq
import echomq.sync
from echomq import Queue, Worker
from echomq.call import Batch
from echomq.errors import ServerRefused, UsageError
from echomq.scripts import get_script, script_names
from echomq_memory import memory_server
from echomq_memory.lua import json_decode, json_encode
from echomq_testing import Clock
from support.limits import DEADLINE_S, at_once
from support.requests import command


async def test_servers_by_name(prefix: str) -> None:
    """Each name is a server of its own; whoever names it again finds its data."""
    async with Queue("mail", f"memory://{prefix}-a") as queue:
        await queue.add("send")
    async with Queue("mail", f"memory://{prefix}-a") as again, Queue("mail", f"memory://{prefix}-b") as other:
        assert (await again.count(), await other.count()) == (1, 0)

    memory_server(f"{prefix}-a").flush()

    async with Queue("mail", f"memory://{prefix}-a") as queue:
        assert await queue.count() == 0


async def test_threads_and_loops_share(prefix: str) -> None:
    """Code with and without an event loop works on the same queue, in any thread."""
    url = f"memory://{prefix}"
    worker = echomq.sync.Worker("sums", lambda job: job.data + 1, url)
    thread = threading.Thread(target=worker.run, kwargs={"handle_signals": False})
    thread.start()
    async with Queue("sums", url) as queue:
        jobs = await asyncio.gather(*(queue.add("add", n) for n in range(50)))
        results = await asyncio.gather(*(queue.result(job.id, timeout=60_000) for job in jobs))
    await asyncio.to_thread(worker.close)
    thread.join(10)

    assert results == [n + 1 for n in range(50)]


async def test_no_thread_is_left(prefix: str) -> None:
    """The thread of a server ends with its last connection; the data stays."""
    url = f"memory://{prefix}"
    async with Queue("mail", url) as queue:
        await queue.add("send")
        serving = [thread for thread in threading.enumerate() if thread.name == url]
        assert len(serving) == 1
    await asyncio.to_thread(serving[0].join, DEADLINE_S)

    assert not serving[0].is_alive()
    async with Queue("mail", url) as queue:
        assert await queue.count() == 1


async def test_waiting_worker_is_woken(prefix: str) -> None:
    """A worker that waits for jobs takes the next one in a moment, not at the end of its wait."""
    url = f"memory://{prefix}"
    async with Queue("mail", url) as queue, Worker("mail", lambda _: "sent", url, drain_delay=60_000) as worker:
        running = asyncio.ensure_future(worker.run(handle_signals=False))
        first = await queue.add("send")
        await queue.result(first.id, timeout=60_000)
        with at_once():
            assert await queue.result((await queue.add("send")).id) == "sent"
        await worker.close()
        await running


async def test_every_script_compiles(prefix: str) -> None:
    """The interpreter takes each of the scripts, with its text as it is sent to servers."""
    connection = echomq.connect(f"memory://{prefix}")
    loads = [command("SCRIPT", "LOAD", get_script(name).text) for name in script_names()]
    assert await connection.send_batch(Batch(requests=tuple(loads))) == [
        get_script(name).sha1.encode() for name in script_names()
    ]
    for name in script_names():
        runs = Batch(requests=(command("EVALSHA", get_script(name).sha1, 0),))
        (outcome,) = await connection.send_batch(runs)  # without keys none of them can do anything
        assert "compiling" not in str(outcome), name
    await connection.close()


async def test_scripts_have_no_globals(prefix: str) -> None:
    """A script can neither leave a global variable behind nor reach the system, as on a server."""
    connection = echomq.connect(f"memory://{prefix}")
    for text in ("left = 1", "return left", "return os.getenv('HOME')", "return python.eval('1')"):
        with pytest.raises(ServerRefused, match=r"(?i)global|readonly"):
            await connection.send(command("EVAL", text, 0))
    await connection.close()


def test_time_of_the_server(prefix: str) -> None:
    """Keys expire, streams number and TIME tells by the clock that a test has stopped; blocked reads end by it."""
    with (
        Clock(datetime(2040, 1, 1, tzinfo=timezone.utc)) as clock,
        contextlib.closing(echomq.sync.connect(f"memory://{prefix}")) as connection,
    ):
        began_ms = clock.now_ms
        connection.send(command("SET", "lock", "x", "PX", 1_000))
        assert connection.send(command("PTTL", "lock")) == 1_000
        first = connection.send(command("XADD", "log", "*", "a", "b"))
        second = connection.send(command("XADD", "log", "*", "a", "b"))
        assert (first, second) == (b"%d-0" % began_ms, b"%d-1" % began_ms)
        assert connection.send(command("TIME")) == [b"%d" % (began_ms // 1000), b"0"]

        clock.advance(999)
        assert connection.send(command("GET", "lock")) == b"x"
        clock.advance(2)
        assert connection.send(command("GET", "lock")) is None
        assert connection.send(command("XADD", "log", "*", "a", "b")) == b"%d-0" % (began_ms + 1_001)

        reader = connection.dedicated(name=prefix)
        with ThreadPoolExecutor(1) as thread:
            reading = thread.submit(reader.send, command("BZPOPMIN", "none", 3_600, block_ms=3_600_000))
            while b"flags=b" not in connection.send(command("CLIENT", "LIST")):
                pass
            clock.advance(timedelta(hours=1))
            assert reading.result(20) is None
        reader.close()


def test_json_as_servers_write_it() -> None:
    """JSON is written as the servers' library does: slashes escaped, whole numbers plain, an empty table an object."""
    from lupa import lua51

    runtime = lua51.LuaRuntime(encoding=None)
    for text, again in (
        (b'{"a":[1,2.5,1e+20,"x/y",null,true]}', b'{"a":[1,2.5,1e+20,"x\\/y",null,true]}'),
        (b"[]", b"{}"),
        ('"é\\u0001"'.encode(), '"é\\u0001"'.encode()),
        (b'"\\""', b'"\\""'),
    ):
        assert json_encode(json_decode(runtime, text)) == again


def test_mistakes_are_answered(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked is answered: with the server's error, also where the engine has a mistake; it goes on."""
    monkeypatch.setattr("fakeredis._socket.FakeSocket.strlen", lambda *_: 1 / 0)
    with contextlib.closing(echomq.sync.connect(f"memory://{prefix}?deadline_ms=5000")) as connection:
        connection.send(command("SET", "text", "x"))
        for parts, said in (
            (("XREAD", "BLOCK", 100, "STREAMS", "text", "$"), "WRONGTYPE"),
            (("XREAD", "STREAMS", "text", "0"), "WRONGTYPE"),
            (("XADD", "text", "*", "a", "b"), "WRONGTYPE"),
            (("BZPOPMIN", "text", 1), "WRONGTYPE"),
            (("LPUSH", "text", "x"), "WRONGTYPE"),
            (("ZADD", "scores", "many", "x"), "float"),
            (("XREAD", "BLOCK"), "ERR"),
            (("HGET",), "wrong number of arguments"),
            (("NOSUCH", "x"), "unknown command"),
            (("STRLEN", "text"), "ZeroDivisionError"),
            (("EVAL", "return redis.call('STRLEN', 'text')", 0), "ZeroDivisionError"),
            (("EVAL", "return nothing(", 0), "compiling"),
            (("HELLO", 3), "NOPROTO"),
        ):
            with pytest.raises(ServerRefused, match=said):
                connection.send(command(*parts))
        assert connection.send(command("GET", "text")) == b"x"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_is_refused(prefix: str) -> None:
    """A forked process is told that the queues stayed behind, where it would see none of their jobs."""
    url = f"memory://{prefix}"
    with echomq.sync.Queue("mail", url) as queue:
        queue.add("send")
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            echomq.sync.connect(url).send(command("PING"))
            os.write(writer, b"no error")
        except ServerRefused as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    said = os.read(reader, 10_000).decode()
    os.close(reader)

    assert f"belongs to process {os.getpid()}" in said
    assert "embedded:" in said


@pytest.mark.parametrize("url", ["memory://:secret@here", "memory://ada@here"])
def test_users_are_refused(url: str) -> None:
    """Users and passwords mean nothing here, and are not passed over."""
    with pytest.raises(UsageError, match="knows no users"):
        echomq.connect(url)
