"""Passwords and data of jobs stay out of logs, reprs and messages, whatever goes wrong."""

import asyncio
import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import echomq
import echomq.sync
from echomq import EchoMQError, Job, Queue, QueueEvents, Worker
from echomq.cli import main
from echomq.client_settings import ClientSettings
from echomq.plugins import resolved
from support.desk import Desk, gathered, happens
from support.faults import acl_user
from support.servers import Server

SECRET = "s3cret-wörd/@:"
QUOTED = "s3cret-w%C3%B6rd%2F%40%3A"
PARTS = ("s3cret", "w%C3%B6rd", "wörd", "w\\xc3\\xb6rd")


def assert_hidden(*texts: str) -> None:
    """No part of the password is in any text."""
    for text in texts:
        for part in PARTS:
            assert part not in text, text


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """Everything that any logger says, from DEBUG on, with tracebacks."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("asyncio").setLevel(logging.DEBUG)
    yield lambda: "\n".join(logging.Formatter().format(record) for record in caplog.records)
    logging.getLogger("asyncio").setLevel(logging.NOTSET)


WRONG = [
    f"redis://user:{QUOTED}@127.0.0.1:1?deadline_ms=60",
    f"redis://:{QUOTED}@127.0.0.1:1?deadline_ms=60",
    f"redis://127.0.0.1:1?deadline_ms=60&password={QUOTED}",
    f"rediss://user:{QUOTED}@127.0.0.1:1?deadline_ms=60",
    f"redis://user:{QUOTED}@no-such-host.invalid:6379?deadline_ms=60",
    f"unix://user:{QUOTED}@/no/such/socket?deadline_ms=60",
    f"redis://user:{QUOTED}@127.0.0.1:0",
    f"redis://user:{QUOTED}@127.0.0.1:port",
    f"redis://user:{QUOTED}@127.0.0.1/x",
    f"redis://user:{QUOTED}@127.0.0.1?pasword=x",
    f"redis://user:{QUOTED}@127.0.0.1?password={QUOTED}&db=x",
    f"redis:user:{QUOTED}@127.0.0.1",
    f"http://user:{QUOTED}@127.0.0.1",
    f"user:{QUOTED}@127.0.0.1",
    f"redis+sentinel://user:{QUOTED}@127.0.0.1:1/main?deadline_ms=60",
    f"redis+cluster://user:{QUOTED}@127.0.0.1:1?deadline_ms=60",
    f"redis://user:{QUOTED}@127.0.0.1:1#{QUOTED}",
    f"embedded://user:{QUOTED}@host/path",
    f"embedded:path?password={QUOTED}",
]


async def _asked(url: str) -> list[str]:
    """Use a URL in every way and return what there is to read."""
    texts: list[str] = []
    for use in (_queue, _blocking, _events, _worker):
        try:
            texts.extend([text async for text in use(url)])
        except (EchoMQError, OSError) as error:
            texts += [repr(error), "".join(traceback.format_exception(error))]
    return texts


async def _queue(url: str) -> Any:
    queue = Queue("work", url)
    yield repr(queue) + repr(queue._connection)
    async with queue:
        await queue.add("n", None)


async def _blocking(url: str) -> Any:
    queue = echomq.sync.Queue("work", url)
    yield repr(queue) + repr(queue._connection)
    with queue:
        await asyncio.to_thread(queue.count)


async def _events(url: str) -> Any:
    events = QueueEvents("work", url)
    yield repr(events)
    await events.close()


async def _worker(url: str) -> Any:
    async def nothing(_: Job) -> None:
        return None

    worker = Worker("work", nothing, url)
    complaints = gathered(worker, "error", 1, worker.stop)
    yield repr(worker)
    running = asyncio.ensure_future(worker.run())
    yield repr(await happens(complaints))
    await worker.close(0)
    await happens(running)


@pytest.mark.parametrize("url", WRONG)
async def test_no_password_in_any_failure(url: str, logged: Callable[[], str]) -> None:
    """A wrong or unreachable URL is told of in messages, reprs, tracebacks and logs without its password."""
    texts = await _asked(url)

    assert texts
    assert_hidden(*texts, logged())


async def test_no_password_when_it_is_wrong(redis_server: Server, logged: Callable[[], str]) -> None:
    """A server that refuses the password is told of without it."""
    texts = await _asked(redis_server.url.replace("//", f"//nobody:{QUOTED}@"))

    assert any("WRONGPASS" in text or "invalid" in text.lower() for text in texts)
    assert_hidden(*texts, logged())


async def test_no_password_when_it_is_right(redis_server: Server, prefix: str, logged: Callable[[], str]) -> None:
    """What works with a password shows it nowhere either: objects, their parts, errors of calls, DEBUG logs."""
    with acl_user(redis_server, "known", f">{SECRET}", "~*", "+@all", "-rpoplpush"):
        url = redis_server.url.replace("//", f"//known:{QUOTED}@")
        options = resolved(url)
        assert options.password == SECRET
        async with Queue("work", url, prefix=prefix) as queue:
            await queue.add("n", None)
            texts = [repr(options), repr(queue._connection), str(queue._connection), repr(vars(queue))]
        texts += await _asked(f"{url}?deadline_ms=500")

    assert_hidden(*texts, logged())


def test_settings_of_a_connection_are_hidden() -> None:
    """What the client libraries are given has no repr that shows it."""
    settings = ClientSettings(kind="tcp", arguments={"password": SECRET}, options=resolved("redis://localhost"))

    assert_hidden(repr(settings))


@pytest.mark.parametrize(
    "command",
    [("counts", "q"), ("add", "q", "n"), ("doctor",), ("check", "--timeout", "300ms"), ("worker", "no_such_module:w")],
)
@pytest.mark.parametrize("url", WRONG[:1] + WRONG[7:9] + WRONG[12:13])
def test_no_password_on_the_command_line(
    command: tuple[str, ...], url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No command shows the password of its URL, whether that came as an option or from the environment."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    monkeypatch.setenv("ECHOMQ_URL", url)
    for arguments in (command, (*command, "--url", url)):
        with contextlib.suppress(SystemExit):
            assert main(arguments) != 0
    out, error = capfd.readouterr()

    assert error
    assert_hidden(out, error)


async def test_data_of_jobs_are_not_logged(desk: Desk, logged: Callable[[], str]) -> None:
    """Data, results, progress and log rows of jobs appear in no log, at DEBUG neither, also when jobs fail or stall."""
    payload = {"card": "payload-4711"}

    async def work(job: Job, ctx: Any) -> Any:
        await ctx.progress(payload)
        await ctx.log("payload-4711")
        if job.name == "odd":
            return {"payload-4711"}  # no JSON
        if job.attempts_made == 0:
            raise ValueError("no")
        return payload

    await desk.add(payload, attempts=2)
    await desk.add(payload, deduplication={"id": "payload-4711"})
    for name, data in (("a", "{payload-4711"), ("b", "[payload-4711")):
        await desk.do("HSET", desk.keys.job(name), "name", "odd", "data", data, "opts", "{payload-4711")
        await desk.do("LPUSH", desk.keys.wait, name)
    await happens(desk.worker(work).run(until="drained"))
    assert await desk.counts() == {"completed": 1, "failed": 3}

    assert "payload-4711" not in logged()
    assert "payload-4711" not in repr(await desk.job("a")) + repr(await desk.job("1"))
