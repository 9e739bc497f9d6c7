"""A faulty client cannot leave a queue half written: each script, with each argument missing, torn or of another type.

Random steps, as in the differential test, bring the queues into many situations.
Before a call of a script is played, every spoiled form of it is tried. It must be
refused without a trace, or do something after which the queues are as sound as before.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import redis

from differential.search import _moves
from differential.steps import Call, Pack
from differential.world import World
from echomq.scripts import get_script, script_names
from scripts.invariants import CHILDLESS, faults
from vectors.keyspace import Keyspace, RawClient, dump, load

SITUATIONS = 3
"""Calls of each script that are spoiled."""

STEPS = 6_000
OUR_OWN = {
    *("addJobs", "takeJobs", "finishJobs"),
    *("cancelJob", "removeTree", "sweepJobs", "releaseStuckParent", "removeStrays"),
}
_WRONG_TEXTS = ("", "x", "-1", "[]", "nan", "1e400")
_WRONG_VALUES: tuple[Any, ...] = ("x", -1, 1.5, {}, [], True, None)


def _is_place(value: Any, script: str = "") -> bool:
    """Tells which queue, state or job is meant: another one is no fault that a script could see."""
    return isinstance(value, str) and (":" in value or (script == "removeOrphanedJobs" and not value.isdecimal()))


def _spoiled_values(value: Any) -> Iterator[Any]:
    """The same without an entry, with one of another type, or something else altogether."""
    if isinstance(value, dict):
        for name, item in value.items():
            if not _is_place(item):
                yield {key: other for key, other in value.items() if key != name}
                yield from ({**value, name: wrong} for wrong in _WRONG_VALUES)
            if isinstance(item, dict | list):
                yield from ({**value, name: wrong} for wrong in _spoiled_values(item))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value[:index]
            if not _is_place(item):
                yield from ([*value[:index], wrong, *value[index + 1 :]] for wrong in _WRONG_VALUES)
    yield from _WRONG_VALUES


def _spoiled_args(step: Call) -> Iterator[list[str | bytes]]:
    """All spoiled forms of the arguments of a call."""
    args = step.raw_args()
    for index, arg in enumerate(step.args):
        head, rest = args[:index], args[index + 1 :]
        yield head
        if isinstance(arg, Pack):
            packed = msgspec.msgpack.encode(arg.value)
            yield from ([*head, wrong, *rest] for wrong in (b"", packed[:-1], packed[: len(packed) // 2], b"\xc1"))
            yield from ([*head, msgspec.msgpack.encode(wrong), *rest] for wrong in _spoiled_values(arg.value))
        elif not _is_place(arg, step.script):
            yield from ([*head, wrong, *rest] for wrong in _WRONG_TEXTS)


def _new_faults(before: Keyspace, after: Keyspace) -> set[tuple[str, str]]:
    return set(faults(after).items()) - set(faults(before).items())


def _verdict(client: RawClient, step: Call, args: list[str | bytes], before: Keyspace, usual: set[str]) -> str:
    """Try a spoiled call, tell what is wrong with what it did, and take it back.

    Args:
        client: Where the queues are.
        step: The call as it should be.
        args: Its arguments, spoiled.
        before: The queues.
        usual: What seems wrong after the call as it should be as well.
    """
    reply = client.run(get_script(step.script).text, step.keys, args)
    after = dump(client)
    if _values(after) == _values(before):
        return ""
    load(client, before)
    if isinstance(reply, redis.ResponseError):
        return f"{step.script} {args}: an error, yet something was written: {reply}"
    told = [f"{key} {fault}" for key, fault in _new_faults(before, after) if fault not in usual]
    return f"{step.script} {args}: {told}, reply {reply}" if told else ""


def _values(keyspace: Keyspace) -> dict[str, Any]:
    return {key: entry["value"] for key, entry in keyspace.items()}


def _faults_of_all_forms(client: RawClient, step: Call) -> list[str]:
    before = dump(client)
    _play(client, step)
    usual = {fault for _, fault in _new_faults(before, dump(client))}
    if step.script == "addParentJob":
        usual.add(CHILDLESS)  # its children are still to come
    load(client, before)
    return [told for args in _spoiled_args(step) if (told := _verdict(client, step, args, before, usual))]


def _play(client: RawClient, step: Any) -> None:
    try:
        if isinstance(step, Call):
            client.run(get_script(step.script).text, step.keys, step.raw_args())
        else:
            client.send(*step.parts)
    except redis.ResponseError:
        pass  # a step about something that is no longer there


@pytest.mark.timeout(600)
def test_faulty_calls_leave_queues_sound(raw_client: RawClient) -> None:
    """Whatever argument of whatever script is missing, torn or mistyped, the queues stay as sound as they were."""
    world = World(random.Random(11))
    tried: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(STEPS):
        if number % 60 == 0:
            raw_client.send("FLUSHDB")
        world.state = dump(raw_client)
        for step in _moves(world):
            if isinstance(step, Call) and not step.faulty and tried[step.script] < SITUATIONS and number % 60 > 10:
                tried[step.script] += 1
                wrong += _faults_of_all_forms(raw_client, step)
            _play(raw_client, step)
        if len(tried) == len(script_names()) - len(OUR_OWN) and min(tried.values()) == SITUATIONS:
            break

    assert set(tried) == set(script_names()) - OUR_OWN
    assert not wrong, "\n".join(wrong[:40])
