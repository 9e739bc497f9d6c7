"""How a request is put to the server, and what its replies mean. Pure.

A script is asked for by its digest (EVALSHA); where the server does not know it
(NOSCRIPT) it is sent again as text (EVAL), which also teaches it. In MULTI/EXEC
an unknown script would leave a hole in the transaction, so there the first use
of each script is text from the start.

Both shells run :func:`exchange_batch`, a generator: it yields what to write and
receives the replies, one for each line written.

Source: design.md section 4; protocol spec 05 section 1.
"""

import re
from collections.abc import Generator, Iterable
from typing import Any, TypeAlias, TypeVar

from .call import Argument, Batch, Command, Reply, Request, ScriptCall
from .driver import ServerInfo
from .errors import EchoMQError, ProtocolError, ServerRefused
from .keys import Keys
from .scripts import get_script

__all__ = [
    "Exchange",
    "Parts",
    "ask_server",
    "decoded",
    "exchange_batch",
    "is_unknown_script",
    "parse_info",
    "parts",
    "refused",
    "text_parts",
]

T = TypeVar("T")

Parts: TypeAlias = tuple[Argument, ...]
"""One line of a write: a command's name and arguments."""

Exchange: TypeAlias = Generator[list[Parts], list[Reply], list[Any]]

_VERSION = re.compile(r"\d+(\.\d+)*")

_MULTI: Parts = ("MULTI",)
_EXEC: Parts = ("EXEC",)
_DISCARD: Parts = ("DISCARD",)


def parts(request: Request[Any]) -> Parts:
    """Return what to write for a request; a script goes by its digest."""
    if isinstance(request, ScriptCall):
        return ("EVALSHA", get_script(request.script).sha1, str(len(request.keys)), *request.keys, *request.args)
    return request.parts


def text_parts(call: ScriptCall[Any]) -> Parts:
    """Return what to write for a script call to a server that does not know the script."""
    return ("EVAL", get_script(call.script).text, str(len(call.keys)), *call.keys, *call.args)


def is_unknown_script(request: Request[Any], reply: Reply) -> bool:
    """Tell whether this reply asks for the script's text."""
    return isinstance(reply, ServerRefused) and reply.prefix == "NOSCRIPT" and isinstance(request, ScriptCall)


def refused(request: Request[Any], error: ServerRefused) -> ServerRefused:
    """Return the error with the name of what was refused."""
    name = request.script if isinstance(request, ScriptCall) else str(request.parts[0])
    advice = _ADVICE.get(error.prefix, "")
    return type(error)(f"{name}: the server refused: {error}{advice}", prefix=error.prefix)


_ADVICE = {
    "MOVED": "; this is a node of a cluster: connect by redis+cluster://host:port",
    "CROSSSLOT": "; give all queues that meet in one call the same hash tag, such as the prefix '{bull}'",
}


def decoded(request: Request[T], reply: Reply) -> T:
    """Return what a reply stands for.

    Raises:
        EchoMQError: What the reply says.
        ProtocolError: The reply has a shape that nothing in the contract has; callers never see anything else.
    """
    try:
        return request.decode(reply)
    except EchoMQError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        name = request.script if isinstance(request, ScriptCall) else str(request.parts[0])
        raise ProtocolError(f"{name}: the server's reply has a shape that cannot be read") from error


def _outcome(request: Request[Any], reply: Reply) -> Any:
    if isinstance(reply, ServerRefused):
        return refused(request, reply)
    try:
        return decoded(request, reply)
    except EchoMQError as error:
        return error


def _lines(requests: Iterable[Request[Any]], known: set[str]) -> list[Parts]:
    """Return the lines of these requests; the first use of a script not yet known is text."""
    lines = []
    for request in requests:
        if isinstance(request, ScriptCall) and request.script not in known:
            known.add(request.script)
            lines.append(text_parts(request))
        else:
            lines.append(parts(request))
    return lines


def exchange_batch(batch: Batch, known: set[str]) -> Exchange:
    """Put a batch to the server and return its outcomes, in order.

    Args:
        batch: What to send.
        known: Names of scripts this link has taught the server; grows.

    Raises:
        ServerRefused: An atomic batch was refused as a whole; nothing ran.
    """
    if not batch.requests:
        return []
    if batch.atomic:
        return (yield from _atomic(batch.requests, known))
    replies = yield _lines(batch.requests, known)
    holes = [at for at, reply in enumerate(replies) if is_unknown_script(batch.requests[at], reply)]
    if holes:
        filled = yield [text_parts(batch.requests[at]) for at in holes]  # type: ignore[arg-type]  # holes are script calls
        for at, reply in zip(holes, filled, strict=True):
            replies[at] = reply
    return [_outcome(request, reply) for request, reply in zip(batch.requests, replies, strict=True)]


def _atomic(requests: tuple[Request[Any], ...], known: set[str]) -> Exchange:
    if "MULTI" not in known:
        # Where an ACL forbids MULTI, what follows it would run one by one: ask once before relying on it.
        for reply in (yield [_MULTI, _DISCARD]):
            if isinstance(reply, ServerRefused):
                raise reply
        known.add("MULTI")
    lines = _lines(requests, set())
    first, *queued, last = yield [_MULTI, *lines, _EXEC]
    for request, reply in zip(requests, queued, strict=True):
        if isinstance(reply, ServerRefused):
            raise refused(request, reply)
    for reply in (first, last):
        if isinstance(reply, ServerRefused):
            raise reply
    return [_outcome(request, reply) for request, reply in zip(requests, last, strict=True)]


def ask_server(keys: Keys) -> Command[ServerInfo]:
    """Ask the server that holds a queue who it is: in a cluster, one of several."""
    return Command(parts=("INFO",), decode=parse_info, repeatable=True, near=keys.marker)


def parse_info(reply: Reply) -> ServerInfo:
    """Read the answer to INFO.

    Valkey also shows the Redis version it imitates; its own name and version win.
    """
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    name = fields.get("server_name", "redis")
    if "dragonfly_version" in fields:
        name = "dragonfly"
    version = _VERSION.search(fields.get(f"{name}_version", fields.get("redis_version", "")))
    return ServerInfo(
        name=name,
        version=tuple(map(int, version[0].split("."))) if version else (),
        maxmemory_policy=fields.get("maxmemory_policy"),
        is_cluster=fields.get("cluster_enabled", "0").strip() == "1",
    )
