"""Operations of several calls: what they ask for, one request after the other, and what they make of the answers."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from echomq import plans, removal, rerun
from echomq.call import Batch, Command, ScriptCall
from echomq.calls.remove import Swept
from echomq.errors import (
    BulkAddFailed,
    ConnectionLost,
    EchoMQError,
    InvalidOption,
    JobLocked,
    NotEncodable,
    ParentNotFound,
    ServerRefused,
    UnknownOption,
)
from echomq.keys import Keys
from echomq.options import RateLimit
from echomq.plans import Plan
from echomq.states import JobState

KEYS = Keys("mail")
NOW = 1_700_000_000_000


def played(plan: Plan[Any], answer: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Run a plan; what ``answer`` returns for a request is sent into it, what it raises is thrown.

    Returns:
        The requests, and the plan's result.
    """
    requests: list[Any] = []
    move: Callable[[Any], Any] = plan.send
    value: Any = None
    while True:
        try:
            requests.append(move(value))
        except StopIteration as end:
            return requests, end.value
        try:
            move, value = plan.send, answer(requests[-1])
        except EchoMQError as error:
            move, value = plan.throw, error


def answers(*replies: Any) -> Callable[[Any], Any]:
    """Answer the requests with these replies, in order; exceptions are raised."""
    left = iter(replies)

    def answer(_: Any) -> Any:
        reply = next(left)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return answer


def numbering() -> Callable[[Any], Any]:
    """Answer as a server that numbers the jobs."""
    numbers = itertools.count(1)

    def ids(call: Any) -> list[str]:
        count = len(call.args) - 2 if call.script == "addJobs" else 1
        return [str(number) for number in itertools.islice(numbers, count)]

    return lambda request: [ids(call) for call in request.requests] if isinstance(request, Batch) else ids(request)


def test_draft() -> None:
    """A draft has what the call says, else what the queue says, and no id."""
    job = plans.draft(KEYS, "send", {"a": 1}, {"attempts": 2}, {"attempts": 5, "lifo": True}, NOW)

    assert (job.id, job.name, job.data, job.timestamp_ms) == ("", "send", {"a": 1}, NOW)
    assert (job.options.attempts, job.options.lifo) == (2, True)


def test_none_in_a_call_leaves_the_default_aside() -> None:
    """None in a call means that the option is not given, whatever the queue says."""
    job = plans.draft(KEYS, "send", None, {"attempts": None}, {"attempts": 5}, NOW)

    assert job.options.attempts == 0


def test_drafts_stop_at_the_first_bad_item() -> None:
    """One bad item keeps all jobs from being made."""
    with pytest.raises(NotEncodable, match="data of job 'two'"):
        plans.drafts(KEYS, [("one", 1), ("two", object())], {}, NOW)
    with pytest.raises(InvalidOption, match=r"jobs\[1\]: expected \(name, data\)"):
        plans.drafts(KEYS, [("one", 1), ["two", 2]], {}, NOW)  # type: ignore[list-item]  # what the test is about
    with pytest.raises(InvalidOption, match=r"jobs\[0\]: options are a mapping"):
        plans.drafts(KEYS, [("one", 1, 5)], {}, NOW)  # type: ignore[list-item]  # what the test is about


def test_atomic_bulk_is_one_script() -> None:
    """Up to a thousand plain jobs that must all be added, or none, leave in one script."""
    jobs = plans.drafts(KEYS, [("send", number) for number in range(1_000)], {}, NOW)

    (call,), added = played(plans.add_bulk(jobs, atomic=True), numbering())

    assert (call.script, len(call.args)) == ("addJobs", 1_002)
    assert [(job.id, job.data) for job in added] == [(str(number + 1), number) for number in range(1_000)]


def test_atomic_bulk_is_one_transaction() -> None:
    """However many jobs of whatever kind, an atomic bulk is one batch that the server runs as a whole."""
    items: list[plans.NewJob] = [("send", number) for number in range(2_500)]
    items[1_500] = ("send", 1_500, {"job_id": "mine"})
    jobs = plans.drafts(KEYS, items, {}, NOW)

    (batch,), added = played(plans.add_bulk(jobs, atomic=True), numbering())

    assert [call.script for call in batch.requests] == ["addJobs", "addJobs", "addStandardJob", "addJobs"]
    assert batch.atomic
    assert [job.id for job in added] == [str(number) for number in range(1, 2_501)]


def test_other_bulk_goes_in_pieces() -> None:
    """A bulk that is not atomic leaves in scripts of 250 jobs, four at a time, and keeps its order."""
    jobs = plans.drafts(KEYS, [("send", number) for number in range(2_600)], {}, NOW)

    batches, added = played(plans.add_bulk(jobs, atomic=False), numbering())

    lengths = [[len(call.args) - 2 for call in batch.requests] for batch in batches]
    assert lengths == [[250] * 4, [250] * 4, [250, 250, 100]]
    assert not any(batch.atomic for batch in batches)
    assert [(job.id, job.data) for job in added] == [(str(number + 1), number) for number in range(2_600)]


