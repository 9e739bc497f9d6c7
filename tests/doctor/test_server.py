"""What the doctor says about servers: from facts to findings, and on servers that are set up badly."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

import echomq
from echomq import Job, Worker, diagnosis
from echomq.diagnosis import ServerFacts, Severity
from echomq.diagnosis.asking import read_info
from echomq.diagnosis.judging_cluster import judge_cluster
from echomq.diagnosis.judging_server import judge_server
from echomq.diagnosis.nodes import Layout, Master, find_masters
from echomq.diagnosis.rights import needed_commands
from echomq.keys import Keys
from echomq.scripts import get_script, script_names
from echomq.sync import connect
from echomq.sync.run import perform
from support.desk import until
from support.faults import acl_user, rights_of_its_age, set_config
from support.servers import Server, Servers

GOOD = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory_policy": "noeviction",
    "maxmemory": "1000",
    "used_memory": "10",
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "connected_clients": "3",
}
SETTINGS = {"appendfsync": "always", "maxclients": "100", "save": "", "min-replicas-to-write": "0"}


def _codes(**changed: str) -> dict[str, Severity]:
    found = judge_server(ServerFacts(info={**GOOD, **changed}, settings=SETTINGS, refused={}))
    return {finding.code: finding.severity for finding in found if finding.code != "server"}


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, {}),
        ({"maxmemory_policy": "allkeys-lru"}, {"eviction": Severity.ERROR}),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": "0"}, {"eviction": Severity.WARNING}),
        ({"used_memory": "800"}, {"memory": Severity.WARNING}),
        ({"used_memory": "950"}, {"memory": Severity.ERROR}),
        ({"aof_enabled": "0"}, {"no-append-log": Severity.WARNING}),
        ({"aof_last_write_status": "err"}, {"disk": Severity.ERROR}),
        ({"role": "slave"}, {"replica": Severity.ERROR}),
        ({"connected_slaves": "2"}, {"replication-asynchronous": Severity.INFO}),
        ({"redis_version": "5.0.7"}, {"server-too-old": Severity.ERROR}),
        ({"loading": "1"}, {"loading": Severity.ERROR}),
        ({"connected_clients": "99"}, {"clients": Severity.ERROR}),
        ({"server_name": "valkey", "valkey_version": "9.1.0"}, {}),
    ],
)
def test_findings(changed: Mapping[str, str], codes: Mapping[str, Severity]) -> None:
    """Eviction, memory, persistence, replication, age and connections of a server are judged by what INFO tells."""
    assert _codes(**changed) == codes


def _master(port: int, *, replicas: int = 1) -> Master:
    return Master(where=f"10.0.0.1:{port}", near=f"{{{port}}}", slots=((port, port + 1),), replica_count=replicas)


def _told(port: int, **changed: str) -> ServerFacts:
    return ServerFacts(info={**GOOD, **changed}, settings=SETTINGS, refused={}, node=f"10.0.0.1:{port}")


@pytest.mark.parametrize(
    ("layout", "told", "found"),
    [
        (Layout(masters=(_master(1), _master(3)), unserved_count=0), (_told(1), _told(3)), {}),
        (
            Layout(masters=(_master(1), _master(3, replicas=0)), unserved_count=9),
            (_told(1), _told(3)),
            {"slots-unserved": None, "master-without-replica": "10.0.0.1:3"},
        ),
        (
            Layout(masters=(_master(1), _master(3)), unserved_count=0),
            (_told(1), _told(3, redis_version="7.0.1", aof_enabled="0")),
            {"versions-differ": None, "no-append-log": "10.0.0.1:3"},
        ),
        (
            Layout(masters=(_master(1), _master(3)), unserved_count=0),
            (_told(1), ServerFacts(info={}, settings={}, refused={}, node="10.0.0.1:3", silence="no reply")),
            {"master-silent": "10.0.0.1:3"},
        ),
    ],
)
def test_findings_of_a_cluster(layout: Layout, told: tuple[ServerFacts, ...], found: Mapping[str, str | None]) -> None:
    """Masters are judged each by itself and all together, and what concerns one of them names it."""
    findings = judge_cluster(layout, told)

    assert {finding.code: finding.node for finding in findings if finding.code != "server"} == found


@pytest.mark.parametrize(
    ("slots", "masters"),
    [
        ([[0, 9, [b"a", 1, b"id1"], [b"b", 2, b"id2"]], [20, 29, [b"a", 1, b"id1"]]], [("a:1", 20, 0)]),
        ([[0, 9, [None, 1, b"id1"]], [10, 16383, [b"", 1, b"id2"], [b"b", 2]]], [("?:1", 10, 0), ("?:1", 16374, 1)]),
        ([], None),
        ([[0, 9]], None),
        ([[0, b"x", [b"a", 1]]], None),
        (b"nonsense", None),
    ],
)
def test_layout_of_a_cluster(slots: Any, masters: list[tuple[str, int, int]] | None) -> None:
    """Masters are told apart by address and id, each with a key of its own; what is no answer tells of no cluster."""
    plan = find_masters()
    next(plan)
    plan.send([b"cluster_enabled:1\r\n"])
    with pytest.raises(StopIteration) as ended:
        plan.send([slots])
    layout = ended.value.value

    if masters is None:
        assert layout is None
        return
    sizes = [sum(last - first + 1 for first, last in master.slots) for master in layout.masters]
    found = zip(layout.masters, sizes, strict=True)
    assert [(master.where, size, master.replica_count) for master, size in found] == masters
    assert all(master.owns(f"{master.near}:x") for master in layout.masters)
    assert layout.unserved_count == 16_384 - sum(sizes)


def test_nothing_told() -> None:
    """A server that tells nothing gives one warning that says so."""
    found = judge_server(ServerFacts(info={}, settings={}, refused={}))

    assert [finding.code for finding in found] == ["server-untold"]


def test_info_is_read_leniently() -> None:
    """Lines of INFO that are none are passed over."""
    assert read_info(b"# Server\r\na:1\r\nnonsense\r\n:x\r\nb:c:d\r\n\xff\xfe") == {"a": "1", "": "x", "b": "c:d"}


def test_every_command_of_the_scripts_is_tried() -> None:
    """Each command that a script runs is among those whose rights are tried out."""
    tried = {str(command[0]) for command in needed_commands("k")}
    for name in script_names():
        found = set(re.findall(r"redis\.p?call\('([A-Z]+)'", get_script(name).text))
        assert not found - tried, name


def _diagnosed(url: str) -> dict[str, Any]:
    with closing(connect(url)) as connection:
        plan = diagnosis.diagnose_server(Keys("work", "bull"))
        return {finding.code: finding for finding in perform(connection, plan).findings}


def test_server_with_full_rights(server: Server) -> None:
    """On a plain server no right and no command is missing, and nothing is written by trying them out."""
    found = _diagnosed(server.url)

    assert not {"rights-missing", "commands-missing", "server-untold"} & found.keys()
    with closing(server.client()) as client:
        assert client.dbsize() == 0


def test_least_rights_suffice(server: Server) -> None:
    """A user with the least rights that are recommended misses none."""
    rules = (">pw", "~bull:*", "+@read", "+@write", "+@scripting", "+@connection", "+@transaction", "+@blocking")
    with acl_user(server, "least", *rules, "+time", "-@dangerous", "+info", *rights_of_its_age(server)):
        found = _diagnosed(server.url.replace("//", "//least:pw@"))

    assert "rights-missing" not in found


def test_user_who_may_not_ask(server: Server) -> None:
    """A user without the right to INFO gets a diagnosis that says so, and the queue is looked at all the same."""
    with acl_user(server, "blind", ">pw", "~*", "+@all", "-info", "-client", "+client|setname", "-config"):
        url = server.url.replace("//", "//blind:pw@")
        found = _diagnosed(url)
        with closing(connect(url)) as connection:
            queue = perform(connection, diagnosis.diagnose_queue(Keys("work", "bull"), now_ms=1))

    assert {"server-untold", "rights-missing"} <= found.keys()
    assert "0 jobs, workers are not told (CLIENT LIST is refused)." in [one.summary for one in queue.findings]


def test_missing_rights_are_named(server: Server) -> None:
    """Commands that a user may not run are named, with the rules that would allow them."""
    with acl_user(server, "poor", ">pw", "~*", "+@all", "-zpopmin", "-hincrby"):
        found = _diagnosed(server.url.replace("//", "//poor:pw@"))

    assert found["rights-missing"].evidence[0] == "refused: HINCRBY, ZPOPMIN"
    assert "+@write" in found["rights-missing"].advice
    assert "client" not in found["rights-missing"].advice


def test_right_that_old_servers_want_is_named(server: Server) -> None:
    """A user who may not name his connections, as with these rights on Redis 6.2, is given that right too."""
    with acl_user(server, "poor", ">pw", "~*", "+@all", "-client"):
        found = _diagnosed(server.url.replace("//", "//poor:pw@"))

    assert found["rights-missing"].evidence[0] == "refused: CLIENT SETNAME"
    assert "+client|setname" in found["rights-missing"].advice


def test_eviction_is_told(server: Server) -> None:
    """A server that may evict keys is warned of (pain 22)."""
    with set_config(server, **{"maxmemory-policy": "allkeys-lru"}):
        assert _diagnosed(server.url)["eviction"].severity is Severity.WARNING


def test_durable_server(servers: Servers) -> None:
    """A server that writes each change to disk has no finding but what it is."""
    assert _diagnosed(servers.start("redis", aof=True).url).keys() == {"server"}


async def _nothing(_: Job) -> None:
    return None


async def test_worker_warns_of_eviction_once(server: Server, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    """A worker on a server that may evict keys warns once, naming policy and risk, and works on (pain 22)."""
    await echomq.add("work", "n", None, connection=server.url, prefix=prefix)
    with set_config(server, **{"maxmemory-policy": "allkeys-lru"}):
        await _work_until_warned(server.url, prefix, caplog)

    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "maxmemory-policy is allkeys-lru" in warnings[0]
    assert "throws away jobs" in warnings[0]


async def _work_until_warned(url: str, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    async def warned() -> bool:
        return bool(caplog.records)

    worker = Worker("work", _nothing, url, prefix=prefix)
    running = asyncio.ensure_future(worker.run())
    await until(warned)
    await worker.close()
    await running


async def test_worker_that_may_not_ask(server: Server, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    """A worker whose user may not ask for the eviction policy says nothing of it, and works (pain 22)."""
    with acl_user(server, "blind", ">pw", "~*", "+@all", "-info", "-config"):
        url = server.url.replace("//", "//blind:pw@")
        await echomq.add("work", "n", None, connection=url, prefix=prefix)
        await Worker("work", _nothing, url, prefix=prefix).run(until="drained")

    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
