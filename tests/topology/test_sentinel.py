"""Queues on a master that sentinels watch, of Redis and of Valkey, by each driver and shell."""

import asyncio
import contextlib
import importlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import echomq
from echomq import Queue, Worker
from echomq.driver import Address, ConnectionOptions, SentinelOptions, TLSOptions
from echomq.errors import ConnectionLost, ServerNotReady, ServerRefused
from support.clusters import ask, wait_for
from support.desk import happens, until
from support.limits import AT_ONCE_S
from support.sentinels import SERVICE, Watched, start_lone_sentinel
from support.servers import Server, free_port, needed_file
from support.shells import Shell
from support.tls import Certificates, make_certificates, start_tls_server

from .conftest import EACH
from .load import under_load
from .test_rights import PASSWORD, documented, whole_session

SCHEMES = ["redis+sentinel", "valkey+sentinel"]


async def nothing(_: object) -> str:
    """Process a job."""
    return "done"


@pytest.mark.parametrize("protocol", [2, 3])
async def test_whole_session(watched: Watched, driver: str, shell: Shell, prefix: str, protocol: int) -> None:
    """A queue whose master sentinels name adds, runs and waits for jobs in the database of the URL (pain 24)."""
    url = watched.url(f"{driver}+sentinel", db=3, protocol=protocol)
    async with (
        shell.queue("mail", url, prefix=prefix) as queue,
        Worker("mail", nothing, url, prefix=prefix) as worker,
    ):
        job = await queue.add("one", {"to": "ada"})
        running = asyncio.ensure_future(worker.run(until="drained"))
        assert await queue.result(job.id, timeout=60_000) == "done"
        await running
    with contextlib.closing(watched.client(db=3)) as client:
        assert client.exists(f"{prefix}:mail:{job.id}")


async def test_one_sentinel_is_enough(watched: Watched, driver: str, shell: Shell, prefix: str) -> None:
    """Of several sentinels one must answer; the others may be gone."""
    alive = watched.sentinels[2]
    url = f"{driver}+sentinel://127.0.0.1:{free_port()},{alive.host}:{alive.port}/{SERVICE}"
    async with shell.queue("mail", url, prefix=prefix) as queue:
        await queue.add("one")


async def test_no_sentinel_answers(driver: str, shell: Shell) -> None:
    """If no sentinel answers until the deadline, the error names master and sentinels, and why."""
    port = free_port()
    async with shell.queue("mail", f"{driver}+sentinel://127.0.0.1:{port}/mq?deadline_ms=200") as queue:
        with pytest.raises(ConnectionLost, match=rf"master 'mq' of the sentinels 127.0.0.1:{port}.*connection refused"):
            await queue.add("one")


async def test_unknown_master(watched: Watched, driver: str, shell: Shell) -> None:
    """A name that no sentinel knows is told, with advice."""
    url = watched.url(f"{driver}+sentinel", deadline_ms=200).replace(f"/{SERVICE}/", "/other/")
    async with shell.queue("mail", url) as queue:
        with pytest.raises(ConnectionLost, match="know no master of that name; check the name 'other'"):
            await queue.add("one")


@pytest.mark.parametrize("module", ["redis.sentinel", "redis.asyncio.sentinel", "valkey.sentinel"])
async def test_ready_client(watched: Watched, module: str, shell: Shell, prefix: str) -> None:
    """A ready client made by ``master_for`` serves both shells; it is only read."""
    places = [(sentinel.host, sentinel.port) for sentinel in watched.sentinels]
    client: Any = importlib.import_module(module).Sentinel(places).master_for(SERVICE, db=2, decode_responses=True)
    async with shell.queue("mail", client, prefix=prefix) as queue:
        job = await queue.add("one")
    with contextlib.closing(watched.client(db=2)) as plain:
        assert plain.exists(f"{prefix}:mail:{job.id}")


@pytest.mark.heavy
async def test_switch_of_masters(watched: Watched, prefix: str) -> None:
    """When master and replica change places, both alive, every connection goes over to the new master (pain 15)."""
    old = watched.master()

    def switch() -> None:
        ask(watched.sentinels[0], "SENTINEL", "FAILOVER", SERVICE)
        # Until the sentinels demote it, some ten seconds later, the old master takes writes that will be lost.
        wait_for(lambda: ask(old, "ROLE")[0] == "slave", "the old master was demoted")

    load = await under_load([watched.url(scheme) for scheme in SCHEMES], prefix, switch, loses=True)

    assert load.longest_gap_s < 30


