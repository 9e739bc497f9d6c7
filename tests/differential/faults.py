"""Arguments as a faulty client might send them."""

from __future__ import annotations

from typing import Any

import attrs

from differential.steps import Call, Pack
from differential.world import World

__all__ = ["spoiled"]


def _spoiled_map(value: Any, world: World) -> Any:
    """The same without one entry, or with one of another type."""
    if isinstance(value, dict) and value:
        name = world.rng.choice(sorted(value))
        rest = {key: item for key, item in value.items() if key != name}
        return world.pick(rest, {**value, name: world.pick("x", -1, {}, True, None)})
    if isinstance(value, list) and value:
        index = world.rng.randrange(len(value))
        return world.pick(value[:index], [*value[:index], world.pick("x", -1, {}, None), *value[index + 1 :]])
    return world.pick("x", 1, None)


def spoiled(step: Call, world: World) -> Call:
    """The call with an argument missing, mistyped or torn."""
    # A wrong prefix or key is another queue, not a wrong argument.
    spoilable = [index for index, arg in enumerate(step.args) if isinstance(arg, Pack) or ":" not in arg]
    if not spoilable:
        return step
    index = world.rng.choice(spoilable)
    arg = step.args[index]
    wrong = Pack(_spoiled_map(arg.value, world)) if isinstance(arg, Pack) else world.pick("", "x", "-1", "[]")
    args = world.pick(step.args[:index], (*step.args[:index], wrong, *step.args[index + 1 :]))
    return attrs.evolve(step, args=args, faulty=True)
