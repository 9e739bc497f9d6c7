"""Makes the docstrings of the packages what readers of the API reference need.

* Methods that a class takes from modules, ``get_job = reading.get_job``, are shown as methods of the class.
* Roles such as ``:class:`Queue``` become links, where the reference has the name.
* Lines that name the source of a rule, for those who work on the code, are left out.

Griffe, which reads the packages, loads it as an extension (``mkdocs.yml``).
"""

import copy
import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`(?:[^`<]+<)?~?([\w.]+)>?`")
_SOURCE = re.compile(r"\n*^[ \t]*Source: .*(?:\n(?![ \t]*\n).+)*", re.MULTILINE)


class ForReaders(griffe.Extension):
    """Prepares all modules, classes and functions of a package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look through a whole package."""
        public = set(pkg.exports or ())
        for module in _modules(pkg):
            for found in module.classes.values():
                if not found.is_alias:
                    _take(found, module)
            _reword(module, public)


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


def _reword(found: griffe.Object, public: set[str]) -> None:
    if found.docstring is not None:
        text = _SOURCE.sub("", found.docstring.value)
        found.docstring.value = _ROLE.sub(lambda role: _link(role[1], public), text)
    for member in found.members.values():
        if not member.is_alias and not isinstance(member, griffe.Module):
            _reword(member, public)


def _link(target: str, public: set[str]) -> str:
    """Return a link to a name of the package, if that is public, or else the name."""
    name = target.rpartition(".")[2]
    if name not in public:
        return f"`{name}`"
    return f'<autoref optional identifier="echomq.{name}"><code>{name}</code></autoref>'