def test_large_jobs_go_in_smaller_pieces() -> None:
    """A script takes a megabyte of data and no further job, so that none holds up the server."""
    jobs = plans.drafts(KEYS, [("send", "x" * 300_000)] * 10, {}, NOW)

    (batch,), _ = played(plans.add_bulk(jobs, atomic=False), numbering())

    assert [len(call.args) - 2 for call in batch.requests if call.script == "addJobs"] == [4, 4]


def test_empty_bulk_sends_nothing() -> None:
    """No jobs, no request."""
    assert played(plans.add_bulk([], atomic=True), numbering()) == ([], [])


def test_declined_items_of_a_bulk() -> None:
    """Where the server declined a job, the error holds every outcome: jobs with their ids, and errors."""
    jobs = plans.drafts(KEYS, [("one", 1), ("two", 2)], {}, NOW)
    declined = ParentNotFound("addStandardJob", None)

    with pytest.raises(BulkAddFailed, match="1 of 2 jobs were not added; the first because: the parent") as caught:
        played(plans.add_bulk(jobs, atomic=True), answers([declined, ["7"]]))

    first, second = caught.value.outcomes
    assert first is declined
    assert (second.id, second.name) == ("7", "two")


def test_declined_piece_of_a_bulk() -> None:
    """Where the server refused one script of several, each of its jobs has that error, and the others their ids."""
    jobs = plans.drafts(KEYS, [("send", number) for number in range(300)], {}, NOW)
    full = ServerRefused("out of memory", prefix="OOM")

    with pytest.raises(BulkAddFailed, match="50 of 300 jobs were not added") as caught:
        played(plans.add_bulk(jobs, atomic=False), answers([[str(number) for number in range(250)], full]))

    assert [job.id for job in caught.value.outcomes[:250]] == [str(number) for number in range(250)]
    assert caught.value.outcomes[250:] == [full] * 50


def test_lost_link_in_a_bulk() -> None:
    """What breaks a batch reaches the caller as it is."""
    jobs = plans.drafts(KEYS, [("one", 1)], {}, NOW)

    with pytest.raises(ConnectionLost, match="gone"):
        played(plans.add_bulk(jobs, atomic=True), answers(ConnectionLost("gone", may_have_run=True)))


def test_resume_goes_on_until_nothing_is_left() -> None:
    """Resuming repeats while jobs of an old client are left, and only the first call tells listeners."""
    requests, result = played(plans.resume(KEYS), answers(13_005, 6_005, 0))

    assert result is None
    assert [(request.script, request.args) for request in requests] == [
        ("pause", ("resumed", "1")),
        ("pause", ("resumed", "0")),
        ("pause", ("resumed", "0")),
    ]


def test_obliterate_pauses_first_and_goes_on_to_the_end() -> None:
    """A queue is paused before it is deleted, and deleted step by step."""
    requests, _ = played(removal.obliterate(KEYS, force=False, count=10), answers(None, True, True, False))

    assert [request.script for request in requests] == ["pause", "obliterate", "obliterate", "obliterate"]


@pytest.mark.parametrize("count", [0, -1, True, "10"])
def test_obliterate_needs_steps(count: Any) -> None:
    """Steps of no jobs would never end, so they are refused before anything is sent."""
    with pytest.raises(InvalidOption, match="count"):
        played(removal.obliterate(KEYS, force=False, count=count), answers())
    with pytest.raises(InvalidOption, match="count"):
        played(rerun.move_all_to_wait(KEYS, JobState.FAILED, count=count, until_ms=None), answers())


def test_clean_ends_with_a_short_step() -> None:
    """Cleaning goes on while steps come back full, and returns all ids."""
    left = [str(number) for number in range(25_000)]

    def answer(request: Any) -> list[str]:
        ids, left[:] = left[: request.args[2]], left[request.args[2] :]
        return ids

    requests, removed = played(removal.clean(KEYS, JobState.COMPLETED, before_ms=NOW, limit=0), answer)

    assert len(requests) > 1
    assert removed == [str(number) for number in range(25_000)]


def test_clean_keeps_to_the_limit() -> None:
    """Cleaning with a limit asks for no more than is left of it, and then stops."""
    requests, removed = played(
        removal.clean(KEYS, JobState.FAILED, before_ms=NOW, limit=1_005), lambda request: ["id"] * request.args[2]
    )

    assert len(removed) == 1_005
    assert sum(request.args[2] for request in requests) == 1_005


