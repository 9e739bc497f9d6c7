"""Whether a worker is alive and ready, and its numbers as text for Prometheus. Pure.

*Alive* means that a restart would not help: the worker runs (or has not begun),
and its event loop answers. *Ready* means that it gets jobs: the server answered
lately. An outage of the server makes a worker not ready, but leaves it alive.

Source: user pain 16; issue "Operations".
"""

from collections.abc import Mapping

import attrs

from .worker_options import WorkerOptions

__all__ = ["Verdict", "Vitals", "exposition", "judge", "usual_silence_s"]

_LONGEST_WAIT_S = 10.0


@attrs.frozen(kw_only=True)
class Vitals:
    """What is known of a worker.

    Attributes:
        has_begun: It was asked to work.
        has_ended: It works no more.
        is_closing: It takes no more jobs.
        is_connected: The server has answered since it began.
        silent_for_s: Since the server last answered.
        deaf_for_s: Since its event loop last answered; 0 without one.
    """

    has_begun: bool = False
    has_ended: bool = False
    is_closing: bool = False
    is_connected: bool = False
    silent_for_s: float | None = None
    deaf_for_s: float = 0.0


@attrs.frozen(kw_only=True)
class Verdict:
    """What a probe answers.

    Attributes:
        is_live: A restart would not help.
        is_ready: It gets jobs.
        reason: Why not, or ``"ok"``.
    """

    is_live: bool
    is_ready: bool
    reason: str


def usual_silence_s(options: WorkerOptions) -> float:
    """Return after how long a silence is no longer usual: twice the longest that a healthy worker keeps.

    It hears from its server after each wait for jobs, each renewal of locks, and each rate limit.
    """
    usual_ms = max(options.drain_delay, options.maximum_rate_limit_delay, options.lock_duration // 4)
    return 2 * max(usual_ms / 1000, _LONGEST_WAIT_S)


def judge(vitals: Vitals, limit_s: float) -> Verdict:
    """Say whether a worker is alive and ready.

    Args:
        vitals: What is known of it.
        limit_s: Longest silence of the server, and of the event loop, that is in order.
    """
    is_deaf = vitals.deaf_for_s > limit_s
    is_live = not (vitals.has_ended or is_deaf)
    reason = _objection(vitals, limit_s, is_deaf)
    return Verdict(is_live=is_live, is_ready=reason is None, reason=reason or "ok")


def _objection(vitals: Vitals, limit_s: float, is_deaf: bool) -> str | None:
    silent_s = vitals.silent_for_s
    if vitals.has_ended:
        return "the worker has ended"
    if is_deaf:
        return f"the event loop has not answered for {vitals.deaf_for_s:.0f} s: a job blocks it"
    if not vitals.has_begun or silent_s is None:
        return "the worker has not begun"
    if vitals.is_closing:
        return "the worker is closing"
    if not vitals.is_connected:
        return "the server has not answered yet"
    if silent_s > limit_s:
        return f"the server has not answered for {silent_s:.0f} s"
    return None


_HELP = {
    "up": ("gauge", "1 while the worker is ready"),
    "silent_seconds": ("gauge", "Seconds since the server last answered"),
    "jobs_completed_total": ("counter", "Jobs whose result was stored"),
    "attempts_failed_total": ("counter", "Attempts that failed, the last of a job or not"),
    "jobs_stalled_total": ("counter", "Jobs of silent workers that this one put back"),
    "locks_lost_total": ("counter", "Jobs cancelled here because their lock was lost"),
    "errors_total": ("counter", "Errors that were no job's fault"),
}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(queue: str, worker: str | None, numbers: Mapping[str, float]) -> str:
    """Return a worker's numbers in the text format of Prometheus.

    Args:
        queue: Name of the queue, a label of each line.
        worker: Name of the worker, another one.
        numbers: By name, without the prefix ``echomq_worker_``; those that are not known are left out.
    """
    labels = {"queue": queue, **({"worker": worker} if worker else {})}
    told = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    lines: list[str] = []
    for name, (kind, meaning) in _HELP.items():
        if name in numbers:
            full = f"echomq_worker_{name}"
            lines += (f"# HELP {full} {meaning}", f"# TYPE {full} {kind}", f"{full}{{{told}}} {numbers[name]:g}")
    return "\n".join(lines) + "\n"
