"""Builds the packages of this checkout and installs them into new environments."""

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import attrs

from support.server_files import CHECKOUT

__all__ = ["DRIVERS", "PACKAGES", "Built", "Environment", "build"]

DRIVERS = ("echomq-redis", "echomq-valkey", "echomq-memory")
PACKAGES = ("echomq-core", *DRIVERS, "echomq-testing", "echomq-django", "echomq-sqlalchemy", "echomq-opentelemetry")
IMPORTS = {package: package.replace("-", "_") for package in PACKAGES} | {"echomq-core": "echomq"}


@attrs.frozen(kw_only=True)
class Built:
    """What one package was built into.

    Attributes:
        package: Name of the distribution.
        sdist: Made from the checkout.
        wheel: Made from the checkout.
        wheel_from_sdist: Made from the sdist alone.
    """

    package: str
    sdist: Path
    wheel: Path
    wheel_from_sdist: Path

    def sdist_names(self) -> set[str]:
        """Return the files of the sdist, below its top folder."""
        with tarfile.open(self.sdist) as files:
            return {name.partition("/")[2] for name in files.getnames()}


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist()}


def build(package: str, folder: Path) -> Built:
    """Build one package with the tools of this environment; nothing is downloaded.

    Args:
        package: One of :data:`PACKAGES`.
        folder: Where the results go.
    """
    direct, through = folder / package / "direct", folder / package / "through"
    _run("-m", "build", "--no-isolation", "--wheel", "--outdir", str(direct), str(CHECKOUT / "packages" / package))
    # Without a target the tool makes the sdist and then the wheel from what the sdist holds.
    _run("-m", "build", "--no-isolation", "--outdir", str(through), str(CHECKOUT / "packages" / package))
    [wheel], [sdist], [second] = direct.glob("*.whl"), through.glob("*.tar.gz"), through.glob("*.whl")
    return Built(package=package, sdist=sdist, wheel=wheel, wheel_from_sdist=second)


@attrs.frozen(kw_only=True)
class Environment:
    """A virtual environment of its own."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def install(self, *arguments: str) -> None:
        """Run ``pip install`` for it."""
        _run("-m", "pip", "--python", self.python, "install", "--quiet", "--disable-pip-version-check", *arguments)

    def borrow_dependencies(self) -> None:
        """Let it see what is installed here, but none of this checkout's own packages.

        Editable packages are found through ``.pth`` files, and those of a borrowed folder are not read.
        """
        [site] = self.folder.glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        """Run its interpreter away from the checkout and return what it printed."""
        return _run(*arguments, python=self.python, cwd=self.folder, env=env)


def new_environment(folder: Path) -> Environment:
    """Make an empty environment."""
    venv.create(folder, symlinks=True)
    return Environment(folder=folder)


def _run(*arguments: str, python: str = sys.executable, cwd: Path = CHECKOUT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [python, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=570, check=False
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
