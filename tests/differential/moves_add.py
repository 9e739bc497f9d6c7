"""Steps that add jobs: alone, deduplicated, below a parent, as flows, by schedulers."""

from typing import Any

from differential.steps import Pack, Step, call
from differential.world import World

__all__ = ["add", "flow", "release", "scheduler", "scheduler_end", "scheduler_next"]

_SCRIPTS = ("addStandardJob", "addDelayedJob", "addPrioritizedJob", "addParentJob")
_FLAGS = ("fpof", "cpof", "idof", "rdof", "")


def _options(world: World, script: str) -> dict[str, Any]:
    options: dict[str, Any] = {"attempts": world.pick(0, 1, 3)}
    if script == "addDelayedJob" or world.chance(0.1):
        options["delay"] = world.pick(0, 1, 1_000, 5_000, 60_000)
    if script == "addPrioritizedJob" or world.chance(0.1):
        options["priority"] = world.pick(0, 1, 2, 10, 2_097_151)
    if world.chance(0.2):
        options["lifo"] = True
    if world.chance(0.1):
        options.update(
            world.pick(
                {"removeOnComplete": True},
                {"kl": 5},
                {"tm": "t", "omc": True},
                {"backoff": {"type": "fixed", "delay": 9}},
            )
        )
    return options


def _deduplication(world: World) -> dict[str, Any]:
    options: dict[str, Any] = {"id": world.pick("d1", "d1", "d1", "d2")}
    if world.chance(0.5):
        options["ttl"] = world.pick(0, 500_000, 900_000)
    for switch in ("extend", "replace", "keepLastIfActive", "reschedule"):
        if world.chance(0.3):
            options[switch] = True
    return options


def _add(
    world: World,
    queue: str,
    script: str,
    *,
    job_id: str,
    options: dict[str, Any],
    parent: str = "",
    parent_queue: str = "",
    flag: str = "",
    defer: bool = False,
) -> Step:
    parent_map = None
    if parent:
        parent_map = {"id": parent, "queueKey": parent_queue, **({flag: True} if flag else {})}
        options = {**options, "parent": {"id": parent, "queue": parent_queue}, **({flag: True} if flag else {})}
    parent_key = f"{parent_queue}:{parent}" if parent else None
    head: list[Any] = [
        f"{queue}:",
        job_id,
        world.pick("n", "mail"),
        world.pick(float, int)(world.tick()),
        parent_key,
        parent_key and f"{parent_key}:dependencies",
        parent_map,
        None,
        f"{queue}:de:{options['de']['id']}" if "de" in options else None,
        1 if defer else None,
    ]
    while head[-1] is None and world.chance(0.3):
        head.pop()
    return call(queue, script, Pack(head), world.pick("{}", '{"a":1}', '"é/"', "null"), Pack(options))


def add(world: World) -> list[Step]:
    """One job, perhaps with an id of its own, a parent or deduplication."""
    queue, script = world.queue(), world.rng.choice(_SCRIPTS)
    options = _options(world, script)
    if world.chance(0.4):
        options["de"] = _deduplication(world)
    job_id = world.pick("a", "b", "c", "d") if world.chance(0.3) else ""
    parent = parent_queue = flag = ""
    if world.chance(0.25):
        parent_queue, parent = world.find("waiting-children", "active")
        flag = world.pick(*_FLAGS)
    return [
        _add(
            world,
            queue,
            script,
            job_id=job_id,
            options=options,
            parent=parent,
            parent_queue=parent_queue,
            flag=flag,
            defer=world.chance(0.1),
        )
    ]


