"""What only the blocking connection must stand: threads, and forked processes."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from echomq import plugins
from echomq.address import parse_url
from echomq.call import Batch
from echomq.driver import Connection
from echomq.errors import ConnectionClosed, ConnectionLost
from echomq.sync.link import Link
from support.faults import wait_for_blocked
from support.limits import AT_ONCE_S, DEADLINE_S, at_once
from support.proxy import Proxy
from support.requests import command, run
from support.servers import Server, free_port


@pytest.fixture
def link(driver: str, redis_server: Server) -> Iterator[Connection]:
    """A blocking connection to Redis."""
    with contextlib.closing(plugins.connect(redis_server.url, driver=driver)) as link:
        yield link


def test_threads_share(link: Connection, prefix: str, counting: str) -> None:
    """Threads that share a connection each get their own replies."""

    def work(n: int) -> None:
        for turn in range(50):
            text = f"{n}:{turn}".encode()
            assert text == link.send(command("ECHO", text))
            batch = Batch(requests=(command("ECHO", text), run(counting, prefix, args=(1,))), atomic=turn % 2 == 0)
            assert text == link.send_batch(batch)[0]

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert link.send(command("GET", prefix)) == b"400"


def test_turn_within_the_deadline(link: Connection, prefix: str) -> None:
    """A thread whose turn does not come within its deadline fails, and its request certainly has not run."""
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(link.send, command("BLPOP", prefix, 30, block_ms=30_000))
        while not link._turn.is_used:  # type: ignore[attr-defined]  # of our own class, not of the contract
            time.sleep(0.001)
        with pytest.raises(ConnectionLost) as caught:
            link.send(command("SET", prefix, 1), deadline_ms=50)
        assert not caught.value.may_have_run
        link.close()
        with pytest.raises(ConnectionClosed):
            reading.result()


def test_posted_behind_a_silent_server(driver: str, redis_server: Server, prefix: str, counting: str) -> None:
    """What is posted behind a request that a frozen server does not answer is done, and shifts nobody's reply."""
    with contextlib.closing(plugins.connect(redis_server.url, driver=driver)) as link, ThreadPoolExecutor(1) as threads:
        last = Batch(requests=(run(counting, prefix, args=(1,)), command("INCRBY", prefix, 10)))
        assert link.send(command("PING")) == b"PONG"
        assert isinstance(link, Link)
        assert not link.post(last)  # nothing is waited for

        redis_server.pause()
        waiting = threads.submit(link.send, command("INCR", prefix))
        while not link.post(last):
            time.sleep(0.001)
        redis_server.resume()

        assert waiting.result() == 1
        assert link.send(command("GET", prefix)) == b"12"


def test_close_from_another_thread(driver: str, redis_server: Server, prefix: str) -> None:
    """A blocking read ends at once when another thread closes the connection."""
    reader = plugins.connect(redis_server.url, driver=driver).dedicated(name=prefix)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(reader.send, command("BLPOP", prefix, 30, block_ms=30_000))
        wait_for_blocked(redis_server, prefix)
        with at_once():
            reader.close()
            with pytest.raises(ConnectionClosed):
                reading.result(10)


def test_close_while_connecting(driver: str, proxy: Proxy) -> None:
    """Closing does not wait for an attempt to connect."""
    proxy.hold("down")
    options = attrs.evolve(parse_url(proxy.url), password="x", connect_timeout_ms=3_000, deadline_ms=60_000)
    link = plugins.connect(options, driver=driver)
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(link.send, command("PING"))
        while not proxy.accepted:
            time.sleep(0.001)
        with at_once(2):
            link.close()
        with pytest.raises(ConnectionClosed):
            sending.result(DEADLINE_S)


def test_close_while_pausing(driver: str) -> None:
    """Closing ends the pause between two attempts."""
    options = attrs.evolve(
        parse_url(f"redis://127.0.0.1:{free_port()}"), reconnect_min_ms=20_000, reconnect_max_ms=20_000
    )
    link = plugins.connect(options, driver=driver)
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(link.send, command("PING"), deadline_ms=60_000)
        while not link._attempts.failures:  # type: ignore[attr-defined]  # of our own class, not of the contract
            time.sleep(0.001)
        link.close()
        with pytest.raises(ConnectionClosed):
            sending.result(AT_ONCE_S)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork(link: Connection) -> None:
    """A forked child dials anew and leaves the parent's link alone, even one that is in use."""
    before = link.send(command("CLIENT", "ID"))
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(link.send, command("BLPOP", "nothing", 0.3, block_ms=300))
        while not link._turn.is_used:  # type: ignore[attr-defined]  # of our own class, not of the contract
            time.sleep(0.001)
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                code = 0 if link.send(command("CLIENT", "ID")) != before else 2
                link.close()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert slow.result(DEADLINE_S) is None
    assert before == link.send(command("CLIENT", "ID"))


def test_interrupted_read(link: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is interrupted leaves no reply behind for the next one."""

    class Interrupted(BaseException):
        pass

    link.send(command("PING"))
    opened = link._open  # type: ignore[attr-defined]  # of our own class, not of the contract

    def interrupt() -> None:
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(opened, "parser", type("Parser", (), {"feed": lambda *_: interrupt()})())
        with pytest.raises(Interrupted):
            link.send(command("ECHO", "lost"))

    assert link.send(command("ECHO", "mine")) == b"mine"


def test_threads_survive_cuts(driver: str, proxy: Proxy, prefix: str) -> None:
    """While links break, threads get their own replies or an error, and nothing runs twice unseen."""
    options = attrs.evolve(parse_url(proxy.url), reconnect_min_ms=1, reconnect_max_ms=5)
    link = plugins.connect(options, driver=driver)
    done, unsure = threading.Semaphore(0), threading.Semaphore(0)

    def work(_: int) -> None:
        for _turn in range(40):
            try:
                link.send(command("INCR", prefix))
                done.release()
            except ConnectionLost as error:
                if error.may_have_run:
                    unsure.release()

    with contextlib.closing(link), ThreadPoolExecutor(4) as threads:
        working = [threads.submit(work, n) for n in range(4)]
        while not all(future.done() for future in working):
            proxy.cut()
            time.sleep(0.003)
        count = int(link.send(command("GET", prefix, repeatable=True)) or 0)

    assert done._value <= count <= done._value + unsure._value
