"""Signal handlers raise where they please: Ctrl-C, limits of time by SIGALRM. What comes after finds all in order."""

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import echomq.sync
from echomq import UsageError
from echomq.sync.exclusive import Exclusive
from support.limits import DEADLINE_S
from support.servers import Server


class Interrupted(BaseException):
    """What a signal handler raises."""


def _interrupt(number: int) -> Callable[[FrameType, str, Any], None]:
    """Raise at one of the moments at which the interpreter looks for signals: a function begins, or C code returns."""
    left = number

    def look(_: FrameType, event: str, __: Any) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if left == 0:
                raise Interrupted

    return look


def _at_every_moment(work: Callable[[], object], then: Callable[[], object]) -> int:
    """Do something, broken off at one moment after the other, and something else after each; return how many."""
    number = 0
    while True:
        number += 1
        try:
            sys.setprofile(_interrupt(number))
            work()
        except Interrupted:
            sys.setprofile(None)
            then()
        else:
            sys.setprofile(None)
            return number


def test_add_is_interrupted_anywhere(redis_server: Server, prefix: str) -> None:
    """A queue serves on at once, wherever an add was broken off; a new connection costs no more than before."""
    with echomq.sync.Queue(
        "mail",
        redis_server.url,
        prefix=prefix,
    ) as queue:
        queue.add("first")
        slowest_s = 0.0

        def serves() -> None:
            nonlocal slowest_s
            begun_s = time.monotonic()
            job = queue.get_job("1")
            slowest_s = max(slowest_s, time.monotonic() - begun_s)
            assert job is not None
            assert job.name == "first"

        moments = _at_every_moment(lambda: queue.add("more", {"a": 1}), serves)

        assert moments > 50
        assert slowest_s < 5


def test_what_is_exclusive_is_free_again() -> None:
    """Another thread may go on, wherever the one before it was broken off."""
    exclusive = Exclusive()

    def is_free() -> None:
        done = threading.Event()
        thread = threading.Thread(target=exclusive.do, args=(done.set,), kwargs={"wait_s": 0, "late": AssertionError})
        thread.start()
        thread.join(DEADLINE_S)
        assert done.is_set()

    assert _at_every_moment(lambda: exclusive.do(list, wait_s=0, late=AssertionError), is_free) > 3
    assert _at_every_moment(lambda: exclusive.do_if_free(list), is_free) > 1


def test_signal_handler_wants_the_connection_it_interrupts() -> None:
    """Who would wait for itself for ever is told so, and what it interrupted goes on."""
    exclusive = Exclusive()

    def handler() -> str:
        with pytest.raises(UsageError, match="signal handler"):
            exclusive.do(list, wait_s=DEADLINE_S, late=AssertionError)
        exclusive.do_if_free(pytest.fail)
        return "done"

    assert exclusive.do(handler, wait_s=0, late=AssertionError) == "done"
    assert exclusive.do(list, wait_s=0, late=AssertionError) == []
