"""Calls say what a recorded client of the same version said."""

from collections.abc import Callable
from typing import Any

import pytest

from echomq.call import ScriptCall
from echomq.calls import add, change, family, fetch, finish, locks, metrics, query, queue, remove, schedulers
from echomq.errors import InvalidOption
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import Deduplication, JobOptions, Keep, Parent, RateLimit, job_options
from echomq.repeat import Repeat
from echomq.scripts import get_script
from echomq.states import JobState
from support.wire import recorded, recorded_scripts, spoken

Q = Keys("q")
T = 1_700_000_000_000
END = T + 1_000
TAKE = fetch.Take(token="tok", lock_ms=30_000, worker_name="w1")


def taken(job_id: str = "1", **options: Any) -> Job:
    """A job that a worker holds."""
    return Job(keys=Q, id=job_id, name="n", given_options=job_options(**options))


def drafted(data: Any = None, **options: Any) -> Job:
    """A job that is to be added."""
    return Job.from_options(Q, "n", {} if data is None else data, job_options(**options), T)


EXACT: dict[str, Callable[[], ScriptCall[Any] | None]] = {
    "list-duplicate": lambda: query.is_job_in_list(Q, JobState.WAITING, "a"),
    "state-v1-waiting": lambda: query.get_state(Q, "w", has_lpos=False),
    "standard-basic": lambda: add.add_job(drafted({"a": 1})),
    "standard-custom-id": lambda: add.add_job(drafted(job_id="cust")),
    "standard-paused-queue": lambda: add.add_job(drafted()),
    "dedup-simple-first": lambda: add.add_job(drafted(deduplication="d1")),
    "dedup-ttl-extend-first": lambda: add.add_job(
        drafted(deduplication=Deduplication(id="d1", ttl=3_600_000, extend=True))
    ),
    "dedup-keeplast-first": lambda: add.add_job(
        drafted(deduplication=Deduplication(id="d1", ttl=3_600_000, keep_last_if_active=True))
    ),
    "delayed-basic": lambda: add.add_job(drafted(delay=5_000)),
    "delayed-child": lambda: add.add_job(drafted(job_id="c1", delay=5_000, parent=Parent("p1", "bull:q"))),
    "prioritized-basic": lambda: add.add_job(drafted(priority=7)),
    "prioritized-child-other-queue": lambda: add.add_job(
        drafted(job_id="c1", priority=5, parent=Parent("p1", "bull:pq"))
    ),
    "parent-delay-priority": lambda: add.add_job(drafted(job_id="p1", delay=5_000, priority=3), has_children=True),
    "release-priority": lambda: add.release_parent(Q, "p1", T),
    "moveToActive-fifo": lambda: fetch.move_to_active(Q, TAKE, T + 10),
    "moveToActive-manual-limit-ignored": lambda: fetch.move_to_active(Q, TAKE, T + 10),
    "moveJobFromActiveToWait-no-limit": lambda: fetch.move_job_from_active_to_wait(Q, "1", "tok"),
    "getRateLimitTtl-max-given": lambda: fetch.get_rate_limit_ttl(Q, 5),
    "isMaxed-yes": lambda: fetch.is_maxed(Q),
    "moveToWaitingChildren-err-missing": lambda: finish.move_to_waiting_children(taken("p9"), token="tok", now_ms=END),
    "moveToWaitingChildren-child-done": lambda: finish.move_to_waiting_children(
        taken("p1"), token="tok", now_ms=END, child_key="bull:q:77"
    ),
    "retryJob-err-missing": lambda: finish.retry_job(taken("9"), token="tok", now_ms=END),
    "extendLock-ok": lambda: locks.extend_lock(Q, "1", "tok", 60_000),
    "extendLocks-mixed": lambda: locks.extend_locks(Q, [("3", "t3"), ("1", "tok"), ("2", "wrong")], 60_000),
    "releaseLock-ok": lambda: locks.release_lock(Q, "1", "tok"),
    "moveStalledJobsToWait-mark": lambda: locks.move_stalled_jobs_to_wait(Q, 1, 30_000, T + 60_000),
    "updateProgress-ok": lambda: change.update_progress(Q, "1", {"pct": 50}),
    "updateData-ok": lambda: change.update_data(Q, "1", {"x": 2}),
    "addLog-all": lambda: change.add_log(Q, "1", "b"),
    "saveStacktrace-ok": lambda: change.save_stacktrace(Q, "1", ["Error: x"], "x"),
    "promote-plain": lambda: change.promote(Q, "a"),
    "change-delay": lambda: change.change_delay(Q, "a", 20_000, T),
    "change-priority-to-wait-lifo": lambda: change.change_priority(Q, "a", 0, lifo=True),
    "reprocessJob-child-rdof": lambda: change.reprocess_job(Q, "1"),
    "pause-empty-queue": lambda: queue.pause(Q),
    "drain-with-delayed": lambda: queue.drain(Q, delayed=True),
    "obliterate-not-paused": lambda: queue.obliterate(Q, 1_000, force=False),
    "promote-jobs-delayed": lambda: queue.move_jobs_to_wait(Q, JobState.DELAYED, 1_000),
    "clean-completed-by-time": lambda: remove.clean(Q, JobState.COMPLETED, T + 2_000, 0),
    "orphans-removed": lambda: remove.remove_orphans(Q, ["a", "zz", "yy"]),
    "remove-dedup-key-match": lambda: remove.remove_deduplication_key(Q, "d1", "5"),  # type: ignore[dict-item,return-value]  # with an id it is a script
    "state-active": lambda: query.get_state(Q, "a"),
    "counts-per-priority": lambda: query.get_counts_per_priority(Q, [0, 1, 2, 3]),
    "jobs-zset-asc": lambda: query.get_jobs(Q, [JobState.COMPLETED], 1, 2, ascending=True),
    "isFinished-completed-value": lambda: query.is_finished(Q, "1"),
    "metrics-none": lambda: metrics.get_metrics(Q, JobState.COMPLETED),
    "paginate-set-fetch": lambda: query.paginate(Q.dependencies("par"), 0, -1, fetch_jobs=True),
    "removeChildDependency-not-last": lambda: family.remove_child_dependency(Q, "1", "bull:other:p1"),
    "removeUnprocessedChildren-none": lambda: family.remove_unprocessed_children(Q, "p1"),
    "get-scheduler": lambda: schedulers.get_job_scheduler(Q, "s1"),
    "remove-scheduler-waiting": lambda: schedulers.remove_job_scheduler(Q, "s1"),
}


