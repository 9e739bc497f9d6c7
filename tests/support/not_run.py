"""What this machine could not run, told at the end of the run.

On a laptop a missing part skips its tests; with ``CI=true`` it fails them, unless
it is one that only some machines can have. Both ways it is listed under "Not run
here" when pytest closes, whichever of its processes noticed it.
"""

import os
from typing import Any, NoReturn

import pytest

__all__ = ["MISSING", "in_ci", "missing", "pytest_sessionfinish", "pytest_testnodedown"]

MISSING: dict[str, str] = {}
"""Part that could not run -> why, in the order in which it was noticed."""


def in_ci() -> bool:
    """Tell whether a missing part must fail the run."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def missing(part: str, reason: str, *, required: bool = True) -> NoReturn:
    """Skip the test that needs a part this machine lacks, or fail it in CI.

    Args:
        part: What is missing, as listed at the end: ``"Valkey"``.
        reason: Why, and how to get it.
        required: False never fails, not even in CI.
    """
    MISSING.setdefault(part, reason)
    if required and in_ci():
        pytest.fail(f"{part} is required with CI=true: {reason}", pytrace=False)
    pytest.skip(f"{part}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that prints the summary what this one could not run."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["missing"] = MISSING


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process that ends could not run."""
    MISSING.update(getattr(node, "workeroutput", {}).get("missing", {}))
