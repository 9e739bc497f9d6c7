"""Bad input: refused before anything is sent, with a message that says what was seen, what is allowed, what to do."""

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from echomq import (
    Backoff,
    Deduplication,
    DriverMissing,
    InvalidOption,
    Keep,
    NotEncodable,
    Parent,
    Queue,
    UnknownOption,
    UsageError,
)
from support.shells import Shell

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001

NOWHERE = "redis://localhost:1"
"""No server listens there: what is refused here is refused before anything is sent."""

FAMILY = Parent("p", "bull:mail")


@pytest.fixture
def nowhere(shell: Shell) -> Queue:
    """A queue whose server does not exist, so that nothing can be sent."""
    return shell.queue("mail", NOWHERE)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"job_id": "12"}, "job_id: '12' is a number, and those are the server's to give; prefix it"),
        ({"job_id": "-5"}, "job_id: '-5' is a number"),
        ({"job_id": "0"}, "job_id: '0' is a number"),
        ({"job_id": "0:x:y"}, "job_id: '0:x:y' is a number"),
        ({"job_id": 12}, "job_id: expected text, not 12"),
        ({"job_id": "a:b"}, "job_id: holds no colon, or exactly two, but 'a:b' has 1"),
        ({"job_id": "a:b:c:d"}, "job_id: holds no colon, or exactly two, but 'a:b:c:d' has 3"),
        ({"job_id": "a:b:c", "parent": FAMILY}, "job_id: holds no colon in a flow, but 'a:b:c' has 2"),
        ({"job_id": "wait"}, "job_id: 'wait' names a key of the queue itself; choose another"),
        ({"priority": 2_097_152}, "priority: must be between 0 and 2097151, not 2097152"),
        ({"priority": -1}, "priority: must be between 0 and 2097151, not -1"),
        ({"priority": 1.5}, "priority: expected a whole number, not 1.5"),
        ({"priority": "high"}, "priority: expected a whole number, not 'high'"),
        ({"priority": math.nan}, "priority: expected a whole number, not nan"),
        ({"delay": -1}, "delay: must"),
        ({"delay": 1.5}, "delay: expected milliseconds as int, or a timedelta, not 1.5"),
        ({"delay": datetime(2030, 1, 1)}, "delay: expected milliseconds as int, or a timedelta, not a datetime; pass"),  # noqa: DTZ001
        ({"delay": "5s"}, "delay: expected milliseconds as int, or a timedelta, not '5s'"),
        ({"timestamp": datetime(2030, 1, 1)}, "timestamp: 2030-01-01T00:00:00 has no time zone"),  # noqa: DTZ001
        ({"timestamp": -1}, "timestamp: must"),
        ({"attempts": -1}, "attempts: must"),
        ({"attempts": True}, "attempts: expected a whole number, not True"),
        ({"lifo": 1}, "lifo: expected True or False, not 1"),
        ({"backoff": {"jitter": 2}}, "backoff.jitter: must lie within 0 and 1, not 2"),
        ({"backoff": "exponential"}, "backoff"),
        ({"backoff": {"delay": -1}}, "backoff.delay: must"),
        ({"deduplication": ""}, "deduplication.id: expected text that is not empty, not ''"),
        ({"deduplication": {"ttl": 5}}, "deduplication: lacks a part"),
        ({"deduplication": "a", "parent": FAMILY}, "deduplication: does not go with parent"),
        ({"parent": {"id": "p", "queue": "mail"}}, "parent.queue: expected prefix and name, 'bull:mail', not 'mail'"),
        (
            {"fail_parent_on_failure": True, "remove_dependency_on_failure": True},
            "remove_dependency_on_failure: does not go with fail_parent_on_failure; choose one",
        ),
        ({"remove_on_complete": -2}, "remove_on_complete: must"),
        ({"remove_on_fail": {"count": -1}}, "remove_on_fail.count: must"),
        ({"size_limit": 4}, "size_limit: data of job 'send' has 6 bytes, the limit is 4"),
        ({"extra": {"delay": 1}}, "extra: 'delay' has a field of its own; use delay"),
        ({"extra": {"debounce": {"id": "x"}}}, "extra: 'debounce'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value.partition(":")[0],
)
async def test_option_that_is_not_acceptable(nowhere: Queue, options: Any, says: str) -> None:
    """A value outside what its option allows is refused with the option's name, the value and the limit."""
    with pytest.raises(InvalidOption) as caught:
        await nowhere.add("send", "data", **options)

    assert str(caught.value).startswith(says)
    assert says.startswith(caught.value.field)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("dealy", "delay"),
        ("jobId", "job_id"),
        ("removeOnComplete", "remove_on_complete"),
        ("prio", "priority"),
        ("retries", None),
        ("countdown", None),
        ("debounce", None),
    ],
)
async def test_option_that_does_not_exist(nowhere: Queue, name: str, nearest: str | None) -> None:
    """An option that does not exist is refused with the nearest one that does."""
    unknown: Any = {name: 1}

    with pytest.raises(UnknownOption, match=f"unknown option '{name}'") as caught:
        await nowhere.add("send", **unknown)

    assert caught.value.nearest == nearest or nearest is None
    assert nearest is None or str(caught.value).endswith(f"did you mean '{nearest}'?")
    assert caught.value.nearest or f"unknown option '{name}'; there are: job_id, " in str(caught.value)


