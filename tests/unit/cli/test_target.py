import pytest

from echomq.cli.target import check_target
from echomq.errors import UsageError


@pytest.mark.parametrize(
    ("target", "parts"),
    [("app:worker", ("app", "worker")), ("app.jobs:Settings.make", ("app.jobs", "Settings.make"))],
)
def test_target(target: str, parts: tuple[str, str]) -> None:
    """Module and worker may both be dotted."""
    assert check_target(target) == parts


@pytest.mark.parametrize("target", ["", "app", "app:", ":worker", "app:1", "my-app:worker", "app::worker", "../app:w"])
def test_wrong_target(target: str) -> None:
    """Anything that is not MODULE:WORKER is refused with an example."""
    with pytest.raises(UsageError, match=r"expected MODULE:WORKER, such as app\.jobs:worker"):
        check_target(target)


def test_file_in_place_of_a_module() -> None:
    """Who names a file is told its module."""
    with pytest.raises(UsageError, match=r"write app\.jobs:worker"):
        check_target("app/jobs.py:worker")
