"""A real server in virtual time.

The scripts are the real ones, on a real server; what they do with time comes
from their arguments. Only expiry is the server's own: after each request every
key that would expire is made to stay, and deleted when its virtual time has
come. The simulator needs no model of the scripts, so it tests what users run.
To read every key costs more than all else, so that is done after some requests.

What happens to requests on their way is in :mod:`simulation.links`.
"""

import math
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import attrs
import hiredis
import msgspec

from echomq.call import Batch, Command, Request, ScriptCall
from echomq.errors import ServerRefused
from echomq.exchange import Exchange, Parts, exchange_batch, parts
from echomq.keys import Keys
from echomq.resp import server_error
from echomq.scripts import get_script, script_names
from vectors.keyspace import Keyspace, text

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
  local kind = redis.call('TYPE', key)['ok']
  found[#found + 1] = {key, kind, redis.call('PTTL', key), read[kind](key)}
end
return cmsgpack.pack(found)
"""
"""Reads every key, of the events only the new ones; packed, since thousands of small replies take long to read."""

_GLANCE = """
local marker, completed, failed = KEYS[1], KEYS[2], KEYS[3]
local expiring = {}
for at = 4, #KEYS do
  local ttl = redis.call('PTTL', KEYS[at])
  if ttl >= 0 then
    redis.call('PERSIST', KEYS[at])
    expiring[#expiring + 1] = KEYS[at]
    expiring[#expiring + 1] = ttl
  end
end
return {redis.call('EXISTS', marker), redis.call('ZCARD', completed) + redis.call('ZCARD', failed), expiring}
"""
"""Makes the keys stay that would expire, and tells what virtual time needs to know after each request."""

_GRAIN_MS = 100
"""Expiries are rounded up to this, since real milliseconds pass between a request and the look after it."""


@attrs.define(eq=False)
class Wire:
    """A plain connection to a server that knows all scripts: sends lines, returns replies, errors among them.

    Attributes:
        address: Path of a Unix socket, which takes less time, or host and port.
        look: Digest of the script that reads everything.
        glance: Digest of the one that runs after each request.
    """

    address: str | tuple[str, int]
    look: str = attrs.field(init=False)
    glance: str = attrs.field(init=False)
    _socket: socket.socket = attrs.field(init=False)
    _reader: hiredis.Reader = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._socket = _connected(self.address)
        self._reader = hiredis.Reader(replyError=server_error)
        texts = [get_script(name).text for name in script_names()]
        *_, look, glance = self.ask([("SCRIPT", "LOAD", text) for text in (*texts, _LOOK, _GLANCE)])
        self.look, self.glance = look.decode(), glance.decode()

    def ask(self, lines: Iterable[Parts | bytes]) -> list[Any]:
        """Send lines, packed or not, in one write and return as many replies."""
        packed = [line if isinstance(line, bytes) else _packed(line) for line in lines]
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


def _packed(line: Parts) -> bytes:
    return cast("bytes", hiredis.pack_command(cast("Any", line)))


def _connected(address: str | tuple[str, int]) -> socket.socket:
    if isinstance(address, str):
        link = socket.socket(socket.AF_UNIX)
        link.connect(address)
    else:
        link = socket.create_connection(address)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.settimeout(20)
    return link


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
        wire: To the real server, which is emptied.
        keys: The queue's.
        job_ids: Of all jobs that there may be.
        looked: Told the keyspace whenever all of it was read, and the events that are new.
        is_look_due: Asked before each request whether everything is to be read after it.
        down_until: The server is gone until then.
        frozen_until: The server does nothing until then.
        refusal: What it answers to everything, or None.
        requests: How many reached it.
        ended: How many jobs are completed or failed.
        on_their_way: How many requests are yet to arrive.
    """

    universe: Universe
    wire: Wire
    keys: Keys
    job_ids: tuple[str, ...]
    looked: Callable[[Keyspace, list[dict[str, str]]], None]
    is_look_due: Callable[[], bool]
    down_until: float = 0
    frozen_until: float = 0
    refusal: str | None = None
    requests: int = 0
    ended: int = 0
    on_their_way: int = 0
    _glanced: tuple[str, ...] = attrs.field(init=False)
    _usual_glance: bytes = attrs.field(init=False)
    _expiries: dict[str, float] = attrs.field(factory=dict)
    _waiters: list[Waiter] = attrs.field(factory=list)
    _has_marker: bool = False
    _last_event: str = "0"
    _limit_left_ms: int = 0

    def __attrs_post_init__(self) -> None:
        keys = self.keys
        counted = (keys.marker, keys.completed, keys.failed)
        expiring = (keys.limiter, keys.stalled_check, *(f"{keys.job(job_id)}:lock" for job_id in self.job_ids))
        self._glanced = (*counted, *expiring)
        self._usual_glance = _packed(self._glance_at(self._glanced))
        self.wire.ask([("FLUSHDB",)])

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
        after: list[Parts | bytes] = [self._glance(_expiring(request))]
        if self.is_look_due():
            after.append(self._whole_look)
        if isinstance(request, Batch):
            return self._batch(before, exchange_batch(request, {*script_names(), "MULTI"}), after)
        (reply,) = self._asked(before, [parts(request)], after)
        return _in_virtual_time(request, reply, self._limit_left_ms)

    def look(self) -> None:
        """Read everything now."""
        self._see(self.wire.ask([self._whole_look])[0])

    def _glance(self, more: list[str]) -> Parts | bytes:
        return self._usual_glance if not more else self._glance_at((*self._glanced, *more))

    def _glance_at(self, keys: tuple[str, ...]) -> Parts:
        return ("EVALSHA", self.wire.glance, len(keys), *keys)

    @property
    def _whole_look(self) -> Parts:
        return ("EVALSHA", self.wire.look, 0, self._last_event)

    def _batch(self, before: list[Parts], exchange: Exchange, after: list[Parts | bytes]) -> Any:
        try:
            exchange.send(self._asked(before, next(exchange), after))
        except StopIteration as done:
            return done.value
        except ServerRefused as error:
            return error
        raise AssertionError("the server knows all scripts, so nothing is sent twice")

    def _asked(self, before: list[Parts], lines: list[Parts], after: list[Parts | bytes]) -> list[Any]:
        replies = self.wire.ask([*before, *lines, *after])
        glance, *looks = replies[len(before) + len(lines) :]
        self._notice(*glance)
        for look in looks:
            self._see(look)
        return replies[len(before) : len(before) + len(lines)]

    def _notice(self, markers: int, ended: int, expiring: list[Any]) -> None:
        self.requests += 1
        self.ended = ended
        for raw_key, ttl in zip(expiring[::2], expiring[1::2], strict=True):
            key = text(raw_key)
            if not (key == self.keys.limiter and ttl <= self._limit_left_ms):
                self._expiries[key] = self.universe.now_ms + _whole(ttl)
        self._has_marker = markers > 0
        if self._waiters and self._has_marker:
            self.universe.at(self.universe.now_ms, self._serve)

    def _see(self, look: bytes) -> None:
        keyspace: Keyspace = {}
        news: list[dict[str, str]] = []
        for key, kind, ttl, raw in msgspec.msgpack.decode(look):
            assert ttl < 0, f"{key} expires, and virtual time does not know of it"
            if kind == "stream":
                if raw:
                    self._last_event = raw[-1][0]
                news = [dict(_pairs(fields)) for _, fields in raw]
            keyspace[key] = {"type": kind, "value": _PLAIN.get(kind, _itself)(raw)}
        self.looked(keyspace, news)

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
        if not (self._waiters and self._has_marker) or self.universe.now_ms < self.frozen_until:
            return
        popped, left = self.wire.ask([("ZPOPMIN", self.keys.marker), ("EXISTS", self.keys.marker)])
        self._has_marker = left > 0
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


def _expiring(request: Request[Any] | Batch) -> list[str]:
    """Return the keys that plain commands name: the scripts' own are known."""
    requests = request.requests if isinstance(request, Batch) else (request,)
    return [str(each.parts[1]) for each in requests if isinstance(each, Command) and each.parts[0] in _EXPIRE]


_EXPIRE = {"SET", "PEXPIRE"}


def _pairs(flat: list[str]) -> Iterator[tuple[str, str]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _itself(raw: Any) -> Any:
    return raw


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "hash": lambda raw: dict(_pairs(raw)),
    "zset": lambda raw: list(_pairs(raw)),
    "set": sorted,
    "stream": lambda raw: [fields for _, fields in raw],
}
"""Kind of key -> how a keyspace has its value."""


def _whole(ms: int) -> int:
    return math.ceil(ms / _GRAIN_MS) * _GRAIN_MS


_REST_AT = {"moveToActive": 2, "moveToFinished": 2, "moveToDelayed": 2, "takeJobs": 1, "finishJobs": 2}
"""Where a reply has the rest of a rate limit."""


def _in_virtual_time(request: Request[Any], reply: Any, left_ms: int) -> Any:
    """Return a reply whose rest of a rate limit does not tell real milliseconds.

    Args:
        request: What was asked.
        reply: What the server said.
        left_ms: What was left of the limit before; 0: it began with this request, if there is one.
    """
    script = request.script if isinstance(request, ScriptCall) else ""
    if script in ("moveJobFromActiveToWait", "getRateLimitTtl"):
        return _rest(reply, left_ms)
    at = _REST_AT.get(script)
    if at is None or not isinstance(reply, list):
        return reply
    return [*reply[:at], _rest(reply[at], left_ms), *reply[at + 1 :]]


def _rest(told: Any, left_ms: int) -> Any:
    if not isinstance(told, int) or told <= 0:
        return told
    return left_ms if told <= left_ms else _whole(told)