def test_clean_goes_on_behind_spared_jobs() -> None:
    """Cleaning what waits goes on where the last step left off, and through the list of an old client's pause."""
    steps = answers(Swept(["a"], 2), Swept(["b"], None), Swept([], None))

    requests, removed = played(removal.clean(KEYS, JobState.WAITING, before_ms=NOW, limit=0), steps)

    assert removed == ["a", "b"]
    assert [(request.keys[0], request.args[3]) for request in requests] == [
        (KEYS.wait, 0),
        (KEYS.wait, 2),
        (KEYS.paused, 0),
    ]


def test_clean_of_waiting_keeps_to_the_limit() -> None:
    """Each step of cleaning is told how many may still go; nothing is asked once the limit is reached."""
    steps = answers(Swept(["a"], 5), Swept(["b"], None))

    requests, removed = played(removal.clean(KEYS, JobState.WAITING, before_ms=NOW, limit=2), steps)

    assert removed == ["a", "b"]
    assert [request.args[5] for request in requests] == [2, 1]


@pytest.mark.parametrize(
    ("delayed", "places"),
    [(True, ["delayed", "prioritized", "paused", "wait"]), (False, ["prioritized", "paused", "wait"])],
)
def test_drain_goes_the_way_of_jobs(delayed: bool, places: list[str]) -> None:
    """Draining empties first what would move on first, so that no job slips past, whatever its age."""
    requests, _ = played(removal.drain(KEYS, delayed=delayed), answers(*[Swept([], None)] * 4))

    assert [request.keys[0] for request in requests] == [KEYS.base + place for place in places]
    assert {request.args[2] for request in requests} == {"inf"}


def test_remove_small_tree() -> None:
    """A job with few below it goes in one call."""
    requests, _ = played(removal.remove(KEYS, "7", with_children=True), answers(True))

    assert [request.script for request in requests] == ["removeTree"]


def test_remove_large_tree_looks_for_locks_first() -> None:
    """A tree too large for one call is removed in steps, once no lock was found at any level."""
    top, child = KEYS.job("7"), KEYS.job("8")
    steps = answers(False, ("9", [child]), 0, 1, [1], ("0", []), ("0", [KEYS.job("9")]), 0, 0, False, True)

    requests, _ = played(removal.remove(KEYS, "7", with_children=True), steps)

    scans = [request.parts[1] for request in requests if isinstance(request, Command) and request.parts[0] == "SSCAN"]
    assert scans == [f"{top}:dependencies", f"{top}:dependencies", f"{child}:dependencies"]
    assert [request.args[-1] for request in requests if isinstance(request, ScriptCall)] == ["0", "1", "1"]


def test_remove_large_tree_with_a_lock() -> None:
    """Nothing is removed from a large tree while a job below is locked."""
    with pytest.raises(JobLocked):
        played(removal.remove(KEYS, "7", with_children=True), answers(False, ("0", [KEYS.job("8")]), 1))


@pytest.mark.parametrize("limit", [-1, True, 1.5])
def test_clean_needs_a_sensible_limit(limit: Any) -> None:
    """A limit that is no count is refused before anything is sent."""
    with pytest.raises(InvalidOption, match="limit"):
        played(removal.clean(KEYS, JobState.FAILED, before_ms=NOW, limit=limit), answers())


def test_move_all_repeats_while_there_is_more() -> None:
    """Retrying all jobs goes on step by step."""
    requests, _ = played(
        rerun.move_all_to_wait(KEYS, JobState.FAILED, count=5, until_ms=NOW), answers(True, True, False)
    )

    assert [request.args for request in requests] == [(5, NOW, "failed")] * 3


def test_settings_record() -> None:
    """The settings record tells library, version and the length of the event log."""
    request = plans.announce(KEYS, 50)

    assert request.parts[:4] == ("HSET", "bull:mail:meta", "opts.maxLenEvents", 50)
    assert str(request.parts[5]).startswith("echomq:")


def test_limits_over_all_workers() -> None:
    """Limits are set and lifted in the settings all workers read."""
    assert plans.global_concurrency(KEYS, 5).parts == ("HSET", KEYS.meta, "concurrency", 5)
    assert plans.global_concurrency(KEYS, None).parts == ("HDEL", KEYS.meta, "concurrency")
    assert plans.global_rate_limit(KEYS, RateLimit(5, 1_000)).parts == ("HSET", KEYS.meta, "max", 5, "duration", 1_000)
    assert plans.global_rate_limit(KEYS, None).parts == ("HDEL", KEYS.meta, "max", "duration")


def test_defaults_are_checked_early() -> None:
    """Options of a queue are checked when it is made, and hold no id."""
    assert plans.checked_defaults(None) == {}
    assert plans.checked_defaults({"attempts": 3}) == {"attempts": 3}
    with pytest.raises(UnknownOption, match="attempts"):
        plans.checked_defaults({"attemps": 3})
    with pytest.raises(InvalidOption, match="job_id"):
        plans.checked_defaults({"job_id": "mine"})
