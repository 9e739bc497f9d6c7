"""What calls make of replies."""

from typing import Any

import pytest

from echomq.calls import add, change, family, fetch, finish, locks, metrics, query, queue, remove, schedulers
from echomq.errors import (
    InvalidOption,
    JobBelongsToScheduler,
    JobLocked,
    JobNotFound,
    LockMissing,
    NotEncodable,
    ParentNotFound,
    ProtocolError,
    QueueHasActiveJobs,
    QueueNotPaused,
    SchedulerCollision,
)
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import JobOptions, job_options
from echomq.repeat import Repeat
from echomq.states import JobState
from support.wire import spoken

Q = Keys("q")
T = 1_700_000_000_000
TAKE = fetch.Take(token="tok", lock_ms=30_000)
JOB = Job(keys=Q, id="1", name="n")
HASH = [b"name", b"n", b"data", b'{"a":1}', b"opts", b"{}", b"ats", b"1"]
TAKES = [
    fetch.move_to_active(Q, TAKE, T).decode,
    finish.complete(JOB, "null", take=TAKE, keep=None, fetch=True, now_ms=T).decode,
    finish.move_to_delayed(JOB, delay_ms=5, count_attempt=True, take=TAKE, fetch=True, now_ms=T).decode,
]


@pytest.mark.parametrize("decode", TAKES)
def test_taken_job(decode: Any) -> None:
    """A take, alone or with a finish, brings a job that is active."""
    taken = decode([HASH, b"42", 0, 0])

    assert (taken.job.id, taken.job.data, taken.job.state) == ("42", {"a": 1}, JobState.ACTIVE)
    assert (taken.limited_ms, taken.next_delayed_at_ms) == (0, 0)
    assert decode([HASH, "42", b"0", "0"]) == taken


@pytest.mark.parametrize("decode", TAKES)
@pytest.mark.parametrize(
    ("reply", "limited_ms", "next_ms"),
    [
        ([0, 0, 250, 0], 250, 0),
        ([0, 0, 0, T], 0, T),
        ([0, 0, 0, 0], 0, 0),
        ([0, 0, b"5", b"0"], 5, 0),
        ([0, 0], 0, 0),
    ],
)
def test_nothing_taken(decode: Any, reply: Any, limited_ms: int, next_ms: int) -> None:
    """A take that found no job says how long to hold off, or when the next one is due."""
    taken = decode(reply)
    assert (taken.job, taken.limited_ms, taken.next_delayed_at_ms) == (None, limited_ms, next_ms)


def test_finish_without_fetch() -> None:
    """A finish that brings nothing decodes to None."""
    assert TAKES[1](0) is None
    assert TAKES[2](0) is None


def test_finish_refused() -> None:
    """A finish whose lock is gone raises, naming the job."""
    with pytest.raises(LockMissing) as caught:
        TAKES[1](-2)

    assert caught.value.job_id == "1"


@pytest.mark.parametrize(
    "reply", [None, 5, b"x", [], [HASH], [[b"name"], b"9", 0, 0], [5, b"9", 0, 0], [HASH, None, 0, 0]]
)
def test_strange_takes(reply: Any) -> None:
    """A take's reply of another shape is a protocol error, whatever it is."""
    with pytest.raises(ProtocolError):
        TAKES[0](reply)


def test_hostile_hash_names_the_job() -> None:
    """A hash that cannot be read is told with the job's id, so that it can be found."""
    with pytest.raises(ProtocolError, match="job 9"):
        TAKES[0]([[b"name", 5], b"9", 0, 0])


def test_add_answers() -> None:
    """An add answers with the id as text, or raises for a missing parent."""
    call = add.add_job(Job.from_options(Q, "n", None, job_options(), T))

    assert call.decode(b"12") == call.decode("12") == "12"
    with pytest.raises(ParentNotFound):
        call.decode(-5)


def test_adds_that_may_be_repeated() -> None:
    """Only an add with an id of the caller's, and no deduplication, may be sent twice."""

    def repeatable(**options: Any) -> bool:
        return add.add_job(Job.from_options(Q, "n", None, job_options(**options), T)).repeatable

    assert repeatable(job_id="mine")
    assert not repeatable()
    assert not repeatable(job_id="mine", deduplication="d")


def test_what_may_not_be_repeated() -> None:
    """Takes, finishes and moves are never sent twice by a connection."""
    once: list[Any] = [
        fetch.move_to_active(Q, TAKE, T),
        finish.complete(JOB, "null", take=TAKE, keep=None, fetch=True, now_ms=T),
        finish.retry_job(JOB, token="t", now_ms=T),
        change.add_log(Q, "1", "row"),
        change.promote(Q, "1"),
        queue.drain(Q),
        queue.obliterate(Q, 5, force=True),
        remove.clean(Q, JobState.FAILED, T, 5),
        fetch.wait_marker(Q, 5),
        locks.release_lock(Q, "1", "t"),
    ]
    assert not any(call.repeatable for call in once)


