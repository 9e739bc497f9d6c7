"""Runs Lua scripts on a client of the engine: the frozen ones of EchoMQ, and any other.

The engine has an interpreter of its own, without ``cmsgpack`` and with another idea of
JSON; this one is given both libraries as servers have them, compiles each script once,
and shares nothing between two engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs
from fakeredis._helpers import SimpleError
from lupa import lua51

from . import lua

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Caller", "Scripting"]

_PRELUDE = """
local call, pcall_, encode, decode, null, unpack_, unpackLimit = ...
redis = {
  call = call,
  pcall = pcall_,
  error_reply = function(text)
    if text:sub(1, 1) == '-' then text = text:sub(2) elseif not text:find(' ') then text = 'ERR ' .. text end
    return {err = text}
  end,
  status_reply = function(text) return {ok = text} end,
  log = function() end,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
}
cjson = {encode = encode, decode = decode, null = null}
cmsgpack = {unpack = unpack_, unpack_limit = unpackLimit}
KEYS, ARGV = {}, {}
os, io, require, package, dofile, loadfile, print, python = nil
local function set(keys, args) rawset(_G, 'KEYS', keys) rawset(_G, 'ARGV', args) end
setmetatable(_G, {
  __index = function(_, name) error('Script attempted to access nonexistent global variable ' .. tostring(name), 2) end,
  __newindex = function(_, name) error('Attempt to modify a readonly table: ' .. tostring(name), 2) end,
})
return set, function(text) return loadstring(text, '@user_script') end
"""


class Caller(Protocol):
    """What of a client the scripts use."""

    def call(self, parts: list[bytes]) -> Any:
        """Run a command and return its reply; an error is returned too."""
        ...


@attrs.define(eq=False)
class Scripting:
    """One Lua interpreter."""

    _runtime: Any = attrs.field(init=False)
    _set: Callable[[Any, Any], None] = attrs.field(init=False)
    _compile: Callable[[bytes], Any] = attrs.field(init=False)
    _compiled: dict[bytes, Any] = attrs.field(init=False, factory=dict)
    _caller: Caller | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._runtime = runtime = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True)
        self._set, self._compile = runtime.execute(
            _PRELUDE,
            self._call,
            self._pcall,
            lua.json_encode,
            lambda text: lua.json_decode(runtime, text),
            lua.NULL,
            lambda data: lua.msgpack_unpack(runtime, data),
            lambda *given: lua.msgpack_unpack_limit(runtime, *given),
        )

    def run(self, caller: Caller, sha1: str, script: bytes, keys: tuple[bytes, ...], args: tuple[bytes, ...]) -> Any:
        """Run a script and return its reply.

        Raises:
            SimpleError: The script, or a command in it, failed.
        """
        chunk = self._chunk(script)
        self._set(self._runtime.table_from(keys), self._runtime.table_from(args))
        self._caller = caller
        try:
            return _reply(chunk(), outermost=True)
        except _Refused:
            raise
        except SimpleError as error:
            raise SimpleError(f"{error.value} script: {sha1}, on @user_script.") from None
        except (lua51.LuaError, ValueError, UnicodeError, TypeError) as error:
            text = str(error).partition("\nstack traceback:")[0]
            raise SimpleError(f"ERR {text} script: {sha1}, on @user_script.") from None
        finally:
            self._caller = None

    def _chunk(self, script: bytes) -> Any:
        if script not in self._compiled:
            made = self._compile(script)
            if isinstance(made, tuple):
                problem = made[1].decode("utf-8", "replace")
                raise SimpleError(f"ERR Error compiling script (new function): {problem}")
            self._compiled[script] = made
        return self._compiled[script]

    def _call(self, *parts: Any) -> Any:
        reply = self._run(parts)
        if isinstance(reply, SimpleError):
            raise reply
        return self._to_lua(reply)

    def _pcall(self, *parts: Any) -> Any:
        reply = self._run(parts)
        return (
            self._runtime.table_from({b"err": reply.value}) if isinstance(reply, SimpleError) else self._to_lua(reply)
        )

    def _run(self, parts: tuple[Any, ...]) -> Any:
        if self._caller is None:
            raise RuntimeError("a script called a command while no script runs")
        try:
            return self._caller.call([_argument(part) for part in parts])
        except SimpleError as error:
            return error

    def _to_lua(self, reply: Any) -> Any:
        if reply is None:
            return False
        if isinstance(reply, list):
            return self._runtime.table_from([self._to_lua(item) for item in reply])
        if hasattr(reply, "value"):
            return self._runtime.table_from({b"ok": reply.value})
        return reply


def _argument(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SimpleError("ERR Lua redis lib command arguments must be strings or integers")
    return b"%d" % value if float(value).is_integer() else b"%.17g" % value


def _reply(value: Any, *, outermost: bool = False) -> Any:
    """Return what a server answers for what a script returned."""
    if isinstance(value, tuple):
        value = value[0]
    if value is True:
        return 1
    if value is None or value is False:
        return None
    if isinstance(value, int | float):
        return int(value)
    if isinstance(value, bytes):
        return value
    if (error := value[b"err"]) is not None:
        text = error if isinstance(error, str) else error.decode("utf-8", "replace")
        if outermost:
            raise _Refused(text)
        return SimpleError(text)
    if (status := value[b"ok"]) is not None:
        return status
    items: list[Any] = []
    while (item := value[len(items) + 1]) is not None:
        items.append(_reply(item))
    return items


class _Refused(SimpleError):
    """What a script itself answers as an error goes out as it is."""
