"""The direction of the tree: what may import what, and what the pure core never touches.

``TREE`` is the order of the core's modules. A module imports only from those
above it; a new one gets its place here. What stands above ``SHELLS`` is pure: no
input or output, no clock, no chance, no environment.

Source: style.md, "The tree" and "Sans-I/O rules".
"""

import ast
import inspect
from graphlib import TopologicalSorter

import pytest

import echomq.aio
import echomq.sync
from support.imports import SOURCES, Module, modules, reaches

TREE = [
    *("version", "errors.roots", "errors.usage", "errors.scripts", "errors.outcomes", "errors.links", "errors"),
    *("checks", "moments", "states", "keys", "signals", "stacktraces", "keywords"),
    *("texts", "codec", "backoff", "repeat", "retention", "worker_options", "options", "given", "stored_options"),
    *("late", "job", "hash_slots", "call", "replies", "events", "entries"),
    *("calls", "calls.add", "calls.fetch", "calls.finish", "calls.locks", "calls.change", "calls.family"),
    "calls.batches",
    *("calls.remove", "calls.queue", "calls.events", "calls.control", "calls.pages", "calls.metrics", "calls.query"),
    "calls.schedulers",
    "calls.repair",
    *("calls.clients", "calls.presence", "flow", "flow_view", "plans", "cancelling", "endings", "family", "schedules"),
    *("removal", "rerun", "listing", "search", "watching", "gauging", "prometheus", "closing"),
    *("diagnosis.findings", "diagnosis.facts", "diagnosis.asking", "diagnosis.rights", "diagnosis.relations"),
    *("diagnosis.nodes", "diagnosis.sampling", "diagnosis.gathering", "diagnosis.judging_server"),
    *("diagnosis.judging_cluster", "diagnosis.judging_queue", "diagnosis"),
    *("scheduling", "scheduling.state", "scheduling.messages", "scheduling.timing", "scheduling.outcome"),
    *("scheduling.settling", "scheduling.weights", "scheduling.batching", "scheduling.attempts", "scheduling.step"),
    *("processors", "shares", "health"),
    *(
        "driver",
        "address",
        "resp",
        "links",
        "cluster_requests",
        "slot_table",
        "cluster",
        "sentinel",
        "client_errors",
        "client_settings",
    ),
    # SHELLS begin here: they read files, clocks and sockets.
    *("clock", "chance", "surroundings", "presence", "current", "logs", "complaints", "listening", "freeze", "scripts"),
    *("exchange", "layers", "middleware"),
    *("hookspecs", "extensions", "registry", "plugins"),
    *("embedded_guard", "embedded_folder", "embedded"),
    *("processes", "sync", "aio", "", "tasks"),
    *("serving", "probe", "web", "demo", "cli", "__main__"),
]
SHELLS = "clock"
WHOLE = ("processes", "sync", "aio", "tasks", "demo", "cli")
"""Packages that stand in the tree as one; inside them, imports only make no circle."""

IMPURE = {
    *("asyncio", "concurrent", "threading", "multiprocessing", "queue", "signal", "contextvars"),
    *("socket", "ssl", "select", "selectors", "http", "urllib.request", "subprocess", "os", "pathlib", "tempfile"),
    *("io", "shutil", "time", "sched", "random", "secrets", "uuid", "logging", "redis", "valkey", "hiredis"),
}
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"}
CLOCKS = {"now", "utcnow", "today", "fromtimestamp"}
CLIENTS = {"redis", "valkey", "hiredis", "libvalkey", "echomq_redis", "echomq_valkey"}

CORE = modules("echomq")


def short(name: str) -> str:
    """A module's name within the core; a package that stands as one for all inside it."""
    inner = name.removeprefix("echomq").removeprefix(".")
    return inner.partition(".")[0] if inner.partition(".")[0] in WHOLE else inner


def is_pure(module: Module) -> bool:
    """Tell whether a module stands above the shells."""
    return TREE.index(short(module.name)) < TREE.index(SHELLS)


def test_each_module_has_its_place() -> None:
    """The tree names every module of the core, and none that is gone."""
    assert {short(name) for name in CORE} == set(TREE)
    assert len(TREE) == len(set(TREE))


@pytest.mark.parametrize("name", sorted(CORE))
def test_imports_go_one_way(name: str) -> None:
    """A module imports only from modules above it in the tree."""
    place = TREE.index(short(name))
    wrong = {
        target
        for target in CORE[name].imports
        if target in CORE and short(target) != short(name) and TREE.index(short(target)) > place
    }
    assert not wrong, f"{name} stands above {sorted(wrong)}"