def test_parent_and_policy_of_a_child() -> None:
    """A child carries its parent and what its failure does to it."""
    call = add.add_job(
        Job.from_options(
            *(Q, "n", None, job_options(parent={"id": "p", "queue": "bull:o"}, ignore_dependency_on_failure=True), T)
        ),
        defer=True,
    )
    head = spoken(call)[2][0]
    assert head[4:7] == ["bull:o:p", "bull:o:p:dependencies", {"id": "p", "queueKey": "bull:o", "idof": True}]
    assert head[9] == 1


def test_marker() -> None:
    """A popped marker gives its score, fractions included; a timeout gives None."""
    command = fetch.wait_marker(Q, 1_500)

    assert command.parts == ("BZPOPMIN", "bull:q:marker", "1.500")
    assert command.block_ms == 1_500
    assert command.decode([b"bull:q:marker", b"0", b"0"]) == 0
    assert command.decode(["bull:q:marker", "1", 1700000005000.0002]) == 1700000005000.0002
    assert command.decode(None) is None
    with pytest.raises(ProtocolError):
        command.decode([b"k"])


def test_locks() -> None:
    """Locks that were lost are told by the ids of their jobs."""
    assert locks.extend_locks(Q, [("1", "a"), ("2", "a")], 5).decode([b"2"]) == ["2"]
    assert locks.extend_lock(Q, "1", "a", 5).decode(1)
    assert not locks.extend_lock(Q, "1", "a", 5).decode(0)
    assert locks.move_stalled_jobs_to_wait(Q, 1, 5, T).decode([b"7", b"8"]) == ["7", "8"]


def test_waiting_children() -> None:
    """A job that found nothing to wait for stays active."""
    decode = finish.move_to_waiting_children(JOB, token="t", now_ms=T).decode
    assert (decode(0), decode(1)) == (True, False)


def test_counts() -> None:
    """Waiting jobs are counted in both their lists, and answers keep the order asked for."""
    call = query.get_counts(Q, [JobState.FAILED, JobState.WAITING])

    assert call.args == ("failed", "wait", "paused")
    assert list(call.decode([1, 2, 3]).items()) == [(JobState.FAILED, 1), (JobState.WAITING, 5)]
    assert query.get_counts(Q, [JobState.DELAYED], due_before_ms=9).args == (9, "delayed")
    with pytest.raises(ProtocolError):
        call.decode([1])
    with pytest.raises(InvalidOption):
        query.get_counts(Q, [JobState.UNKNOWN])


def test_ranges() -> None:
    """Ids come once each, state after state, and ascending lists are turned the right way round."""
    call = query.get_ranges(Q, [JobState.WAITING, JobState.FAILED], 0, 1, ascending=True)
    assert call.decode([[b"b", b"a"], [], [b"a", b"c"]]) == ["a", "b", "c"]


def test_jobs() -> None:
    """Jobs come once each and know where they were found."""
    call = query.get_jobs(Q, [JobState.ACTIVE, JobState.FAILED])
    jobs = call.decode([[[b"1", HASH]], [[b"1", HASH], [b"2", HASH]]])

    assert [(job.id, job.state) for job in jobs] == [("1", JobState.ACTIVE), ("2", JobState.FAILED)]


def test_one_job() -> None:
    """A job that does not exist is None."""
    decode = query.get_job(Q, "1").decode

    assert decode([]) is None
    assert decode({}) is None
    assert decode({b"name": b"n"}) == decode([b"name", b"n"]) == Job(keys=Q, id="1", name="n")


def test_state() -> None:
    """A state is one of the words, or a protocol error."""
    decode = query.get_state(Q, "1").decode

    assert decode(b"waiting-children") is decode("waiting-children") is JobState.WAITING_CHILDREN
    with pytest.raises(ProtocolError, match="'odd'"):
        decode(b"odd")


def test_finished() -> None:
    """Whether and how a job ended; a missing one raises."""
    decode = query.is_finished(Q, "1").decode

    assert decode([0]) == query.Finished()
    assert decode([1, b"5"]) == query.Finished(state=JobState.COMPLETED, raw_return_value=b"5")
    assert decode([2, b"boom"]) == query.Finished(state=JobState.FAILED, failed_reason="boom")
    with pytest.raises(JobNotFound):
        decode([-1, b"Missing key"])


def test_logs() -> None:
    """Rows are read from either end; the newest come first when asked so."""
    assert query.get_logs(Q, "1", 0, 9).parts == ("LRANGE", "bull:q:1:logs", 0, 9)
    newest = query.get_logs(Q, "1", 0, 9, ascending=False)
    assert newest.parts == ("LRANGE", "bull:q:1:logs", -10, -1)
    assert query.get_logs(Q, "1", ascending=False).parts[2:] == (0, -1)
    assert newest.decode([b"a", b"b"]) == ["b", "a"]


