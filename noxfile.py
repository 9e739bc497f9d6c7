"""What can be run besides ``./test``: ``nox -s NAME``, ``nox -l`` lists all.

Sessions over several Pythons run on those that are installed.
"""

import os
import shutil
from pathlib import Path

import nox

nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "unit"]

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
PACKAGES = ["core[cli]", "redis", "valkey[embedded]", "memory", "testing", "opentelemetry", "django", "sqlalchemy"]
EDITABLE = [part for package in PACKAGES for part in ("-e", f"packages/echomq-{package}")]
TIER_2 = "redis-6.2,redis-8.2,valkey-8.0,valkey-8.1"
CONTAINER_TOOLS = ["podman", "crun", "unshare", "redis-server", "redis-cli"]
FAULTS = {"single": ["tests/chaos"], "several": ["tests/topology", "-k", "under_load or hung_masters"]}
IN_CONTAINERS = ["tests/conformance", "tests/infra", "tests/testing/test_servers.py"]


def _prepare(session: nox.Session) -> None:
    session.install(*EDITABLE, "--group", "test")


def _get_debian_valkey(session: nox.Session) -> None:
    """Get Debian's Valkey, which speaks TLS and wheels do not; tests go on, and say so, where it is not to be had."""
    folder = Path(os.environ.get("ECHOMQ_TEST_CACHE") or ".cache") / "servers" / "valkey-8.0"
    if shutil.which("apt-get") and not (folder / "root/usr/bin/valkey-server").exists():
        script = ["sh", "scripts/debian-server.sh", "bookworm-backports", str(folder)]
        session.run(*script, external=True, success_codes=range(256))