@pytest.mark.parametrize("vector", EXACT)
def test_same_call(vector: str) -> None:
    """A call has the script, the keys in order and the arguments that were recorded."""
    call = EXACT[vector]()

    assert call is not None
    assert spoken(call) == recorded(vector)


FINISHED: dict[str, Callable[[], ScriptCall[Any]]] = {
    "moveToFinished-fetch-promotes": lambda: finish.complete(
        taken(attempts=1), '"ok"', take=TAKE, keep=None, fetch=True, now_ms=END
    ),
    "moveToFinished-dedup-ttl": lambda: finish.complete(
        taken(attempts=1), '"ok"', take=TAKE, keep=None, fetch=False, now_ms=END
    ),
    "flow-fpof": lambda: finish.fail(
        taken(attempts=1, fail_parent_on_failure=True),
        "boom",
        stacktrace=[],
        take=TAKE,
        keep=None,
        fetch=False,
        now_ms=END,
    ),
    "moveToDelayed-fetch-none": lambda: finish.move_to_delayed(
        taken(), delay_ms=5_000, count_attempt=True, take=TAKE, fetch=True, now_ms=END
    ),
    "retryJob-maxed-reevaluated": lambda: finish.retry_job(taken(), token="tok", now_ms=END),
    "moveToActive-queue-max-worker-duration": lambda: fetch.move_to_active(
        Q,
        fetch.Take(token="tok", lock_ms=30_000, worker_name="w1", limiter=RateLimit(9, 60_000)),
        T + 10,
    ),
}


@pytest.mark.parametrize("vector", FINISHED)
def test_same_finish(vector: str) -> None:
    """The end of an attempt is reported with the keys and arguments that were recorded."""
    assert spoken(FINISHED[vector]()) == recorded(vector)


def _without_what_the_script_sets(said: tuple[str, list[str], list[Any]]) -> tuple[str, list[str], list[Any]]:
    script, keys, args = said
    return (
        script,
        keys,
        [
            {name: value for name, value in one.items() if name not in ("jobId", "delay")}
            if isinstance(one, dict)
            else one
            for one in args
        ],
    )


def first(repeat: Repeat, data: Any = None, **options: Any) -> ScriptCall[Any]:
    """The call that makes scheduler ``s1``."""
    call = schedulers.add_job_scheduler(
        *(Q, "s1", repeat), name="jn", data={} if data is None else data, options=job_options(**options), now_ms=T
    )
    assert call is not None
    return call


SCHEDULED: dict[str, Callable[[], ScriptCall[Any]]] = {
    "scheduler-every-first": lambda: first(Repeat(every=60_000), {"z": 1}, attempts=2),
    "scheduler-every-offset-passed": lambda: first(Repeat(every=60_000, offset=15_000)),
    "scheduler-every-startdate-past": lambda: first(Repeat(every=60_000, start_date=T - 90_000)),
    "scheduler-pattern-now": lambda: first(Repeat(pattern="* * * * * *", immediately=True)),
}


@pytest.mark.parametrize("vector", SCHEDULED)
def test_same_scheduler(vector: str) -> None:
    """A job scheduler is made with the keys and arguments that were recorded."""
    ours, theirs = spoken(SCHEDULED[vector]()), recorded(vector)
    assert _without_what_the_script_sets(ours) == _without_what_the_script_sets(theirs)


