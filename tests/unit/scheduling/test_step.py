"""What a worker does next."""

import pytest

from echomq.calls.fetch import Taken
from echomq.errors import ConnectionClosed, ConnectionLost, ServerRefused
from echomq.scheduling import messages
from echomq.scheduling.state import Pace, Phase
from support.shell import NOW, PACE, Shell, job, take

FOUND = Taken(job=job())
NOTHING = Taken()


def idle(concurrency: int = 1, pace: Pace = PACE) -> Shell:
    """A worker that waits for a job."""
    shell = Shell.started(concurrency, pace)
    shell.checked()
    shell.fetched(NOTHING)
    return shell


def busy(concurrency: int = 1) -> Shell:
    """A worker all of whose slots work."""
    shell = Shell.started(concurrency)
    shell.checked()
    for _ in range(concurrency):
        shell.fetched(FOUND)
    return shell


def test_start_takes_and_looks_for_stalled_jobs() -> None:
    """A worker that starts takes a job, and looks at once for jobs of dead workers."""
    shell = Shell.started(concurrency=50)

    assert {type(action) for action in shell.last} == {messages.CheckStalled, messages.Fetch}


def test_slots_are_filled_one_take_after_the_other() -> None:
    """With several slots each take that found a job is followed by the next, until all slots work."""
    shell = Shell.started(concurrency=3)

    assert [len([shell.fetched(FOUND)]) for _ in range(3)] == [1, 1, 1]
    assert shell.running == 3
    assert shell.taking is None


def test_idle_worker_takes_once_whatever_its_concurrency() -> None:
    """An empty queue costs one take and one wait, with fifty slots as with one."""
    shell = idle(concurrency=50)

    assert [action.timeout_ms for action in shell.blocks] == [PACE.drain_ms]
    assert shell.taking is None


def test_finish_that_brings_a_job_changes_nothing() -> None:
    """A job that came with a finish runs in the same slot with the same token, and the state stays as it was."""
    shell = busy()
    before = shell.state

    (run,) = shell.reported(FOUND)

    assert isinstance(run, messages.Run)
    assert run.take == take()
    assert shell.state is before


def test_report_of_many_that_brings_as_many_changes_nothing() -> None:
    """Jobs that came with a report of many run in the same slots, and the state stays as it was."""
    shell = busy(3)
    before = shell.state

    (run,) = shell.reported_together(3, 3, None)

    assert run == messages.RunAll(tuple((job(number), take(number)) for number in range(3)))
    assert shell.state is before


def test_report_of_many_fills_the_rest_of_the_slots() -> None:
    """Slots to which a report of many brought nothing take for themselves, unless the queue was told to be empty."""
    shell = busy(3)

    assert shell.reported_together(3, 1, None)[1:] == (messages.Fetch(2),)
    assert (shell.running, shell.state.running, shell.state.free) == (1, 1, 0)

    shell = busy(3)
    *_, told, wait = shell.reported_together(3, 1, Taken())

    assert (told, wait) == (messages.Announce("drained"), messages.Wait(PACE.drain_ms))


def test_jobs_that_came_with_a_report_are_given_back_while_closing() -> None:
    """A worker that closes runs none of the jobs that a late report brings."""
    shell = busy(2)
    shell.tell(messages.Closed(None))
    shell.reported_together(2, 2, None)

    assert (shell.given_back, shell.running) == (2, 2)


def test_marker_of_now_is_followed_by_a_take() -> None:
    """A marker without a time means that a job waits."""
    shell = idle()

    (action,) = shell.marked(0.0)

    assert isinstance(action, messages.Fetch)


def test_end_of_wait_is_followed_by_a_take() -> None:
    """A wait that ended without a marker is followed by a take, since that promotes due jobs."""
    shell = idle()

    (action,) = shell.marked(None)

    assert isinstance(action, messages.Fetch)


def test_marker_with_a_time_is_waited_for() -> None:
    """A marker may hold a fractional time, and the next wait ends then."""
    shell = idle()

    (wait,) = shell.marked(NOW + 692.75)

    assert wait == messages.Wait(692)


def test_earlier_delayed_job_wins() -> None:
    """Of two due times the earlier counts, wherever it was told."""
    shell = Shell.started()
    shell.fetched(Taken(next_delayed_at_ms=NOW + 300))

    (wait,) = shell.marked(float(NOW + 900))

    assert wait == messages.Wait(300)


