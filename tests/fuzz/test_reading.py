"""Whatever a server sends, reading it gives a value or one of our errors: never another exception, never a hang."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echomq.calls
from echomq import codec, diagnosis, family, plans, schedules
from echomq.call import Batch, Command, ScriptCall
from echomq.calls.fetch import Take
from echomq.calls.schedulers import get_job_scheduler, update_job_scheduler
from echomq.entries import read_event
from echomq.errors import EchoMQError, ServerRefused
from echomq.exchange import parse_info
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import JobOptions, job_options, worker_options
from echomq.repeat import Repeat
from echomq.resp import canonical
from echomq.retention import Keep
from echomq.scheduling.outcome import failure_of, of_error, of_result, refusal
from echomq.scheduling.settling import stray_jobs
from echomq.states import JobState
from echomq.stored_options import read_options
from fuzz.hostile import DEEP, hashes, replies, texts

Q = Keys("work")
NOW = 1_700_000_000_000
JOB = Job(keys=Q, id="1", name="n", given_options=JobOptions())
SAMPLES: Mapping[str, Any] = {
    "keys": Q,
    "job": JOB,
    "take": Take(token="t", lock_ms=1_000),
    "keep": Keep(),
    "state": JobState.FAILED,
    "states": (JobState.FAILED,),
    "priorities": (0, 1),
    "repeat": Repeat(every=1_000),
    "options": job_options(),
    "now_ms": NOW,
    "which": "processed",
    "cursor": "0",
    "priority": 1,
    "held": [("1", "t")],
    "args": (),
    "local_zone": "UTC",
    "value_json": "null",
    "fields": {"a": "b"},
    "place": "wait",
    "kind": "locks",
}
"""Parameters of builders, by name; others by their type."""

BY_TYPE: Mapping[str, Any] = {"str": "x", "int": 1, "bool": False, "float": 0.5}


def _sample(parameter: inspect.Parameter) -> Any:
    if parameter.name in SAMPLES:
        return SAMPLES[parameter.name]
    kind = str(getattr(parameter.annotation, "__name__", parameter.annotation))
    return BY_TYPE.get(kind, ["x"])


def _requests() -> Iterator[Any]:
    """One request of each builder that can be called with samples."""
    for info in pkgutil.iter_modules(echomq.calls.__path__):
        module = importlib.import_module(f"echomq.calls.{info.name}")
        for name in module.__all__:
            builder = getattr(module, name)
            if not inspect.isfunction(builder) or builder.__module__ != module.__name__:
                continue
            parameters = inspect.signature(builder).parameters.values()
            wanted = {one.name: _sample(one) for one in parameters if one.default is one.empty}
            try:
                request = builder(**wanted)
            except Exception:  # noqa: BLE001, S112  # a builder of another shape: it is counted below
                continue
            if isinstance(request, ScriptCall | Command):
                yield pytest.param(request, id=f"{info.name}.{name}")


REQUESTS = list(_requests())


def test_most_builders_are_tried() -> None:
    """The requests that are fuzzed are those of nearly all builders."""
    assert len(REQUESTS) >= 60


def value_of(read: Callable[..., Any], *args: Any) -> Any:
    """Read something; one of our errors is as good as a value."""
    try:
        return read(*args)
    except EchoMQError as error:
        return error


def look_at(found: Any) -> None:
    """Use all that jobs tell."""
    if isinstance(found, list | tuple):
        for item in found:
            look_at(item)
    elif isinstance(found, Job):
        repr(found)
        for name in dir(Job):
            if not name.startswith("_") and not callable(getattr(Job, name, None)):
                value_of(getattr, found, name)
    elif hasattr(found, "job"):
        look_at(found.job)


@pytest.mark.parametrize("request_", REQUESTS)
@given(reply=replies())
def test_replies(request_: Any, reply: Any) -> None:
    """The reply to each request decodes to a value or to one of our errors, in RESP2 and in RESP3."""
    look_at(value_of(request_.decode, reply))
    look_at(value_of(request_.decode, canonical(reply)))


@given(hashes(), texts())
def test_jobs(fields: Any, raw: Any) -> None:
    """A job can be made of any hash, and what its worker does with it ends in an outcome."""
    job = Job.from_hash(Q, "1", fields)
    look_at(job)
    options = worker_options(max_started_attempts=3)
    refusal(job, options)
    for error in (ValueError("x"), value_of(codec.decode_json, raw)):
        if isinstance(error, BaseException):
            outcome = of_error(job, error, options=options, dice=0.5, strategies={})
            assert failure_of(outcome) is not None
    value_of(update_job_scheduler, job, NOW, "UTC")
    value_of(of_result, job, value_of(codec.decode_json, raw))


@given(replies(), texts())
def test_event_entries(fields: Any, event_id: Any) -> None:
    """An entry of the event log is read as an event or as a broken one; it never raises."""
    assert read_event(str(event_id), fields).id == str(event_id)


@given(replies())
def test_server_texts(reply: Any) -> None:
    """INFO is read whatever it holds."""
    value_of(parse_info, reply)
    value_of(diagnosis.asking.read_info, reply)


@given(hashes())
def test_schedulers(fields: Any) -> None:
    """A scheduler can be read from any record."""
    found = value_of(get_job_scheduler(Q, "s").decode, [fields, b"17"])
    value_of(lambda: (found.data, found.options, repr(found)) if not isinstance(found, Exception) else None)


PLANS: Mapping[str, Callable[[], plans.Plan[Any]]] = {
    "doctor-queue": lambda: diagnosis.diagnose_queue(Q, now_ms=NOW),
    "doctor-server": lambda: diagnosis.diagnose_server(Q),
    "find-queues": lambda: diagnosis.find_queues("bull", budget=10),
    "schedulers": lambda: schedules.list_schedulers(Q, 0, -1, ascending=True),
    "flow-view": lambda: family.view_flow(Q, "1", depth=3, max_children=5),
    "stray-jobs": lambda: stray_jobs(Q, "me", lambda: ()),
}


@pytest.mark.parametrize("name", PLANS)
@given(data=st.data())
def test_plans(name: str, data: st.DataObject) -> None:
    """An operation of several calls ends with a value or with one of our errors, whatever the server replies."""
    answers = replies() | st.just(ServerRefused("WRONGTYPE no", prefix="WRONGTYPE"))

    def outcome(request: Any) -> Any:
        reply = data.draw(answers)
        return reply if isinstance(reply, ServerRefused) else value_of(request.decode, reply)

    plan = PLANS[name]()

    def run() -> None:
        request = next(plan)
        for _ in range(12):
            try:
                if isinstance(request, Batch):
                    request = plan.send([outcome(one) for one in request.requests])
                else:
                    reply = outcome(request)
                    request = plan.throw(reply) if isinstance(reply, EchoMQError) else plan.send(reply)
            except StopIteration:
                return
        plan.close()

    value_of(run)


@given(texts())
def test_json(raw: Any) -> None:
    """JSON texts of any kind decode to a value, or to an error that says so."""
    value_of(codec.decode_json, raw)
    read_options(raw)


@pytest.mark.parametrize("raw", [DEEP, DEEP.decode(), b'{"a":' * 100_000, b"[" * 1_000_000, b"9" * 1_000_000])
def test_extremes(raw: Any) -> None:
    """Nesting and numbers beyond any reader are an error, not a crash."""
    with pytest.raises(EchoMQError, match="not JSON"):
        codec.decode_json(raw)
