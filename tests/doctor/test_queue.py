"""The doctor looks at damaged queues, says what is wrong, and repairs what can be repaired while workers run."""

import random
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from differential.search import _moves
from differential.steps import Call
from differential.world import QUEUES, World
from doctor.conftest import Doctor
from echomq import diagnosis, sync
from echomq.diagnosis import Severity
from echomq.keys import Keys
from echomq.scripts import get_script
from echomq.sync import Queue
from echomq.sync.run import perform
from scripts.invariants import faults
from support.servers import Server
from support.shells import SHELLS, Shell
from vectors.keyspace import RawClient, dump

OLD_MS = 1_600_000_000_000


def add(doctor: Doctor, **options: Any) -> str:
    """Add a job and return its id."""
    return sync.add("work", "n", None, connection=doctor.connection, prefix=doctor.keys.prefix, **options).id


def _parent(doctor: Doctor, *children: str) -> None:
    client, stored = doctor.stored.client, doctor.stored
    client.hset(stored.key("p"), mapping={"name": "n", "data": "{}", "opts": "{}"})
    client.zadd(stored.key("waiting-children"), {"p": OLD_MS})
    if children:
        client.sadd(stored.key("p:dependencies"), *(stored.key(child) for child in children))


def _failed_child(doctor: Doctor) -> None:
    child = add(doctor)
    doctor.stored.finish(child, "failed", OLD_MS)
    _parent(doctor, child)


DAMAGE: dict[str, Callable[[Doctor], Any]] = {
    "active-without-lock": lambda d: d.stored.activate(add(d)),
    "lock-without-active-job": lambda d: d.stored.client.set(d.stored.key(f"{add(d)}:lock"), "t"),
    "id-without-job": lambda d: d.stored.client.zadd(d.stored.key("completed"), {"ghost": OLD_MS}),
    "in-two-places": lambda d: d.stored.client.zadd(d.stored.key("failed"), {add(d): OLD_MS}),
    "nowhere": lambda d: d.stored.client.hset(d.stored.key("lost"), "name", "n"),
    "stuck-parent": _parent,
    "parent-of-failed": _failed_child,
    "stray-deduplication": lambda d: d.stored.client.set(d.stored.key("de:x"), "gone"),
    "stopped-scheduler": lambda d: d.stored.client.zadd(d.stored.key("repeat"), {"s": OLD_MS}),
    "event-log": lambda d: [
        d.stored.client.hset(d.stored.key("meta"), "opts.maxLenEvents", 10),
        [d.stored.client.xadd(d.stored.key("events"), {"event": "x"}) for _ in range(300)],
    ],
    "legacy-paused": lambda d: d.stored.client.rename(d.stored.key("wait"), d.stored.key("paused")) if add(d) else None,
    "legacy-markers": lambda d: d.stored.client.rpush(d.stored.key("wait"), "0:0"),
    "overdue": lambda d: d.stored.client.zadd(d.stored.key("delayed"), {add(d, delay=60_000): OLD_MS * 4096}),
    "no-worker": add,
    "settings": lambda d: d.stored.client.hset(d.stored.key("meta"), "concurrency", "many"),
    "limit-without-duration": lambda d: d.stored.client.hset(d.stored.key("meta"), "max", 1),
    "paused": lambda d: d.stored.client.hset(d.stored.key("meta"), "paused", 1),
    "unreadable": lambda d: d.stored.client.set(d.stored.key("wait"), "x"),
}
"""Code of a finding -> what brings it about."""

REPAIRED = {
    *("lock-without-active-job", "id-without-job", "stuck-parent", "stray-deduplication"),
    *("event-log", "legacy-paused"),
}


def test_sound_queue(doctor: Doctor) -> None:
    """A queue without damage gives no error and no warning but that nobody works, and nothing is written."""
    with closing(Queue("work", doctor.connection, prefix=doctor.keys.prefix)) as queue:
        queue.add("a")
        queue.add("b", priority=3, deduplication="d")
        queue.add("c", delay=60_000)
        queue.upsert_job_scheduler("s", every=60_000)
    before = doctor.stored.left()

    found = doctor.look()

    assert {finding.code for finding in found.findings} == {"no-worker", "queue"}
    assert not found.repairs
    assert found.looked_at == ("work: looked at 4 of 4 ids",)
    assert doctor.stored.left() == before


def test_queue_that_was_never_used(doctor: Doctor) -> None:
    """A name that nothing is stored of is told, since it may be mistyped; used once, it is not."""
    assert doctor.found("no-queue") is not None

    add(doctor)

    assert doctor.found("no-queue") is None


@pytest.mark.parametrize("code", DAMAGE)
def test_damage_is_told(doctor: Doctor, code: str) -> None:
    """Each kind of damage is told by name, with what was seen, what comes of it and what to do (pain 48)."""
    assert doctor.found(code) is None

    DAMAGE[code](doctor)
    finding = doctor.found(code)

    assert finding is not None
    assert finding.summary.endswith(".")
    assert finding.advice
    assert finding.consequence
    assert finding.queue == "work"
    assert (finding.repair is not None) == (code in REPAIRED)


