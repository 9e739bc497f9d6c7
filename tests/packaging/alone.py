"""Runs inside a new environment that holds one package: fails unless that package works there.

Usage: ``python alone.py IMPORT_NAME [driver]``. Prints where the package came from.
"""

import importlib
import sys
from importlib.resources import files
from pathlib import Path

name = sys.argv[1]
package = importlib.import_module(name)
assert package.__file__ is not None
where = Path(package.__file__)
assert Path(sys.prefix) in where.parents, f"{name} came from {where}, not from this environment"
assert files(name).joinpath("py.typed").is_file(), f"{name} carries no py.typed"

from echomq.scripts import get_script, script_names  # noqa: E402 - only after the check of the package itself

assert len(script_names()) > 20, script_names()
assert all(get_script(script).text for script in script_names())

if sys.argv[2:] == ["driver"]:
    plugin = importlib.import_module(f"{name}.plugin").echomq_register_driver()
    assert plugin.name == name.removeprefix("echomq_")
print(where)
