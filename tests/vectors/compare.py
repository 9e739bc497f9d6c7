"""How a reply and a keyspace are held against a recorded vector.

Source: protocol README, "Vectors". Each function returns the differences found
as readable lines; no line means equal.
"""

from __future__ import annotations

from typing import Any

import redis

from vectors.keyspace import meaning, text

__all__ = ["keyspace_differences", "plain_reply", "reply_differences"]


def plain_reply(raw: Any) -> Any:
    """A raw reply in the form vectors use: text for bytes, ``{"$error": True}`` for an error."""
    if isinstance(raw, redis.ResponseError):
        return {"$error": True}
    if isinstance(raw, list):
        return [plain_reply(item) for item in raw]
    return text(raw) if isinstance(raw, bytes) else raw


def _in_range(bounds: dict[str, int], number: Any) -> bool:
    return isinstance(number, int) and bounds.get("gt", number - 1) < number and number <= bounds.get("le", number)


def _sorted_by_meaning(items: Any) -> Any:
    return sorted(items, key=lambda item: repr(meaning(item))) if isinstance(items, list) else items


def _matches(expected: Any, seen: Any) -> bool:
    if isinstance(expected, dict):
        if "$error" in expected:
            return bool(seen == {"$error": True})
        if "$int" in expected:
            return _in_range(expected["$int"], seen)
        if not isinstance(seen, list) or len(seen) % 2:
            return False
        flat = dict(zip(seen[::2], seen[1::2], strict=True))
        return bool(len(flat) == len(seen) // 2 and meaning(flat) == meaning(expected["$hash"]))
    if isinstance(expected, list):
        return (
            isinstance(seen, list)
            and len(seen) == len(expected)
            and all(_matches(*pair) for pair in zip(expected, seen, strict=True))
        )
    return type(expected) is type(seen) and bool(meaning(expected) == meaning(seen))


def _matches_unordered(expected: Any, seen: Any) -> bool:
    if not isinstance(expected, list) or not isinstance(seen, list) or len(seen) != len(expected):
        return False
    left = list(seen)
    for item in expected:
        match = next((index for index, other in enumerate(left) if _matches(item, other)), None)
        if match is None:
            return False
        del left[match]
    return True


def reply_differences(expected: Any, seen: Any, unordered: list[str]) -> list[str]:
    """Compare a plain reply with the recorded one."""
    if "reply" in unordered:
        equal = _matches_unordered(expected, seen)
    else:
        loose = [int(place.split(".")[1]) for place in unordered if place.startswith("reply.")]
        equal = all(_matches_unordered(expected[index], seen[index]) for index in loose)
        if loose:
            expected, seen = ([None if i in loose else item for i, item in enumerate(one)] for one in (expected, seen))
        equal = equal and _matches(expected, seen)
    return [] if equal else [f"reply: expected {expected!r}, seen {seen!r}"]


def _scored(value: list[list[str]]) -> list[tuple[str, float]]:
    return [(member, float(score)) for member, score in value]


def _entry_differences(key: str, expected: dict[str, Any], seen: dict[str, Any], *, loose: bool) -> list[str]:
    wanted, got = expected["value"], seen["value"]
    if expected["type"] != seen["type"]:
        return [f"{key}: expected a {expected['type']}, seen a {seen['type']}"]
    if expected["type"] == "zset":
        wanted, got = _scored(wanted), _scored(got)
    if loose:
        wanted, got = _sorted_by_meaning(wanted), _sorted_by_meaning(got)
    found = [] if meaning(wanted) == meaning(got) else [f"{key}: expected {wanted!r}, seen {got!r}"]
    if ("pttl" in expected) != ("pttl" in seen):
        found.append(f"{key}: expected expiry {expected.get('pttl')}, seen {seen.get('pttl')}")
    elif "pttl" in expected and not _in_range(expected["pttl"], seen["pttl"]):
        found.append(f"{key}: expected {expected['pttl']} ms to live, seen {seen['pttl']}")
    return found


def keyspace_differences(
    expected: dict[str, dict[str, Any]], seen: dict[str, dict[str, Any]], unordered: list[str]
) -> list[str]:
    """Compare a whole keyspace with the recorded one."""
    found = [f"{key}: missing" for key in expected.keys() - seen.keys()]
    found += [f"{key}: not expected, {seen[key]!r}" for key in seen.keys() - expected.keys()]
    for key in sorted(expected.keys() & seen.keys()):
        loose = f"after.{key}" in unordered or ("events" in unordered and expected[key]["type"] == "stream")
        found += _entry_differences(key, expected[key], seen[key], loose=loose)
    return found