@pytest.mark.parametrize("code", sorted(REPAIRED))
def test_repair(doctor: Doctor, code: str) -> None:
    """What can be repaired is right afterwards, once, and a second repair finds nothing to do."""
    DAMAGE[code](doctor)
    finding = doctor.found(code)
    assert finding is not None
    assert finding.repair is not None

    assert perform(doctor.connection, diagnosis.repair(finding.repair)) > 0
    assert doctor.found(code) is None
    assert perform(doctor.connection, diagnosis.repair(finding.repair)) == 0


def test_released_parent_runs(doctor: Doctor) -> None:
    """A parent whose only child is gone waits to run after the repair, while one with a living child stays."""
    _parent(doctor, "gone")
    living = add(doctor)
    doctor.stored.client.hset(doctor.stored.key("q"), mapping={"name": "n", "data": "{}", "opts": "{}"})
    doctor.stored.client.zadd(doctor.stored.key("waiting-children"), {"q": OLD_MS})
    doctor.stored.client.sadd(doctor.stored.key("q:dependencies"), doctor.stored.key(living))

    assert doctor.repair("stuck-parent") == 1

    assert doctor.stored.ids("wait") == [living, "p"]
    assert doctor.stored.ids("waiting-children") == ["q"]


def test_repair_looks_again(doctor: Doctor) -> None:
    """What has come right since the diagnosis is left alone: each repair looks again before it writes."""
    client, stored = doctor.stored.client, doctor.stored
    _parent(doctor, "child")
    client.zadd(stored.key("completed"), {"ghost": OLD_MS})
    client.set(stored.key("de:x"), "owner")
    client.set(stored.key("locked:lock"), "t")
    plans = [diagnosis.repair(repair) for repair in doctor.look().repairs]
    assert len(plans) == 4
    for job_id in ("child", "ghost", "owner", "locked"):
        client.hset(stored.key(job_id), "name", "n")
    client.lpush(stored.key("wait"), "child", "owner")
    client.lpush(stored.key("active"), "locked")
    before = doctor.stored.left()

    assert [perform(doctor.connection, plan) for plan in plans] == [0, 0, 0, 0]
    assert doctor.stored.left() == before


def test_busy_queue_gives_no_false_alarm(server: Server, raw_client: RawClient) -> None:
    """Whatever sequence of calls a queue has been through, the doctor finds no damage that is not there."""
    odd = {"in-two-places", "nowhere", "stuck-parent", "id-without-job", "lock-without-active-job", "unreadable"}
    sound = 0
    with closing(sync.connect(server.url)) as connection:
        for seed in range(12):
            raw_client.send("FLUSHDB")
            world = World(random.Random(seed))
            for _ in range(25):
                world.state = dump(raw_client)
                for step in _moves(world):
                    if isinstance(step, Call) and not step.faulty:
                        raw_client.run(get_script(step.script).text, step.keys, step.raw_args())
            if faults(dump(raw_client)):  # it holds what only a faulty client leaves
                continue
            sound += 1
            for queue in QUEUES:
                prefix, _, name = queue.rpartition(":")
                plan = diagnosis.diagnose_queue(Keys(name, prefix), now_ms=time.time_ns() // 1_000_000)
                assert not {finding.code for finding in perform(connection, plan).findings} & odd, (seed, queue)
    assert sound > 5


def test_bounded_cost(doctor: Doctor) -> None:
    """A large queue costs no more than the budget allows, and the doctor says how much it left out."""
    client, stored = doctor.stored.client, doctor.stored
    pipe = client.pipeline(transaction=False)
    for start in range(0, 30_000, 5_000):
        ids = [str(number) for number in range(start, start + 5_000)]
        pipe.lpush(stored.key("wait"), *ids)
        pipe.zadd(stored.key("completed"), {f"c{job_id}": OLD_MS for job_id in ids})
    pipe.execute()
    client.config_resetstat()

    found = doctor.look(budget=1_000)

    calls = client.info("stats")["total_commands_processed"]
    assert calls < 4_000
    assert found.looked_at[0] == "work: looked at 1,000 of 60,000 ids; a larger budget sees more"
    assert found.worst is Severity.WARNING


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS)
async def test_from_python(shell: Shell, server: Server, doctor: Doctor) -> None:
    """A queue diagnoses itself and its server, and repairs what a finding offers."""
    doctor.stored.client.set(doctor.stored.key("de:x"), "gone")
    async with shell.queue("work", server.url, prefix=doctor.keys.prefix) as queue:
        found = await queue.diagnose()
        repairs = [await queue.repair(wanted) for wanted in found.repairs]
        again = await queue.diagnose(budget=10)

    assert {"server", "queue", "stray-deduplication"} <= {finding.code for finding in found.findings}
    assert repairs == [1]
    assert not again.repairs
