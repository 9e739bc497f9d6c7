"""Steps of workers: taking, finishing, retrying, delaying, locks, stalled jobs, and what goes wrong with them."""

from typing import Any

from differential.steps import Command, Pack, Step, call
from differential.world import World

__all__ = [
    "family",
    "finish",
    "give_back",
    "locks",
    "passing_of_time",
    "questions",
    "reprocess",
    "retry",
    "small_updates",
    "stalled",
    "take",
    "to_delayed",
    "to_waiting_children",
]

_LOCK_MS = 600_000


def _token(world: World) -> str:
    return str(world.rng.choices(("tok", "other", "0"), (20, 1, 1))[0])


def _take_options(world: World, token: str) -> dict[str, Any]:
    options: dict[str, Any] = {"token": token, "lockDuration": _LOCK_MS}
    if world.chance(0.15):
        options["limiter"] = {"max": world.pick(1, 2, 50), "duration": world.pick(500_000, 900_000)}
    if world.chance(0.5):
        options["name"] = "w1"
    return options


def take(world: World) -> list[Step]:
    """Take the next job."""
    queue, _ = world.find("wait", "prioritized", "delayed")
    return [call(queue, "moveToActive", f"{queue}:", world.tick(), Pack(_take_options(world, _token(world))))]


def _fields(world: World) -> Any:
    return world.pick("", Pack(["stacktrace", '["x"]', "failedReason", "boom"]))


def finish(world: World) -> list[Step]:
    """Complete or fail a job, with every kind of retention, metrics, and fetch of the next."""
    state, token = world.pick("completed", "completed", "failed"), _token(world)
    queue, job_id = world.find("active")
    keep = world.pick(
        {"count": -1},
        {"count": -1},
        {"count": 0},
        {"count": 1},
        {"count": 3},
        {},
        {"age": 5},
        {"age": 5, "count": 2},
        {"age": 3, "limit": 1},
        {"age": 0},
    )
    options = {
        **_take_options(world, token),
        "keepJobs": keep,
        "attempts": world.pick(0, 1, 3),
        "maxMetricsSize": world.pick("", "", 3, 100),
        "fpof": False,
    }
    prop, value = ("returnvalue", world.pick('{"r":1}', "null")) if state == "completed" else ("failedReason", "boom")
    args = [job_id, world.tick(), prop, value, state, world.pick("0", "1", ""), f"{queue}:", Pack(options)]
    if state == "failed":
        args.append(_fields(world))
    return [call(queue, "moveToFinished", *args, job=job_id, state=state)]


def retry(world: World) -> list[Step]:
    """Let a job run again at once."""
    queue, job_id = world.find("active")
    return [
        call(
            queue,
            "retryJob",
            f"{queue}:",
            world.tick(),
            world.pick("LPUSH", "RPUSH"),
            job_id,
            _token(world),
            _fields(world),
            job=job_id,
        )
    ]


def to_delayed(world: World) -> list[Step]:
    """Delay a job that runs, perhaps fetching the next."""
    token = _token(world)
    queue, job_id = world.find("active")
    args = (
        f"{queue}:",
        world.tick(),
        job_id,
        token,
        world.pick(0, 1, 5_000, 1_500.5),
        world.pick("0", "1", ""),
        _fields(world),
    )
    return [call(queue, "moveToDelayed", *args, world.pick("0", "1"), Pack(_take_options(world, token)), job=job_id)]


def to_waiting_children(world: World) -> list[Step]:
    """Let a job that runs wait for its children."""
    queue, job_id = world.find("active")
    children = world.value(f"{queue}:{job_id}:dependencies", [])
    child = world.pick("", *children, "bull:q:nobody")
    return [call(queue, "moveToWaitingChildren", _token(world), child, world.tick(), job_id, f"{queue}:", job=job_id)]


def give_back(world: World) -> list[Step]:
    """Give a job back to wait."""
    queue, job_id = world.find("active")
    return [call(queue, "moveJobFromActiveToWait", job_id, _token(world), f"{queue}:{job_id}")]


def stalled(world: World) -> list[Step]:
    """Look for stalled jobs, mostly after the interval has passed and some locks have run out."""
    queue, job_id = world.find("active")
    check = call(queue, "moveStalledJobsToWait", world.pick(0, 1), f"{queue}:", world.tick(), 500_000)
    over = Command("DEL", f"{queue}:stalled-check")
    if world.chance(0.5):
        return [over, check] if world.chance(0.8) else [check]
    return [over, check, Command("DEL", f"{queue}:{job_id}:lock"), over, check]


