"""One connected client of the engine: takes requests, gives replies, waits where a command blocks.

The commands are those of fakeredis. What is added here: its clock is the one of the
server, a blocked client does not hold up its thread, scripts run in
:mod:`echomq_memory.scripting`, and INFO.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import attrs
from fakeredis import FakeServer
from fakeredis._commands import Signature
from fakeredis._core import Database
from fakeredis._helpers import NoResponse, SimpleError, SimpleString, decode_command_bytes
from fakeredis._msgs import WRONGTYPE_MSG
from fakeredis._socket import FakeSocket
from fakeredis._socket._resp import convert_to_resp2, extract_command
from fakeredis.model import XStream

from .scripting import Scripting

__all__ = ["Client", "Engine", "encoded"]

Clock = Callable[[], int]
"""Milliseconds since the Unix epoch."""

VERSION = (7, 4)


class _Database(Database):
    """Keys that expire by the server's clock; the time stands still while a command runs."""

    clock: Clock = staticmethod(lambda: 0)
    _now_s: float = 0.0

    @property
    def time(self) -> float:
        return self._now_s

    @time.setter
    def time(self, _: float) -> None:
        self._now_s = self.clock() / 1000


@attrs.define(eq=False)
class Engine:
    """What all clients of one server share.

    Attributes:
        clock: What expires goes by it.
        data: The keys.
        scripting: The interpreter.
        changed: A key has changed, or a client is to be woken, since this was last set to False.
    """

    clock: Clock
    data: FakeServer = attrs.field(init=False)
    scripting: Scripting = attrs.field(init=False, factory=Scripting)
    changed: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.data = FakeServer(version=VERSION)
        self.data.dbs = defaultdict(self._database)

    def _database(self) -> Database:
        kind = type("Database", (_Database,), {"clock": staticmethod(self.clock)})
        database: Database = kind(self.data.lock)
        database.add_change_callback(self._change)
        return database

    def _change(self) -> None:
        self.changed = True


@attrs.frozen(kw_only=True)
class Waiting:
    """A blocked command.

    Attributes:
        turn: Who began to wait earlier has a lower one.
        attempt: Returns the reply, or None while there is nothing.
        ends_at_s: When to give up, on the monotonic clock; None: never.
        ends_at_ms: The same on the server's clock, which may be set forward.
    """

    turn: int
    attempt: Callable[[], Any]
    ends_at_s: float | None
    ends_at_ms: float | None

    def is_over(self, now_ms: int) -> bool:
        """Tell whether to give up."""
        if self.ends_at_s is None or self.ends_at_ms is None:
            return False
        return self.ends_at_s <= time.monotonic() or self.ends_at_ms <= now_ms


