"""Where our scripts do better than the recorded system, vector by vector.

A vector is played as recorded unless it stands here; then the reply and the keys
named here are what we answer and leave instead, and everything else must still
be as recorded. ``lua/README.md`` tells for each why no correct client is affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["AS_RECORDED", "DEVIATIONS", "Deviation"]

AS_RECORDED = object()


@attrs.frozen(kw_only=True)
class Deviation:
    """What we do instead.

    Attributes:
        reason: What the original does wrong and what ours does.
        reply: Our reply; ``AS_RECORDED`` leaves the recorded one.
        after: Keys that end differently, in the form of a vector's ``after``;
            None for a key that must be absent.
    """

    reason: str
    reply: Any = AS_RECORDED
    after: Mapping[str, Mapping[str, Any] | None] = attrs.field(factory=dict)


def _list(*items: str) -> dict[str, Any]:
    return {"type": "list", "value": list(items)}


DEVIATIONS: dict[str, Deviation] = {}
