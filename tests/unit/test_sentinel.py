"""What sentinels and servers answer about who is master."""

import pytest

from echomq.driver import Address, ClusterOptions, ConnectionOptions, SentinelOptions
from echomq.errors import ConnectionLost, DriverError, InvalidOption, ServerNotReady, ServerRefused
from echomq.sentinel import Sentinels, check_master, nobody_knows, read_master


def test_answers_of_sentinels() -> None:
    """An address is read, whether the client decodes or not; no answer is no address."""
    assert read_master([b"10.0.0.1", b"6379"]) == Address("10.0.0.1", 6379)
    assert read_master(["::1", "6379"]) == Address("::1", 6379)
    assert read_master(None) is None


@pytest.mark.parametrize("reply", [{b"role": b"master"}, [b"server", b"redis", b"role", b"master"], {"role": "master"}])
def test_masters(reply: object) -> None:
    """A master is one in either version of the protocol."""
    check_master(reply, "h:1")


def test_replicas() -> None:
    """A replica is not ready to be written to."""
    with pytest.raises(ServerNotReady, match="h:1, which the sentinels name, is a replica"):
        check_master([b"role", b"replica"], "h:1")


def test_who_answered_is_asked_first() -> None:
    """The sentinel that answered last is asked first the next time."""
    sentinels = Sentinels("mq", ("a", "b", "c"))
    sentinels.answered("b")
    assert sentinels.places == ("b", "a", "c")
    assert sentinels.patience_s(4) == 1


@pytest.mark.parametrize(
    ("errors", "silent", "kind"),
    [
        ([ConnectionLost("gone")], [], ConnectionLost),
        ([ConnectionLost("gone")], ["b:1"], ConnectionLost),
        ([ServerRefused("no", prefix="WRONGPASS"), ConnectionLost("gone")], [], ServerRefused),
        ([ServerRefused("no", prefix="WRONGPASS")], ["b:1"], ConnectionLost),
    ],
)
def test_nobody_knows(errors: list[DriverError], silent: list[str], kind: type[DriverError]) -> None:
    """A refusal is final only if no other sentinel answered; a name nobody knows may be known soon."""
    assert type(nobody_knows("master 'mq'", "mq", errors, silent)) is kind


def test_options_that_contradict() -> None:
    """Sentinels and a cluster exclude each other, and neither is empty; addresses may be plain pairs."""
    cluster = ClusterOptions(seeds=(("h", 1),))
    assert cluster.seeds == (Address("h", 1),)
    with pytest.raises(InvalidOption, match="no sentinels"):
        ConnectionOptions(cluster=cluster, sentinel=SentinelOptions(service="mq", addresses=(("h", 1),)))
    with pytest.raises(InvalidOption, match="database 0 only"):
        ConnectionOptions(cluster=cluster, db=1)
    with pytest.raises(InvalidOption, match="at least one pair"):
        ClusterOptions(seeds=())


def test_passwords_are_not_shown() -> None:
    """Options do not show the password of the sentinels."""
    options = ConnectionOptions(sentinel=SentinelOptions(service="mq", addresses=(("h", 1),), password="geheim"))
    assert "geheim" not in repr(options)
    assert options.where == "master 'mq' of the sentinels h:1"
