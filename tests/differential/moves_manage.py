"""Steps of people: pausing, cleaning, removing, changing, listing."""

from differential.steps import Command, Step, call
from differential.world import World

__all__ = ["change", "clean", "look", "obliterate", "orphans", "pause", "remove", "retry_all"]

# What a client sends to removeOrphanedJobs.
_NAMES = (
    *("active", "wait", "waiting-children", "paused", "id", "delayed", "prioritized", "stalled-check", "completed"),
    *("failed", "stalled", "repeat", "limiter", "meta", "events", "pc", "marker", "de"),
)
_SUB_KEYS = ("logs", "dependencies", "processed", "failed", "unsuccessful", "lock")


def pause(world: World) -> list[Step]:
    """Pause or resume, perhaps with jobs that an old client's pause had put aside."""
    queue = world.queue()
    word, lists = ("resumed", "paused wait") if world.chance(0.75) else ("paused", "wait paused")
    aside: list[Step] = []
    if f"{queue}:wait" in world.state and f"{queue}:paused" not in world.state and world.chance(0.2):
        aside = [Command("RENAME", f"{queue}:wait", f"{queue}:paused")]
    return [
        *aside,
        call(queue, "pause", word, *world.pick((), ("1",), ("0",)), state=lists),
    ]


def change(world: World) -> list[Step]:
    """Promote, or change delay or priority."""
    queue, job_id = world.find("delayed", "delayed", "prioritized", "wait")
    return [
        world.pick(
            call(queue, "promote", f"{queue}:", job_id),
            call(queue, "changeDelay", world.pick(0, 1, 5_000, -3), world.tick(), job_id, f"{queue}:{job_id}"),
            call(queue, "changePriority", world.pick(0, 1, 7), f"{queue}:", job_id, world.pick("0", "1")),
        )
    ]


def clean(world: World) -> list[Step]:
    """Drain, or clean one state."""
    queue = world.queue()
    if world.chance(0.2):
        return [call(queue, "drain", f"{queue}:", world.pick("0", "1"))]
    state = world.state_name()
    return [
        call(
            queue,
            "cleanJobsInSet",
            f"{queue}:",
            world.now_ms - world.pick(0, 1_000, 9_000),
            world.pick(0, 1, 2),
            state,
            state=state,
        )
    ]


def obliterate(world: World) -> list[Step]:
    """Delete a queue, a part at a time."""
    queue = world.queue()
    return [call(queue, "obliterate", world.pick(1, 2, 100), world.pick("", "force"))]


def remove(world: World) -> list[Step]:
    """Remove a job, a dedup key, or a job with its tree."""
    queue = world.queue()
    if world.chance(0.15):
        dedup_id = world.pick("d1", "d2")
        owner = world.value(f"{queue}:de:{dedup_id}", "nobody")
        return [call(queue, "removeDeduplicationKey", world.pick(owner, "nobody"), keys=(f"{queue}:de:{dedup_id}",))]
    job_id = world.job(
        queue, *world.pick(("waiting-children",), ("wait", "delayed", "prioritized"), ("active", "completed", "failed"))
    )
    return [call(queue, "removeJob", job_id, world.pick("0", "1"), f"{queue}:", job=job_id)]


def orphans(world: World) -> list[Step]:
    """Remove keys of jobs that no state knows, after some job has lost its place."""
    queue, job_id = world.find("wait")
    lost: list[Step] = [Command("LREM", f"{queue}:wait", "1", job_id)] if world.chance(0.3) else []
    sub_keys, names = (_SUB_KEYS, _NAMES)
    return [
        *lost,
        call(
            queue,
            "removeOrphanedJobs",
            len(names),
            *names,
            len(sub_keys),
            *sub_keys,
            *world.jobs(queue)[:5],
            job_id,
            "ghost",
        ),
    ]


def retry_all(world: World) -> list[Step]:
    """Let all failed, completed or delayed jobs run."""
    queue, state = world.queue(), world.pick("failed", "completed", "delayed")
    until = "1.7976931348623157e+308" if state == "delayed" else str(world.now_ms - world.pick(0, 1_000))
    return [call(queue, "moveJobsToWait", world.pick(1, 2, 1_000), until, state, state=state)]


def look(world: World) -> list[Step]:
    """Counts, lists, pages, metrics."""
    queue = world.queue()
    names = [world.state_name() for _ in range(world.pick(1, 3))]
    window = world.pick((0, -1), (0, 0), (0, 1), (1, 2), (-2, -1), (3, 9))
    job_id = world.job(queue, "waiting-children")
    page = world.pick(("0", "-1"), ("0", "0"), ("1", "2"))
    sub_key = world.pick("processed", "failed")
    return [
        world.pick(
            call(queue, "getCounts", *world.pick((), (world.now_ms,)), *names),
            call(queue, "getCountsPerPriority", 0, 1, 2, 10),
            call(queue, "getRanges", *window, world.pick("0", "1"), *names),
            call(queue, "getJobs", *window, world.pick("0", "1"), 5, *names),
            call(queue, "getMetrics", *window, state=world.pick("completed", "failed")),
            call(queue, "paginate", *page, "0", "0", "5", job=job_id, state=sub_key),
            call(queue, "isJobInList", job_id, state=world.pick("wait", "active")),
        )
    ]
