"""Loads a program of ``scripts/`` as a module, so that a test can ask it what it would write."""

import importlib.util
import sys
from types import ModuleType

from support.server_files import CHECKOUT

__all__ = ["load_program"]


def load_program(name: str) -> ModuleType:
    """Run ``scripts/NAME.py`` as a module of that name."""
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
