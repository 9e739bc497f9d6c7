"""Arguments as a faulty client might send them."""

from typing import Any

import attrs

from differential.steps import Call, Pack
from differential.world import World

__all__ = ["spoiled"]


# What these take is which queue, job or state is meant: another one is no fault a script could see.
_UNSPOILT = {"removeOrphanedJobs"}


def _is_place(value: Any) -> bool:
    return isinstance(value, str) and ":" in value


def _spoiled_value(value: Any, world: World) -> Any:
    """The same with an entry missing, of another type, or torn off."""
    if isinstance(value, dict):
        names = [name for name in sorted(value) if not _is_place(value[name])]
        if names:
            name = world.rng.choice(names)
            rest = {key: item for key, item in value.items() if key != name}
            return world.pick(rest, {**value, name: world.pick("x", -1, {}, True, None)})
    if isinstance(value, list):
        places = [index for index, item in enumerate(value) if not _is_place(item)]
        if places:
            index = world.rng.choice(places)
            return world.pick(value[:index], [*value[:index], world.pick("x", -1, {}, None), *value[index + 1 :]])
    return world.pick("x", 1, None)


def spoiled(step: Call, world: World) -> Call:
    """The call with an argument missing, mistyped or torn."""
    spoilable = [index for index, arg in enumerate(step.args) if not _is_place(arg)]
    if not spoilable or step.script in _UNSPOILT:
        return step
    index = world.rng.choice(spoilable)
    arg = step.args[index]
    wrong = Pack(_spoiled_value(arg.value, world)) if isinstance(arg, Pack) else world.pick("", "x", "-1", "[]")
    args = world.pick(step.args[:index], (*step.args[:index], wrong, *step.args[index + 1 :]))
    return attrs.evolve(step, args=args, faulty=True)