class Client(FakeSocket):
    """A client.

    Attributes:
        replies: What was answered and not fetched yet, as the engine has it; see :func:`encoded`.
        waiting: The command that blocks it, if one does; its later requests wait for that.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.replies: deque[Any] = deque()
        self.waiting: Waiting | None = None
        self._requests: deque[list[bytes]] = deque()
        super().__init__(engine.data, 0, client_class=object, client_info=_SHOWN)

    @property
    def is_killed(self) -> bool:
        """Whether another client has ended this one."""
        return self._killed

    def request(self, parts: list[bytes]) -> None:
        """Carry a request out, or let it wait for its turn."""
        self._requests.append(parts)
        self._work()

    def _work(self) -> None:
        while self._requests and self.waiting is None:
            parts = self._requests.popleft()
            self._client_info["cmd"] = decode_command_bytes(parts[0])
            self._process_command(parts)

    def retry(self) -> None:
        """See whether what the client waits for is there by now, or will not come any more."""
        waiting = self.waiting
        if waiting is None:
            return
        with self._server.lock:
            self._db.time = 0
            reply = self._outcome(waiting)
        if reply is _NOTHING:
            return
        self.waiting, self._blocked, self._client_info["flags"] = None, False, "N"
        self.put_response(reply)
        self._work()

    def _outcome(self, waiting: Waiting) -> Any:
        try:
            if self._unblock_reason is not None:
                self._take_unblock_reason()
                return None
            reply = waiting.attempt()
        except SimpleError as error:
            return error
        except Exception as error:  # noqa: BLE001  # as in _run_command
            return _mistake(error)
        if reply is not None:
            return convert_to_resp2(reply)
        return None if waiting.is_over(self.engine.clock()) else _NOTHING

    def call(self, parts: list[bytes]) -> Any:
        """Run a command of a script."""
        name, args = extract_command(parts)
        function, signature = self._name_to_func(name)
        return self._run_command(function, signature, args, from_script=True)

    # -- what the engine calls ------------------------------------------------------------------

    def _run_command(self, func: Any, sig: Signature, args: list[Any], from_script: bool) -> Any:
        try:
            return super()._run_command(func, sig, args, from_script)
        except SimpleError:
            raise
        except Exception as error:  # noqa: BLE001  # told to whoever asked; a server goes on
            return _mistake(error)

    def put_response(self, msg: Any) -> None:
        """Note a reply; the server fetches it."""
        self.replies.append(msg)

    def _decode_result(self, result: Any) -> Any:
        return result

    def _blocking(
        self,
        timeout: float | None,
        func: Callable[[bool], Any],
        shape: Callable[[Any], Any] | None = None,
    ) -> Any:
        found = func(True)
        if found is not None or self._in_transaction:
            return found if shape is None else shape(found)

        def attempt() -> Any:
            reply = func(False)
            return reply if reply is None or shape is None else shape(reply)

        self._blocked, self._client_info["flags"] = True, "b"
        self.waiting = Waiting(
            turn=next(_TURNS),
            attempt=attempt,
            ends_at_s=time.monotonic() + timeout if timeout else None,
            ends_at_ms=self.engine.clock() + timeout * 1000 if timeout else None,
        )
        return NoResponse()

    def _name_to_func(self, cmd_name: str) -> tuple[Callable[..., Any] | None, Signature]:
        if cmd_name in _OWN:
            return getattr(self, cmd_name), _OWN[cmd_name]
        found: tuple[Callable[..., Any] | None, Signature] = super()._name_to_func(cmd_name)
        return found

    def eval(self, script: bytes, numkeys: int, *keys_and_args: bytes) -> Any:
        """EVAL, and what EVALSHA ends in."""
        if not 0 <= numkeys <= len(keys_and_args):
            raise SimpleError("ERR Number of keys can't be greater than number of args")
        sha1 = hashlib.sha1(script, usedforsecurity=False).hexdigest()
        self._server.script_cache[sha1.encode()] = script
        self._script_resp = 2
        try:
            return self.engine.scripting.run(self, sha1, script, keys_and_args[:numkeys], keys_and_args[numkeys:])
        finally:
            self._script_resp = None

    def xadd(self, key: Any, *args: bytes) -> Any:
        """XADD, whose ids follow the clock of the server."""
        at = self._parse_add_trim_args(args, xadd=True).id_index
        if args[at] == b"*":
            last_ms = key.value.last_id.ts if isinstance(key.value, XStream) else 0
            args = (*args[:at], b"%d-*" % max(self.engine.clock(), last_ms), *args[at + 1 :])
        return super().xadd(key, *args)

    def hrandfield(self, key: Any, *args: bytes) -> Any:
        """HRANDFIELD, which answers an empty list where several fields of nothing are wanted."""
        found = super().hrandfield(key, *args)
        return [] if found is None and args else found

    def hello(self, *args: bytes) -> Any:
        """HELLO, in the one version of the protocol that is spoken here."""
        if args and args[0] != b"2":
            raise SimpleError("NOPROTO unsupported protocol version")
        return super().hello(*args)

    def xread(self, *args: bytes) -> Any:
        """XREAD, which reads streams only."""
        names = [part.lower() for part in args]
        keys = args[names.index(b"streams") + 1 :] if b"streams" in names else ()
        for key in keys[: len(keys) // 2]:
            item = self._db.get(key)
            if item is not None and not isinstance(item.value, XStream):
                raise SimpleError(WRONGTYPE_MSG)
        return super().xread(*args)

    def time(self) -> list[bytes]:
        """TIME."""
        now_ms = self.engine.clock()
        return [b"%d" % (now_ms // 1000), b"%d" % (now_ms % 1000 * 1000)]

    def info(self, *_sections: bytes) -> bytes:
        """INFO, as far as anybody asks."""
        lines = (
            "# Server",
            f"redis_version:{'.'.join(map(str, VERSION))}.0",
            "server_name:memory",
            f"memory_version:{'.'.join(map(str, VERSION))}.0",
            "redis_mode:standalone",
            "# Memory",
            "maxmemory_policy:noeviction",
            "# Replication",
            "role:master",
            "# Cluster",
            "cluster_enabled:0",
        )
        return "\r\n".join((*lines, "")).encode()


_TURNS = itertools.count()
_NOTHING = object()
_SHOWN = {"addr": "127.0.0.1:0", "name": "", "flags": "N", "cmd": "NULL"}
"""Of each client, by CLIENT LIST."""

_NO_ARGUMENTS: Any = ()
_OWN = {"info": Signature("INFO", "info", _NO_ARGUMENTS, (bytes,))}


def _mistake(error: Exception) -> SimpleError:
    return SimpleError(f"ERR a mistake of the engine of memory://, no fault of yours: {error!r}")


def encoded(reply: Any) -> bytes:
    """Return a reply as RESP2."""
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, SimpleString):
        return b"+%s\r\n" % reply.value
    if isinstance(reply, SimpleError):
        return b"-%s\r\n" % reply.value.replace("\r", " ").replace("\n", " ").encode()
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, list):
        return b"*%d\r\n" % len(reply) + b"".join(map(encoded, reply))
    data = reply if isinstance(reply, bytes) else str(reply).encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)
