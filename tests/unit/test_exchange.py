"""How requests become writes, and replies outcomes."""

from typing import Any

import pytest

from echomq import scripts
from echomq.call import Batch, Command
from echomq.errors import ProtocolError, ServerNotReady, ServerRefused
from echomq.exchange import decoded, exchange_batch, parse_info, parts, text_parts
from echomq.resp import server_error
from support.requests import command, run

SCRIPT = scripts.Script(name="one", key_count=1, text="return 1", sha1="ab12")
MISSING = server_error("NOSCRIPT No matching script")


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that knows one script."""
    monkeypatch.setattr("echomq.exchange.get_script", lambda _: SCRIPT)


def play(batch: Batch, known: set[str], *answers: list[Any]) -> tuple[list[Any], Any]:
    """Run an exchange against these answers; return what was written and the outcome."""
    exchange = exchange_batch(batch, known)
    written = []
    try:
        lines = next(exchange)
        for answer in answers:
            written.append(lines)
            lines = exchange.send(answer)
    except StopIteration as end:
        return written, end.value
    raise AssertionError(f"the exchange wants more: {lines}")


def test_script_goes_by_digest() -> None:
    """A script call is EVALSHA, digest, number of keys, keys, arguments."""
    call = run("one", "k", args=(5, b"x"))

    assert parts(call) == ("EVALSHA", "ab12", "1", "k", 5, b"x")
    assert text_parts(call) == ("EVAL", "return 1", "1", "k", 5, b"x")


def test_first_use_is_text() -> None:
    """In a batch a script is sent as text once; a link that taught it before sends the digest."""
    batch = Batch(requests=(run("one", "a"), run("one", "b")))
    known: set[str] = set()
    (lines,), outcome = play(batch, known, [1, 2])

    assert [line[0] for line in lines] == ["EVAL", "EVALSHA"]
    assert outcome == [1, 2]
    (lines,), _ = play(batch, known, [1, 2])
    assert [line[0] for line in lines] == ["EVALSHA", "EVALSHA"]


def test_holes_are_filled() -> None:
    """Items that found their script forgotten are sent again as text, in order; the others are not."""
    batch = Batch(requests=(run("one", "a"), command("PING"), run("one", "b")))
    written, outcome = play(batch, {"one"}, [MISSING, b"PONG", MISSING], [1, 2])

    assert [line[:1] + line[3:] for line in written[1]] == [("EVAL", "a"), ("EVAL", "b")]
    assert outcome == [1, b"PONG", 2]


def test_atomic() -> None:
    """MULTI is tried once on a link; then all goes in one write, each script's first use as text."""
    batch = Batch(requests=(run("one", "a"), run("one", "b"), command("PING")), atomic=True)
    known = {"one"}
    written, outcome = play(batch, known, [b"OK", b"OK"], [b"OK", b"QUEUED", b"QUEUED", b"QUEUED", [1, 2, b"PONG"]])

    assert written[0] == [("MULTI",), ("DISCARD",)]
    assert [line[0] for line in written[1]] == ["MULTI", "EVAL", "EVALSHA", "PING", "EXEC"]
    assert outcome == [1, 2, b"PONG"]
    written, _ = play(batch, known, [b"OK", b"QUEUED", b"QUEUED", b"QUEUED", [1, 2, b"PONG"]])
    assert len(written) == 1


@pytest.mark.parametrize(
    ("answers", "prefix", "kind"),
    [
        ([[server_error("NOPERM no MULTI"), server_error("ERR DISCARD without MULTI")]], "NOPERM", ServerRefused),
        ([[b"OK"] * 2, [b"OK", server_error("OOM full"), server_error("EXECABORT x")]], "OOM", ServerRefused),
        ([[b"OK"] * 2, [b"OK", server_error("LOADING x"), server_error("EXECABORT x")]], "LOADING", ServerNotReady),
        ([[b"OK"] * 2, [b"OK", b"QUEUED", server_error("EXECABORT x")]], "EXECABORT", ServerRefused),
    ],
)
def test_atomic_refused(answers: list[list[Any]], prefix: str, kind: type) -> None:
    """A transaction that was refused raises the reason, not EXECABORT, where the server told one."""
    with pytest.raises(ServerRefused) as caught:
        play(Batch(requests=(command("SET", "a", 1),), atomic=True), set(), *answers)

    assert caught.value.prefix == prefix
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("text", "name", "version", "policy"),
    [
        ("# Server\r\nredis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n", "redis", (7, 0, 15), "noeviction"),
        (
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nmaxmemory_policy:allkeys-lru\r\n",
            "valkey",
            (9, 1, 2),
            "allkeys-lru",
        ),
        ("redis_version:6.2.14\r\n", "redis", (6, 2, 14), None),
        ("redis_version:7.4.0\r\ndragonfly_version:df-v1.31.0\r\n", "dragonfly", (1, 31, 0), None),
        ("redis_version:255.255.255\r\n", "redis", (255, 255, 255), None),
        ("redis_version:8.0-rc1\r\n", "redis", (8, 0), None),
        ("", "redis", (), None),
    ],
)
def test_info(text: str, name: str, version: tuple[int, ...], policy: str | None) -> None:
    """A server's own name and version are read, not those it imitates; also of text a client decoded."""
    for reply in (text.encode(), text):
        info = parse_info(reply)
        assert (info.name, info.version, info.maxmemory_policy) == (name, version, policy)


@pytest.mark.parametrize("error", [TypeError, ValueError, KeyError, IndexError, RecursionError, OverflowError])
def test_unreadable_reply(error: type[Exception]) -> None:
    """Whatever goes wrong while a reply is read is our error that names the request, and shows nothing of the reply."""

    def fail(_: Any) -> Any:
        raise error("secret")

    with pytest.raises(ProtocolError, match="GET: the server's reply has a shape that cannot be read"):
        decoded(Command(parts=("GET", "k"), decode=fail), b"secret")
