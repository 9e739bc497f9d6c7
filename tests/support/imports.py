"""What modules import, read from their text: nothing is imported to find out."""

import ast
from collections.abc import Iterator
from pathlib import Path

import attrs

__all__ = ["SOURCES", "Module", "modules", "reaches"]

SOURCES = {path.parent.name: path.parent for path in Path(__file__).parents[2].glob("packages/*/src/*/__init__.py")}
"""Where each of our packages is."""


@attrs.frozen
class Module:
    """One file of a package.

    Attributes:
        name: ``"echomq.calls.add"``.
        imports: What runs import, wherever it stands in the file; names for type checkers are left out.
        eager: Those of them that an import of the module itself runs.
        tree: Its syntax.
    """

    name: str
    imports: frozenset[str]
    eager: frozenset[str]
    tree: ast.Module = attrs.field(eq=False, repr=False)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _import_nodes(node: ast.AST, lazily: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, lazily
        elif not _is_for_type_checkers(child):
            yield from _import_nodes(child, lazily or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _targets(node: ast.Import | ast.ImportFrom, package: str, known: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        parent = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*parent, *([node.module] if node.module else [])])
    for alias in node.names:
        yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base


def _name(root: Path, package: str, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join([package, *(part for part in parts if part != "__init__")])


def modules(package: str) -> dict[str, Module]:
    """Return the modules of one of our packages by name."""
    root = SOURCES[package]
    paths = {_name(root, package, path): path for path in root.rglob("*.py")}
    known = frozenset(paths)
    found = {}
    for name, path in paths.items():
        tree = ast.parse(path.read_text("utf-8"))
        parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imports, eager = set(), set()
        for node, is_lazy in _import_nodes(tree):
            targets = set(_targets(node, parent, known))
            imports |= targets
            eager |= set() if is_lazy else targets
        found[name] = Module(name, frozenset(imports), frozenset(eager), tree)
    return found


def reaches(found: dict[str, Module], name: str) -> set[str]:
    """Return all that a module imports, straight or through other modules of the package."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for target in found[waiting.pop()].imports - seen:
            seen.add(target)
            waiting += [target] if target in found else []
    return seen