def flow(world: World) -> list[Step]:
    """A tree of two or three levels over several queues, as a flow producer sends it."""
    fresh = f"f{world.rng.randrange(1_000)}{world.rng.choices(('', ':x:y'), (30, 1))[0]}"
    root_queue = world.queue()
    steps = [_add(world, root_queue, "addParentJob", job_id=fresh, options=_options(world, ""), defer=True)]
    parents = [(root_queue, fresh)]
    for index in range(world.pick(1, 2, 3)):
        queue, job_id = world.queue(), f"{fresh}-{index}"
        deep = world.chance(0.4)
        script = "addParentJob" if deep else world.rng.choice(_SCRIPTS[:3])
        steps.append(
            _add(
                world,
                queue,
                script,
                job_id=job_id,
                options=_options(world, script),
                parent=fresh,
                parent_queue=root_queue,
                flag=world.pick(*_FLAGS),
                defer=True,
            )
        )
        if not deep:
            continue
        parents.append((queue, job_id))
        for leaf in range(world.pick(0, 1, 2)):
            script = world.rng.choice(_SCRIPTS[:3])
            steps.append(
                _add(
                    world,
                    world.queue(),
                    script,
                    job_id=f"{job_id}-{leaf}",
                    options=_options(world, script),
                    parent=job_id,
                    parent_queue=queue,
                    flag=world.pick(*_FLAGS),
                    defer=True,
                )
            )
    return [*steps, *(_release(world, queue, job_id) for queue, job_id in parents)]


def _release(world: World, queue: str, job_id: str) -> Step:
    key = f"{queue}:{job_id}"
    return call(
        queue, "releaseParentIfNoPendingDependencies", queue, job_id, world.tick(), keys=(key, f"{key}:dependencies")
    )


def release(world: World) -> list[Step]:
    """The call that ends a flow, for any parent."""
    queue = world.queue()
    return [_release(world, queue, world.job(queue, "waiting-children"))]


def _repeat(world: World) -> dict[str, Any]:
    repeat: dict[str, Any] = {"pattern": "* * * * *"} if world.chance(0.4) else {"every": world.pick(1_000, 60_000, 7)}
    more = {
        "limit": 3,
        "tz": "UTC",
        "offset": 5,
        "startDate": world.now_ms + world.pick(-9, 9_000),
        "endDate": world.now_ms + 10**9,
    }
    repeat.update({name: value for name, value in more.items() if world.chance(0.15)})
    return repeat


def scheduler(world: World) -> list[Step]:
    """An upsert of a scheduler."""
    queue, name, now = world.queue(), world.pick("s1", "s2"), world.tick()
    repeat = _repeat(world)
    slot = ""
    if "pattern" in repeat:
        # Now and then the slot that is taken already.
        taken = dict(world.value(f"{queue}:repeat", [])).get(name)
        slot = taken if taken and world.chance(0.5) else str(now + world.pick(0, 1_000, 30_000, -500))
    template = world.pick({}, {"priority": 3}, {"attempts": 2, "backoff": 100}, {"de": {"id": "d1"}}, {"lifo": True})
    options = {
        **template,
        "repeat": {**repeat, "count": 1},
        "jobId": f"repeat:{name}:{slot or 'undefined'}",
        "delay": 0,
        "timestamp": now,
        "repeatJobKey": name,
    }
    if slot:
        options["prevMillis"] = int(slot)
    return [
        call(
            queue,
            "addJobScheduler",
            slot,
            Pack({"name": world.pick("n", "m"), **repeat}),
            name,
            world.pick("{}", '{"t":1}'),
            Pack(template),
            Pack(options),
            now,
            f"{queue}:",
            "",
        )
    ]


def scheduler_next(world: World) -> list[Step]:
    """The next iteration, as the worker asks for it that has just taken the job."""
    now = world.tick()
    queue, job_id = world.find("active", "delayed", "wait")
    name = world.fields(queue, job_id).get("rjk") or world.pick("s1", "s2")
    record = world.value(f"{queue}:repeat:{name}", {})
    slot = "" if "every" in record else str(now + world.pick(1_000, 60_000))
    repeat = {"every": int(record["every"])} if "every" in record else {"pattern": "* * * * *"}
    options = {
        "attempts": 0,
        "repeat": {**repeat, "count": 2},
        "timestamp": now,
        "repeatJobKey": name,
        "jobId": "x",
        "delay": 0,
        **world.pick({}, {"priority": 2}),
    }
    return [call(queue, "updateJobScheduler", slot, name, "{}", Pack(options), now, f"{queue}:", job_id, job=job_id)]


def scheduler_end(world: World) -> list[Step]:
    """Reading or removing a scheduler."""
    queue, name = world.queue(), world.pick("s1", "s2", "s3")
    if world.chance(0.6):
        return [call(queue, "getJobScheduler", name)]
    return [call(queue, "removeJobScheduler", name, f"{queue}:")]
