"""The one place where chance comes from; what decides is handed it as a number."""

import random

__all__ = ["dice"]


def dice() -> float:
    """Return a random number from 0 to 1. It spreads load and keeps no secret."""
    return random.random()  # noqa: S311  # as it says
