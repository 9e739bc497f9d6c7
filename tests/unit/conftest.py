"""Unit tests reach no server: connecting anywhere is an error."""

import socket
from typing import Any, NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to connect."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a unit test wanted to connect")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
