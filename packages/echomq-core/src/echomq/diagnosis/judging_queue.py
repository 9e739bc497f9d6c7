"""What a queue's facts mean. Pure.

Source: issue "Operations", ``doctor``.
"""

from collections.abc import Callable, Iterator
from typing import Any

from echomq import codec
from echomq.calls.queue import DEFAULT_MAX_EVENTS, resume, trim_events
from echomq.calls.repair import release_stuck_parent, remove_strays

from .asking import raw
from .facts import PLACES, Parent, QueueFacts, Standing
from .findings import Finding, Repair, Severity

__all__ = ["judge_queue"]

_SHOWN = 5
_TRIM_NODE = 200
"""A log that is trimmed about may be so much longer: one node of the stream, and what comes between two trims."""
_NUMBERS = ("concurrency", "max", "duration", "opts.maxLenEvents")


def judge_queue(facts: QueueFacts) -> list[Finding]:
    """Return what is to be said about a queue."""
    judges: tuple[Callable[[QueueFacts], Iterator[Finding]], ...] = (
        *(_runtimes, _unreadable, _settings, _workers, _overdue),
        *(_unlocked, _locks, _without_job, _in_two_places, _nowhere),
        *(_childless, _failed_children, _schedulers, _deduplication, _events, _legacy),
    )
    return [finding for judge in judges for finding in judge(facts)]


def _finding(facts: QueueFacts, code: str, severity: Severity, summary: str, **more: Any) -> Finding:
    return Finding(code=code, severity=severity, summary=summary, queue=facts.keys.queue, **more)


def _named(ids: list[str]) -> str:
    shown = ", ".join(ids[:_SHOWN])
    return f"{shown} and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else shown


