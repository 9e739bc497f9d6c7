"""What job code raises to steer its own job instead of failing.

None of the first four uses up an attempt; each of them counts one more start.

Source: protocol spec 05 section 4.7.
"""

from datetime import timedelta

from .errors import JobSignal
from .moments import duration_ms

__all__ = ["Delay", "JobCancelled", "RateLimited", "Unrecoverable", "Wait", "WaitForChildren"]


class Delay(JobSignal):
    """Run this job again later.

    Attributes:
        delay_ms: How long from now, in milliseconds.
    """

    def __init__(self, delay: int | timedelta) -> None:
        self.delay_ms = duration_ms("delay", delay)
        super().__init__(f"run again in {self.delay_ms} ms")


class Wait(JobSignal):
    """Give this job back to the waiting ones, as the next in line."""


class WaitForChildren(JobSignal):
    """Let this job wait for its children; it runs again when the last one is done."""


class RateLimited(JobSignal):
    """Stop taking jobs of this queue for a while, in all workers, and give this job back.

    Attributes:
        retry_after_ms: How long, in milliseconds.
    """

    def __init__(self, retry_after: int | timedelta) -> None:
        self.retry_after_ms = duration_ms("retry_after", retry_after)
        super().__init__(f"rate limited for {self.retry_after_ms} ms")


class Unrecoverable(JobSignal):
    """Fail this job now, whatever attempts are left."""


class JobCancelled(Unrecoverable):
    """Somebody cancelled this job: it fails with the reason given, and nobody runs it again."""
