"""Script calls in the form recorded calls have, so that both can be compared."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from echomq.call import ScriptCall

__all__ = ["recorded", "recorded_scripts", "spoken"]

_VECTORS = Path(__file__).parents[1] / "vectors" / "recorded"


def _plain(value: Any) -> Any:
    """Drop what the scripts do not see: nil in maps, nil at the end of arrays, the width of numbers."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        while items and items[-1] is None:
            items.pop()
        return items
    return value


def _argument(value: Any) -> Any:
    if isinstance(value, bytes):
        return _plain(msgspec.msgpack.decode(value))
    return str(value)


@cache
def _load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(_VECTORS.glob(f"*/{name}.json")).read_text())
    return found


def recorded(name: str) -> tuple[str, list[str], list[Any]]:
    """Return script, keys and arguments of a recorded call, msgpack unpacked."""
    vector = _load(name)
    arguments = [bytes.fromhex(one["hex"]) if isinstance(one, dict) else one for one in vector["argv"]]
    return vector["script"].partition("-")[0], vector["keys"], [_argument(one) for one in arguments]


def recorded_scripts() -> set[str]:
    """Return the names of all scripts that were recorded."""
    return {json.loads(path.read_text())["script"].partition("-")[0] for path in _VECTORS.glob("*/*.json")}


def spoken(call: ScriptCall[Any]) -> tuple[str, list[str], list[Any]]:
    """Return script, keys and arguments of a call of ours, msgpack unpacked."""
    return call.script, list(call.keys), [_argument(one) for one in call.args]
