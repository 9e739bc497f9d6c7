"""Adding many jobs with our own script leaves what adding them one by one with the contract's scripts leaves."""

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
import redis

from echomq import Backoff, Job, Keys
from echomq.call import ScriptCall
from echomq.calls.add import add_job, add_jobs, add_portion, portions
from echomq.options import job_options
from echomq.scripts import get_script
from vectors.keyspace import Keyspace, RawClient, dump, load

KEYS = Keys("mail")
NOW = 1_700_000_000_000
EPISODES = 25


def _send(client: RawClient, call: ScriptCall[Any]) -> Any:
    reply = client.run(get_script(call.script).text, call.keys, [_raw(arg) for arg in call.args])
    if isinstance(reply, redis.ResponseError):
        raise reply
    return call.decode(reply)


def _raw(arg: object) -> bytes:
    return arg if isinstance(arg, bytes) else str(arg).encode()


def _one_by_one(client: RawClient, jobs: Iterable[Job]) -> list[str]:
    return [_send(client, add_job(job)) for job in jobs]


def _together(client: RawClient, jobs: Iterable[Job], most: int = 1_000) -> list[str]:
    return [job_id for portion in portions(jobs, most) for job_id in _send(client, add_portion(portion))]


def _options(dice: random.Random) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if dice.random() < 0.5:
        given["delay"] = dice.choice([1, 1, 500, 2**40])
    if dice.random() < 0.4:
        given["priority"] = dice.choice([1, 5, 2**21 - 1])
    if dice.random() < 0.3:
        given["lifo"] = True
    if dice.random() < 0.3:
        given |= {"attempts": dice.randrange(5), "backoff": Backoff("exponential", 1_000, 0.5)}
    if dice.random() < 0.2:
        given["timestamp"] = NOW + dice.randrange(3)
    if dice.random() < 0.2:
        given |= {"keep_logs": 5, "remove_on_complete": {"age_s": 60}, "extra": {"ours": [1, {"x": None}]}}
    return given


def _jobs(dice: random.Random) -> list[Job]:
    """Jobs as a program makes them: runs of the same kind, and all mixed up."""
    kinds = [(dice.choice(["send", "grüße", "a b"]), _options(dice)) for _ in range(dice.choice([1, 2, 6]))]
    count = dice.choice([3, 10, 60])
    names = (
        sorted(dice.choices(range(len(kinds)), k=count))
        if dice.random() < 0.5
        else dice.choices(range(len(kinds)), k=count)
    )
    return [
        Job.from_options(
            KEYS, kinds[at][0], {"n": number, "text": "ä" * dice.randrange(90)}, job_options(**kinds[at][1]), NOW
        )
        for number, at in enumerate(names)
    ]


def _queue(dice: random.Random) -> Keyspace:
    """A queue with some past: settings, counters, jobs in its lists, a millisecond with hardly a place left."""
    hashes: dict[str, str] = {}
    if dice.random() < 0.5:
        hashes["opts.maxLenEvents"] = dice.choice(["0", "7", "10000"])
    if dice.random() < 0.3:
        hashes["paused"] = "1"
    if dice.random() < 0.4:
        hashes["concurrency"] = dice.choice(["1", "5"])
    found: dict[str, tuple[str, Any]] = {"meta": ("hash", hashes)} if hashes else {}
    if dice.random() < 0.5:
        found |= {"id": ("string", dice.choice(["7", "41"])), "pc": ("string", str(dice.choice([3, 2**32 - 2])))}
        found |= {
            "active": ("list", ["a", "b"]),
            "wait": ("list", ["c"]),
            "prioritized": ("zset", [["d", "4294967299"]]),
        }
        late = [[f"e{at}", str((NOW + dice.choice([1, 500])) * 4096 + 4093)] for at in range(2)]
        found |= {"delayed": ("zset", late), "1": ("hash", {"atm": "2", "name": "old"})}
        found |= {"marker": ("zset", [["0", "0"], ["1", "5"]])} if dice.random() < 0.5 else {}
    return {KEYS.base + name: {"type": kind, "value": value} for name, (kind, value) in found.items()}


def test_leaves_what_single_adds_leave(raw_client: RawClient) -> None:
    """Ids and all keys with their events are the same to the byte, whatever jobs meet whatever queue."""
    for seed in range(EPISODES):
        dice = random.Random(seed)
        before, jobs = _queue(dice), _jobs(dice)
        load(raw_client, before)
        ids = _one_by_one(raw_client, jobs)
        expected = dump(raw_client)

        load(raw_client, before)
        assert _together(raw_client, jobs, dice.choice([4, 1_000])) == ids, seed
        assert dump(raw_client) == expected, seed


