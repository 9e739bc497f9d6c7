"""Every recorded call of the real system gives the same reply and the same keyspace with our scripts.

``ECHOMQ_VECTORS`` names another folder of vectors; without it the copy in
``recorded/`` is used.
"""

import json
import os
from pathlib import Path

import pytest

from vectors.deviations import DEVIATIONS
from vectors.keyspace import RawClient
from vectors.play import differences

FOLDER = Path(os.environ.get("ECHOMQ_VECTORS") or Path(__file__).parent / "recorded")
FILES = sorted(FOLDER.rglob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix())
def test_recorded_call(path: Path, raw_client: RawClient) -> None:
    """A recorded call gives the recorded reply and leaves the recorded keyspace."""
    found = differences(raw_client, json.loads(path.read_text("utf-8")))

    assert not found, "\n".join(found)


def test_deviations_are_known() -> None:
    """Every declared deviation names a vector of the committed folder."""
    recorded = {path.stem for path in (Path(__file__).parent / "recorded").rglob("*.json")}

    assert recorded >= DEVIATIONS.keys()
