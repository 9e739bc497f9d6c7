"""The tests on the page about tests pass; what else stands there runs with the other examples."""

import re
from pathlib import Path

import pytest

from support.project import play
from support.server_files import CHECKOUT

PAGE = CHECKOUT / "docs" / "testing-your-code.md"
FRAGMENT = re.compile(r"^```python fragment\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("server", ["memory", "embedded"])
def test_tests_of_the_page(tmp_path: Path, server: str) -> None:
    """Each block that shows tests or fixtures works as it stands, on a server in memory and on a real one."""
    blocks = FRAGMENT.findall(PAGE.read_text("utf-8"))
    own_fixture = [block for block in blocks if "def echomq_server" in block]
    tests = "\n".join(block for block in blocks if block not in own_fixture)
    (tmp_path / "conftest.py").write_text("".join(own_fixture))

    done = play(tmp_path, tests, "-k", server)

    count = tests.count("def test_")
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr
