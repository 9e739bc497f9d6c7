"""What only the asyncio connection must stand: cancelled callers, event loops that come and go."""

import asyncio
import contextlib
import gc
import os
import random
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import attrs
import pytest
import uvloop

from echomq import plugins
from echomq.address import parse_url
from echomq.call import Batch
from echomq.driver import AsyncConnection
from echomq.errors import ConnectionClosed, UsageError
from support.faults import blocked_client
from support.proxy import Proxy
from support.requests import command, run
from support.servers import Server, free_port


@pytest.fixture
def shell() -> str:
    """The asyncio connection only."""
    return "asyncio"


def eager_loop() -> asyncio.AbstractEventLoop:
    """A loop whose tasks start at once, where Python has such."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", None))
    return loop


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop, eager_loop], ids=["asyncio", "uvloop", "eager"])
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """Makes each kind of event loop in turn."""
    made: Callable[[], asyncio.AbstractEventLoop] = request.param
    return made


def run_in(new_loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end as ``asyncio.run`` does."""
    loop = new_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@contextlib.contextmanager
def no_warning() -> Iterator[None]:
    """Fail on any warning, also on one of an object that is collected."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


async def test_cancelled_before_the_write(
    open_connection: Callable[[str], AsyncConnection], redis_server: Server, prefix: str
) -> None:
    """A caller who is cancelled before his request was written sends nothing."""
    connection = open_connection(redis_server.url)
    await connection.send(command("PING"))
    task = asyncio.ensure_future(connection.send(command("INCR", prefix)))
    other = asyncio.ensure_future(connection.send(command("ECHO", "other")))
    # One step of the loop starts both tasks; their write is due in the next.
    await asyncio.sleep(0)
    task.cancel()

    assert await other == b"other"
    assert task.cancelled()
    assert await connection.send(command("GET", prefix)) is None


async def test_cancelled_in_flight(
    open_connection: Callable[[str], AsyncConnection], proxy: Proxy, prefix: str
) -> None:
    """The reply to a cancelled caller goes to nobody else."""
    connection = open_connection(proxy.url)
    await connection.send(command("PING"))
    proxy.hold("down")
    tasks = [asyncio.ensure_future(connection.send(command("ECHO", f"{prefix}{n}"))) for n in range(10)]
    batch = asyncio.ensure_future(connection.send_batch(Batch(requests=(command("ECHO", "a"), command("ECHO", "b")))))
    last = asyncio.ensure_future(connection.send(command("ECHO", "last")))
    await asyncio.sleep(0.01)
    for task in (*tasks[::2], batch):
        task.cancel()
    proxy.release("down")

    assert await last == b"last"
    assert [f"{prefix}{n}".encode() for n in range(1, 10, 2)] == await asyncio.gather(*tasks[1::2])


async def test_cancelled_at_random(
    open_connection: Callable[[str], AsyncConnection], redis_server: Server, counting: str, prefix: str
) -> None:
    """Many callers, of whom many are cancelled at any moment, never get each other's replies."""
    connection = open_connection(redis_server.url)
    dice = random.Random(4711)

    async def call(n: int) -> None:
        for turn in range(20):
            text = f"{n}:{turn}"
            if dice.random() < 0.2:
                batch = Batch(requests=(command("ECHO", text), run(counting, prefix, args=(1,))), atomic=n % 2 == 0)
                echo, count = await connection.send_batch(batch)
                assert isinstance(count, int)
            else:
                echo = await connection.send(command("ECHO", text))
            assert text.encode() == echo

    tasks = [asyncio.ensure_future(call(n)) for n in range(200)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0 if dice.random() < 0.8 else 0.001)
        dice.choice(tasks).cancel()
    for task in tasks:
        assert task.cancelled() or task.exception() is None

    assert await connection.send(command("ECHO", "sane")) == b"sane"


async def test_cancelled_blocking_read(
    open_connection: Callable[[str], AsyncConnection], redis_server: Server, prefix: str
) -> None:
    """A blocking read that is cancelled takes nothing any more and does not hold up the next request."""
    connection = open_connection(redis_server.url)
    reader = connection.dedicated(name=prefix)
    reading = asyncio.ensure_future(reader.send(command("BLPOP", prefix, 30, block_ms=30_000)))
    await blocked_client(redis_server, prefix)
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading

    # At once, while the link is on its way to be closed.
    assert await reader.send(command("ECHO", "soon"), deadline_ms=5_000) == b"soon"
    await connection.send(command("RPUSH", prefix, "job"))
    assert await connection.send(command("LLEN", prefix)) == 1
    await reader.close()


