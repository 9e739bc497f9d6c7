"""Queues that live as long as a web application, in the frameworks that people use, behind a real server."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
import uvicorn
from fastapi import Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from litestar import Litestar
from litestar import get as litestar_get
from litestar.di import NamedDependency, Provide
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import echomq
from echomq import InvalidOption, Job, Queue, UsageError, Worker, WorkerGroup, sync
from echomq.web import Queues
from support.limits import DEADLINE_S
from support.servers import Server, free_port

PROGRAM = Path(__file__).with_name("web_program.py")


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an application on a port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        assert not serving.done(), "the application did not start"
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            yield client
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, DEADLINE_S)


def clients(server: Server) -> int:
    """Return how many others are connected to a server."""
    return len([row for row in server.client().client_list() if row["cmd"] != "client|list"])


def has_only(server: Server, count: int) -> bool:
    """Tell whether a server has no more other connections than so many, once it has seen the others close."""
    until_s = time.monotonic() + DEADLINE_S
    while clients(server) > count and time.monotonic() < until_s:
        time.sleep(0.01)
    return clients(server) <= count


def fastapi_app(queues: Queues) -> Any:
    """Make an application of FastAPI."""
    app = FastAPI(lifespan=queues.lifespan)

    @app.get("/")
    async def add(mails: Annotated[Queue, Depends(queues.queue("mails"))]) -> str:
        return (await mails.add("welcome")).id

    return app


def starlette_app(queues: Queues) -> Any:
    """Make an application of Starlette."""

    async def add(_: Request) -> Response:
        return PlainTextResponse((await queues.get("mails").add("welcome")).id)

    return Starlette(routes=[Route("/", add)], lifespan=queues.lifespan)


def litestar_app(queues: Queues) -> Any:
    """Make an application of Litestar."""

    @litestar_get("/", dependencies={"mails": Provide(queues.queue("mails"))})
    async def add(mails: NamedDependency[Queue]) -> str:
        return (await mails.add("welcome")).id

    return Litestar([add], lifespan=[queues.lifespan])


@pytest.mark.parametrize("make", [fastapi_app, starlette_app, litestar_app])
async def test_frameworks(make: Callable[[Queues], Any], server: Server, prefix: str) -> None:
    """An application adds jobs, its own worker does them, and at its end no connection is left."""
    done: list[str] = []
    finished = asyncio.Event()

    async def work(job: Job) -> None:
        done.append(job.name)
        if len(done) == 20:
            finished.set()

    before = clients(server)
    queues = Queues(
        server.url, prefix=prefix, workers=[lambda connection: Worker("mails", work, connection, prefix=prefix)]
    )
    async with served(make(queues)) as client:
        answers = await asyncio.gather(*(client.get("/") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        await asyncio.wait_for(finished.wait(), DEADLINE_S)
        assert clients(server) - before <= 4

    assert done == ["welcome"] * 20
    assert has_only(server, before)
    with pytest.raises(UsageError, match="has not begun in this event loop, or is over"):
        queues.get("mails")


async def test_websockets_and_own_lifespans(redis_server: Server, prefix: str) -> None:
    """The dependency works for web sockets too, and the lifespan goes inside one of the user's own."""
    queues = Queues(redis_server.url, prefix=prefix)
    order: list[str] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with queues.lifespan(app):
            order.append(f"open, {await queues.get('mails').count()} jobs")
            yield
            order.append(f"closing, {await queues.get('mails').count()} jobs")

    app = FastAPI(lifespan=lifespan)

    @app.websocket("/mails")
    async def mails(socket: WebSocket, mails: Annotated[Queue, Depends(queues.queue("mails"))]) -> None:
        await socket.accept()
        await socket.send_text((await mails.add("welcome")).name)

    def talk() -> str:
        with TestClient(app) as client, client.websocket_connect("/mails") as socket:
            return str(socket.receive_text())

    assert await asyncio.to_thread(talk) == "welcome"
    assert order == ["open, 0 jobs", "closing, 1 jobs"]


