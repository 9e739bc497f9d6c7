"""When to connect again, and what to say when it was in vain."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq.driver import ConnectionOptions
from echomq.errors import ConnectionLost, ServerNotReady, ServerRefused
from echomq.links import Reconnecting, is_final

OPTIONS = ConnectionOptions(reconnect_min_ms=20, reconnect_max_ms=2_000)


@given(st.integers(1, 2_000), st.floats(0, 1))
def test_pauses(failures: int, dice: float) -> None:
    """Pauses double from the shortest to the longest, each shortened by up to half by chance."""
    attempts = Reconnecting("h:1", OPTIONS)
    for _ in range(failures):
        attempts.failed(ConnectionLost("x"), 100.0)
    longest = min(2.0, 0.02 * 2 ** (failures - 1)) if failures < 20 else 2.0

    assert longest / 2 - 1e-9 <= attempts.pause_s(100.0, dice) <= longest + 1e-9


def test_no_pause_before_the_first_attempt() -> None:
    """A first attempt, and one after a success, is made at once."""
    attempts = Reconnecting("h:1", OPTIONS)
    assert attempts.pause_s(0.0, 0.5) == 0
    attempts.failed(ConnectionLost("x"), 0.0)
    attempts.succeeded()
    assert attempts.pause_s(0.0, 0.5) == 0


def test_time_since_the_failure_counts() -> None:
    """A request long after the last failure need not pause."""
    attempts = Reconnecting("h:1", OPTIONS)
    for _ in range(20):
        attempts.failed(ConnectionLost("x"), 100.0)

    assert attempts.pause_s(100.5, 1.0) == pytest.approx(1.5)
    assert attempts.pause_s(200.0, 1.0) == 0


def test_out_of_time() -> None:
    """The error at the deadline tells address, time, attempts, reason and advice."""
    attempts = Reconnecting("h:1", OPTIONS)
    attempts.failed(ConnectionLost("connection refused"), 0.0)
    error = attempts.out_of_time(500, connected=False)

    assert not error.may_have_run
    for word in ("h:1", "500 ms", "attempts: 1", "connection refused", "Check that the server runs"):
        assert word in str(error)
    assert "could not be written to h:1" in str(attempts.out_of_time(500, connected=True))


def test_is_final() -> None:
    """A refusal and an untrusted certificate end the attempts; a server that is not ready does not."""
    untrusted = ConnectionLost("x")
    untrusted.__cause__ = OSError("wrapped")
    certificate = ssl.SSLCertVerificationError(1, "bad")
    certificate.verify_code = 18
    untrusted.__cause__.__context__ = certificate

    assert is_final(ServerRefused("x", prefix="WRONGPASS"))
    assert is_final(untrusted)
    assert not is_final(ServerNotReady("x", prefix="LOADING"))
    assert not is_final(ConnectionLost("x"))
