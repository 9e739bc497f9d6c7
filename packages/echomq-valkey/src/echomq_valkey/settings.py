"""What of valkey-py the driver uses."""

import importlib
from typing import Any

from valkey import asyncio as asyncio_flavour
from valkey import connection, exceptions

from echomq import resp
from echomq.client_settings import ClientLibrary
from echomq.errors import ProtocolError

libvalkey: Any
try:
    libvalkey = importlib.import_module("libvalkey")
except ImportError:  # no wheel for this machine; the core's own parser serves
    libvalkey = None

__all__ = ["LIBRARY"]


def _resp(protocol: int) -> resp.Resp:
    if libvalkey is None:
        return resp.PLAIN
    if protocol == 3:
        # libvalkey returns a push message as a plain list, so that it cannot be told from a reply.
        return resp.Resp(pack=libvalkey.pack_command, new_parser=resp.new_parser)
    return resp.Resp(
        pack=libvalkey.pack_command,
        new_parser=lambda: libvalkey.Reader(
            protocolError=ProtocolError, replyError=resp.server_error, notEnoughData=resp.INCOMPLETE
        ),
    )


LIBRARY = ClientLibrary(
    name="valkey-py",
    blocking={
        "unix": connection.UnixDomainSocketConnection,
        "tls": connection.SSLConnection,
        "tcp": connection.Connection,
    },
    asyncio={
        "unix": asyncio_flavour.UnixDomainSocketConnection,
        "tls": asyncio_flavour.SSLConnection,
        "tcp": asyncio_flavour.Connection,
    },
    exceptions=exceptions,
    resp=_resp,
)