def test_known_delayed_job_bounds_the_wait() -> None:
    """A wait ends when the next delayed job is due, but never lasts longer than ten seconds for it."""
    near, far = Shell.started(), Shell.started()

    near.fetched(Taken(next_delayed_at_ms=NOW + 1_300))
    far.fetched(Taken(next_delayed_at_ms=NOW + 3_600_000))

    assert [near.blocks[0].timeout_ms, far.blocks[0].timeout_ms] == [1_300, 10_000]


def test_due_delayed_job_is_taken_at_once() -> None:
    """A delayed job that is due already needs no wait."""
    shell = Shell.started()

    (_, take_again) = [action for action in shell.fetched(Taken(next_delayed_at_ms=NOW - 5)) if shell.state.ready][-2:]

    assert isinstance(take_again, messages.Fetch)


def test_due_delayed_job_is_not_left_to_the_server() -> None:
    """A delayed job is taken when it is due, though the blocked read has not ended yet, and once only."""
    shell = Shell.started()
    shell.checked()
    shell.fetched(Taken(next_delayed_at_ms=NOW + 300))

    assert shell.pass_time(299) == ()
    assert shell.pass_time(1) == (messages.Fetch(),)
    assert shell.pass_time(50) == ()


def test_busy_worker_leaves_due_jobs_to_others() -> None:
    """A worker without a free slot does not wake for a delayed job that is due."""
    shell = idle(concurrency=2)
    shell.marked(float(NOW + 300))
    for _ in range(2):
        shell.tell(messages.Adopted(((job(), take()),)))

    assert messages.Fetch() not in shell.pass_time(400)


def test_rate_limit_rests_and_then_takes() -> None:
    """While limited nothing is taken and nothing waited for, and the first thing after is a take."""
    shell = Shell.started()
    shell.checked()
    shell.fetched(Taken(limited_ms=400))

    assert shell.taking is None
    assert not shell.blocks
    assert shell.pass_time(399) == ()
    assert shell.pass_time(1) == (messages.Fetch(),)


def test_rate_limit_is_capped() -> None:
    """A rest of a day is cut to the longest one allowed, so that delayed jobs are promoted meanwhile."""
    shell = Shell.started()
    shell.fetched(Taken(limited_ms=86_400_000))

    shell.pass_time(PACE.limit_ms)

    assert isinstance(shell.taking, messages.Fetch)


def test_limited_job_lets_the_worker_rest() -> None:
    """After a job that raised RateLimited its slot takes nothing for the rest of the limit."""
    shell = busy()

    assert shell.reported(limited_ms=700) == ()
    assert shell.pass_time(700)[-1:] == (messages.Fetch(),)


def test_pause_ends_the_wait_and_resume_takes() -> None:
    """A paused worker neither waits nor takes, and a resumed one takes first."""
    shell = idle()

    assert shell.tell(messages.Paused()) == (messages.StopWaiting(),)
    assert shell.pass_time(60_000) == ()
    assert messages.Fetch() in shell.tell(messages.Resumed())


def test_paused_worker_takes_no_next_job() -> None:
    """While paused a finish brings no job along."""
    shell = busy()

    shell.tell(messages.Paused())

    assert not shell.state.takes_more


def test_concurrency_grows_while_running() -> None:
    """More slots are filled at once."""
    shell = busy(concurrency=1)

    assert shell.tell(messages.ConcurrencyChanged(2)) == (messages.Fetch(),)


def test_concurrency_shrinks_as_jobs_end() -> None:
    """With fewer slots than jobs, a job that ends brings no other along."""
    shell = busy(concurrency=2)

    shell.tell(messages.ConcurrencyChanged(1))

    assert not shell.state.takes_more
    assert shell.reported() == ()
    assert shell.state.takes_more


def test_outage_is_told_once() -> None:
    """However often takes and waits fail, the host hears of it once, and again only after a success."""
    shell = idle(concurrency=2)
    lost = ConnectionLost("gone")
    shell.blocks.pop()
    shell.tell(messages.WaitFailed(lost, 0.5))
    for _ in range(5):
        shell.pass_time(5_000)
        shell.failed(lost)

    assert shell.complaints == [lost]

    shell.pass_time(5_000)
    shell.fetched(NOTHING)
    shell.marked(None)
    shell.failed(lost)

    assert shell.complaints == [lost, lost]


