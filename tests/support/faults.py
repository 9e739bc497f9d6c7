"""Puts a server into trouble, and tells when a client of it has got where a test wants it."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

from support.clusters import Listening, ask
from support.limits import DEADLINE_S
from support.servers import Server

__all__ = ["acl_user", "blocked_client", "rights_of_its_age", "set_config", "wait_for_blocked"]


@contextlib.contextmanager
def set_config(server: Server, **settings: str) -> Iterator[None]:
    """Change settings of a server for the length of a ``with`` block."""
    with contextlib.closing(server.client()) as client:
        before: dict[str, Any] = {name: client.config_get(name)[name] for name in settings}
        for name, value in settings.items():
            client.config_set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                client.config_set(name, value)


@contextlib.contextmanager
def acl_user(server: Server, name: str, *rules: str) -> Iterator[None]:
    """Let a user with these rights exist for the length of a ``with`` block."""
    with contextlib.closing(server.client()) as client:
        admin: Any = client
        admin.execute_command("ACL", "SETUSER", name, "on", *rules)
        try:
            yield
        finally:
            admin.execute_command("ACL", "DELUSER", name)


def rights_of_its_age(node: Listening) -> list[str]:
    """Rights that the documented ones do not hold on a server of this version."""
    version = str(ask(node, "INFO", "server")["redis_version"])
    return ["+client|setname"] if int(version.split(".")[0]) < 7 else []


def wait_for_blocked(server: Server, name: str) -> int:
    """Id of the client of this name, once it waits in a blocking read."""
    give_up = time.monotonic() + DEADLINE_S
    with contextlib.closing(server.client()) as client:
        while time.monotonic() < give_up:
            for entry in client.client_list():
                if entry["name"] == name and "b" in entry["flags"]:
                    return int(entry["id"])
    raise TimeoutError(f"no client {name!r} waits in a blocking read")


async def blocked_client(server: Server, name: str) -> int:
    """As :func:`wait_for_blocked`, without holding up the event loop."""
    return await asyncio.to_thread(wait_for_blocked, server, name)
