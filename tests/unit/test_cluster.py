"""Which node a request goes to, and what follows when it is not served there."""

import pytest

from echomq.call import Batch, Command, ScriptCall
from echomq.cluster import (
    FRESH_S,
    MAX_REDIRECTS,
    Journey,
    SlotTable,
    can_ask,
    guarded,
    nobody_answered,
    slot_of,
    slots_of,
)
from echomq.driver import Address
from echomq.errors import (
    ConnectionClosed,
    ConnectionLost,
    DriverError,
    ProtocolError,
    ReplyTimeout,
    ServerNotReady,
    ServerRefused,
    UsageError,
)
from echomq.hash_slots import key_slot
from support.requests import command, run

ONE, TWO = Address("10.0.0.1", 7001), Address("10.0.0.2", 7002)
SEED = Address("seed", 6379)
REPLY = [
    [0, 8191, [b"10.0.0.1", 7001, b"id1"], [b"10.0.0.3", 7003, b"id3"]],
    [8192, 16383, [b"10.0.0.2", 7002, b"id2", []]],
]


def table() -> SlotTable:
    """A table that has been learned."""
    made = SlotTable((SEED,))
    assert made.learn(REPLY, SEED, 0.0)
    return made


def journey(known: SlotTable, *, can_ask: bool = True) -> Journey:
    """A request to slot 7 that has ten seconds."""
    return Journey(table=known, slot=7, where="the cluster", due_s=10.0, limit_ms=10_000, can_ask=can_ask)


def refusal(text: str) -> ServerRefused:
    """An answer of a node, as a connection raises it."""
    kind = ServerNotReady if text.split()[0] in {"TRYAGAIN", "CLUSTERDOWN", "LOADING"} else ServerRefused
    return kind(f"addStandardJob: the server refused: {text}; advice", prefix=text.split()[0])


@pytest.mark.parametrize(
    ("key", "slot"),
    [("123456789", 12739), ("foo", 12182), ("{foo}bar", 12182), ("a{foo}{bar}", 12182), ("bull:{foo}:1", 12182)],
)
def test_slots(key: str, slot: int) -> None:
    """A slot is the CRC16 of the first hash tag, or of the whole key."""
    assert slot == key_slot(key)


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        (run("any", "{foo}:a", "{foo}:b"), "foo"),
        (command("GET", "foo"), "foo"),
        (command("BZPOPMIN", b"foo", "5"), "foo"),
        (command("XREAD", "COUNT", 1, "BLOCK", 5, "STREAMS", "foo", "0"), "foo"),
        (command("SCAN", 0, "MATCH", "{foo}:mail:*"), "foo"),
        (command("EVAL", "return 1", 1, "foo"), "foo"),
        (Command(parts=("CLIENT", "LIST"), decode=str, near="foo"), "foo"),
        (command("EVAL", "return 1", 0), None),
        (command("PING"), None),
        (command("info"), None),
        (run("any"), None),
    ],
)
def test_slot_of_a_request(request_: ScriptCall[object] | Command[object], key: str | None) -> None:
    """A request goes where its first key lives; one without keys goes anywhere."""
    assert slot_of(request_) == (None if key is None else key_slot(key))


def test_keys_without_a_tag_are_refused() -> None:
    """A script of several keys without a hash tag is refused with the fix."""
    with pytest.raises(UsageError, match=r"no hash tag.*prefix '\{bull\}'"):
        slot_of(run("any", "bull:mail:wait", "bull:mail:active"))


def test_atomic_batch_needs_one_slot() -> None:
    """A transaction over two slots is refused and names two keys; without one it is split."""
    requests = (command("GET", "{a}:1"), command("GET", "{b}:1"), command("GET", "{a}:2"))
    assert slots_of(Batch(requests=requests)) == {key_slot("a"): [0, 2], key_slot("b"): [1]}
    with pytest.raises(UsageError, match=r"'\{a\}:1' and '\{b\}:1' of one transaction"):
        slots_of(Batch(requests=requests, atomic=True))


def test_guard() -> None:
    """A script call names one key more, of the same slot; commands and scripts without a tag are left alone."""
    safe = guarded(run("any", "{foo}:a", args=(1,)))
    assert isinstance(safe, ScriptCall)
    assert safe.keys == ("{foo}:a", "{foo}:a:moving")
    assert safe.args == (1,)
    for request in (run("any"), run("any", "a"), command("GET", "{foo}")):
        assert guarded(request) is request


def test_can_ask() -> None:
    """ASK is followed for plain commands only."""
    assert can_ask(command("GET", "a"))
    assert not can_ask(run("any", "a"))
    assert not can_ask(command("BLPOP", "a", 1, block_ms=1_000))


def test_owners() -> None:
    """A learned table knows the owner of each slot, any master, and replicas as nodes."""
    known = table()
    assert (known.owner(0), known.owner(8191), known.owner(8192), known.owner(16383)) == (ONE, ONE, TWO, TWO)
    assert known.owner(None) == ONE
    assert set(known.nodes) == {ONE, TWO, Address("10.0.0.3", 7003)}
    assert set(known.candidates([0.5, 0.1])) == {*known.nodes, SEED}
    assert known.candidates([0.5])[-1] == SEED


