"""A real server in virtual time.

The scripts are the real ones, on a real server; what they do with time comes
from their arguments. Only expiry is the server's own: after each request every
key that would expire is made to stay, and deleted when its virtual time has
come. The simulator needs no model of the scripts, so it tests what users run.

What happens to requests on their way is in :mod:`simulation.links`.
"""

import math
import socket
from collections.abc import Callable, Iterable
from typing import Any, cast

import attrs
import hiredis

from echomq.call import Batch, Command, Request, ScriptCall
from echomq.errors import ServerRefused
from echomq.exchange import Exchange, Parts, exchange_batch, parts
from echomq.keys import Keys
from echomq.resp import server_error
from echomq.scripts import get_script, script_names
from vectors.keyspace import Keyspace, plain_value, text

from .universe import Universe

__all__ = ["Store", "Wire"]

_LOOK = """
local read = {
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key) return redis.call('XRANGE', key, '(' .. ARGV[1], '+') end,
  string = function(key) return redis.call('GET', key) end,
}
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, ttl = redis.call('TYPE', key)['ok'], redis.call('PTTL', key)
  if ttl >= 0 then redis.call('PERSIST', key) end
  found[#found + 1] = {key, kind, ttl, read[kind](key)}
end
return found
"""
"""Reads every key (of the events only the new ones) and makes those stay that would expire."""

_GRAIN_MS = 100
"""Expiries are rounded up to this, since real milliseconds pass between a request and the look after it."""


@attrs.define(eq=False)
class Wire:
    """A plain connection: sends lines, returns replies, errors among them."""

    host: str
    port: int
    _socket: socket.socket = attrs.field(init=False)
    _reader: hiredis.Reader = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._socket = socket.create_connection((self.host, self.port), 20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader(replyError=server_error)

    def ask(self, lines: Iterable[Parts]) -> list[Any]:
        """Send lines in one write and return as many replies."""
        packed = [hiredis.pack_command(cast("Any", line)) for line in lines]
        self._socket.sendall(b"".join(packed))
        replies: list[Any] = []
        while len(replies) < len(packed):
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._socket.recv(65536))
            else:
                replies.append(reply)
        return replies

    def close(self) -> None:
        """Close it."""
        self._socket.close()


@attrs.define(eq=False)
class Waiter:
    """A blocking read that the server holds.

    Attributes:
        answer: Takes the reply.
    """

    answer: Callable[[Any], None]


