"""Finds the worker that ``MODULE:WORKER`` names."""

import importlib
import inspect
import sys
import traceback
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from echomq.errors import UsageError

__all__ = ["check_target", "load_target"]


def check_target(target: str) -> tuple[str, str]:
    """Split ``MODULE:WORKER``.

    Raises:
        UsageError: It does not have that form.
    """
    module, colon, name = target.partition(":")
    is_file = module.endswith(".py")
    if is_file or not colon or not all(part.isidentifier() for part in f"{module}.{name}".split(".")):
        hint = f"; write {module[:-3].replace('/', '.')}:{name or 'worker'}" if is_file else ""
        raise UsageError(f"expected MODULE:WORKER, such as app.jobs:worker, not {target!r}{hint}")
    return module, name


def load_target(target: str) -> Any:
    """Import the module and return the worker, or what its maker returned.

    Args:
        target: ``MODULE:WORKER``; the module is also looked for in the current folder. The name is
            that of a ``Worker``, or of something that makes one when called without arguments.

    Raises:
        UsageError: There is no such thing, or the module itself failed.
    """
    module_name, name = check_target(target)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found = _named(_imported(module_name), name)
    if hasattr(found, "run") and not inspect.isclass(found):
        return found
    return _made(target, found)


def _imported(module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {error.name!r}, neither installed nor in {Path.cwd()}") from None
        raise UsageError(_told(f"importing {module_name} failed", error)) from error
    except Exception as error:  # a module of the user's may raise anything
        raise UsageError(_told(f"importing {module_name} failed", error)) from error


def _named(module: ModuleType, name: str) -> Any:
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError:
        near = get_close_matches(name, dir(module), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"module {module.__name__!r} has no {name!r}{hint}") from None


def _made(target: str, maker: Any) -> Any:
    if not callable(maker):
        raise UsageError(f"{target} is {type(maker).__name__}, expected a Worker or something that makes one")
    try:
        inspect.signature(maker).bind()
    except (TypeError, ValueError):
        raise UsageError(
            f"{target} cannot be called without arguments; expected a Worker, or a function that takes nothing and "
            "returns one: def make_worker(): return Worker(...)"
        ) from None
    try:
        return maker()
    except UsageError:
        raise
    except Exception as error:  # as above
        raise UsageError(_told(f"{target} failed", error)) from error


def _told(what: str, error: Exception) -> str:
    """Say in one line what a user's code raised, and where."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{what}: {type(error).__name__}: {error}{where}"


def _is_machinery(filename: str) -> bool:
    return filename == __file__ or "importlib" in filename