def test_nodes_without_a_host() -> None:
    """A node that tells no host of its own is at the host that was asked."""
    known = SlotTable((SEED,))
    known.learn([[0, 16383, [None, 7001, b"id"]]], SEED, 0.0)
    assert known.owner(5) == Address("seed", 7001)


def test_empty_and_broken_tables() -> None:
    """An empty answer is no table; one that cannot be read is a protocol error; an unowned slot is CLUSTERDOWN."""
    known = SlotTable((SEED,))
    assert not known.learn([], SEED, 0.0)
    with pytest.raises(ProtocolError, match="answered CLUSTER SLOTS by"):
        known.learn([[0, 1, [b"h"]]], SEED, 0.0)
    with pytest.raises(ServerNotReady, match="slot 5 of the cluster"):
        known.owner(5)


def test_moved() -> None:
    """MOVED corrects the table and sends on at once; nodes that keep pointing at each other give time, then up."""
    known = table()
    way = journey(known)
    step = way.after(refusal("MOVED 7 10.0.0.2:7002"), ONE, 0.0, 0.5)
    assert (step.node, step.asking, step.rest_s) == (TWO, False, 0.0)
    assert known.owner(7) == TWO
    way.after(refusal("MOVED 7 10.0.0.1:7001"), TWO, 0.0, 0.5)
    step = way.after(refusal("MOVED 7 10.0.0.2:7002"), ONE, 0.0, 0.5)
    assert step.learn
    assert step.rest_s > 0
    for _ in range(MAX_REDIRECTS - 3):
        way.after(refusal("MOVED 7 10.0.0.2:7002"), ONE, 0.0, 0.5)
    with pytest.raises(ServerNotReady, match="did not serve the request"):
        way.after(refusal("MOVED 7 10.0.0.2:7002"), ONE, 0.0, 0.5)


@pytest.mark.parametrize(
    ("told", "target"),
    [("::1:7005", Address("::1", 7005)), (":7005", Address("10.0.0.1", 7005)), ("?:7005", Address("10.0.0.1", 7005))],
)
def test_addresses_in_redirects(told: str, target: Address) -> None:
    """Redirects may name an IPv6 address, or no host, which is that of the node itself."""
    assert journey(table()).after(refusal(f"MOVED 7 {told}"), ONE, 0.0, 0.5).node == target


def test_ask() -> None:
    """ASK is followed once and forgotten; where it is of no use it is a reason to rest."""
    known = table()
    step = journey(known).after(refusal("ASK 7 10.0.0.2:7002"), ONE, 0.0, 0.5)
    assert (step.node, step.asking) == (TWO, True)
    assert known.owner(7) == ONE
    step = journey(known, can_ask=False).after(refusal("ASK 7 10.0.0.2:7002"), ONE, 0.0, 0.5)
    assert step.node is None
    assert step.rest_s > 0


def test_resting() -> None:
    """A slot that moves is waited for, a little longer each time, and given up as not ready when time is over."""
    way = journey(table())
    rests = [way.after(refusal("TRYAGAIN multiple keys"), ONE, 0.0, 1.0).rest_s for _ in range(8)]
    assert rests == sorted(rests)
    assert rests[-1] <= 0.5
    with pytest.raises(ServerNotReady, match="within 10000 ms") as caught:
        way.after(refusal("ASK 7 10.0.0.2:7002"), None, 9.99, 0.5)
    assert caught.value.prefix == "TRYAGAIN"


def test_node_gone() -> None:
    """A request that was not written goes to the heir of its node; one that may have run is the caller's."""
    known = table()
    step = journey(known).after(ConnectionLost("no link"), ONE, 1.0, 0.5)
    assert step.learn
    assert known.is_doubted
    for lost in (ConnectionLost("broke", may_have_run=True), ReplyTimeout("late"), ConnectionClosed("closed")):
        with pytest.raises(type(lost)):
            journey(known).after(lost, ONE, 1.0, 0.5)
    with pytest.raises(ConnectionLost, match="within 10000 ms; the last try: no link"):
        journey(known).after(ConnectionLost("no link"), ONE, 9.999, 0.5)


def test_fresh_table_is_not_doubted() -> None:
    """Many failures at once ask for the table once."""
    known = table()
    known.doubt(FRESH_S / 2)
    assert not known.is_doubted
    known.doubt(FRESH_S * 2)
    assert known.is_doubted


def test_other_refusals_are_the_callers() -> None:
    """What the server refuses for other reasons is not tried again."""
    with pytest.raises(ServerRefused, match="OOM"):
        journey(table()).after(refusal("OOM no memory"), ONE, 0.0, 0.5)


@pytest.mark.parametrize(
    ("errors", "kind", "says"),
    [
        ([ConnectionLost("a is gone"), ConnectionLost("b is gone")], ConnectionLost, "a is gone; b is gone"),
        ([ConnectionLost("a is gone"), refusal("NOPERM no")], ServerRefused, r"cluster\|slots must be allowed"),
        ([refusal("ERR disabled")], ServerRefused, "is it a cluster at all"),
        ([], ConnectionLost, "no node names an owner"),
    ],
)
def test_nobody_answered(errors: list[DriverError], kind: type[DriverError], says: str) -> None:
    """Asking all nodes in vain tells each reason, and what to do about a refusal."""
    with pytest.raises(kind, match=says):
        raise nobody_answered("the cluster", errors)