def test_no_circles() -> None:
    """No two modules import each other while they are imported, straight or round a corner."""
    graph = {name: {target for target in module.eager if target in CORE} - {name} for name, module in CORE.items()}
    assert list(TopologicalSorter(graph).static_order())


def _roots(target: str) -> set[str]:
    parts = target.split(".")
    return {".".join(parts[: length + 1]) for length in range(len(parts))}


@pytest.mark.parametrize("name", sorted(name for name, module in CORE.items() if is_pure(module)))
def test_pure_modules_do_no_io(name: str) -> None:
    """A pure module imports nothing that does I/O, tells the time, rolls dice or reads the environment."""
    impure = {target for target in reaches(CORE, name) if _roots(target) & IMPURE}
    assert not impure, f"{name} reaches {sorted(impure)}"


@pytest.mark.parametrize("name", sorted(name for name, module in CORE.items() if is_pure(module)))
def test_pure_modules_are_told_the_time(name: str) -> None:
    """A pure module never asks what time it is: the time is an argument."""
    asked = [node.attr for node in ast.walk(CORE[name].tree) if isinstance(node, ast.Attribute) and node.attr in CLOCKS]
    assert not asked


@pytest.mark.parametrize("name", sorted(CORE))
def test_core_imports_no_client(name: str) -> None:
    """The core knows no client library and no driver package; drivers are found by name, as plugins."""
    assert not {target for target in CORE[name].imports if _roots(target) & CLIENTS}


def _may_run_data(node: ast.Call) -> bool:
    name = getattr(node.func, "id", getattr(node.func, "attr", None))
    if name == "import_module":
        return not isinstance(node.args[0], ast.Constant)
    return isinstance(node.func, ast.Name) and name in {"eval", "exec", "compile", "__import__"}


TOLD_TO_IMPORT = {"echomq.cli.target", "echomq_django.registry"}
"""What imports modules whose names the command line, or the settings of a project, say."""


@pytest.mark.parametrize("package", sorted(SOURCES))
def test_data_are_never_run(package: str) -> None:
    """Nothing unpickles, evaluates or imports what it read, but what its user tells it to (pain 57)."""
    for name, module in modules(package).items():
        unpickling = {target for target in module.imports if _roots(target) & UNPICKLERS}
        running = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call) and _may_run_data(node)]
        assert not unpickling, name
        assert not running or name in TOLD_TO_IMPORT, name


@pytest.mark.parametrize(("package", "other"), [("echomq_redis", "valkey"), ("echomq_valkey", "redis")])
def test_drivers_stand_alone(package: str, other: str) -> None:
    """A driver imports neither the other driver nor the other's client."""
    for module in modules(package).values():
        assert not {target for target in module.imports if _roots(target) & {other, f"echomq_{other}"}}, module.name


@pytest.mark.parametrize("package", ["echomq_redis", "echomq_valkey"])
def test_discovery_imports_no_client(package: str) -> None:
    """The module a driver is found by imports its client only when a connection is opened."""
    eager = modules(package)[f"{package}.plugin"].eager
    assert not {target for target in eager if _roots(target) & CLIENTS - {package}}


def test_blocking_shell_has_no_loop() -> None:
    """The blocking shell works without asyncio."""
    users = [name for name, module in CORE.items() if short(name) == "sync" and "asyncio" in module.imports]
    assert not users


def _parameters(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


ASYNCIO_ONLY = {"run_sync", "join"}
"""For programs without an event loop, for which the blocking shell is; groups of workers."""

BLOCKING_ONLY = {"begin", "end"}
"""For groups of workers, whose one thread runs all of them."""

TWINS = sorted(set(echomq.aio.__all__) & set(echomq.sync.__all__))


@pytest.mark.parametrize("name", TWINS)
def test_shells_are_twins(name: str) -> None:
    """What both shells have takes the same parameters in both: they differ by ``await`` alone."""
    ours, theirs = getattr(echomq.aio, name), getattr(echomq.sync, name)
    if not inspect.isclass(ours):
        assert _parameters(ours) == _parameters(theirs)
        return
    public = [attribute for attribute in vars(ours) if not attribute.startswith("_") and attribute not in ASYNCIO_ONLY]
    twins = [attribute for attribute in vars(theirs) if not attribute.startswith("_")]
    assert public == [attribute for attribute in twins if attribute not in BLOCKING_ONLY]
    for attribute in ["__init__", *public]:
        if callable(getattr(ours, attribute)):
            assert _parameters(getattr(ours, attribute)) == _parameters(getattr(theirs, attribute)), attribute
