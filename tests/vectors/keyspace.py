"""A server's whole keyspace as plain values: written, read back, compared.

The form is that of the recorded vectors: key -> ``{"type", "value"[, "pttl"]}``;
hash as an object, list head first, set sorted, sorted set as ``[member, score]``
pairs in set order, stream as one flat field/value list an entry. Bytes become
text by surrogateescape, so nothing is lost.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import redis

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Keyspace", "RawClient", "dump", "load", "meaning", "plain_value", "text"]

Keyspace = dict[str, dict[str, Any]]

# One call reads everything: the differential test does this after every step.
_DUMP = """
local readers = {
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key) return redis.call('XRANGE', key, '-', '+') end,
  string = function(key) return redis.call('GET', key) end,
}
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key)['ok']
  found[#found + 1] = {key, kind, redis.call('PTTL', key), readers[kind](key)}
end
return found
"""

# Stands for an expiry a vector leaves open.
_OPEN_PTTL_MS = 30_000


def text(raw: bytes | str) -> str:
    """Bytes as text that can be turned back into the same bytes."""
    return raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")


def _raw(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


class RawClient:
    """One connection that hands out replies as the server sent them."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, protocol=2, socket_timeout=60, single_connection_client=True)
        # Scores must stay text and hashes flat lists.
        self._client.response_callbacks.clear()
        self._loaded: dict[str, bytes] = {}

    def send(self, *parts: str | bytes | float) -> Any:
        """Send one command; an error reply is raised as ``redis.ResponseError``."""
        packed = (_raw(part) if isinstance(part, str) else part for part in parts)
        return self._client.execute_command(*packed)  # type: ignore[no-untyped-call]  # redis-py leaves it so

    def send_all(self, commands: Iterable[tuple[str | bytes | int | float, ...]]) -> list[Any]:
        """Send many commands in one write."""
        pipe = self._client.pipeline(transaction=False)
        for command in commands:
            packed = (_raw(part) if isinstance(part, str) else part for part in command)
            pipe.execute_command(*packed)  # type: ignore[no-untyped-call]  # redis-py leaves it so
        return pipe.execute()

    def run(self, script: str, keys: Iterable[str | bytes], args: Iterable[str | bytes]) -> Any:
        """Run a script by its digest; an error reply is returned, not raised."""
        if script not in self._loaded:
            self._loaded[script] = self.send("SCRIPT", "LOAD", script)
        keys = list(keys)
        try:
            return self.send("EVALSHA", self._loaded[script], len(keys), *keys, *args)
        except redis.ResponseError as error:
            return error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def plain_value(kind: str, raw: Any) -> Any:
    """The value of a key as this module has it, from the reply to the command that reads one of its type."""
    if kind == "string":
        return text(raw)
    if kind == "hash":
        return {text(field): text(value) for field, value in _pairs(raw)}
    if kind == "zset":
        return [[text(member), text(score)] for member, score in _pairs(raw)]
    if kind == "stream":
        return [[text(part) for part in fields] for _id, fields in raw]
    items = [text(item) for item in raw]
    return sorted(items) if kind == "set" else items


def dump(client: RawClient) -> Keyspace:
    """Read every key of the database; ``pttl`` is the remaining ms where a key expires."""
    found: Keyspace = {}
    for key, kind, pttl, raw in client.run(_DUMP, (), ()):
        entry: dict[str, Any] = {"type": text(kind), "value": plain_value(text(kind), raw)}
        if pttl >= 0:
            entry["pttl"] = pttl
        found[text(key)] = entry
    return dict(sorted(found.items()))


def _writes(key: str, kind: str, value: Any) -> list[tuple[str, ...]]:
    if kind == "string":
        return [("SET", key, value)]
    if kind == "hash":
        return [("HSET", key, *(part for pair in value.items() for part in pair))]
    if kind == "zset":
        return [("ZADD", key, *(part for member, score in value for part in (score, member)))]
    if kind == "stream":
        return [("XADD", key, "*", *fields) for fields in value]
    return [({"list": "RPUSH", "set": "SADD"}[kind], key, *value)]


def load(client: RawClient, state: Keyspace) -> None:
    """Empty the database and write ``state`` into it."""
    commands: list[tuple[str | bytes | int | float, ...]] = [("FLUSHDB",)]
    for key, entry in state.items():
        commands += _writes(key, entry["type"], entry["value"])
        if "pttl" in entry:
            bounds = entry["pttl"]
            pttl = bounds.get("le", _OPEN_PTTL_MS) if isinstance(bounds, dict) else bounds
            commands.append(("PEXPIRE", key, pttl))
    client.send_all(commands)


def _json_meaning(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_meaning(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_meaning(item) for item in value]
    # True equals 1 in Python, not in JSON.
    return ("bool", value) if isinstance(value, bool) else value


def meaning(value: Any) -> Any:
    """What a value means, whatever the server's spelling: JSON text is parsed, all through lists and objects."""
    if isinstance(value, dict):
        return {key: meaning(item) for key, item in value.items()}
    if isinstance(value, list):
        return [meaning(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return ("json", _json_meaning(json.loads(value)))
        except ValueError:
            return value
    return value
