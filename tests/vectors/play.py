"""One recorded call, played with our scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echomq.scripts import get_script
from vectors.compare import keyspace_differences, plain_reply, reply_differences
from vectors.deviations import DEVIATIONS
from vectors.keyspace import dump, load

if TYPE_CHECKING:
    from vectors.keyspace import RawClient

__all__ = ["differences", "script_of"]


def script_of(vector: dict[str, Any]) -> str:
    """Name of the script that a vector calls."""
    return str(vector["script"].split("-")[0])


def _argument(argument: Any) -> bytes | str:
    return bytes.fromhex(argument["hex"]) if isinstance(argument, dict) else str(argument)


def differences(client: RawClient, vector: dict[str, Any]) -> list[str]:
    """What is not as recorded, or as declared to be better; empties the database first.

    Args:
        client: Of a database to be used up.
        vector: As it was read from its file.
    """
    script = get_script(script_of(vector))
    load(client, vector["state"])

    raw = client.run(script.text, vector["keys"], map(_argument, vector["argv"]))

    deviation = DEVIATIONS.get(vector["name"])
    reply, after = deviation.expected(vector) if deviation else (vector["reply"], vector["after"])
    unordered = vector.get("unordered", [])
    found = reply_differences(reply, plain_reply(raw), unordered)
    found += keyspace_differences(after, dump(client), unordered)
    if script.file_name != f"{vector['script']}.lua":
        found.append(f"{script.file_name} takes another number of keys than {vector['script']}")
    return [*found, str(raw)] if found and isinstance(raw, Exception) else found
