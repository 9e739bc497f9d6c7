"""Jobs taken and ended several at a time leave what the contract's scripts leave, called one after the other."""

import random
from typing import Any

import pytest
import redis

from differential.search import _moves
from differential.steps import Call, Pack, call
from differential.world import World
from echomq.scripts import get_script
from vectors.keyspace import Keyspace, RawClient, dump, load, meaning

SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(12, 300))]
STEPS = 45
LOCK_MS = 600_000
TAKE_KEYS = "wait active prioritized events limiter delayed meta pc marker"
FINISH_KEYS = "wait active prioritized events stalled limiter delayed meta pc completed metrics:completed marker"
KEEPS = (
    {"count": -1},
    {"count": -1},
    {"count": 0},
    {"count": 2},
    {"age": 5},
    {"age": 3, "limit": 1},
    {"age": 5, "count": 3},
)


def _run(client: RawClient, script: str, keys: tuple[str, ...], *args: Any) -> Any:
    sent = [arg if isinstance(arg, bytes) else str(arg) for arg in args]
    reply = client.run(get_script(script).text, keys, sent)
    if isinstance(reply, redis.ResponseError):
        raise reply
    return reply


def _own(client: RawClient, script: str, queue: str, *args: Any) -> Any:
    keys = TAKE_KEYS if script == "takeJobs" else FINISH_KEYS
    return _run(client, script, tuple(f"{queue}:{key}" for key in keys.split()), *args)


def _theirs(client: RawClient, step: Call) -> Any:
    return _run(client, step.script, step.keys, *step.raw_args())


def _moment(client: RawClient, seed: int) -> tuple[World, str, Keyspace]:
    """A busy queue after some random steps, and all there is on its server."""
    client.send("FLUSHDB")
    world = World(random.Random(seed))
    for _ in range(STEPS):
        world.state = dump(client)
        for step in _moves(world):
            if not isinstance(step, Call):
                client.send(*step.parts)
            elif not step.faulty:
                client.run(get_script(step.script).text, step.keys, step.raw_args())
    queue = world.queue()
    for number in range(world.pick(0, 3, 9)):
        client.send(
            "HSET", f"{queue}:p{number}", "name", "n", "data", "{}", "opts", "{}", "timestamp", 1, "priority", 0
        )
        client.send("LPUSH", f"{queue}:wait", f"p{number}")
    for old in ("0:0", "0:123"):  # what versions before 5 left: only a finish of a single job knows of them
        client.send("LREM", f"{queue}:wait", 0, old)
    for number in range(world.pick(0, 2, 6)):
        options = {"token": f"t{number}", "lockDuration": LOCK_MS}
        _theirs(client, call(queue, "moveToActive", f"{queue}:", world.tick(), Pack(options)))
    world.state = dump(client)
    return world, queue, world.state


def _options(world: World) -> dict[str, Any]:
    options: dict[str, Any] = {"lockDuration": LOCK_MS}
    if world.chance(0.2):
        options["limiter"] = {"max": world.pick(1, 3, 50), "duration": 500_000}
    if world.chance(0.7):
        options["name"] = "w1"
    return options


def _held(world: World, queue: str) -> list[tuple[str, str, str]]:
    """Id, token and result of the jobs that are active, and of some that a worker only believes to hold."""
    ids = world.ids(queue, "active")
    if world.chance(0.3):
        ids += [world.job(queue, "completed", "wait", "delayed"), "ghost"]
    world.rng.shuffle(ids)
    locks = {job_id: world.value(f"{queue}:{job_id}:lock", "tok") for job_id in ids}
    return [(job_id, "old" if world.chance(0.05) else token, '{"r":1}') for job_id, token in locks.items()][:100]


def _everything(client: RawClient) -> dict[str, Any]:
    return {key: meaning(entry["value"]) for key, entry in dump(client).items()}


def _is_job(reply: Any) -> bool:
    return isinstance(reply, list) and isinstance(reply[0], list)


def _rest(reply: Any) -> list[Any]:
    return [int(part) for part in reply[2:]] if isinstance(reply, list) else [0, 0]