def test_failures_are_rested_out_longer_and_longer() -> None:
    """After each failure in a row the rest doubles, up to five seconds."""
    shell = Shell.started()
    rests = []
    for _ in range(9):
        shell.failed(ConnectionLost("gone"))
        rests.append(shell.state.retry_at - shell.now_ms)
        shell.pass_time(rests[-1])

    assert rests == [37, 75, 150, 300, 600, 1_200, 2_400, 3_750, 3_750]


def test_failed_wait_is_followed_by_a_take() -> None:
    """A marker may have been popped and lost with the link, so a failed wait is followed by a take."""
    shell = idle()
    shell.blocks.pop()
    shell.tell(messages.WaitFailed(ConnectionLost("gone"), 0.5))

    assert messages.Fetch() in shell.pass_time(1_000)


def test_lost_reply_is_searched_for_before_the_next_take() -> None:
    """A take whose reply was lost may have locked a job for us, which is looked for and run."""
    shell = Shell.started()
    shell.failed(ConnectionLost("gone", may_have_run=True), may_have_run=True)
    shell.pass_time(1_000)

    assert isinstance(shell.taking, messages.Adopt)

    shell.taking = None
    (run, *_) = shell.tell(messages.Adopted(((job(7), take(3)),)))

    assert run == messages.Run(job(7), take(3))


def test_forbidden_search_is_given_up() -> None:
    """A server that forbids the search for a lost reply does not keep the worker from taking jobs."""
    shell = busy()
    shell.reported(stray=True)
    shell.failed(ServerRefused("no permission", prefix="NOPERM"))

    assert shell.pass_time(1_000)[-1:] == (messages.Fetch(),)


def test_lost_reply_of_a_finish_is_searched_for() -> None:
    """A finish whose reply was lost may have brought a job along as well."""
    shell = busy()

    assert shell.reported(stray=True) == (messages.Adopt(),)


def test_reply_lost_during_a_search_is_searched_for_again() -> None:
    """A search may have passed the place of a job that is lost while it is under way, so another one follows."""
    shell = busy(concurrency=2)
    assert shell.reported(stray=True) == (messages.Adopt(),)
    shell.reported(stray=True)

    shell.taking = None
    assert shell.tell(messages.Adopted(())) == (messages.Adopt(),)
    shell.taking = None
    assert shell.tell(messages.Adopted(())) == (messages.Fetch(2),)


def test_search_is_repeated_after_an_outage() -> None:
    """A search that an outage broke off is done again."""
    shell = busy()
    shell.reported(stray=True)
    shell.failed(ConnectionLost("gone"))

    assert shell.pass_time(1_000)[-1:] == (messages.Adopt(),)


def test_stalled_check_repeats_after_its_end() -> None:
    """The next look for stalled jobs comes one interval after the last one ended."""
    shell = idle()

    assert messages.CheckStalled() not in shell.pass_time(PACE.stalled_ms - 1)
    assert messages.CheckStalled() in shell.pass_time(1)


def test_stalled_check_can_be_left_to_others() -> None:
    """With an interval of none the worker never looks."""
    shell = Shell.started(pace=Pace(drain_ms=5_000, limit_ms=30_000, stalled_ms=0))

    shell.pass_time(3_600_000)

    assert shell.checks == 0


def test_idle_close_is_immediate() -> None:
    """Closing an idle worker ends its wait and the worker, in one step."""
    shell = idle()

    shell.tell(messages.Closed(None))

    assert shell.has_ended
    assert not shell.blocks
    assert shell.announced[-1] == "closing"


def test_close_waits_for_running_jobs() -> None:
    """Running jobs end and are reported before the worker ends."""
    shell = busy(concurrency=2)

    shell.tell(messages.Closed(None))
    shell.reported()

    assert not shell.has_ended

    shell.reported()

    assert shell.has_ended


def test_job_that_comes_too_late_is_given_back() -> None:
    """A job that a take under way brings after the close began waits again at once."""
    shell = Shell.started()
    shell.tell(messages.Closed(None))

    (action,) = shell.fetched(FOUND)[-1:]

    assert isinstance(action, messages.GiveBack)
    assert not shell.has_ended

    shell.reported()

    assert shell.has_ended