def locks(world: World) -> list[Step]:
    """Extend or release locks."""
    queue = world.queue()
    ids = world.ids(queue, "active")[:3] + world.pick([], ["ghost"])
    job_id = world.job(queue, "active")
    tokens = [_token(world) for _ in ids]
    return [
        world.pick(
            call(queue, "extendLock", _token(world), _LOCK_MS, job_id, job=job_id),
            call(queue, "extendLocks", f"{queue}:", Pack(tokens), Pack(ids), _LOCK_MS),
            call(queue, "extendLocks", f"{queue}:", Pack(tokens), Pack(ids), _LOCK_MS),
            call(queue, "releaseLock", _token(world), job=job_id),
        )
    ]


def small_updates(world: World) -> list[Step]:
    """Progress, data, logs, stack trace."""
    queue, job_id = world.find("active", "wait", "delayed", "completed")
    return [
        world.pick(
            call(queue, "updateProgress", job_id, world.pick("50", '{"p":1}'), job=job_id),
            call(queue, "updateData", '{"d":2}', job=job_id),
            call(queue, "addLog", job_id, "row", world.pick("", "1", "2"), job=job_id),
            call(queue, "saveStacktrace", '["s"]', "why", job=job_id),
        )
    ]


def questions(world: World) -> list[Step]:
    """What a client asks about one job, or about limits."""
    queue, job_id = world.find(world.state_name(), "completed", "failed")
    words = ("processed", "unprocessed", "ignored", "failed")
    return [
        world.pick(
            call(queue, "isFinished", job_id, world.pick("", "1"), job=job_id),
            call(queue, "isMaxed"),
            call(queue, "getRateLimitTtl", world.pick("0", "1", "2")),
            call(queue, "getDependencyCounts", *world.rng.sample(words, world.pick(1, 4)), job=job_id),
            call(queue, world.pick("getState", "getStateV2"), job_id),
        )
    ]


def reprocess(world: World) -> list[Step]:
    """Run a finished job again."""
    state = world.pick("failed", "completed")
    queue, job_id = world.find(state)
    prop = {"failed": "failedReason", "completed": "returnvalue"}[state]
    return [
        call(
            queue,
            "reprocessJob",
            job_id,
            world.pick("LPUSH", "RPUSH"),
            prop,
            state,
            world.pick("0", "1"),
            world.pick("0", "1"),
            job=job_id,
            state=state,
        )
    ]


def family(world: World) -> list[Step]:
    """Detach a child, or drop all children that have not run."""
    queue, job_id = world.find("waiting-children", "active")
    if world.chance(0.5):
        return [call(queue, "removeUnprocessedChildren", f"{queue}:", job_id, job=job_id)]
    children = world.value(f"{queue}:{job_id}:dependencies", []) or [f"{queue}:{world.job(queue, 'wait')}"]
    return [call(queue, "removeChildDependency", world.rng.choice(children), f"{queue}:{job_id}")]


def passing_of_time(world: World) -> list[Step]:
    """What happens without a script: expiry, idle workers, settings of a queue, what very old clients left."""
    queue, job_id = world.find("active")
    return [
        world.rng.choices(
            (
                Command("DEL", f"{queue}:{job_id}:lock"),
                Command("DEL", f"{queue}:de:{world.pick('d1', 'd2')}"),
                Command("DEL", f"{queue}:limiter"),
                Command("ZREM", f"{queue}:marker", "0", world.pick("0", "1")),
                Command("HSET", f"{queue}:meta", "concurrency", world.pick("1", "1", "2", "9")),
                Command("HDEL", f"{queue}:meta", "concurrency", "max", "duration"),
                Command("HSET", f"{queue}:meta", "max", "2", "duration", "700000"),
                Command("HSET", f"{queue}:meta", "opts.maxLenEvents", world.pick("5", "10000")),
                Command("SET", f"{queue}:limiter", "9007199254740991", "PX", "800000"),
                Command("RPUSH", f"{queue}:wait", world.pick("0:123", "0:0")),
                Command("DEL", f"{queue}:{world.job(queue, world.state_name())}"),
            ),
            (6, 4, 4, 12, 4, 4, 1, 1, 1, 1, 1),
        )[0]
    ]
