"""Random sequences, and the shortest one that still shows a difference."""

import random
import time
from collections.abc import Callable

from differential import moves_add, moves_manage, moves_work
from differential.faults import spoiled
from differential.steps import Call, Step
from differential.twin import Twin
from differential.world import QUEUES, World

__all__ = ["failure_of", "search", "shrunk"]

_EPISODE_STEPS = 60
_FAULTY_SHARE = 0.1

Move = Callable[[World], list[Step]]

_MOVES: list[tuple[Move, int]] = [
    (moves_add.add, 24),
    (moves_add.flow, 5),
    (moves_add.release, 2),
    (moves_add.scheduler, 4),
    (moves_add.scheduler_next, 5),
    (moves_add.scheduler_end, 2),
    (moves_work.take, 24),
    (moves_work.finish, 22),
    (moves_work.retry, 5),
    (moves_work.to_delayed, 5),
    (moves_work.to_waiting_children, 4),
    (moves_work.give_back, 3),
    (moves_work.stalled, 5),
    (moves_work.locks, 4),
    (moves_work.small_updates, 4),
    (moves_work.questions, 5),
    (moves_work.reprocess, 5),
    (moves_work.family, 4),
    (moves_work.passing_of_time, 14),
    (moves_manage.pause, 4),
    (moves_manage.change, 6),
    (moves_manage.clean, 3),
    (moves_manage.obliterate, 1),
    (moves_manage.remove, 5),
    (moves_manage.orphans, 1),
    (moves_manage.retry_all, 3),
    (moves_manage.look, 6),
]

_OF_RUNNING_JOBS = (
    moves_work.finish,
    moves_work.retry,
    moves_work.to_delayed,
    moves_work.to_waiting_children,
    moves_work.give_back,
)


def _moves(world: World) -> list[Step]:
    moves, weights = zip(*_MOVES, strict=True)
    move: Move = world.rng.choices(moves, weights)[0]
    if move in _OF_RUNNING_JOBS and not any(world.ids(queue, "active") for queue in QUEUES):
        move = moves_work.take
    steps = move(world)
    return [spoiled(step, world) if isinstance(step, Call) and world.chance(_FAULTY_SHARE) else step for step in steps]


def _episode(twin: Twin, rng: random.Random) -> tuple[list[Step], str]:
    """Play random steps; return them and the first difference, if any."""
    twin.clear()
    world = World(rng)
    played: list[Step] = []
    while len(played) < _EPISODE_STEPS:
        world.state = twin.state
        for step in _moves(world):
            played.append(step)
            difference = twin.play(step)
            if difference:
                return played, difference
    return played, ""


def failure_of(twin: Twin, steps: list[Step]) -> str:
    """Play the steps from nothing; what differs first, or nothing."""
    twin.clear()
    return next((difference for difference in map(twin.play, steps) if difference), "")


def shrunk(twin: Twin, steps: list[Step]) -> list[Step]:
    """Leave out steps as long as some difference stays: in halves, then in ever smaller parts."""
    size = max(len(steps) // 2, 1)
    while True:
        start = 0
        while start < len(steps):
            fewer = steps[:start] + steps[start + size :]
            if fewer and failure_of(twin, fewer):
                steps = fewer
            else:
                start += size
        if size == 1:
            return steps
        size //= 2


def search(twin: Twin, seed: int, seconds: float) -> tuple[int, list[Step]]:
    """Play episodes until the time is up or one fails.

    Returns:
        How many steps were compared, and the shortest failing sequence or no step.
    """
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    count = 0
    while time.monotonic() < deadline:
        steps, difference = _episode(twin, rng)
        count += len(steps)
        if difference:
            return count, shrunk(twin, steps)
    return count, []
