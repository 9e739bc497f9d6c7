"""Tools for tests of code that uses EchoMQ; with pytest also fixtures (:mod:`echomq_testing.plugin`).

The functions for code without an event loop have the same names in :mod:`echomq_testing.sync`.
"""

from .checking import assert_enqueued, assert_not_enqueued
from .clock import Clock
from .draining import drain
from .matching import ANYTHING
from .outcomes import Drained, Failure
from .servers import TestServer, start_server
from .working import Workers

__all__ = [
    "ANYTHING",
    "Clock",
    "Drained",
    "Failure",
    "TestServer",
    "Workers",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "start_server",
]
