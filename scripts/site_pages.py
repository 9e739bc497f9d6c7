"""What the site needs beside ``docs/``: pages that live elsewhere in the checkout, and links that work in both places.

MkDocs loads it as a hook (``mkdocs.yml``). Pages stay readable where they are: a link
to a page outside ``docs/`` leads to its copy in the site, a link to any other file
becomes its text.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

CHECKOUT = Path(__file__).resolve().parent.parent

ELSEWHERE = {
    "CHANGELOG.md": "project/changes.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "examples/echomq-example/README.md": "project/example-plugin.md",
    "lua/README.md": "project/scripts.md",
}
"""Page in the checkout -> its place in the site."""

_HOME = {place: source for source, place in ELSEWHERE.items()}
_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_COMING_FROM = re.compile(r"# Coming from (.*)\n")
_PAIR = re.compile(r"^```python fragment\n(.*?^```\n)\n```python\n(.*?^```\n)", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside ``docs/``."""
    for source, place in ELSEWHERE.items():
        content = (CHECKOUT / source).read_text("utf-8")
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Turn a page of the checkout into one of the site."""
    place = page.file.src_uri
    home = Path(_HOME.get(place, f"docs/{place}"))
    pieces = _parted(_side_by_side(markdown).replace("```python fragment\n", "```python\n"))
    return "".join(piece if is_code else _LINK.sub(_leading(home, place, files), piece) for piece, is_code in pieces)


def _side_by_side(markdown: str) -> str:
    """Put code of another project and what it becomes beside each other, on pages for those who come from there."""
    other = _COMING_FROM.match(markdown)
    if other is None:
        return markdown
    pair = rf'<div class="grid" markdown>\n\n```python title="{other[1]}"\n\1\n```python title="EchoMQ"\n\2\n</div>\n'
    return _PAIR.sub(pair, markdown)


def _parted(markdown: str) -> list[tuple[str, bool]]:
    """Part a page into text and code, which is left alone."""
    pieces, end = [], 0
    for fence in _FENCE.finditer(markdown):
        pieces += [(markdown[end : fence.start()], False), (fence[0], True)]
        end = fence.end()
    return [*pieces, (markdown[end:], False)]


def _leading(home: Path, place: str, files: Files) -> Any:
    """Make the function that puts a link of the page right."""

    def put_right(link: "re.Match[str]") -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        wanted = os.path.normpath(home.parent / target)
        found = ELSEWHERE.get(wanted, wanted.removeprefix("docs/"))
        if files.get_file_from_path(found) is not None:
            return f"[{text}]({os.path.relpath(found, Path(place).parent)}{anchor})"
        return text if (CHECKOUT / wanted).exists() else link[0]

    return put_right
