"""Plugins in queues, workers and the command line, on real servers."""

import asyncio
import base64
import contextlib
import logging
import types
from collections.abc import Callable, Generator, Iterator
from typing import Any

import attrs
import pytest
from typer import Typer

import echomq
from echomq import Backoff, FlowNode, Job, Keys, PluginError, WaitForChildren, plugins
from echomq.aio.processing import Processing
from echomq.cli.app import add_commands_of_plugins, app, run
from echomq.hookspecs import hookimpl
from echomq.middleware import Middleware
from support.desk import Desk, at_desk, gathered, happens
from support.limits import DEADLINE_S
from support.servers import Server
from support.shells import SHELLS, Shell


class Hearing:
    """A plugin that implements every hook for jobs and remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    @hookimpl
    def echomq_before_add(self, job: Job) -> Job:
        """Look at a job."""
        return attrs.evolve(job, raw_data='{"by":"plugin"}')

    @hookimpl
    def echomq_job_completed(self, job: Job, result: Any) -> None:
        """Hear of a result."""
        self.heard.append(("completed", (job.id, result)))

    @hookimpl
    async def echomq_job_failed(self, error: BaseException) -> None:
        """Hear of a failure."""
        await asyncio.sleep(0)
        self.heard.append(("failed", str(error)))

    @hookimpl
    def echomq_job_stalled(self, keys: Keys, job_id: str) -> None:
        """Hear of a stalled job."""
        self.heard.append(("stalled", (keys.queue, job_id)))

    @hookimpl
    def echomq_lock_lost(self, keys: Keys, job_id: str) -> None:
        """Hear of a lost lock."""
        self.heard.append(("lock_lost", (keys.queue, job_id)))


class Raising:
    """A plugin that fails wherever it can."""

    @hookimpl
    def echomq_before_add(self, job: Job) -> None:
        """Look at a job."""
        raise ZeroDivisionError(job.name)

    @hookimpl
    def echomq_job_completed(self) -> None:
        """Hear of a result."""
        raise ZeroDivisionError("completed")

    @hookimpl
    async def echomq_job_failed(self) -> None:
        """Hear of a failure."""
        raise ZeroDivisionError("failed")

    @hookimpl
    def echomq_register_middleware(self) -> Middleware:
        """Bring layers."""

        def bad(job: Job) -> Generator[Job, Any, None]:
            yield job
            raise ZeroDivisionError("after")

        return Middleware(around_add=bad, around_processing=bad)

    @hookimpl
    def echomq_register_backoffs(self) -> dict[str, Any]:
        """Bring a backoff type."""

        def bad(*_: Any) -> int:
            raise ZeroDivisionError("backoff")

        return {"bad": bad}


class Waits:
    """A plugin that brings a backoff type and a required layer."""

    def __init__(self) -> None:
        self.order: list[str] = []

    @hookimpl
    def echomq_register_backoffs(self) -> dict[str, Any]:
        """Bring a backoff type."""
        return {"tenfold": lambda attempts_made, *_: 10**attempts_made}

    @hookimpl
    def echomq_register_middleware(self) -> list[Middleware]:
        """Bring layers."""
        return [self._layer("inner", 5), self._layer("outer", -5)]

    def _layer(self, name: str, order: int) -> Middleware:
        def around(job: Job) -> Generator[Job, Any, None]:
            self.order.append(f"{name} in")
            yield job
            self.order.append(f"{name} out")

        return Middleware(around_add=around, around_processing=around, order=order)


Use = Callable[[Any, str], Any]


@pytest.fixture
def use() -> Iterator[Use]:
    """Registers plugins for the length of a test."""
    with contextlib.ExitStack() as stack:

        def register(plugin: Any, name: str) -> Any:
            plugins.register(plugin, name)
            stack.callback(plugins.unregister, name)
            return plugin

        yield register


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> Shell:
    """Each shell in turn."""
    return SHELLS[request.param]


async def test_every_way_to_add(use: Use, shell: Shell, redis_server: Server, prefix: str) -> None:
    """Jobs pass the plugins whichever way they are added, in both shells, and leave them with their ids."""
    use(Hearing(), "hearing")
    waits = use(Waits(), "waits")
    where = {"connection": redis_server.url, "prefix": prefix}
    async with shell.queue("mail", redis_server.url, prefix=prefix) as queue:
        jobs = [
            await queue.add("one"),
            *await queue.add_bulk([("two", 1)]),
            await shell.add("mail", "three", **where),
            *await shell.add_bulk("mail", [("four", 1)], **where),
        ]
        stored = [await queue.get_job(job.id) for job in jobs]

    assert [job.data for job in stored if job] == [{"by": "plugin"}] * 4
    assert waits.order == ["outer in", "inner in", "inner out", "outer out"] * 4


class Secret:
    """A plugin that must not be left out: it hides data on the way in, and shows them to processors."""

    @hookimpl
    def echomq_register_middleware(self) -> Middleware:
        """Bring layers."""
        return Middleware(around_add=self.hide, around_processing=self.show, required=True)

    def hide(self, job: Job) -> Generator[Job, Job, None]:
        """Encode data."""
        yield attrs.evolve(job, raw_data=f'"{base64.b64encode(str(job.raw_data).encode()).decode()}"')

    def show(self, job: Job) -> Generator[Job, Any, Any]:
        """Decode data, encode the result."""
        result = yield attrs.evolve(job, raw_data=base64.b64decode(job.data))
        return f"hidden {result}"


@pytest.mark.parametrize("is_async", [True, False])
async def test_data_in_a_code(use: Use, redis_server: Server, prefix: str, is_async: bool) -> None:
    """Layers can encode what is stored: processors and their ``ctx`` see the plain data, the server never does."""
    use(Secret(), "secret")
    seen = []

    async def awaited(job: Job, ctx: Any) -> None:
        seen.append((job.data, ctx.job.data))
        await ctx.add_child("child", ["c"], queue="other")
        raise WaitForChildren

    def plain(job: Job, ctx: Any) -> None:
        seen.append((job.data, ctx.job.data))
        ctx.add_child("child", ["c"], queue="other")
        raise WaitForChildren

    async with at_desk(redis_server.url, prefix) as desk, echomq.Queue("work", desk.connection, prefix=prefix) as queue:
        job = await queue.add("good", {"to": "ada"})
        await happens(desk.worker(awaited if is_async else plain, drain_delay=100).run("drained"))
        [child] = await echomq.Queue("other", desk.connection, prefix=prefix).get_jobs()
        stored = await desk.job(job.id)

    assert seen == [({"to": "ada"}, {"to": "ada"})]
    assert base64.b64decode(stored.data) == b'{"to":"ada"}'
    assert base64.b64decode(child.data) == b'["c"]'


async def test_flows(use: Use, shell: Shell, redis_server: Server, prefix: str) -> None:
    """The jobs of a flow pass the layers too; a layer that would tear the flow apart is refused, with nothing sent."""
    waits = use(Waits(), "waits")
    use(Hearing(), "hearing")
    tree = FlowNode(queue="work", name="last", children=[FlowNode(queue="other", name="first")])
    producer: Any = shell.flows(redis_server.url, prefix=prefix)
    added = await producer.add(tree)

    assert [job.data for job in added.jobs()] == [{"by": "plugin"}] * 2
    assert waits.order == ["outer in", "inner in"] * 2 + ["inner out", "outer out"] * 2

    class Tearing:
        @hookimpl
        def echomq_before_add(self, job: Job) -> Job:
            return attrs.evolve(job, id="mine")

    use(Tearing(), "tearing")
    with pytest.raises(PluginError, match="changed id or queue"):
        await producer.add(tree)
    await producer.close()
    async with shell.queue("work", redis_server.url, prefix=prefix) as queue:
        [found] = await queue.get_jobs()
    assert found.data == {"by": "plugin"}


async def test_life_of_jobs(use: Use, redis_server: Server, prefix: str) -> None:
    """Plugins hear of results and failures, and their layers stand around the processor in order (pain 41)."""
    hearing, waits = use(Hearing(), "hearing"), use(Waits(), "waits")

    async def work(job: Job) -> str:
        if job.name == "bad":
            raise ValueError("no")
        return "done"

    async with at_desk(redis_server.url, prefix) as desk, echomq.Queue("work", desk.connection, prefix=prefix) as queue:
        good = await queue.add("good")
        await queue.add("bad")
        await happens(desk.worker(work).run("drained"))

    assert hearing.heard == [("completed", (good.id, "done")), ("failed", "no")]
    assert waits.order[8:] == ["outer in", "inner in", "inner out", "outer out", "outer in", "inner in"]


async def test_stalled_and_lost(use: Use, redis_server: Server, prefix: str) -> None:
    """Plugins hear of jobs that lost their lock or their worker, with the queue's keys."""
    hearing = use(Hearing(), "hearing")
    async with at_desk(redis_server.url, prefix) as desk:
        job_id = await desk.add()
        began = asyncio.Event()

        async def work(job: Job) -> None:
            if job.stalled_count == 0 and not began.is_set():
                began.set()
                await desk.do("DEL", desk.keys.lock(job.id))
                await asyncio.sleep(DEADLINE_S)

        async with desk.working(work, lock_duration=1_500, stalled_interval=100) as worker:
            await happens(gathered(worker, "completed", 1))

    assert ("lock_lost", ("work", job_id)) in hearing.heard
    assert ("stalled", ("work", job_id)) in hearing.heard