def _pytest(session: nox.Session, *what: str, **env: str) -> None:
    session.run("pytest", *what, *session.posargs, env=env)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install("--group", "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly, as the oldest Python; samples of user code with pyright too."""
    _prepare(session)
    session.run("mypy")
    _pytest(session, "-m", "heavy", "tests/typing")


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """Run the tests of the pure core: no server, no socket."""
    _prepare(session)
    _pytest(session, "tests/unit", "tests/property")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run everything ``./test`` runs."""
    _prepare(session)
    _pytest(session)


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the suite every driver must pass, and the recorded vectors."""
    _prepare(session)
    _pytest(session, "tests/conformance", "tests/vectors")


@nox.session(python=PYTHONS)
def frameworks(session: nox.Session) -> None:
    """Run the tests of Django (6 from Python 3.12 on, 5.2 and its backport before), SQLAlchemy and web frameworks."""
    _prepare(session)
    _pytest(session, "tests/frameworks")


@nox.session
def interop(session: nox.Session) -> None:
    """Share queues with BullMQ for Node and Python."""
    _prepare(session)
    _pytest(session, "-m", "heavy or not heavy", "tests/interop")


@nox.session
def chaos(session: nox.Session) -> None:
    """Kill, freeze and cut off workers and servers."""
    _prepare(session)
    _pytest(session, "tests/chaos")


@nox.session
@nox.parametrize("servers", list(FAULTS))
def faults(session: nox.Session, servers: str) -> None:
    """Let every fault meet both drivers and both shells, and write its row of the table in docs/guarantees.md.

    On single servers about 20 minutes (``-- -n 2``: 10 minutes), on clusters and behind sentinels 10 minutes:
    ``nox -s "faults(servers='several')"`` for these alone. Rows that were not measured anew stay.
    """
    _prepare(session)
    _get_debian_valkey(session)
    rows = Path(session.cache_dir).resolve() / "faults.jsonl"
    rows.unlink(missing_ok=True)
    env = {"ECHOMQ_FAULTS_FILE": str(rows), "ECHOMQ_FAULT_JOBS": "300", "ECHOMQ_FAULT_STRIKES": "5"}
    _pytest(session, "-m", "heavy or not heavy", "--timeout", "900", *FAULTS[servers], **env)
    session.run("python", "scripts/guarantees_page.py", str(rows))


@nox.session
def soak(session: nox.Session) -> None:
    """Work 100,000 jobs through a storm of faults, 20 minutes; ``-- --minutes 2 --jobs 5000`` changes that.

    ``-- --topology sentinel`` and ``-- --topology cluster`` choose other servers than a single one.
    """
    _prepare(session)
    session.run("python", "-m", "chaos.soak", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def topology(session: nox.Session) -> None:
    """Play queues on clusters and watched masters of both servers, the long cases too."""
    _prepare(session)
    _get_debian_valkey(session)
    _pytest(session, "-m", "heavy or not heavy", "tests/topology", "tests/conformance/test_ways.py")


@nox.session
def simulate(session: nox.Session) -> None:
    """Let fleets in virtual time meet random faults, 150 s a server; ``-- --simulation-seconds 600`` changes that.

    All processors search; ``-- --simulation-processes 1`` leaves the others alone.
    """
    _prepare(session)
    _pytest(session, "--simulation-seconds", "150", "--timeout", "0", "-s", "tests/simulation")


@nox.session
def differential(session: nox.Session) -> None:
    """Compare our scripts with the original ones, call by call."""
    _prepare(session)
    _pytest(session, "tests/differential")


@nox.session
def freeze(session: nox.Session) -> None:
    """Write the manifest of the Lua scripts; ``nox -s freeze -- --check`` only compares."""
    _prepare(session)
    session.run("python", "scripts/freeze.py", *session.posargs)


@nox.session
def status(session: nox.Session) -> None:
    """Play all recorded calls and a search, and write docs/protocol-status.md; ``-- --page`` only writes it."""
    _prepare(session)
    session.run("python", "scripts/protocol_status.py", *session.posargs)


@nox.session
def big(session: nox.Session) -> None:
    """Clean, drain, remove and retry 100,000 jobs on every server."""
    _prepare(session)
    _pytest(session, "tests/scripts/test_big_numbers.py", ECHOMQ_BIG="1")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure, beside every peer; takes a quiet machine and half an hour. ``-- --only drain`` for less."""
    _prepare(session)
    session.install("--group", "bench")
    session.run("python", "benchmarks/suite.py", *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """Run the demo as a user would."""
    session.install(*EDITABLE)
    session.run("echomq", "demo", *session.posargs)


@nox.session
def containers(session: nox.Session) -> None:
    """Run the suite of the drivers against servers in containers, with an engine of its own.

    Needs root and, on Debian: apt-get install -y --no-install-recommends podman crun slirp4netns redis-server.
    """
    lacking = [tool for tool in CONTAINER_TOOLS if not shutil.which(tool)]
    if lacking or os.geteuid():
        session.error(f"needs root and {', '.join(CONTAINER_TOOLS)}; lacking: {', '.join(lacking) or 'root'}")
    _prepare(session)
    find = "from support.server_files import find_server_file as find; print(find('redis').path, find('valkey').path)"
    files = session.run("python", "-c", find, silent=True, env={"PYTHONPATH": "tests"})
    session.run(
        *["sh", "scripts/containers.sh", *str(files).split(), str(shutil.which("redis-cli"))],
        *["python", "-m", "pytest", *(session.posargs or IN_CONTAINERS)],
        env={"ECHOMQ_TEST_CONTAINERS": "1"},
        external=True,
    )


@nox.session
def servers(session: nox.Session) -> None:
    """Run what touches a server against the other supported versions of Redis and Valkey."""
    _prepare(session)
    _get_debian_valkey(session)
    env = {"ECHOMQ_TEST_SERVERS": TIER_2}
    what = session.posargs or ["tests/infra", "tests/vectors", "tests/scripts", "tests/conformance", "tests/doctor"]
    session.run("pytest", *what, env=env)
    if not session.posargs:
        session.run("pytest", "-m", "heavy or not heavy", "tests/topology", env=env)


@nox.session
def swap(session: nox.Session) -> None:
    """Run one program unchanged with only echomq-redis and with only echomq-valkey installed."""
    _prepare(session)
    _pytest(session, "-m", "heavy", "tests/packaging/test_swap.py")


@nox.session
def packaging(session: nox.Session) -> None:
    """Install each package alone, with its dependencies from the registry, into a new environment."""
    _prepare(session)
    _pytest(session, "-m", "heavy or not heavy", "tests/packaging")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into .cache/site, strictly, and run every example of README and documentation."""
    _prepare(session)
    session.install("--group", "docs")
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})
    _pytest(session, "-m", "heavy or not heavy", "tests/docs")
