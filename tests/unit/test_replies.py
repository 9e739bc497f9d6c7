"""Replies: read as bytes or text; refusals become named errors."""

from typing import Any

import attrs
import pytest

from echomq import errors, replies

CODES: list[tuple[int, type[errors.ScriptError]]] = [
    (-1, errors.JobNotFound),
    (-2, errors.LockMissing),
    (-3, errors.JobNotInState),
    (-4, errors.JobHasPendingChildren),
    (-5, errors.ParentNotFound),
    (-6, errors.LockMismatch),
    (-7, errors.ParentConflict),
    (-8, errors.JobBelongsToScheduler),
    (-9, errors.JobHasFailedChildren),
    (-10, errors.SchedulerCollision),
    (-11, errors.SchedulerSlotsBusy),
]


@pytest.mark.parametrize(("code", "error"), CODES)
def test_codes(code: int, error: type[errors.ScriptError]) -> None:
    """Each negative reply of the contract becomes its error, with code, script and job."""
    with pytest.raises(error) as caught:
        replies.Checked(replies.nothing, "moveToFinished", "7")(code)

    assert (caught.value.code, caught.value.script, caught.value.job_id) == (code, "moveToFinished", "7")
    assert "7" in str(caught.value)


def test_unknown_code() -> None:
    """A negative reply outside the contract is shown as it is."""
    with pytest.raises(errors.ProtocolError, match="replied -99 for job 7"):
        replies.Checked(replies.nothing, "promote", "7")(-99)


def test_text_or_bytes() -> None:
    """Connections that decode and connections that do not are read alike."""
    assert replies.text(b"a") == replies.text("a") == "a"
    assert replies.texts([b"a", "b", 3]) == ["a", "b", "3"]
    assert replies.pairs([b"a", b"1"]) == replies.pairs({"a": "1"}) == {"a": "1"}
    assert replies.number(b"12.7") == replies.number("12") == replies.number(12) == 12
    assert (replies.texts(None), replies.pairs(None), replies.number(None), replies.optional_text(None)) == (
        [],
        {},
        0,
        None,
    )
    assert replies.flag(1)
    assert not replies.flag(None)


@pytest.mark.parametrize(
    ("read", "reply"),
    [
        (replies.text, None),
        (replies.text, [b"a"]),
        (replies.texts, b"a"),
        (replies.texts, [None]),
        (replies.number, b"x"),
        (replies.number, [1]),
        (replies.pairs, [b"a"]),
        (replies.pairs, 5),
    ],
)
def test_unexpected(read: Any, reply: Any) -> None:
    """A reply of another kind is an error that shows the kind, not the content."""
    with pytest.raises(errors.ProtocolError, match="the server replied"):
        read(reply)


def test_decoders_are_values() -> None:
    """Decoders of equal calls are equal, and frozen."""
    first = replies.Checked(replies.number, "addLog", "7")

    assert first == replies.Checked(replies.number, "addLog", "7") != replies.Checked(replies.number, "addLog", "8")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        first.script = "x"  # type: ignore[misc]  # that is the point