def test_trims_the_event_log_alike(raw_client: RawClient) -> None:
    """A bulk of more events than the log may hold leaves the same part of them."""
    jobs = [Job.from_options(KEYS, "send", number, job_options(), NOW) for number in range(500)]
    before: Keyspace = {KEYS.meta: {"type": "hash", "value": {"opts.maxLenEvents": "150"}}}
    load(raw_client, before)
    _one_by_one(raw_client, jobs)
    expected = dump(raw_client)

    load(raw_client, before)
    _together(raw_client, jobs)

    assert len(expected[KEYS.events]["value"]) < 300
    assert dump(raw_client) == expected


def test_jobs_that_look_at_others_go_by_themselves() -> None:
    """Jobs with an id, a parent or a deduplication id are left to the contract's scripts, in their place."""
    given: list[dict[str, Any]] = [{}, {}, {}, {"job_id": "mine"}, {"deduplication": "x"}, {}, {}, {}]
    given[5:5] = [{"parent": {"id": "1", "queue": "bull:parents"}}]
    jobs = [Job.from_options(KEYS, "send", number, job_options(**options), NOW) for number, options in enumerate(given)]

    found = [(add_portion(portion).script, [job.data for job in portion]) for portion in portions(jobs, 1_000)]

    standard = "addStandardJob"
    assert found == [("addJobs", [0, 1, 2]), (standard, [3]), (standard, [4]), (standard, [5]), ("addJobs", [6, 7, 8])]


HEAD: tuple[Any, ...] = ([{"attempts": 0}], [["send", NOW, 1]], [1, 2])


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (5, "head"),
        ((), "head"),
        (([5], *HEAD[1:]), "options"),
        (([{"delay": "soon"}], *HEAD[1:]), "delay"),
        (([{"delay": 1.5}], *HEAD[1:]), "delay"),
        (([{"priority": "high"}], *HEAD[1:]), "priority"),
        (([{"de": {"id": "x"}}], *HEAD[1:]), "deduplication"),
        (([{"jobId": "x"}], *HEAD[1:]), "options"),
        ((HEAD[0], [[None, NOW, 1]], HEAD[2]), "name"),
        ((HEAD[0], [["send", "now", 1]], HEAD[2]), "timestamp"),
        ((HEAD[0], [["send", NOW + 0.5, 1]], HEAD[2]), "timestamp"),
        ((HEAD[0], [["send", NOW, 2]], HEAD[2]), "options"),
        ((HEAD[0], [5], HEAD[2]), "kind"),
        ((*HEAD[:2], [2, 2]), "order"),
        ((*HEAD[:2], [1, "x"]), "order"),
        ((*HEAD[:2], [1, 1, 1, 1.5]), "order"),
        ((*HEAD[:2], [1, -1, 1, 3]), "order"),
        ((*HEAD[:2], [1, 1]), "number of jobs"),
        ((*HEAD[:2], [1, 3]), "number of jobs"),
        ((*HEAD[:2], [1]), "order"),
    ],
)
def test_faulty_head(raw_client: RawClient, head: Any, says: str) -> None:
    """What our client never sends is refused by name, and nothing is written."""
    call = add_jobs([Job.from_options(KEYS, "send", 1, job_options(), NOW)] * 2)
    args = (KEYS.base.encode(), msgspec.msgpack.encode(head), b"1", b"2")

    reply = raw_client.run(get_script("addJobs").text, call.keys, args)

    assert isinstance(reply, redis.ResponseError)
    assert "addJobs: no job added, nothing written: wrong or missing" in str(reply)
    assert says in str(reply)
    assert dump(raw_client) == {}


@pytest.mark.parametrize("args", [(), (b"bull:mail:",), (b"bull:mail:", b"\xc1", b"1"), (b"", b"\x93\x90\x90\x90")])
def test_missing_arguments(raw_client: RawClient, args: tuple[bytes, ...]) -> None:
    """Calls without arguments, or with a torn head, leave no trace."""
    call = add_jobs([Job.from_options(KEYS, "send", 1, job_options(), NOW)])

    assert isinstance(raw_client.run(get_script("addJobs").text, call.keys, args), redis.ResponseError)
    assert dump(raw_client) == {}