def test_many_loops(redis_server: Server, prefix: str) -> None:
    """One object serves several event loops, at one time and one after the other, as tests make them."""
    before = clients(redis_server)
    queues = Queues(redis_server.url, prefix=prefix)
    app = fastapi_app(queues)
    with TestClient(app) as one, TestClient(app) as other:
        assert [client.get("/").json() for client in (one, other, one)] == ["1", "2", "3"]
    for number in range(4, 7):
        with TestClient(app) as client:
            assert client.get("/").json() == f"{number}"

    assert has_only(redis_server, before)


async def test_several_applications_in_one_loop(redis_server: Server, prefix: str) -> None:
    """Applications of one loop share what is open, and the last one to leave closes it."""
    started = 0

    def make(connection: echomq.AsyncConnection) -> WorkerGroup:
        nonlocal started
        started += 1

        async def work(job: Job) -> None: ...

        return WorkerGroup({"mails": work}, connection, prefix=prefix)

    before = clients(redis_server)
    queues = Queues(redis_server.url, prefix=prefix, workers=[make])
    async with AsyncExitStack() as stack:
        inner = await stack.enter_async_context(AsyncExitStack())
        await inner.enter_async_context(queues.lifespan())
        await stack.enter_async_context(queues.lifespan())
        mails = queues.get("mails")
        assert queues.get("mails") is mails
        await inner.aclose()
        assert await mails.count() == 0

    assert started == 1
    assert has_only(redis_server, before)