async def test_failover_under_load(watched: Watched, prefix: str, record_property: Any) -> None:
    """The death of the master of a queue at work loses no acknowledged job; nothing is restarted by hand (pain 15)."""
    urls = [watched.url(scheme) for scheme in SCHEMES]
    load = await under_load(urls, prefix, lambda: watched.kill(watched.master()), watched.heal)
    record_property("longest_gap_s", load.longest_gap_s)
    load.account("master killed, replica takes over", "three sentinels")

    assert load.longest_gap_s < 30


@pytest.mark.heavy
async def test_frozen_master(watched: Watched, driver: str, shell: Shell, prefix: str) -> None:
    """A master that hangs, its links open, is given up after the deadline; then its heir is found (pain 15)."""
    async with shell.queue("mail", watched.url(f"{driver}+sentinel", deadline_ms=1_000), prefix=prefix) as queue:
        await queue.add("one")
        await asyncio.to_thread(watched.cut_off, watched.master())
        for _ in range(20):
            with contextlib.suppress(ConnectionLost, ServerNotReady):
                await queue.add("two", job_id="two")
                break
        assert await queue.count() == 2


async def test_address_of_a_replica(server: Server, driver: str, shell: Shell, prefix: str) -> None:
    """A server that sentinels name and that is no master is not written to; it is asked again until it is one."""
    watch = (
        f"sentinel monitor {SERVICE} {server.host} {server.port} 1\nsentinel down-after-milliseconds {SERVICE} 60000"
    )
    lone = start_lone_sentinel(needed_file(server.name), watch)
    with contextlib.closing(lone) as sentinel, contextlib.closing(server.client()) as client:
        client.replicaof("127.0.0.1", str(free_port()))
        try:
            url = f"{driver}+sentinel://{sentinel.host}:{sentinel.port}/{SERVICE}"
            async with shell.queue("mail", f"{url}?deadline_ms=200", prefix=prefix) as queue:
                with pytest.raises(ConnectionLost, match="which the sentinels name, is a replica"):
                    await queue.add("one")
            async with shell.queue("mail", url, prefix=prefix) as queue:
                adding = asyncio.ensure_future(queue.add("one"))
                await asyncio.sleep(0.1)
                assert not adding.done()
                client.replicaof("NO", "ONE")
                await adding
        finally:
            client.replicaof("NO", "ONE")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files for TLS."""
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=EACH)
def secured(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[tuple[str, int]]:
    """Host and port of a sentinel that wants TLS and its own user, as does its master; each with the least rights."""
    engine, port = start_tls_server(certificates, "--user", "jobs", *documented("t*"), name=request.param)
    tls_port = free_port()
    files = (
        f"tls-cert-file {certificates.server}\ntls-key-file {certificates.server_key}\n"
        f"tls-ca-cert-file {certificates.ca}\ntls-auth-clients yes\ntls-replication yes\ntls-port {tls_port}\n"
    )
    watch = f"sentinel monitor {SERVICE} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {SERVICE} 60000\n"
    user = "user finder on >pw-of-sentinel ~* &* -@all +@connection +sentinel|get-master-addr-by-name\n"
    sentinel = start_lone_sentinel(engine.file, f"{watch}{files}{user}")
    yield sentinel.host, tls_port
    sentinel.close()
    engine.close()


async def test_tls_and_users(
    secured: tuple[str, int], certificates: Certificates, driver: str, shell: Shell, prefix: str
) -> None:
    """Sentinels and master may each have TLS, a user of least rights and a password of their own (pain 24)."""
    host, port = secured
    own = "sentinel_username=finder&sentinel_password=pw-of-sentinel"
    scheme = {"redis": "rediss", "valkey": "valkeys"}[driver]
    url = f"{scheme}+sentinel://jobs:{PASSWORD}@{host}:{port}/{SERVICE}?{own}&{certificates.of_client()}"
    await whole_session(url, shell, prefix)


async def test_tls_options(
    secured: tuple[str, int], certificates: Certificates, driver: str, shell: Shell, prefix: str
) -> None:
    """Options say the same as a URL (pain 24)."""
    tls = TLSOptions(
        ca_file=str(certificates.ca), cert_file=str(certificates.client), key_file=str(certificates.client_key)
    )
    sentinel = SentinelOptions(
        service=SERVICE, addresses=(secured,), username="finder", password="pw-of-sentinel", tls=tls
    )
    options = ConnectionOptions(scheme=driver, username="jobs", password=PASSWORD, tls=tls, sentinel=sentinel, db=1)
    assert sentinel.addresses == (Address(*secured),)
    async with shell.queue("mail", options, prefix=prefix) as queue:
        await queue.add("one")


@contextlib.contextmanager
def curt_sentinel(server: Server, certificates: Certificates) -> Iterator[tuple[int, threading.Event]]:
    """Port of a sentinel that speaks TLS, answers one question, and never says goodbye; an event tells that we left."""
    context, gone = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), threading.Event()
    context.load_cert_chain(certificates.server, certificates.server_key)
    port = str(server.port)
    master = f"*2\r\n${len(server.host)}\r\n{server.host}\r\n${len(port)}\r\n{port}\r\n".encode()

    def serve(listener: socket.socket) -> None:
        with context.wrap_socket(listener.accept()[0], server_side=True) as link:
            answered = False
            while not answered and (requests := link.recv(65_536)):
                answered = b"GET-MASTER-ADDR-BY-NAME" in requests
                link.sendall(b"+OK\r\n" * (requests.count(b"*") - answered) + master * answered)
            with contextlib.suppress(ConnectionResetError):
                while os.read(link.fileno(), 65_536):  # beneath TLS, whose goodbye is so not answered
                    pass
        gone.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,), daemon=True)
        serving.start()
        yield listener.getsockname()[1], gone
        serving.join(10)


async def test_sentinel_is_left_at_once(
    server: Server, certificates: Certificates, driver: str, shell: Shell, prefix: str
) -> None:
    """A sentinel that has told over TLS where the master is costs no connection any more, even if it hangs then."""
    tls = TLSOptions(ca_file=str(certificates.ca))
    with curt_sentinel(server, certificates) as (port, gone):
        sentinel = SentinelOptions(service=SERVICE, addresses=[("127.0.0.1", port)], tls=tls)
        options = ConnectionOptions(scheme=driver, sentinel=sentinel, protocol=2)
        async with shell.queue("mail", options, prefix=prefix) as queue:
            await queue.add("one")
            assert await asyncio.to_thread(gone.wait, 10)


async def test_sentinel_refuses(
    secured: tuple[str, int], certificates: Certificates, driver: str, shell: Shell
) -> None:
    """A wrong password at the sentinels is told at once, and no password is shown."""
    host, port = secured
    scheme = {"redis": "rediss", "valkey": "valkeys"}[driver]
    own = "sentinel_username=finder&sentinel_password=wrong-secret"
    url = f"{scheme}+sentinel://{host}:{port}/{SERVICE}?{own}&{certificates.of_client()}"
    async with shell.queue("mail", url) as queue:
        with pytest.raises(ServerRefused, match="no sentinel tells where master 'mq'") as caught:
            await happens(queue.add("one"), AT_ONCE_S)
    assert "wrong-secret" not in str(caught.value)


@pytest.mark.heavy
async def test_worker_goes_over(watched: Watched, driver: str, prefix: str) -> None:
    """An idle worker, in its blocking read, finds the new master by itself, and is listed there (pain 15)."""
    url = watched.url(f"{driver}+sentinel")
    done = asyncio.Event()

    async def work(_: object) -> None:
        done.set()

    async with Queue("mail", url, prefix=prefix) as queue, Worker("mail", work, url, prefix=prefix) as worker:
        running = asyncio.ensure_future(worker.run())
        await asyncio.to_thread(watched.kill, watched.master())
        while True:
            with contextlib.suppress(echomq.ConnectionLost, ServerNotReady):
                await queue.add("one", job_id="one")
                break
        await happens(done.wait())

        async def is_listed() -> bool:
            return len(await queue.get_workers()) == 1

        await until(is_listed)
        await worker.close()
        await running