def _runtimes(facts: QueueFacts) -> Iterator[Finding]:
    names = facts.worker_names
    if not (facts.meta or facts.event_count or sum(facts.counts.values())):
        yield _finding(
            facts,
            "no-queue",
            Severity.INFO,
            "Nothing is stored of this queue.",
            evidence=(f"no settings, no jobs, no events below {facts.keys.base}",),
            consequence="It has never been used, or it was obliterated.",
            advice="Check its name and prefix; the first job makes it.",
        )
    workers = "workers are not told (CLIENT LIST is refused)"
    if names is not None:
        workers = f"{_counted(len(names), 'worker')} connected"
    named = sorted({name for name in names or () if name})
    yield _finding(
        facts,
        "queue",
        Severity.INFO,
        f"{_counted(sum(facts.counts.values()), 'job')}, {workers}.",
        evidence=(
            *((f"last written by {facts.meta['version']}",) if "version" in facts.meta else ()),
            *((f"workers: {_named(named)}",) if named else ()),
        ),
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _unreadable(facts: QueueFacts) -> Iterator[Finding]:
    if facts.unreadable:
        yield _finding(
            facts,
            "unreadable",
            Severity.ERROR,
            "Keys of the queue cannot be read.",
            evidence=tuple(f"{name}: {told}" for name, told in facts.unreadable.items()),
            consequence="Every script that needs them fails.",
            advice="Find out who wrote them. A key of the wrong type has to be moved away by hand (RENAME).",
        )


def _settings(facts: QueueFacts) -> Iterator[Finding]:
    meta = facts.meta
    stored = {name: meta[name] for name in _NUMBERS if name in meta}
    odd = [f"{name} {text!r}" for name, text in stored.items() if codec.lenient_int(text, None) is None]
    if odd:
        yield _finding(
            facts,
            "settings",
            Severity.ERROR,
            "Settings of the queue are no numbers.",
            evidence=tuple(odd),
            consequence="Takes fail: no worker gets a job.",
            advice="Set them anew: set_global_concurrency, set_global_rate_limit; None lifts a limit.",
        )
    elif "max" in meta and "duration" not in meta:
        yield _finding(
            facts,
            "limit-without-duration",
            Severity.ERROR,
            "The queue's rate limit has no duration.",
            evidence=(f"max {meta['max']}, no duration",),
            consequence="Workers without a limiter of their own get no job.",
            advice="Set it anew with set_global_rate_limit, or lift it with None.",
        )
    if "paused" in meta:
        yield _finding(
            facts,
            "paused",
            Severity.INFO,
            "The queue is paused.",
            consequence="No worker takes a job.",
            advice="resume() lets them go on.",
        )


def _workers(facts: QueueFacts) -> Iterator[Finding]:
    waiting = facts.count("wait", "prioritized", "paused")
    if facts.worker_names == () and waiting:
        yield _finding(
            facts,
            "no-worker",
            Severity.WARNING,
            "Jobs wait, and no worker is connected.",
            evidence=(f"{waiting:,} waiting",),
            consequence="They wait for ever.",
            advice="Start a worker: echomq worker MODULE:WORKER.",
        )


def _overdue(facts: QueueFacts) -> Iterator[Finding]:
    if facts.oldest_due_ms is None or facts.now_ms - facts.oldest_due_ms < 60_000 or "paused" in facts.meta:
        return
    late_s = (facts.now_ms - facts.oldest_due_ms) // 1000
    yield _finding(
        facts,
        "overdue",
        Severity.WARNING,
        "Delayed jobs are past their time.",
        evidence=(f"{facts.overdue_count:,} of them, the first for {late_s:,} s",),
        consequence="They run when a worker takes the next job, in the order of their times.",
        advice="Start a worker." if facts.worker_names == () else "Look whether the workers are stuck or cut off.",
    )


def _where(facts: QueueFacts, is_odd: Callable[[Standing], bool]) -> list[str]:
    return [standing.job_id for standing in facts.standings if is_odd(standing)]


def _unlocked(facts: QueueFacts) -> Iterator[Finding]:
    ids = _where(facts, lambda one: one.is_job and "active" in one.places and one.lock_ms == -2)
    if ids:
        yield _finding(
            facts,
            "active-without-lock",
            Severity.WARNING,
            "Active jobs have no lock: their workers are gone.",
            evidence=(_named(ids),),
            consequence="They run again when a worker's second look for stalled jobs finds them, within a minute.",
            advice="Nothing, if workers run. Otherwise start one.",
        )


def _locks(facts: QueueFacts) -> Iterator[Finding]:
    ids = _where(facts, lambda one: "active" not in one.places and one.lock_ms >= -1)
    endless = _where(facts, lambda one: "active" not in one.places and one.lock_ms == -1)
    if ids:
        yield _finding(
            facts,
            "lock-without-active-job",
            Severity.WARNING if endless else Severity.INFO,
            "Locks are held for jobs that are not active.",
            evidence=(_named(ids), f"{len(endless)} of them never end"),
            consequence="Such a job cannot be removed while its lock lasts.",
            advice="Locks end by themselves, but for those that never end: DEL them.",
            repair=Repair(
                action=f"delete {len(endless)} locks that never end and whose jobs are not active",
                steps=(remove_strays(facts.keys, "locks", endless),),
            )
            if endless
            else None,
        )


def _without_job(facts: QueueFacts) -> Iterator[Finding]:
    ids = _where(facts, lambda one: bool(one.places) and not one.is_job)
    if not ids:
        return
    odd = [one for one in facts.standings if not one.is_job]
    held = {place: [one.job_id for one in odd if place in one.places] for place in PLACES}
    steps = tuple(remove_strays(facts.keys, place, found) for place, found in held.items() if found)
    yield _finding(
        facts,
        "id-without-job",
        Severity.WARNING,
        "Ids are listed whose jobs do not exist.",
        evidence=tuple(f"{place}: {_named(found)}" for place, found in held.items() if found),
        consequence="Counts are too high; workers drop such an id when they meet it.",
        advice="Find out who deletes keys of the queue. The ids can be dropped.",
        repair=Repair(action=f"drop {len(ids)} ids without a job", steps=steps),
    )


def _in_two_places(facts: QueueFacts) -> Iterator[Finding]:
    odd = [one for one in facts.standings if one.is_job and len(one.places) > 1]
    if odd:
        yield _finding(
            facts,
            "in-two-places",
            Severity.ERROR,
            "Jobs stand in more than one place.",
            evidence=tuple(f"{one.job_id}: {', '.join(one.places)}" for one in odd[:_SHOWN]),
            consequence="They may run twice, or show as finished while they run.",
            advice="Decide for each: remove it, or take it out of one place by hand (LREM, ZREM). "
            "No call of the protocol leaves this; look for scripts of your own, or a restored backup.",
        )


def _nowhere(facts: QueueFacts) -> Iterator[Finding]:
    ids = _where(facts, lambda one: one.is_job and not one.places)
    if ids:
        yield _finding(
            facts,
            "nowhere",
            Severity.WARNING,
            "Jobs are stored that are in no state.",
            evidence=(_named(ids),),
            consequence="They never run, and take up memory.",
            advice="Read them (HGETALL), and add again what is still wanted; the orphaned keys can be deleted then.",
        )


def _childless(facts: QueueFacts) -> Iterator[Finding]:
    stuck = [parent for parent in facts.parents if _is_stuck(parent)]
    if stuck:
        steps = tuple(release_stuck_parent(facts.keys, one.job_id, one.lost, facts.now_ms) for one in stuck)
        yield _finding(
            facts,
            "stuck-parent",
            Severity.ERROR,
            "Parents wait for children that do not exist.",
            evidence=(_named([parent.job_id for parent in stuck]),),
            consequence="They wait for ever.",
            advice="Let them run without these children, or remove them.",
            repair=Repair(action=f"let {len(stuck)} parents run whose children are gone", steps=steps),
        )


def _is_stuck(parent: Parent) -> bool:
    return not parent.pending_count or len(parent.lost) == parent.pending_count


def _failed_children(facts: QueueFacts) -> Iterator[Finding]:
    waiting = [parent for parent in facts.parents if not _is_stuck(parent)]
    if waiting:
        yield _finding(
            facts,
            "parent-of-failed",
            Severity.WARNING,
            "Parents wait for children that have failed or are gone.",
            evidence=tuple(f"{one.job_id}: {_named([*one.failed, *one.lost])}" for one in waiting[:_SHOWN]),
            consequence="A failed child without a policy holds its parent until somebody acts.",
            advice="Retry the child; or remove it, or detach it (remove_child_dependency), and the parent runs without "
            "it. For new flows: fail_parent_on_failure, continue_parent_on_failure, ignore_dependency_on_failure or "
            "remove_dependency_on_failure.",
        )


def _schedulers(facts: QueueFacts) -> Iterator[Finding]:
    if facts.stopped_schedulers:
        yield _finding(
            facts,
            "stopped-scheduler",
            Severity.ERROR,
            "Job schedulers have stopped: the job that would make the next one is gone.",
            evidence=(_named(list(facts.stopped_schedulers)),),
            consequence="They make no more jobs.",
            advice="Upsert them again; their record is still there.",
        )


def _deduplication(facts: QueueFacts) -> Iterator[Finding]:
    if facts.deduplication:
        held = [f"{name} (job {owner})" for name, owner in facts.deduplication.items()]
        yield _finding(
            facts,
            "stray-deduplication",
            Severity.WARNING,
            "Deduplication ids are held by jobs that are gone or have finished.",
            evidence=(_named(held),),
            consequence="A new job of such an id may be refused for ever.",
            advice="Free them: remove_deduplication.",
            repair=Repair(
                action=f"free {len(held)} deduplication ids",
                steps=(remove_strays(facts.keys, "deduplication", list(facts.deduplication)),),
            ),
        )


def _events(facts: QueueFacts) -> Iterator[Finding]:
    limit = codec.lenient_int(facts.meta.get("opts.maxLenEvents", ""), None)
    if facts.event_count > (DEFAULT_MAX_EVENTS if limit is None else limit) * 1.1 + _TRIM_NODE:
        cap = DEFAULT_MAX_EVENTS if limit is None else limit
        yield _finding(
            facts,
            "event-log",
            Severity.WARNING,
            "The event log is longer than its limit.",
            evidence=(f"{facts.event_count:,} entries, the limit is {'not set' if limit is None else f'{limit:,}'}",),
            consequence="It takes up memory; some client adds events without trimming.",
            advice="Trim it: trim_events.",
            repair=Repair(action=f"trim the event log to about {cap:,} entries", steps=(trim_events(facts.keys, cap),)),
        )


def _legacy(facts: QueueFacts) -> Iterator[Finding]:
    left = facts.count("paused")
    if left:
        is_paused = "paused" in facts.meta
        yield _finding(
            facts,
            "legacy-paused",
            Severity.INFO if is_paused else Severity.WARNING,
            "Jobs are in the list where clients before 6.0 keep those of a paused queue.",
            evidence=(f"{left:,} jobs in {facts.keys.paused}",),
            consequence="No worker takes them from there; resume() brings them back.",
            advice="Resume the queue when it may go on." if is_paused else "Resume the queue, though it is not paused.",
            repair=None
            if is_paused
            else Repair(
                action=f"bring back {left:,} jobs that an old client put aside",
                steps=(raw("LLEN", facts.keys.paused),),
                repeated=resume(facts.keys, silent=True),
            ),
        )
    if facts.legacy_markers:
        yield _finding(
            facts,
            "legacy-markers",
            Severity.INFO,
            "A very old client left markers among the waiting jobs.",
            evidence=tuple(f"{place}: {_named(list(ids))}" for place, ids in facts.legacy_markers.items()),
            consequence="None: a take drops them.",
            advice="Update that client, if it still runs.",
        )