async def test_unknown_part_of_an_option(nowhere: Queue) -> None:
    """An unknown part of an option given as a mapping is named by its whole path."""
    backoff: Any = {"typ": "fixed"}

    with pytest.raises(UnknownOption, match=r"unknown option 'backoff\.typ'; did you mean 'type'"):
        await nowhere.add("send", backoff=backoff)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (object(), r"data of job 'send' is not JSON at \$: "),
        ({"items": [{"price": math.nan}]}, r"not JSON at \$\.items\[0\]\.price"),
        ({"a": {"b": math.inf}}, r"not JSON at \$\.a\.b"),
        ([1, {2, 3}], r"not JSON at \$\[1\]"),
        ({1: "a"}, r"not JSON at \$"),
        (b"bytes", r"not JSON at \$"),
        ({"at": datetime(2030, 1, 1)}, r"not JSON at \$\.at"),  # noqa: DTZ001
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_data_that_is_not_json(nowhere: Queue, data: Any, says: str) -> None:
    """Data that other runtimes could not read is refused, with the job and the place of the culprit."""
    with pytest.raises(NotEncodable, match=says) as caught:
        await nowhere.add("send", data)

    assert caught.value.path.startswith("$")


async def test_data_that_contains_itself(nowhere: Queue) -> None:
    """Data that contains itself is refused like any other that is not JSON."""
    data: list[Any] = []
    data.append(data)

    with pytest.raises(NotEncodable, match="data of job 'send'"):
        await nowhere.add("send", data)


@pytest.mark.parametrize("name", ["", None, 7])
async def test_job_without_a_name(nowhere: Queue, name: Any) -> None:
    """A job needs a name, since workers route by it."""
    with pytest.raises(InvalidOption, match="name: a job's name is text that is not empty"):
        await nowhere.add(name)


@pytest.mark.parametrize(("name", "says"), [("", "not empty"), ("a:b", "holds no colon, but 'a:b' does"), (7, "text")])
async def test_wrong_queue_name(shell: Shell, name: Any, says: str) -> None:
    """A queue's name is text, not empty, without a colon; both forms of adding refuse anything else."""
    with pytest.raises(InvalidOption, match=says):
        shell.queue(name, NOWHERE)
    with pytest.raises(InvalidOption, match=says):
        await shell.add(name, "send", connection=NOWHERE)


def test_url_in_place_of_a_queue_name(shell: Shell) -> None:
    """Name and connection in the wrong order are told, and the URL is not shown, since it may hold a password."""
    with pytest.raises(InvalidOption, match="the name comes first, then the connection") as caught:
        shell.queue("redis://ada:secret@localhost", "mail")

    assert "secret" not in str(caught.value)


def test_empty_prefix(shell: Shell) -> None:
    """An empty prefix is refused."""
    with pytest.raises(InvalidOption, match="prefix"):
        shell.queue("mail", NOWHERE, prefix="")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:6379", "expected a scheme, one of redis://"),
        ("redis://ada:secret@localhost:port", "the port is a number"),
        ("redis://ada:secret@localhost/none", "the path is the number of a database, not 'none'"),
        ("redis://ada:secret@localhost?dead=1", "unknown option 'dead'; did you mean 'deadline_ms'|unknown option"),
        ("redis://ada:sec#ret@localhost", "is written %23"),
        ("redis://ada:secret/@localhost", "is written"),
        ("redis+cluster://ada:secret@localhost/3", "a cluster has database 0 only"),
        ("redis+sentinel://ada:secret@localhost", "the name of the master"),
        ("", "scheme"),
    ],
)
async def test_wrong_url(shell: Shell, url: str, says: str) -> None:
    """A wrong URL is refused at once, with what is wrong in it and without its password."""
    with pytest.raises(UsageError, match=says) as caught:
        shell.queue("mail", url)

    assert "wrong connection URL" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "sec#ret" not in str(caught.value)


