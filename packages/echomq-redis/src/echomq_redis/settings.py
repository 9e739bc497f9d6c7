"""What of redis-py the driver uses."""

import importlib
from typing import Any

from redis import asyncio as asyncio_flavour
from redis import connection, exceptions

from echomq import resp
from echomq.client_settings import ClientLibrary
from echomq.errors import ProtocolError

hiredis: Any
try:
    hiredis = importlib.import_module("hiredis")
except ImportError:  # no wheel for this machine; the core's own parser serves
    hiredis = None

__all__ = ["LIBRARY"]


def _resp(_protocol: int) -> resp.Resp:
    if hiredis is None:
        return resp.PLAIN
    return resp.Resp(
        pack=hiredis.pack_command,
        new_parser=lambda: hiredis.Reader(
            protocolError=ProtocolError, replyError=resp.server_error, notEnoughData=resp.INCOMPLETE
        ),
        push_type=hiredis.PushNotification,
    )


LIBRARY = ClientLibrary(
    name="redis-py",
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
