"""Short ways to write requests in tests."""

from typing import Any

from echomq.call import Argument, Command, ScriptCall

__all__ = ["command", "run", "unchanged"]


def unchanged(reply: Any) -> Any:
    """Decode nothing."""
    return reply


def command(*parts: Argument, repeatable: bool = False, block_ms: int = 0) -> Command[Any]:
    """A command whose reply comes back raw."""
    return Command(parts=parts, decode=unchanged, repeatable=repeatable, block_ms=block_ms)


def run(script: str, *keys: str, args: tuple[Argument, ...] = (), repeatable: bool = False) -> ScriptCall[Any]:
    """A run of a script whose reply comes back raw."""
    return ScriptCall(script=script, keys=keys, args=args, decode=unchanged, repeatable=repeatable)
