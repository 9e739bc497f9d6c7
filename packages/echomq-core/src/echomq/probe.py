"""An HTTP probe for a running worker: ``/live``, ``/ready`` and ``/metrics``.

For containers and load balancers. It answers from a thread of its own, so a job
that blocks the event loop delays no answer, but is told. It listens where it is
told to, has no authentication, and shows no data of jobs.

Source: user pain 16; issue "Operations".
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from .health import Verdict, Vitals, exposition, judge, usual_silence_s
from .moments import duration_ms
from .prometheus import CONTENT_TYPE
from .serving import Answer, TextServer, parse_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from .keys import Keys
    from .moments import Duration
    from .worker_options import WorkerOptions

__all__ = ["Probe"]

_BEAT_S = 1.0

_COUNTED = {
    "completed": "jobs_completed_total",
    "failed": "attempts_failed_total",
    "stalled": "jobs_stalled_total",
    "lock_lost": "locks_lost_total",
    "error": "errors_total",
}


class ProbedWorker(Protocol):
    """What a probe needs of a worker, of either shell."""

    keys: Keys
    options: WorkerOptions

    @property
    def is_running(self) -> bool: ...

    @property
    def silent_for_s(self) -> float | None: ...

    def on(self, event: str, listener: Callable[..., Any]) -> Any: ...

    def off(self, event: str, listener: Callable[..., Any]) -> None: ...


class Probe:
    """Answers for one worker, for the length of a ``with`` block around its run.

    Args:
        worker: Of either shell; not yet running, or at work.
        place: ``"HOST:PORT"`` to listen at; port 0 takes any, see :attr:`port`.
        silence: How long the server may be silent before the worker is not ready, in ms or as ``timedelta``;
            None: twice what is usual with the worker's options, 60 s with the default ones.

    Raises:
        UsageError: The place cannot be read.

    Attributes:
        port: Where it listens, inside the ``with`` block.
    """

    def __init__(self, worker: ProbedWorker, place: str, *, silence: Duration | None = None) -> None:
        self._worker = worker
        self._server = TextServer(parse_place(place), self._answer, "/live, /ready and /metrics")
        limit_s = usual_silence_s(worker.options)
        self._limit_s = limit_s if silence is None else duration_ms("silence", silence, minimum=1) / 1000
        self._counts: dict[str, float] = dict.fromkeys(_COUNTED.values(), 0)
        self._seen: set[str] = set()
        self._listeners = {event: self._listener(event) for event in (*_COUNTED, "ready", "closing", "closed")}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat_at_s = 0.0
        self._stopped = threading.Event()
        self.port = self._server.port

    def __enter__(self) -> Self:
        self.port = self._server.__enter__().port
        for event, listener in self._listeners.items():
            self._worker.on(event, listener)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._beat_at_s = time.monotonic()
        self._stopped.clear()
        if self._loop is not None:
            threading.Thread(target=self._listen_to_loop, name="echomq-probe-beat", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for event, listener in self._listeners.items():
            self._worker.off(event, listener)
        self._server.__exit__(kind, error, trace)

    def verdict(self) -> Verdict:
        """Return whether the worker is alive and ready."""
        return judge(self._vitals(), self._limit_s)

    def metrics(self) -> str:
        """Return the worker's numbers in the text format of Prometheus."""
        numbers = {**self._counts, "up": float(self.verdict().is_ready)}
        silent_s = self._worker.silent_for_s
        if silent_s is not None:
            numbers["silent_seconds"] = round(silent_s, 3)
        return exposition(self._worker.keys.queue, self._worker.options.name, numbers)

    def _answer(self, path: str) -> Answer | None:
        verdict = self.verdict()
        if path == "/live":
            return _judged(verdict.is_live, "ok" if verdict.is_live else verdict.reason)
        if path == "/ready":
            return _judged(verdict.is_ready, verdict.reason)
        return Answer(self.metrics(), kind=CONTENT_TYPE) if path == "/metrics" else None

    def _vitals(self) -> Vitals:
        silent_s = self._worker.silent_for_s
        deaf_s = time.monotonic() - self._beat_at_s - _BEAT_S if self._loop is not None else 0.0
        return Vitals(
            has_begun=self._worker.is_running or bool(self._seen),
            has_ended="closed" in self._seen,
            is_closing="closing" in self._seen,
            is_connected="ready" in self._seen,
            silent_for_s=silent_s,
            deaf_for_s=max(0.0, deaf_s),
        )

    def _listener(self, event: str) -> Callable[..., None]:
        def listen(*_: object) -> None:
            self._seen.add(event)
            if event in _COUNTED:
                self._counts[_COUNTED[event]] += 1

        return listen

    def _listen_to_loop(self) -> None:
        while not self._stopped.wait(_BEAT_S):
            try:
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._beat)
            except RuntimeError:  # the loop is closed, and with it the worker
                return

    def _beat(self) -> None:
        self._beat_at_s = time.monotonic()


def _judged(is_well: bool, text: str) -> Answer:
    return Answer(f"{text}\n", 200 if is_well else 503)
