"""Shows methods that a class takes from modules, ``get_job = reading.get_job``, as methods of the class.

Griffe, which reads the packages for the API reference, loads it as an extension (``mkdocs.yml``).
"""

import copy
from typing import Any

import griffe


class TakenMethods(griffe.Extension):
    """Puts the function in the place of an attribute that holds it."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look through all classes of a package."""
        for module in _modules(pkg):
            for found in module.classes.values():
                if not found.is_alias:
                    _take(found, module)


def _modules(module: griffe.Module) -> list[griffe.Module]:
    inner = [child for child in module.modules.values() if not child.is_alias]
    return [module, *(found for child in inner for found in _modules(child))]


def _take(owner: griffe.Class, module: griffe.Module) -> None:
    for name, member in list(owner.attributes.items()):
        taken_from, _, function = str(member.value).rpartition(".")
        source = module.parent.members.get(taken_from) if module.parent and taken_from else None
        if isinstance(source, griffe.Module) and isinstance(found := source.members.get(function), griffe.Function):
            method = copy.copy(found)
            method.parent = owner
            method.name = name
            owner.members[name] = method