def test_metrics() -> None:
    """Counters that were never written are zero."""
    decode = metrics.get_metrics(Q, JobState.FAILED).decode

    assert decode([[None, None, None], [], 0]) == metrics.Metrics(
        count=0, previous_ms=0, previous_count=0, points=(), point_count=0
    )
    assert decode([[b"3", b"9", b"2"], [b"0", b"2"], 2]).points == (0, 2)
    with pytest.raises(InvalidOption):
        metrics.get_metrics(Q, JobState.ACTIVE)


def test_pages() -> None:
    """A page holds a set's members or a hash's pairs, with the jobs if they were asked for."""
    decode = query.paginate(Q.processed("p"), 0, 9, fetch_jobs=True).decode
    page = decode([b"0", 2, [[b"bull:o:c1", b"5"], [b"bull:o:c2", b"6"]], 2, [HASH, []]])

    assert page.items == {"bull:o:c1": "5", "bull:o:c2": "6"}
    assert (page.jobs["bull:o:c1"].queue_name, list(page.jobs)) == ("o", ["bull:o:c1"])
    assert decode([0, 0, [], 0]) == query.Page(cursor="0", offset=0, items={}, total=0, jobs={})


def test_removal() -> None:
    """Removing an absent job is no error; a locked one and a scheduler's are."""
    decode = remove.remove_job(Q, "1").decode

    decode(1)
    with pytest.raises(JobLocked):
        decode(0)
    with pytest.raises(JobBelongsToScheduler):
        decode(-8)


def test_orphan_candidates() -> None:
    """Only keys that can belong to a job make candidates, each id once."""
    names = [
        "7",
        "7:logs",
        "wait",
        "meta",
        "de:x",
        "repeat:s:5",
        "metrics:completed:data",
        "8:lock",
        "9:other",
        "id",
        "",
    ]
    assert remove.orphan_candidates(Q, [Q.base + name for name in names]) == ["7", "8"]


def test_scan_pattern() -> None:
    """A prefix with pattern letters is taken literally."""
    assert remove.scan_keys(Keys("q*", "{b}[1]"), "0", 9).parts == (
        "SCAN",
        "0",
        "MATCH",
        "{b}\\[1\\]:q\\*:*",
        "COUNT",
        9,
    )


def test_obliterate() -> None:
    """Obliterate says whether to go on, and why it will not begin."""
    decode = queue.obliterate(Q, 5, force=False).decode

    assert (decode(0), decode(1)) == (False, True)
    with pytest.raises(QueueNotPaused):
        decode(-1)
    with pytest.raises(QueueHasActiveJobs):
        decode(-2)


def test_meta() -> None:
    """Settings are read; a queue is paused if the field is there, whatever it says."""
    meta = queue.get_meta(Q).decode([b"paused", b"0", b"concurrency", b"5", b"version", b"x:1", b"library", b"rust"])

    assert (meta.is_paused, meta.concurrency, meta.max, meta.version, meta.other) == (
        True,
        5,
        None,
        "x:1",
        {"library": "rust"},
    )
    with pytest.raises(InvalidOption):
        queue.set_global_concurrency(Q, 0)


def test_moving_all() -> None:
    """Delayed jobs are bounded by the moment they are due, finished ones by the moment they ended."""
    assert queue.move_jobs_to_wait(Q, JobState.FAILED, 9, T).args == (9, T, "failed")
    assert queue.move_jobs_to_wait(Q, JobState.DELAYED, 9, T).args == (9, (T + 1) * 4096 - 1, "delayed")
    with pytest.raises(InvalidOption):
        queue.move_jobs_to_wait(Q, JobState.ACTIVE, 9)


def test_change_refuses() -> None:
    """Changes are checked before they are sent."""
    with pytest.raises(NotEncodable, match="progress of job 1"):
        change.update_progress(Q, "1", {1: 2})
    with pytest.raises(InvalidOption, match="2097151"):
        change.change_priority(Q, "1", 2_097_152)
    with pytest.raises(InvalidOption, match="waiting"):
        change.reprocess_job(Q, "1", JobState.WAITING)
    with pytest.raises(InvalidOption, match="row"):
        change.add_log(Q, "1", b"x")  # type: ignore[arg-type]  # that is the point


def test_family() -> None:
    """Results of children come decoded, by child key."""
    assert family.get_children_values(Q, "p").decode([b"bull:q:c", b'{"a":1}']) == {"bull:q:c": {"a": 1}}
    assert family.get_dependency_counts(Q, "p").decode([1, 2, 3, 4]) == family.DependencyCounts(
        processed=1, unprocessed=2, ignored=3, failed=4
    )
    assert family.remove_child_dependency(Q, "c", "bull:q:p").decode(0)
    assert not family.remove_child_dependency(Q, "c", "bull:q:p").decode(1)