async def test_mistakes(redis_server: Server, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot work is refused where it is said; an application that cannot start leaves nothing behind."""
    before = clients(redis_server)
    queues = Queues(redis_server.url, prefix=prefix)
    connection = echomq.connect(redis_server.url)
    with pytest.raises(UsageError, match="belongs to one event loop"):
        Queues(connection)
    await connection.close()
    with pytest.raises(InvalidOption):
        queues.queue("a:b")
    with pytest.raises(InvalidOption):
        Queues(redis_server.url, close_timeout=-1)
    with pytest.raises(UsageError, match=r"use echomq\.sync\.Queue"):
        await asyncio.to_thread(queues.get, "mails")

    async def work(job: Job) -> None: ...

    def wrong(connection: echomq.AsyncConnection) -> Worker:
        return Worker("mails", work, connection, prefix=prefix, concurrency=0)

    broken = Queues(
        redis_server.url, workers=[lambda connection: Worker("mails", work, connection, prefix=prefix), wrong]
    )
    with pytest.raises(InvalidOption, match="concurrency"):
        async with broken.lifespan():
            raise AssertionError("it must not start")
    caplog.set_level(logging.ERROR, "echomq.web")
    ran = Worker("mails", work, redis_server.url, prefix=prefix)
    await ran.run("drained")
    await ran.close()
    async with Queues(redis_server.url, workers=[lambda _: Worker("mails", None, redis_server.url)]).lifespan():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert "a worker of the application has ended" in caplog.text
    assert has_only(redis_server, before)


def test_application_without_its_lifespan(redis_server: Server, prefix: str) -> None:
    """A test that does not enter the client gets told to."""
    app = fastapi_app(Queues(redis_server.url, prefix=prefix))
    with pytest.raises(UsageError, match="enter the client by a with block"):
        TestClient(app).get("/")


async def test_mounted_application(redis_server: Server, prefix: str) -> None:
    """An application that is mounted in another one uses the queues of the whole."""
    queues = Queues(redis_server.url, prefix=prefix)
    outer = Starlette(routes=[Mount("/inner", starlette_app(queues))], lifespan=queues.lifespan)
    async with served(outer) as client:
        assert (await client.get("/inner/")).text == "1"


async def until_exists(path: Path) -> None:
    """Wait for a file that another process writes."""
    while not path.exists():  # noqa: ASYNC110, ASYNC240  # no event crosses processes
        await asyncio.sleep(0.01)


async def test_sigterm_of_the_server(redis_server: Server, prefix: str, tmp_path: Path) -> None:
    """SIGTERM for the web server ends the application in good order: the running job ends and is stored."""
    port = free_port()
    environment = {**os.environ, "PREFIX": prefix, "ECHOMQ_URL": redis_server.url, "FOLDER": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "web_program:app",
        "--port",
        str(port),
        "--app-dir",
        str(PROGRAM.parent),
    ]
    process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    while b"running on" not in (line := await asyncio.wait_for(process.stderr.readline(), DEADLINE_S)):
        assert line, "the server did not start"
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE_S) as client:
        job_id = (await client.post("/words", params={"word": "hello", "s": 0.5})).json()
    await asyncio.wait_for(until_exists(tmp_path / "running"), DEADLINE_S)
    process.send_signal(signal.SIGTERM)
    _, printed = await asyncio.wait_for(process.communicate(), DEADLINE_S)

    with sync.Queue("words", redis_server.url, prefix=prefix) as words:
        job = words.get_job(job_id)
    assert job is not None
    assert (job.return_value, b"shutdown complete" in printed) == ("HELLO", True)


async def test_close_timeout(redis_server: Server, prefix: str) -> None:
    """A job that does not end in time is given back, and the application stops."""
    running = asyncio.Event()

    async def slow(_: Job) -> None:
        running.set()
        await asyncio.sleep(3 * DEADLINE_S)

    queues = Queues(
        redis_server.url,
        prefix=prefix,
        close_timeout=50,
        workers=[lambda connection: Worker("mails", slow, connection, prefix=prefix)],
    )
    async with queues.lifespan():
        job = await queues.get("mails").add("slow")
        await asyncio.wait_for(running.wait(), DEADLINE_S)

    async with Queue("mails", redis_server.url, prefix=prefix) as mails:
        assert await mails.get_job_state(job.id) == "waiting"


async def test_stop_that_is_cancelled(redis_server: Server, prefix: str) -> None:
    """A framework that waits no longer for the stop cuts no job's way back to the queue."""
    running = asyncio.Event()
    entered: list[str] = []

    async def slow(_: Job) -> None:
        running.set()
        await asyncio.sleep(3 * DEADLINE_S)

    queues = Queues(
        redis_server.url, prefix=prefix, workers=[lambda connection: Worker("mails", slow, connection, prefix=prefix)]
    )

    async def application() -> None:
        async with queues.lifespan():
            entered.append((await queues.get("mails").add("slow")).id)
            await asyncio.wait_for(running.wait(), DEADLINE_S)

    serving = asyncio.ensure_future(application())
    await asyncio.wait_for(running.wait(), DEADLINE_S)
    await asyncio.wait({serving}, timeout=0.1)  # it is at its end, and waits for the job
    assert not serving.done()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(serving, DEADLINE_S)

    async with Queue("mails", redis_server.url, prefix=prefix) as mails:
        assert await mails.get_job_state(entered[0]) == "waiting"


@pytest.mark.parametrize("kind", ["nothing", "coroutine", "blocking"])
async def test_what_makes_no_worker(redis_server: Server, prefix: str, kind: str) -> None:
    """A function that makes no worker for asyncio is refused when the application starts, and says what it made."""

    async def late(connection: echomq.AsyncConnection) -> Worker:
        return Worker("mails", print, connection, prefix=prefix)

    makers: dict[str, Any] = {
        "nothing": lambda _: None,
        "coroutine": late,
        "blocking": lambda _: sync.Worker("mails", print, redis_server.url, prefix=prefix),
    }
    with pytest.raises(UsageError, match="workers: expected plain functions that make a Worker"):
        async with Queues(redis_server.url, workers=[makers[kind]]).lifespan():
            raise AssertionError("it must not start")
