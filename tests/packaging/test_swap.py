"""A user's program does not change with the driver that happens to be installed."""

import os
from pathlib import Path

import pytest

from support.packages import DRIVERS, IMPORTS, PACKAGES, Environment, build, new_environment
from support.servers import Server

PROGRAM = Path(__file__).with_name("user_program.py")
ALONE = Path(__file__).with_name("alone.py")

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Environment]:
    """One new environment a package, each with that package and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    wheels = [build(package, folder / "built").wheel_from_sdist for package in PACKAGES]
    found = [argument for wheel in wheels for argument in ("--find-links", str(wheel.parent))]
    made = {package: new_environment(folder / package) for package in PACKAGES}
    for package, environment in made.items():
        environment.install(*found, package)
    return made


@pytest.mark.parametrize("package", PACKAGES)
def test_package_alone(environments: dict[str, Environment], package: str) -> None:
    """Installing one package by its name brings all that it needs to be imported."""
    assert environments[package].run(str(ALONE), IMPORTS[package], *["driver"] * (package in DRIVERS))


@pytest.mark.parametrize("package", ["echomq-redis", "echomq-valkey"])
def test_program_runs_with_either_driver(
    environments: dict[str, Environment], package: str, server: Server, prefix: str
) -> None:
    """The same program does its jobs with only one driver installed, whichever it is and whatever the server."""
    settings = {"PATH": os.environ["PATH"], "ECHOMQ_URL": server.url, "PREFIX": prefix}

    printed = environments[package].run(str(PROGRAM), env=settings)

    assert printed.split() == ["1", "4", "9", "completed:3"]