@attrs.define(eq=False)
class Store:
    """What the server keeps.

    Attributes:
        universe: Whose time it is.
        wire: To the real server.
        keys: The queue's.
        looked: Told the keyspace after each request that may have changed it, and the events that are new.
        down_until: The server is gone until then.
        frozen_until: The server does nothing until then.
        refusal: What it answers to everything, or None.
    """

    universe: Universe
    wire: Wire
    keys: Keys
    looked: Callable[[Keyspace, list[dict[str, str]]], None]
    down_until: float = 0
    frozen_until: float = 0
    refusal: str | None = None
    _expiries: dict[str, float] = attrs.field(factory=dict)
    _waiters: list[Waiter] = attrs.field(factory=list)
    _last_event: str = "0"
    _limit_left_ms: int = 0
    _look: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        texts = [get_script(name).text for name in script_names()]
        *_, look = self.wire.ask([("FLUSHALL",), *(("SCRIPT", "LOAD", text) for text in (*texts, _LOOK))])
        self._look = look.decode()

    def run(self, request: Request[Any] | Batch) -> Any:
        """Carry a request out now; errors are returned."""
        if self.refusal is not None:
            error = server_error(self.refusal)
            return [error] * len(request.requests) if isinstance(request, Batch) else error
        expired = [key for key, at in self._expiries.items() if at <= self.universe.now_ms]
        for key in expired:
            del self._expiries[key]
        before: list[Parts] = [("DEL", *expired)] if expired else []
        self._limit_left_ms = 0
        if self.keys.limiter in self._expiries:  # the scripts read how much of it is left
            self._limit_left_ms = math.ceil(self._expiries[self.keys.limiter] - self.universe.now_ms)
            before.append(("PEXPIRE", self.keys.limiter, self._limit_left_ms))
        if isinstance(request, Batch):
            return self._batch(before, exchange_batch(request, {*script_names(), "MULTI"}))
        reply = self._asked([*before, parts(request)])[len(before)]
        return _rounded(request, reply)

    def _batch(self, before: list[Parts], exchange: Exchange) -> Any:
        try:
            replies = self._asked([*before, *next(exchange)])
            exchange.send(replies[len(before) :])
        except StopIteration as done:
            return done.value
        except ServerRefused as error:
            return error
        raise AssertionError("the server knows all scripts, so nothing is sent twice")

    def _asked(self, lines: list[Parts]) -> list[Any]:
        *replies, look = self.wire.ask([*lines, ("EVALSHA", self._look, 0, self._last_event)])
        self._see(look)
        return replies

    def _see(self, look: list[Any]) -> None:
        keyspace: Keyspace = {}
        news: list[dict[str, str]] = []
        for raw_key, kind, ttl, raw in look:
            key = text(raw_key)
            if kind == b"stream":
                if raw:
                    self._last_event = text(raw[-1][0])
                news = [_fields(entry[1]) for entry in raw]
            if ttl >= 0 and not (key == self.keys.limiter and ttl <= self._limit_left_ms):
                self._expiries[key] = self.universe.now_ms + _whole(ttl)
            keyspace[key] = {"type": text(kind), "value": plain_value(text(kind), raw)}
        self.looked(keyspace, news)
        if self._waiters and self.keys.marker in keyspace:
            self.universe.at(self.universe.now_ms, self._serve)

    # -- blocking reads -------------------------------------------------------------------------

    def wait(self, command: Command[Any], waiter: Waiter) -> None:
        """Answer a BZPOPMIN, now or when there is a marker; with None when its time is over."""
        self._waiters.append(waiter)
        self.universe.at(self.universe.now_ms + command.block_ms, lambda: self._give_up(waiter))
        self._serve()

    def forget(self, waiter: Waiter) -> None:
        """Notice that who waits has gone."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def _give_up(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            waiter.answer(None)

    def _serve(self) -> None:
        if not self._waiters or self.universe.now_ms < self.frozen_until:
            return
        (popped,) = self.wire.ask([("ZPOPMIN", self.keys.marker)])
        if popped:
            self._waiters.pop(0).answer([self.keys.marker.encode(), *popped])

    def unblock(self) -> None:
        """Answer all blocking reads with an error, as CLIENT UNBLOCK ERROR does."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.answer(server_error("UNBLOCKED client unblocked via CLIENT UNBLOCK"))

    def restart(self, down_ms: float) -> None:
        """Crash and come back with everything that was acknowledged."""
        self._waiters.clear()
        self.down_until = self.universe.now_ms + down_ms


def _fields(flat: list[bytes]) -> dict[str, str]:
    return {text(name): text(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _whole(ms: int) -> int:
    return math.ceil(ms / _GRAIN_MS) * _GRAIN_MS


_REST_AT = {"moveToActive": 2, "moveToFinished": 2, "moveToDelayed": 2, "takeJobs": 1, "finishJobs": 2}
"""Where a reply has the rest of a rate limit."""


def _rounded(request: Request[Any], reply: Any) -> Any:
    """Return a reply whose rest of a rate limit does not tell real milliseconds."""
    script = request.script if isinstance(request, ScriptCall) else ""
    if script in ("moveJobFromActiveToWait", "getRateLimitTtl") and isinstance(reply, int) and reply > 0:
        return _whole(reply)
    at = _REST_AT.get(script)
    if at is None or not isinstance(reply, list) or not isinstance(reply[at], int) or reply[at] <= 0:
        return reply
    return [*reply[:at], _whole(reply[at]), *reply[at + 1 :]]