def _fields(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _compare_taken(ours: list[Any], theirs: list[Any]) -> None:
    """What a call of ours brought is what so many of theirs did, up to the first that brought no job."""
    jobs, ttl, due = ours
    found = [(reply[1], _fields(reply[0])) for reply in theirs if _is_job(reply)]
    assert [(job_id, _fields(flat)) for job_id, flat in zip(jobs[::2], jobs[1::2], strict=True)] == found
    if theirs and not _is_job(theirs[-1]):
        assert (ttl == 0) == (_rest(theirs[-1])[0] == 0)
        assert int(due) == _rest(theirs[-1])[1]
    else:
        assert ttl == -1


@pytest.mark.parametrize("seed", SEEDS)
def test_many_are_taken_as_one_by_one(raw_client: RawClient, seed: int) -> None:
    """Taking several jobs is taking one after the other, whatever the queue holds and however it is limited."""
    world, queue, before = _moment(raw_client, seed)
    options, now_ms = _options(world), world.tick()
    tokens = [f"n{number}" for number in range(world.pick(1, 2, 5, 12))]
    ours = _own(raw_client, "takeJobs", queue, f"{queue}:", now_ms, *Call("", (), (Pack(options),)).raw_args(), *tokens)
    after = _everything(raw_client)

    load(raw_client, before)
    theirs: list[Any] = []
    while len(theirs) < len(tokens) and (not theirs or _is_job(theirs[-1])):
        packed = Pack({**options, "token": tokens[len(theirs)]})
        theirs.append(_theirs(raw_client, call(queue, "moveToActive", f"{queue}:", now_ms, packed)))

    _compare_taken(ours, theirs)
    assert after == _everything(raw_client)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_end_as_one_by_one(raw_client: RawClient, seed: int) -> None:
    """Ending several jobs and taking the next is ending one after the other; what is refused stays as it was."""
    world, queue, before = _moment(raw_client, 1_000 + seed)
    options, now_ms, held = _options(world), world.tick(), _held(world, queue)
    if not held:
        return
    options |= {"keepJobs": world.pick(*KEEPS), "maxMetricsSize": world.pick("", 3)}
    most = world.pick(0, 1, len(held), len(held))
    packed = Call("", (), (Pack(options),)).raw_args()
    args = (f"{queue}:", now_ms, *packed, most, *(part for one in held for part in one))
    codes, *ours = _own(raw_client, "finishJobs", queue, *args)
    after = _everything(raw_client)

    load(raw_client, before)
    last = max((number for number, code in enumerate(codes) if code == 0), default=-1)
    tokens = [token for (_, token, _), code in zip(held, codes, strict=True) if code == 0][:most]
    theirs: list[Any] = []
    for number in sorted(range(len(held)), key=lambda number: number == last):
        job_id, token, value = held[number]
        if codes[number] == 1:
            continue
        # The last finish takes a job, as workers do that speak the contract; takes follow for the other slots.
        fetch = bool(tokens) and number == last
        wire = Pack({**options, "token": token, "attempts": 1})
        args = (job_id, now_ms, "returnvalue", value, "completed", int(fetch), f"{queue}:", wire, "")
        reply = _theirs(raw_client, call(queue, "moveToFinished", *args, job=job_id, state="completed"))
        theirs += [reply] * fetch
        assert fetch or reply == codes[number]
    while theirs and len(theirs) < len(tokens) and _is_job(theirs[-1]):
        wire = Pack({**options, "token": tokens[len(theirs)]})
        theirs.append(_theirs(raw_client, call(queue, "moveToActive", f"{queue}:", now_ms, wire)))

    _compare_taken(ours, theirs)
    expected = _everything(raw_client)
    if theirs and _is_job(theirs[0]):
        lock = f"{queue}:{theirs[0][1].decode()}:lock"
        assert after.pop(lock) == tokens[0]
        assert expected.pop(lock) == held[last][1]
    assert after == expected


def _lock(client: RawClient, *ids: str, active: bool = True) -> None:
    for job_id in ids:
        client.send("HSET", f"bull:q:{job_id}", "name", "n", "data", "{}", "opts", "{}", "timestamp", 1)
        client.send("LPUSH", "bull:q:active" if active else "bull:q:wait", job_id)
        client.send("SET", f"bull:q:{job_id}:lock", f"t{job_id}")


FINISH = Pack({"lockDuration": LOCK_MS, "keepJobs": {"count": -1}, "maxMetricsSize": ""})
TAKE = Pack({"lockDuration": LOCK_MS})


def _finish(client: RawClient, *ids: str, most: int = 0, options: Pack = FINISH) -> Any:
    (packed,) = Call("", (), (options,)).raw_args()
    parts = (part for job_id in ids for part in (job_id, f"t{job_id}", "1"))
    return _own(client, "finishJobs", "bull:q", "bull:q:", 1_700_000_000_000, packed, most, *parts)


def test_each_job_of_a_batch_has_a_code_of_its_own(raw_client: RawClient) -> None:
    """What is gone, lost, elsewhere or not plain is refused by itself, and the others end."""
    _lock(raw_client, "a", "lost", "taken", "child", "unique", "parent", "b")
    _lock(raw_client, "elsewhere", active=False)
    raw_client.send("DEL", "bull:q:lost:lock")
    raw_client.send("SET", "bull:q:taken:lock", "another")
    raw_client.send("HSET", "bull:q:child", "parentKey", "bull:q:p")
    raw_client.send("HSET", "bull:q:unique", "deid", "d")
    raw_client.send("SADD", "bull:q:parent:dependencies", "bull:q:c")
    raw_client.send("SET", "bull:q:odd", "no hash")
    ids = ("a", "gone", "lost", "taken", "elsewhere", "child", "unique", "parent", "odd", "b")

    codes = _finish(raw_client, *ids)[0]

    assert codes == [0, -1, -2, -6, -3, 1, 1, 1, 1, 0]
    assert dump(raw_client)["bull:q:completed"]["value"] == [["a", "1700000000000"], ["b", "1700000000000"]]


def test_a_reply_has_a_bounded_size(raw_client: RawClient) -> None:
    """Of jobs with large data no more are taken than a quarter of a megabyte and one; the rest stay."""
    for number in range(6):
        raw_client.send("HSET", f"bull:q:{number}", "name", "n", "data", "x" * 100_000)
        raw_client.send("LPUSH", "bull:q:wait", number)
    (packed,) = Call("", (), (TAKE,)).raw_args()

    jobs, ttl, _ = _own(raw_client, "takeJobs", "bull:q", "bull:q:", 1, packed, *"abcdef")

    assert (len(jobs) // 2, ttl) == (3, -1)
    assert dump(raw_client)["bull:q:wait"]["value"] == ["5", "4", "3"]


def test_ids_without_a_job_do_not_hold_up_the_server(raw_client: RawClient) -> None:
    """A queue full of ids without jobs is cleared a thousand at a time, however many jobs are wanted."""
    raw_client.send("HSET", "bull:q:last", "name", "n")
    raw_client.send("LPUSH", "bull:q:wait", *(f"ghost{number}" for number in range(1_500)), "last")
    (packed,) = Call("", (), (TAKE,)).raw_args()

    assert _own(raw_client, "takeJobs", "bull:q", "bull:q:", 1, packed, *"abcdef")[0] == []
    assert dump(raw_client)["bull:q:marker"]["value"] == [["0", "0"]]
    assert _own(raw_client, "takeJobs", "bull:q", "bull:q:", 1, packed, *"abcdef")[0][0] == b"last"


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ("takeJobs", ("bull:q:", "soon", TAKE, "t")),
        ("takeJobs", ("bull:q:", 1, Pack("no map"), "t")),
        ("takeJobs", ("bull:q:", 1, TAKE)),
        ("takeJobs", ("bull:q:", 1, TAKE, *("t",) * 101)),
        ("takeJobs", ("bull:q:", 1, Pack({"lockDuration": 0}), "t")),
        ("finishJobs", ("bull:q:", "soon", FINISH, 0, "a", "ta", "1")),
        ("finishJobs", ("bull:q:", 1, Pack({"lockDuration": 1, "maxMetricsSize": ""}), 0, "a", "ta", "1")),
        ("finishJobs", ("bull:q:", 1, FINISH, "all", "a", "ta", "1")),
        ("finishJobs", ("bull:q:", 1, FINISH, 0, "a", "ta")),
        ("finishJobs", ("bull:q:", 1, FINISH, 0)),
        ("finishJobs", ("bull:q:", 1, FINISH, 0, *("a", "ta", "1") * 101)),
        (
            "finishJobs",
            ("bull:q:", 1, Pack({"lockDuration": 1, "keepJobs": {}, "maxMetricsSize": 1.5}), 0, "a", "ta", "1"),
        ),
        ("finishJobs", ("bull:q:", 1, Pack({"keepJobs": {}, "maxMetricsSize": ""}), 0, "a", "ta", "1")),
    ],
)
def test_faulty_arguments(raw_client: RawClient, script: str, args: tuple[Any, ...]) -> None:
    """What our clients never send is refused, and nothing is written."""
    _lock(raw_client, "a")
    _lock(raw_client, "b", active=False)
    before = dump(raw_client)

    with pytest.raises(redis.ResponseError, match=f"{script}|no job taken"):
        _own(raw_client, script, "bull:q", *Call("", (), args).raw_args())

    assert dump(raw_client) == before
