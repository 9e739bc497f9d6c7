"""Every recorded call of the real system gives the same reply and the same keyspace with our scripts.

``ECHOMQ_VECTORS`` names another folder of vectors; without it the copy in
``recorded/`` is used.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from echomq.scripts import get_script
from vectors.compare import keyspace_differences, plain_reply, reply_differences
from vectors.deviations import DEVIATIONS
from vectors.keyspace import RawClient, dump, load

FOLDER = Path(os.environ.get("ECHOMQ_VECTORS") or Path(__file__).parent / "recorded")
FILES = sorted(FOLDER.rglob("*.json"))


def _argument(argument: Any) -> bytes | str:
    return bytes.fromhex(argument["hex"]) if isinstance(argument, dict) else str(argument)


def _expected(vector: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    deviation = DEVIATIONS.get(vector["name"])
    return deviation.expected(vector) if deviation else (vector["reply"], vector["after"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix())
def test_recorded_call(path: Path, raw_client: RawClient) -> None:
    """A recorded call gives the recorded reply and leaves the recorded keyspace."""
    vector = json.loads(path.read_text("utf-8"))
    script = get_script(vector["script"].split("-")[0])
    load(raw_client, vector["state"])

    raw = raw_client.run(script.text, vector["keys"], map(_argument, vector["argv"]))

    reply, after = _expected(vector)
    unordered = vector.get("unordered", [])
    differences = reply_differences(reply, plain_reply(raw), unordered)
    differences += keyspace_differences(after, dump(raw_client), unordered)
    assert not differences, "\n".join([*differences, *([str(raw)] if isinstance(raw, Exception) else [])])
    assert script.file_name == f"{vector['script']}.lua"


def test_deviations_are_known() -> None:
    """Every declared deviation names a vector of the committed folder."""
    recorded = {path.stem for path in (Path(__file__).parent / "recorded").rglob("*.json")}

    assert recorded >= DEVIATIONS.keys()