def scheduler(repeat: Repeat, options: JobOptions | None = None, scheduler_id: str = "s") -> Any:
    """The call that makes a scheduler."""
    return schedulers.add_job_scheduler(
        *(Q, scheduler_id, repeat), name="n", data=None, options=options or job_options(), now_ms=T
    )


def test_scheduler_answers() -> None:
    """A scheduler answers with its pending job, or says which one is in the way."""
    call = scheduler(Repeat(every=5))
    job = call.decode([b"repeat:s:5", 250])

    assert (job.id, job.delay_ms, job.scheduler_id, job.name) == ("repeat:s:5", 250, "s", "n")
    with pytest.raises(SchedulerCollision, match="scheduler s"):
        call.decode(-10)


def test_scheduler_refuses() -> None:
    """A scheduler without id, with an end in the past or with a job id is refused; one without jobs is None."""
    with pytest.raises(InvalidOption, match="scheduler_id"):
        scheduler(Repeat(every=5), scheduler_id="")
    with pytest.raises(InvalidOption, match="end_date"):
        scheduler(Repeat(every=5, end_date=T - 1))
    with pytest.raises(InvalidOption, match="job_id"):
        scheduler(Repeat(every=5), job_options(job_id="mine"))
    assert scheduler(Repeat(every=5, limit=0)) is None


def test_scheduler_that_another_client_made() -> None:
    """A schedule that cannot be read here is an error that names it, not a silent end; no schedule is an end."""
    job = Job(keys=Q, id="repeat:s:5", name="n", scheduler_id="s", raw_options='{"repeat":{"pattern":"H H * * *"}}')

    with pytest.raises(ProtocolError, match="scheduler s"):
        schedulers.update_job_scheduler(job, T)
    assert schedulers.update_job_scheduler(JOB, T) is None


def test_read_scheduler() -> None:
    """A stored scheduler is read with its template."""
    decode = schedulers.get_job_scheduler(Q, "s").decode
    fields = [
        b"name",
        b"n",
        b"ic",
        b"2",
        b"every",
        b"5",
        b"data",
        b'{"a":1}',
        b"opts",
        b'{"attempts":2}',
        b"endDate",
        b"9",
    ]
    found = decode([fields, b"12"])

    assert found is not None
    assert (found.id, found.name, found.next_ms, found.iteration_count, found.every) == ("s", "n", 12, 2, 5)
    assert (found.end_date, found.data, found.options.attempts) == (9, {"a": 1}, 2)
    assert decode([]) is None


@pytest.mark.parametrize(
    ("scheduler_id", "is_legacy"),
    [
        ("n:id:1700000000000:UTC:* * * * *", True),
        ("n:id:::5000", True),
        ("a:b:c:d:e", False),
        ("s1", False),
        ("a:b", False),
    ],
)
def test_legacy_ids(scheduler_id: str, is_legacy: bool) -> None:
    """Repeatable jobs of clients before 6.0 are known by the shape of their ids."""
    assert schedulers.is_legacy_id(scheduler_id) == is_legacy


def test_custom_events() -> None:
    """A custom event keeps the queue's own limit of its stream, and needs a name."""
    assert queue.publish_event(Q, "mine", {"a": "1"}).parts == (
        *("XADD", "bull:q:events", "MAXLEN", "~", 10_000, "*", "event", "mine", "a", "1"),
    )
    with pytest.raises(InvalidOption):
        queue.publish_event(Q, "mine", {"event": "x"})


def test_take_is_packed_once() -> None:
    """Equal takes pack equally; a worker without a name sends none."""
    assert fetch.Take(token="t", lock_ms=5).packed == fetch.Take(token="t", lock_ms=5).packed
    assert "name" not in fetch.take_wire(fetch.Take(token="t", lock_ms=5))


def test_reason_with_an_odd_file_name() -> None:
    """A failure whose message cannot be sent as it is, is reported all the same."""
    call = finish.fail(JOB, "no file caf\udce9", stacktrace=["caf\udce9"], take=TAKE, keep=None, fetch=False, now_ms=T)

    assert call.args[3] == "no file caf\\udce9"
    assert spoken(call)[2][8] == ["failedReason", "no file caf\\udce9", "stacktrace", '["caf\\udce9"]']
    assert change.add_log(Q, "1", "caf\udce9").args[1] == "caf\\udce9"


def test_names_that_cannot_be_sent() -> None:
    """A name with half a character is refused before anything is sent."""
    with pytest.raises(InvalidOption, match="name: "):
        Job.from_options(Q, "caf\udce9", None, job_options(), T)
