"""The tools for code without an event loop."""

from .checking_sync import assert_enqueued, assert_not_enqueued
from .draining_sync import drain
from .working_sync import Workers

__all__ = ["Workers", "assert_enqueued", "assert_not_enqueued", "drain"]