async def test_raising_plugin(use: Use, redis_server: Server, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    """A plugin that raises everywhere is reported by its name, to the log and to ``error``; no job notices."""
    use(Raising(), "clumsy")
    errors: list[BaseException] = []

    async def work(job: Job) -> str:
        if job.name == "again" and job.attempts_made == 0:
            raise ValueError("once")
        return "done"

    async with at_desk(redis_server.url, prefix) as desk, echomq.Queue("work", desk.connection, prefix=prefix) as queue:
        await queue.add("good")
        again = await queue.add("again", attempts=2, backoff=Backoff("bad", 1))
        worker = desk.worker(work)
        worker.on("error", errors.append)
        with caplog.at_level(logging.ERROR):
            await happens(worker.run("drained"))
        found = await desk.job(again.id)

        assert await desk.counts() == {"completed": 2}
    assert found.stacktrace[0].endswith("ValueError: once\n")
    told = {str(error).partition(" raised")[0] for error in errors if isinstance(error, PluginError)}
    assert told == {
        "plugin 'clumsy': around_processing",
        "plugin 'clumsy': backoff 'bad'",
        "plugin 'clumsy': echomq_job_completed",
        "plugin 'clumsy': echomq_job_failed",
    }
    assert "plugin 'clumsy': echomq_before_add raised ZeroDivisionError('good')" in caplog.text
    assert "plugin 'clumsy': around_add raised" in caplog.text


async def test_backoff(use: Use, desk: Desk) -> None:
    """Jobs may name a backoff type of a plugin; a worker's own of that name wins."""
    use(Waits(), "waits")
    job_id = await desk.add(attempts=3, backoff=Backoff("tenfold"))

    async def work(_: Job) -> None:
        raise ValueError("no")

    async with desk.working(work, backoff_strategies={"other": lambda *_: 0}) as worker:
        await happens(gathered(worker, "failed", 3))
    assert worker.options.backoff_strategies["tenfold"](2, "tenfold", ValueError(), await desk.job(job_id)) == 100
    own = desk.worker(work, backoff_strategies={"tenfold": lambda *_: 0})
    assert own.options.backoff_strategies["tenfold"](2, "tenfold", ValueError(), await desk.job(job_id)) == 0


def test_same_backoff_twice(use: Use) -> None:
    """Two plugins that bring the same backoff type are refused, naming both, and the first stays."""
    use(Waits(), "waits")
    with pytest.raises(PluginError, match=r"'other'.*'waits'|'waits'.*'other'"):
        plugins.register(Waits(), "other")

    assert plugins.installed().names.count("other") == 0
    assert "tenfold" in plugins.extensions().backoff_strategies


def test_asked_once(use: Use) -> None:
    """A plugin is asked once what it brings, however many come after it; later it may come again, and is asked anew."""
    asked = []

    class Asked:
        @hookimpl
        def echomq_register_middleware(self) -> list[Middleware]:
            asked.append("middleware")
            return []

    use(Asked(), "asked")
    use(Waits(), "waits")
    assert asked == ["middleware"]

    plugins.register(Asked(), "again")
    plugins.unregister("again")
    plugins.register(Asked(), "again")
    plugins.unregister("again")
    assert asked == ["middleware"] * 3


def test_nothing_where_there_is_no_plugin(redis_server: Server) -> None:
    """Without plugins for jobs nothing stands around adding and processing, and nobody listens."""
    assert (plugins.extensions().add_layers, plugins.extensions().processing_layers) == ((), ())
    assert list(plugins.extensions().listeners(Keys("work"))) == []
    assert isinstance(echomq.Worker("work", print, redis_server.url)._processing, Processing)


@pytest.mark.parametrize("answer", [None, "layers", [1]])
@pytest.mark.parametrize("hook", ["echomq_register_middleware", "echomq_register_backoffs"])
def test_wrong_answer(hook: str, answer: Any) -> None:
    """A plugin that brings something else than its hook promises is refused, naming it, and leaves no trace."""
    wrong = types.SimpleNamespace(**{hook: hookimpl(lambda: answer)})
    with pytest.raises(PluginError, match=r"plugin 'wrong'"):
        plugins.register(wrong, "wrong")
    assert "wrong" not in plugins.installed().names


def test_misspelt_hook() -> None:
    """A hook that does not exist is refused where the plugin is registered."""

    class Misspelt:
        @hookimpl
        def echomq_job_complete(self) -> None: ...

    with pytest.raises(PluginError, match=r"'mine'.*echomq_job_complete"):
        plugins.register(Misspelt(), "mine")
    with pytest.raises(PluginError, match="no plugin is called 'mine'"):
        plugins.unregister("mine")


def test_commands(use: Use, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A plugin may add commands; one that raises is told by name, and the others stay."""

    class Adding:
        @hookimpl
        def echomq_register_commands(self, app: Typer) -> None:
            app.command("hello")(lambda: print("hello"))

    class Failing:
        @hookimpl
        def echomq_register_commands(self) -> None:
            raise ZeroDivisionError

    use(Failing(), "failing")
    use(Adding(), "adding")
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))
    add_commands_of_plugins.cache_clear()

    assert run(["hello"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "hello\n"
    assert "plugin 'failing': echomq_register_commands raised ZeroDivisionError()" in printed.err


async def test_processors_by_name(desk: Desk) -> None:
    """A worker may have a processor for each name of a job; other names fail, saying which there are."""
    from echomq.calls.query import get_job

    queue = echomq.Queue("work", desk.connection, prefix=desk.keys.prefix)
    one, two, hostile = [await queue.add(name) for name in ("one", "two", "os.system")]

    async def first(_: Job) -> str:
        return "async"

    def second(_: Job, ctx: Any) -> str:
        ctx.log("in a thread")
        return "plain"

    await happens(desk.worker({"one": first, "two": second}).run("drained"))

    assert (await desk.job(one.id)).return_value == "async"
    assert (await desk.job(two.id)).return_value == "plain"
    assert await desk.logs(two.id) == ["in a thread"]
    failed = await desk.connection.send(get_job(desk.keys, hostile.id))
    assert failed is not None
    assert failed.failed_reason == "no processor for jobs called 'os.system'; this worker has: one, two"