def test_close_is_cut_at_its_deadline() -> None:
    """What has not ended at the deadline is cut off, once."""
    shell = busy()
    shell.tell(messages.Closed(500))

    shell.pass_time(499)
    assert shell.cuts == 0

    shell.pass_time(1)
    shell.tell(messages.Ticked())
    assert shell.cuts == 1


def test_second_close_may_only_hurry() -> None:
    """A later close with a nearer deadline counts, one with a farther does not."""
    shell = busy()
    shell.tell(messages.Closed(5_000))
    shell.tell(messages.Closed(60_000))
    shell.tell(messages.Closed(None))

    shell.pass_time(5_000)

    assert shell.cuts == 1


def test_force_cuts_at_once() -> None:
    """A close without patience cuts running jobs off in the same step."""
    shell = busy()
    shell.tell(messages.Closed(None))

    shell.tell(messages.Closed(0))

    assert shell.cuts == 1


def test_dead_server_does_not_hold_up_a_close() -> None:
    """A take whose reply does not come is given up one second after the close began."""
    shell = Shell.started()
    shell.tell(messages.Closed(None))

    shell.pass_time(1_000)

    assert shell.has_ended


def test_force_gives_back_what_a_take_brings() -> None:
    """Even a close without patience waits for a take under way, so that its job waits again and not for its lock."""
    shell = Shell.started()
    shell.tell(messages.Closed(0))

    assert not shell.has_ended

    assert [type(action) for action in shell.fetched(FOUND)][-2:] == [messages.GiveBack, messages.Cut]

    shell.reported()

    assert shell.has_ended


def test_dead_server_does_not_hold_up_a_forced_close() -> None:
    """Neither a second close nor force prolongs the one second that a take may still need."""
    shell = Shell.started()
    shell.tell(messages.Closed(None))
    shell.pass_time(600)
    shell.tell(messages.Closed(0))

    shell.pass_time(400)

    assert shell.has_ended


def test_closed_connection_ends_the_worker() -> None:
    """If its connection's owner closes it, the worker says so and ends instead of trying for ever."""
    shell = Shell.started()
    closed = ConnectionClosed("closed by its owner")

    shell.failed(closed)

    assert shell.complaints == [closed]
    assert shell.has_ended


@pytest.mark.parametrize(("due_in_ms", "ends"), [(0, True), (4_000, False), (6_000, True)])
def test_until_drained(due_in_ms: int, ends: bool) -> None:
    """A worker that works until its queue is drained waits for what is due within one drain delay, no longer."""
    shell = Shell.started(pace=Pace(drain_ms=5_000, limit_ms=1, stalled_ms=0, until_drained=True))

    shell.fetched(Taken(next_delayed_at_ms=NOW + due_in_ms if due_in_ms else 0))

    assert shell.has_ended == ends


def test_until_drained_waits_for_running_jobs() -> None:
    """While a job runs the queue is not drained, since the job may add another."""
    shell = Shell.started(2, Pace(drain_ms=5_000, limit_ms=1, stalled_ms=0, until_drained=True))
    shell.fetched(FOUND)
    shell.fetched(NOTHING)

    assert not shell.has_ended

    shell.reported(NOTHING)

    assert shell.has_ended


def test_drained_is_told_once_per_change() -> None:
    """The event ``drained`` comes when a queue becomes empty, not with each look at an empty one."""
    shell = idle()
    shell.marked(None)
    shell.fetched(NOTHING)

    assert shell.announced.count("drained") == 1

    shell.marked(0.0)
    shell.fetched(FOUND)
    shell.reported(NOTHING)

    assert shell.announced.count("drained") == 2


def test_ready_is_told_once() -> None:
    """The event ``ready`` comes with the server's first answer."""
    shell = idle()
    shell.marked(None)
    shell.fetched(NOTHING)

    assert shell.announced.count("ready") == 1


def test_ended_worker_ignores_what_comes_late() -> None:
    """After the end nothing more is asked for."""
    shell = idle()
    shell.tell(messages.Closed(None))

    assert shell.state.phase is Phase.ENDED
    assert shell.tell(messages.Resumed()) == ()
    assert shell.tell(messages.Closed(0)) == ()
