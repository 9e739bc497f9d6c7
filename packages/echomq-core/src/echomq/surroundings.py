"""What the surroundings of a program say about its workers, where the program leaves it open.

How long a process may take to end is known to whoever deploys it: the platform
kills it after so many seconds.

Source: protocol spec 05 section 4.1.
"""

import os

import attrs

from .moments import read_duration_ms
from .options import WorkerOptions

__all__ = ["CLOSE_TIMEOUT", "within_surroundings"]

CLOSE_TIMEOUT = "ECHOMQ_CLOSE_TIMEOUT"
"""Variable with the time a close waits for running jobs: ``25s``, or milliseconds."""


def within_surroundings(options: WorkerOptions) -> WorkerOptions:
    """Return a worker's options; what they leave open is as the environment says.

    Raises:
        UsageError: The environment says what is no time.
    """
    said = os.environ.get(CLOSE_TIMEOUT)
    if not said or options.close_timeout is not None:
        return options
    return attrs.evolve(options, close_timeout=read_duration_ms(CLOSE_TIMEOUT, said))