def test_same_next_iteration() -> None:
    """The next job of an interval is asked for with the keys and arguments that were recorded."""
    slot = f"repeat:s1:{T}"
    options = '{"repeat":{"every":60000,"count":1},"attempts":0,"repeatJobKey":"s1","delay":0,"timestamp":1}'
    call = schedulers.update_job_scheduler(
        Job(keys=Q, id=slot, name="jn", scheduler_id="s1", raw_options=options), T + 60_000
    )
    assert call is not None

    script, keys, args = _without_what_the_script_sets(spoken(call))
    assert args[3].pop("attempts") == 0  # a job's options always say it; the recording left it out
    assert (script, keys, args) == _without_what_the_script_sets(recorded("update-every-exactly-due"))


OTHER_KEYS: dict[str, Callable[[], ScriptCall[Any]]] = {
    "moveToFinished-metrics-capped": lambda: finish.fail(
        taken("2"), "boom", stacktrace=[], take=TAKE, keep=None, fetch=False, now_ms=END
    ),
    "resume-silent": lambda: queue.resume(Q, silent=True),
    "retry-jobs-failed": lambda: queue.move_jobs_to_wait(Q, JobState.FAILED, 10),
    "ranges-wait-asc": lambda: query.get_ranges(Q, [JobState.WAITING]),
    "counts-all": lambda: query.get_counts(Q, [JobState.WAITING]),
    "getDependencyCounts-order": lambda: family.get_dependency_counts(Q, "p1"),
    "remove-delayed-with-logs": lambda: remove.remove_job(Q, "a"),
}


@pytest.mark.parametrize("vector", OTHER_KEYS)
def test_same_keys(vector: str) -> None:
    """A call has the keys that were recorded, in order."""
    assert spoken(OTHER_KEYS[vector]())[:2] == recorded(vector)[:2]


def test_every_script_has_a_builder() -> None:
    """Each script that was recorded is called by a builder, with as many keys as the script takes."""
    calls = [build() for table in (EXACT, FINISHED, SCHEDULED, OTHER_KEYS) for build in table.values()]
    job = Job(keys=Q, id="repeat:s:1", name="n", scheduler_id="s", given_options=JobOptions(repeat=Repeat(every=1)))
    calls.append(schedulers.update_job_scheduler(job, T))
    by_script = {call.script: call for call in calls if call is not None}

    assert by_script.keys() >= recorded_scripts()
    for name, call in by_script.items():
        assert len(call.keys) == get_script(name).key_count, name


def test_only_lists_are_asked_for_a_job() -> None:
    """Whether a list holds a job is answered by 1 or nil, and asked of the waiting and active jobs only."""
    call = query.is_job_in_list(Q, JobState.ACTIVE, "a")

    assert call.keys == (Q.active,)
    assert [call.decode(1), call.decode(None)] == [True, False]
    with pytest.raises(InvalidOption, match="state"):
        query.is_job_in_list(Q, JobState.FAILED, "a")


def test_equal_input_equal_call() -> None:
    """The same input builds an equal call, decoder included."""
    for table in (EXACT, FINISHED, SCHEDULED, OTHER_KEYS):
        for build in table.values():
            assert build() == build()


def test_keep_of_a_job_wins() -> None:
    """What a job says about keeping it wins over the worker's rule, and nothing said keeps all."""

    def keep_jobs(job: Job, keep: Keep | None) -> Any:
        call = finish.complete(job, "null", take=TAKE, keep=keep, fetch=False, now_ms=END)
        return spoken(call)[2][7]["keepJobs"]

    assert keep_jobs(taken(remove_on_complete=True), Keep(count=9)) == {"count": 0}
    assert keep_jobs(taken(remove_on_complete=False), Keep(count=9)) == {"count": -1}
    assert keep_jobs(taken(), Keep(count=9, age_s=60)) == {"age": 60, "count": 9}
    assert keep_jobs(taken(), None) == {"count": -1}


def test_metrics_only_when_asked() -> None:
    """Points are sent as a number, and "no metrics" as an empty text, never left out."""

    def points(metrics_points: int | None) -> Any:
        call = finish.complete(
            taken(), "null", take=TAKE, keep=None, fetch=False, now_ms=END, metrics_points=metrics_points
        )
        return spoken(call)[2][7]["maxMetricsSize"]

    assert points(60) == 60
    assert points(None) == ""


def test_lifo_job_is_next() -> None:
    """A lifo job whose attempt failed goes to the front of the line, others to its end."""
    assert spoken(finish.retry_job(taken(lifo=True), token="t", now_ms=END))[2][2] == "RPUSH"
    assert spoken(finish.retry_job(taken(), token="t", now_ms=END))[2][2] == "LPUSH"
