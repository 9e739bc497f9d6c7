"""Which finished jobs stay.

Source: protocol spec 03 section 1.3 and S14.
"""

from collections.abc import Mapping

import attrs

from . import codec
from .checks import from_mapping, is_whole, whole

__all__ = ["Keep", "remove_on_complete", "remove_on_fail"]


@attrs.frozen(kw_only=True)
class Keep:
    """Which finished jobs stay; all of them if nothing is said.

    Attributes:
        age_s: Remove jobs that finished longer ago than this, in seconds.
        count: Keep only the newest so many; 0 keeps none.
        limit: Most jobs removed for their age at one time (the script's own default: 1,000).

    Source: protocol spec 03 section 1.3 and S14.
    """

    age_s: int | None = attrs.field(default=None, validator=is_whole(0, optional=True))
    count: int | None = attrs.field(default=None, validator=is_whole(0, optional=True))
    limit: int | None = attrs.field(default=None, validator=is_whole(1, optional=True))

    @classmethod
    def of(cls, field: str, value: "Keep | bool | int | Mapping[str, int] | None") -> "Keep | None":
        """Return what True (none), False (all), a count or a mapping stands for; None stays None.

        Raises:
            InvalidOption: It stands for nothing.
        """
        if value is None or isinstance(value, Keep):
            return value
        if isinstance(value, bool):
            return cls(count=0) if value else cls()
        if isinstance(value, Mapping):
            return from_mapping(cls, field, value)
        if value == -1:  # how other clients spell "all of them"
            return cls()
        return cls(count=whole(field, value))

    def to_wire(self) -> bool | int | dict[str, int]:
        """Return the form stored in ``opts``: a bool, a number, or a map."""
        found = codec.to_wire(codec.KEEP_NAMES, self)
        if not found:
            return False
        if list(found) == ["count"]:
            return self.count or True
        return found


def remove_on_complete(value: Keep | bool | int | Mapping[str, int] | None) -> Keep | None:
    """Convert the option of that name."""
    return Keep.of("remove_on_complete", value)


def remove_on_fail(value: Keep | bool | int | Mapping[str, int] | None) -> Keep | None:
    """Convert the option of that name."""
    return Keep.of("remove_on_fail", value)
