"""Faults of servers and links: each with a queue at work, and an account of it afterwards.

By default each strikes the asyncio worker on Redis; ``nox -s faults`` takes both
drivers and both shells and writes the table of ``docs/guarantees.md``.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from support.faults import set_config
from support.not_run import missing
from support.proxy import proxy_to
from support.servers import Server, ServerProcess

from .trial import DICE, LOCK_S, Trial


async def crash(server: Server, down_s: float = 0.2) -> None:
    """Kill a server, and start it again on the data it has written."""
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(down_s)
    await asyncio.to_thread(server.restart)


async def test_server_killed(trial: Trial) -> None:
    """A server that is killed and comes back has every job, and none of them finishes twice."""
    async with trial.working():
        await trial.go(lambda: crash(trial.server), times=2)
    await trial.account("server killed and restarted")


async def test_server_frozen(trial: Trial) -> None:
    """A server that does nothing for longer than locks live goes on where it was."""

    async def freeze() -> None:
        trial.server.pause()
        await asyncio.sleep(LOCK_S * 1.5)
        trial.server.resume()

    async with trial.working(), trial.working():
        await trial.go(freeze)
    await trial.account("server frozen for longer than a lock lives")


async def test_links_cut_anywhere(trial: Trial) -> None:
    """Links that are cut at random bytes, in the middle of requests and replies, cost no job."""
    with proxy_to(trial.server.host, trial.server.port) as proxy:
        trial.url = f"{trial.driver}://{proxy.host}:{proxy.port}"

        async def cut() -> None:
            for _ in range(15):
                proxy.cut_after(
                    "up" if DICE.random() < 0.5 else "down", DICE.randrange(2_000), reset=DICE.random() < 0.5
                )
                await asyncio.sleep(0.03)
            proxy.cut()

        async with trial.working():
            await trial.go(cut, times=2)
    await trial.account("links cut at random bytes")


async def test_connections_killed_all_the_time(trial: Trial) -> None:
    """CLIENT KILL of all connections every 100 ms stops no work and uses up no attempt (pain 14)."""

    async def kill() -> None:
        with contextlib.closing(trial.server.client()) as client:
            for _ in range(10):
                client.client_kill_filter(_type="normal", skipme=True)
                await asyncio.sleep(0.1)

    async with trial.working():
        await trial.go(kill)
    await trial.account("all connections killed every 100 ms")


async def test_blocking_reads_unblocked(trial: Trial) -> None:
    """CLIENT UNBLOCK ERROR of every blocking read is a passing error, after which the worker waits again."""

    async def unblock() -> None:
        with contextlib.closing(trial.server.client()) as client:
            for _ in range(20):
                for entry in client.client_list():
                    if "b" in entry["flags"]:
                        client.client_unblock(int(entry["id"]), error=True)
                await asyncio.sleep(0.02)

    async with trial.working():
        await trial.go(unblock)
    await trial.account("blocking reads ended by CLIENT UNBLOCK")


async def test_out_of_memory(trial: Trial) -> None:
    """A server that refuses writes for want of memory is waited for, and loses nothing that it acknowledged."""

    async def starve() -> None:
        with set_config(trial.server, maxmemory="1"):
            await asyncio.sleep(0.5)

    async with trial.working():
        await trial.go(starve)
    await trial.account("out of memory, noeviction")


async def test_read_only_replica(trial: Trial) -> None:
    """A server that has become a replica is waited for until it is a master again (pain 15)."""

    async def demote() -> None:
        with contextlib.closing(trial.server.client()) as client:
            client.replicaof("127.0.0.1", str(trial.server.port))
            await asyncio.sleep(0.5)
            client.replicaof("NO", "ONE")

    async with trial.working():
        await trial.go(demote)
    await trial.account("server is a read-only replica")


async def test_busy_script(trial: Trial) -> None:
    """While somebody's script keeps the server busy, workers wait, and go on when it is killed."""

    def loop_for_ever() -> None:
        with contextlib.closing(trial.server.client()) as client, contextlib.suppress(redis.ResponseError):
            client.eval("while true do end", 0)

    async def keep_busy() -> None:
        thread = threading.Thread(target=loop_for_ever)
        thread.start()
        await asyncio.sleep(0.5)
        with contextlib.closing(trial.server.client()) as client:
            while thread.is_alive():
                with contextlib.suppress(redis.ResponseError):  # its script has not begun yet, or has just ended
                    client.script_kill()
                await asyncio.sleep(0.05)

    with set_config(trial.server, **{"lua-time-limit": "20"}):
        async with trial.working():
            await trial.go(keep_busy)
    await trial.account("busy with a script of somebody else")


async def test_server_that_loads(trial: Trial) -> None:
    """A server that is loading its data is waited for (pain 11)."""
    engine = trial.server.engine
    assert isinstance(engine, ServerProcess)
    # Microseconds a key: enough to be seen.
    engine.args = (*engine.args, "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    with contextlib.closing(trial.server.client()) as client:
        client.mset({f"ballast{number}": number for number in range(30)})
    async with trial.working():
        await trial.go(lambda: crash(trial.server, 0))
    await trial.account("server loads its data")


async def test_address_changes(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a name leads to another address, workers and producers that know the name follow (pain 15)."""
    engine, look_up = trial.server.engine, socket.getaddrinfo
    assert isinstance(engine, ServerProcess)
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.2", 0))
    except OSError as error:
        missing("a second loopback address", str(error), required=False)
    address = [trial.server.host]

    def answer(host: Any, *args: Any, **kwargs: Any) -> Any:
        return look_up(address[0] if host == "queues.example" else host, *args, **kwargs)

    async def move() -> None:
        await asyncio.to_thread(trial.server.kill)
        address[0] = engine.host = "127.0.0.1" if engine.host == "127.0.0.2" else "127.0.0.2"
        await asyncio.to_thread(trial.server.restart)
        trial.watch(trial.server.url)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    trial.url = f"{trial.driver}://queues.example:{trial.server.port}"
    async with trial.working():
        await trial.go(move)
    await trial.account("DNS: the name leads to another address")


async def test_full_disk(trial: Trial) -> None:
    """A server whose disk is full stops, and has every acknowledged job when there is room again."""
    engine = trial.server.engine
    assert isinstance(engine, ServerProcess)
    await asyncio.to_thread(trial.server.stop)
    with small_disk(engine.folder, 6) as disk:
        await asyncio.to_thread(trial.server.restart)
        ballast = disk / "ballast"

        async def fill() -> None:
            free = shutil.disk_usage(disk).free
            ballast.write_bytes(bytes(max(free - 20_000, 0)))
            process = engine._process
            assert process is not None
            deadline = time.monotonic() + 20
            while process.poll() is None:
                assert time.monotonic() < deadline, "the server goes on without a disk"
                await asyncio.sleep(0.05)
            ballast.unlink()
            await crash(trial.server, 0)

        async with trial.working():
            await trial.go(fill)
        await trial.account("disk of the append-only file full")
        await asyncio.to_thread(trial.server.stop)


@contextlib.contextmanager
def small_disk(at: Path, size_mb: int) -> Iterator[Path]:
    """A file system of a few MB, for the length of a ``with`` block; only root can make one."""
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        missing("a full disk", "only root can mount a small file system", required=False)
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(at)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        missing("a full disk", done.stderr.strip(), required=False)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)