async def test_pending_bytes_are_bounded(open_connection: Callable[[Any], AsyncConnection], prefix: str) -> None:
    """Without a server, no more than the limit is packed; the others wait unpacked, and a cancelled one makes room."""
    url = f"redis://127.0.0.1:{free_port()}"
    connection: Any = open_connection(attrs.evolve(parse_url(url), max_pending_bytes=100_000))
    block = "x" * 40_000
    tasks = [asyncio.ensure_future(connection.send(command("SET", prefix, block))) for _ in range(50)]
    await asyncio.sleep(0)
    packed = connection.backlog.packed_bytes

    assert packed < 100_000 + 50_000
    await connection.close()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, ConnectionClosed)


def test_two_loops(
    driver: str, redis_server: Server, prefix: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """A connection that nobody closed serves a second event loop after the first has ended, without a warning."""
    with no_warning():
        connection = plugins.connect_async(redis_server.url, driver=driver)

        async def count() -> Any:
            return await connection.send(command("INCR", prefix))

        assert [run_in(new_loop, count()) for _ in range(3)] == [1, 2, 3]
        run_in(new_loop, connection.close())


def test_loop_ends_in_the_middle(
    driver: str, redis_server: Server, prefix: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """A loop that ends while requests are open leaves no trace in the next one."""
    connection = plugins.connect_async(redis_server.url, driver=driver)

    async def leave() -> None:
        await connection.send(command("PING"))
        task = asyncio.ensure_future(connection.send(command("BLPOP", prefix, 20, block_ms=20_000)))
        await asyncio.sleep(0.01)
        task.cancel()

    async def stay() -> Any:
        reply = await connection.send(command("ECHO", "second"))
        await connection.close()
        return reply

    run_in(new_loop, leave())
    assert run_in(new_loop, stay()) == b"second"


def test_loop_closed_without_care(driver: str, redis_server: Server) -> None:
    """A loop closed without ending its generators costs a warning at most, never the next loop."""
    connection = plugins.connect_async(redis_server.url, driver=driver)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(connection.send(command("PING")))
    loop.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)

        async def again() -> Any:
            reply = await connection.send(command("ECHO", "again"))
            await connection.close()
            return reply

        assert asyncio.run(again()) == b"again"
        gc.collect()


def test_two_loops_at_once(driver: str, redis_server: Server) -> None:
    """Using a connection in two running event loops is refused with advice."""
    connection = plugins.connect_async(redis_server.url, driver=driver)
    entered, leave = threading.Event(), threading.Event()

    async def hold() -> None:
        await connection.send(command("PING"))
        entered.set()
        await asyncio.to_thread(leave.wait, 10)
        await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert entered.wait(10)
        with pytest.raises(UsageError, match="one connection for each loop"):
            asyncio.run(connection.send(command("PING")))
    finally:
        leave.set()
        thread.join()


def test_made_outside_a_loop(driver: str) -> None:
    """Making a connection needs neither an event loop nor a server."""
    connection = plugins.connect_async(f"redis://127.0.0.1:{free_port()}", driver=driver)
    dedicated = connection.dedicated(name="x")

    asyncio.run(connection.close())
    asyncio.run(dedicated.close())


def test_loops(
    driver: str, server: Server, prefix: str, counting: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Calls, small and large, work on every kind of loop."""

    async def work() -> None:
        connection = plugins.connect_async(server.url, driver=driver)
        calls = [connection.send(run(counting, prefix, args=(1,))) for _ in range(100)]
        assert set(range(1, 101)) == set(await asyncio.gather(*calls))
        block = "x" * 1_000_000
        assert block.encode() == await connection.send(command("ECHO", block))
        await connection.close()

    run_in(new_loop, work())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork(driver: str, redis_server: Server) -> None:
    """A forked child dials anew and leaves the parent's link alone."""
    connection = plugins.connect_async(redis_server.url, driver=driver)

    async def own_id() -> Any:
        return await connection.send(command("CLIENT", "ID"))

    async def parent() -> None:
        before = await own_id()
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                asyncio.events._set_running_loop(None)
                other = asyncio.new_event_loop().run_until_complete(own_id())
                code = 0 if other != before else 2
            os._exit(code)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert before == await own_id()
        await connection.close()

    asyncio.run(parent())
