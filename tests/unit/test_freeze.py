"""The manifest of the frozen scripts."""

import re
from pathlib import Path

import pytest

from echomq.freeze import CONTRACT, manifest_differences, manifest_text
from echomq.scripts import Script, export_scripts, get_script, load_scripts, script_names

LUA = Path(__file__).resolve().parents[2] / "lua"


def _script(name: str, *, key_count: int = 1, sha1: str = "a" * 40) -> Script:
    return Script(name=name, key_count=key_count, text="return 1\n", sha1=sha1)


def test_scripts_are_frozen() -> None:
    """Every script of the checkout is as the manifest froze it; after a wanted change run `nox -s freeze`."""
    manifest = (LUA / "manifest.toml").read_text("utf-8")

    assert manifest_differences(manifest, load_scripts(LUA).values()) == []


def test_manifest_round_trip() -> None:
    """A manifest that was just written agrees with its scripts, in whatever order they came."""
    scripts = [_script("b", key_count=12), _script("a")]

    assert manifest_differences(manifest_text(scripts), reversed(scripts)) == []


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ([_script("a", sha1="b" * 40)], "a: changed"),
        ([_script("a", key_count=2)], "a: changed"),
        ([_script("a"), _script("b")], "b: not in the manifest"),
        ([], "a: frozen, but there is no such script"),
    ],
)
def test_manifest_difference(now: list[Script], told: str) -> None:
    """A changed, an added and a lost script are each told by name."""
    (difference,) = manifest_differences(manifest_text([_script("a")]), now)

    assert difference.startswith(told)


def test_manifest_of_other_contract() -> None:
    """A manifest of another version of the contract is told, even when no script differs."""
    manifest = manifest_text([]).replace(CONTRACT, "6.8.0")

    (difference,) = manifest_differences(manifest, [])

    assert "6.8.0" in difference


def test_export(tmp_path: Path) -> None:
    """Exported files carry all scripts under their names, and exactly the text that is sent to the server."""
    written = export_scripts(tmp_path / "new" / "folder")

    assert [path.name for path in written] == [get_script(name).file_name for name in script_names()]
    assert written[0].read_bytes() == get_script(script_names()[0]).text.encode()


def _mentioned(text: str, seen: set[str]) -> list[str]:
    """Includes in the order of their mention, with those an include mentions itself."""
    found: list[str] = []
    for name in re.findall(r"^--@include (\w+)$", text, re.MULTILINE):
        found.append(name)
        if name not in seen:
            seen.add(name)
            found += _mentioned((LUA / "includes" / f"{name}.lua").read_text("utf-8"), seen)
    return found


def test_lines_in_place_stand_once() -> None:
    """What runs in place is named once in a script, for a second mention puts in nothing; all else is a function."""
    texts = {path.stem: path.read_text("utf-8") for path in (LUA / "includes").iterdir()}
    in_place = {
        name for name, text in texts.items() if "runs in place" in text.split("\n--  ")[0].split("\n-- Needs")[0]
    }

    assert [name for name in texts.keys() - in_place if f"local function {name}(" not in texts[name]] == []
    for path in LUA.glob("*.lua"):
        mentioned = _mentioned(path.read_text("utf-8"), set())
        assert [name for name in in_place if mentioned.count(name) > 1] == [], path.name
