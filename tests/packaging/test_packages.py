"""Each package can be built, carries what it must, and works when it is installed by itself."""

import re
from pathlib import Path

import pytest

from support.packages import DRIVERS, IMPORTS, PACKAGES, Built, build, new_environment, wheel_files
from support.server_files import CHECKOUT

ALONE = Path(__file__).with_name("alone.py")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """All packages, built once."""
    folder = tmp_path_factory.mktemp("built")
    return {package: build(package, folder) for package in PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_sdist_gives_the_same_wheel(built: dict[str, Built], package: str) -> None:
    """The wheel built from the sdist is, file by file, the wheel built from the checkout."""
    assert wheel_files(built[package].wheel_from_sdist) == wheel_files(built[package].wheel)


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_holds_one_typed_package(built: dict[str, Built], package: str) -> None:
    """A wheel holds its import package with the typing marker and its licence, and nothing beside."""
    names = set(wheel_files(built[package].wheel))

    assert f"{IMPORTS[package]}/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {re.sub(r"-[\d.]+\.dist-info", "", name.split("/")[0]) for name in names} == {IMPORTS[package]} | {
        package.replace("-", "_")
    }


def test_core_carries_the_scripts(built: dict[str, Built]) -> None:
    """Every Lua file and the manifest are in the sdist and in the wheel of the core."""
    scripts = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "lua").rglob("*") if path.is_file()}

    assert scripts <= built["echomq-core"].sdist_names()
    assert {f"echomq/{name}" for name in scripts} <= set(wheel_files(built["echomq-core"].wheel))


@pytest.mark.parametrize("package", [package for package in PACKAGES if package != "echomq-core"])
def test_package_asks_for_its_core(built: dict[str, Built], package: str) -> None:
    """Every other package requires the core of exactly its own version."""
    wheel = built[package].wheel
    [metadata] = [text for name, text in wheel_files(wheel).items() if name.endswith("/METADATA")]

    assert f"Requires-Dist: echomq-core=={wheel.name.split('-')[1]}\n" in metadata.decode()


@pytest.mark.parametrize("package", PACKAGES)
def test_wheels_work_in_a_new_environment(built: dict[str, Built], package: str, tmp_path: Path) -> None:
    """A wheel and its core, in an environment with no other package of ours, import and find their scripts."""
    environment = new_environment(tmp_path / "env")
    wheels = {str(built[name].wheel) for name in ("echomq-core", package)}
    environment.install("--no-deps", *sorted(wheels))
    environment.borrow_dependencies()

    assert str(tmp_path) in environment.run(str(ALONE), IMPORTS[package], *["driver"] * (package in DRIVERS))
