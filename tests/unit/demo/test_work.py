import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from echomq.demo import work
from echomq.job import Job
from echomq.keys import Keys


def job(name: str, **data: object) -> Job:
    """Return a job of the demo."""
    return Job(keys=Keys("demo"), id="1", name=name, raw_data=json.dumps(data))


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 65_536])
def test_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    """However a text falls into chunks, its words and signs are whole."""
    monkeypatch.setattr(work, "CHUNK_BYTES", chunk_bytes)
    path = tmp_path / "text"
    path.write_bytes("Ärger, ärger und ÄRGER!\n2 Straßen\nno end".encode())

    found = work.process(job("text", path=str(path)))

    assert found["words"] == 7
    assert found["frequent"] == [["ärger", 3], ["straßen", 1]]
    assert found["lines"] == 2
    assert found["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_word_across_chunks(tmp_path: Path) -> None:
    """A word that two chunks share is counted once."""
    path = tmp_path / "text"
    path.write_text("x " * (work.CHUNK_BYTES // 2 - 2) + "boundary " * 3, "utf-8")

    found = work.process(job("text", path=str(path)))

    assert found["words"] == work.CHUNK_BYTES // 2 - 2 + 3
    assert found["frequent"] == [["boundary", 3]]


def test_text_without_a_blank(tmp_path: Path) -> None:
    """A text of one endless word is cut into pieces rather than kept in memory."""
    path = tmp_path / "text"
    path.write_text("x" * (work.CHUNK_BYTES * 5), "utf-8")

    assert work.process(job("text", path=str(path)))["words"] > 1


def test_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the rarest words are forgotten, the frequent ones stay."""
    monkeypatch.setattr(work, "MOST_WORDS", 10)
    words = Counter[str]()
    letters = "abcdefghijklmnopqrstuvwxyz"

    assert work._count(words, "often often often " + " ".join(letters)) == 29

    assert words["often"] == 3
    assert len(words) <= 10


@pytest.mark.parametrize("attempts_made", [0, 1])
def test_flaky(attempts_made: int) -> None:
    """The flaky job fails its first two attempts and works the third time."""
    with pytest.raises(work.ServiceError):
        work.process(Job(keys=Keys("demo"), id="1", name="flaky", attempts_made=attempts_made))

    assert work.process(Job(keys=Keys("demo"), id="1", name="flaky", attempts_made=2)) == "worked at last"
