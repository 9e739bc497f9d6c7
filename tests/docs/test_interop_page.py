"""The table of what was run together with BullMQ."""

from pathlib import Path

from interop.exchanges import ABSENT, EXCHANGES, PEERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"


def test_table_shows_every_exchange() -> None:
    """The page has a row for each exchange and a column for each client, and every cell was run or says why not."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
    head, _, *body = rows

    assert head[1:] == list(PEERS)
    assert [row[0] for row in body] == list(EXCHANGES), "write the page again: python scripts/interop_page.py"
    for row in body:
        for release, cell in zip(PEERS.values(), row[1:], strict=True):
            assert cell[:2] == ("no" if (release, row[0]) in ABSENT else "ye"), row