async def test_scheme_without_a_driver(shell: Shell) -> None:
    """A URL that no installed driver serves is refused with what is installed and what to do."""
    with pytest.raises(DriverMissing, match=r"no installed driver serves amqp:// URLs\. Installed: .*Next step"):
        shell.queue("mail", "amqp://localhost")


def test_wrong_default_options(shell: Shell) -> None:
    """Default options are checked when the queue is made, and cannot hold an id."""
    with pytest.raises(UnknownOption, match="did you mean 'attempts'"):
        shell.queue("mail", NOWHERE, default_job_options={"attemps": 3})
    with pytest.raises(InvalidOption, match="priority"):
        shell.queue("mail", NOWHERE, default_job_options={"priority": -1})
    with pytest.raises(InvalidOption, match=r"default_job_options\.job_id: no two jobs can share an id"):
        shell.queue("mail", NOWHERE, default_job_options={"job_id": "mine"})


ODD: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "rate limit": ("limit: expected RateLimit, not 5", lambda queue: queue.set_global_rate_limit(5)),
    "moment": ("until_ms: expected an aware datetime, or", lambda queue: queue.retry_jobs(until_ms="yesterday")),
    "naive moment": ("until_ms: 2030-01-01T00:00:00 has no", lambda queue: queue.retry_jobs(until_ms=NAIVE)),
    "grace": ("grace: must be at least 0 ms, not -5", lambda queue: queue.clean(-5)),
    "limit": ("limit: must be between 0 and", lambda queue: queue.clean(limit=-5)),
    "steps": ("count: must be between 1 and", lambda queue: queue.promote_jobs(count=0)),
    "length": ("length: must be between 0 and", lambda queue: queue.trim_events(-1)),
    "rows": ("keep: must be between 0 and", lambda queue: queue.add_log("mine", "row", keep=-1)),
    "row": ("row: a log row is text, not b'row'", lambda queue: queue.add_log("mine", b"row")),
    "no jobs": ("jobs: expected (name, data) or", lambda queue: queue.add_bulk(None)),
    "text as jobs": ("jobs[0]: expected (name, data) or", lambda queue: queue.add_bulk("send")),
    "names": ("jobs[0]: unknown option '1'", lambda queue: queue.add_bulk([("send", None, {1: 2})])),
    "one of many": ("jobs[1]: delay: must be", lambda queue: queue.add_bulk([("a", 1), ("b", 2, {"delay": -1})])),
    "data of one": ("jobs[1]: data of job 'b' is not JSON at $", lambda queue: queue.add_bulk([("a", 1), ("b", {2})])),
}
"""Operation -> how the message begins, and a wrong use."""


@pytest.mark.parametrize("name", ODD)
async def test_arguments_that_make_no_sense(shell: Shell, name: str) -> None:
    """Arguments that make no sense are refused before anything is sent, by the name of the argument."""
    says, use = ODD[name]

    with pytest.raises(UsageError) as caught:
        await use(shell.queue("mail", NOWHERE, write_meta=False))

    assert str(caught.value).startswith(says)


def test_defaults_that_are_no_options(shell: Shell) -> None:
    """Default options that are no mapping are refused."""
    with pytest.raises(InvalidOption, match="default_job_options: expected a mapping"):
        shell.queue("mail", NOWHERE, default_job_options=["attempts"])


async def test_event_log_of_an_impossible_length(shell: Shell) -> None:
    """A length of the event log that is no count is refused, at the latest when it would be written."""
    with pytest.raises(InvalidOption, match="max_events: must be between 0 and"):
        await shell.queue("mail", NOWHERE, max_events=-1).count()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Backoff("fixed", -1),
        lambda: Backoff("", 5),
        lambda: Deduplication(id=""),
        lambda: Keep(count=-1),
        lambda: Keep(age_s=1.5),  # type: ignore[arg-type]  # what the test is about
        lambda: Parent("", "bull:mail"),
        lambda: Parent("a:b", "bull:mail"),
    ],
)
def test_option_values_check_themselves(make: Any) -> None:
    """Option values are checked where they are made, far from any add."""
    with pytest.raises(InvalidOption):
        make()
