"""Connection URLs. Pure.

``scheme://[user[:password]@]host[:port][/db][?option=value...]`` over TCP or TLS,
``unix:///path/to/socket[?db=1]`` for a Unix socket. User, password, path and
values are percent-decoded. An error says what is wrong and shows the URL
without its password.

Source: design.md section 2.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import attrs

from .driver import ConnectionOptions, TLSOptions
from .errors import UsageError

__all__ = ["SCHEMES", "parse_url", "without_password"]

SCHEMES = {"redis": False, "rediss": True, "valkey": False, "valkeys": True, "unix": False}
"""URL scheme -> whether it speaks TLS. Schemes of third-party drivers are taken as they are."""

_LATER = frozenset({"redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel"}) | frozenset(
    {"redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster"}
)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("must not be negative")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError("must be above zero")
    return number


def _resp(text: str) -> int:
    if text not in {"2", "3"}:
        raise ValueError("must be 2 or 3")
    return int(text)


def _required(text: str) -> bool:
    if text not in {"required", "none"}:
        raise ValueError('must be "required" or "none"')
    return text == "required"


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "db": _count,
    "username": str,
    "password": str,
    "protocol": _resp,
    "connect_timeout_ms": _positive,
    "deadline_ms": _positive,
    "reconnect_min_ms": _positive,
    "reconnect_max_ms": _positive,
    "max_pending_bytes": _positive,
}

_TLS_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "ssl_ca_certs": ("ca_file", str),
    "ssl_certfile": ("cert_file", str),
    "ssl_keyfile": ("key_file", str),
    "ssl_cert_reqs": ("verify", _required),
}


_HEAD = re.compile(r"[A-Za-z0-9+.-]*://|")
_PASSWORD_OPTION = re.compile(r"(password=)[^&#]*")


def without_password(url: str) -> str:
    """Return the URL with ``***`` in place of every password in it, however wrong the URL is."""
    head = _HEAD.match(url)
    scheme = head[0] if head else ""
    secret, at, rest = _PASSWORD_OPTION.sub(r"\1***", url[len(scheme) :]).rpartition("@")
    user = secret.partition(":")[0] if scheme else "***"
    return f"{scheme}{user}{':***' if ':' in secret and scheme else ''}{at}{rest}" if at else f"{scheme}{rest}"


def parse_url(url: str) -> ConnectionOptions:
    """Read a connection URL.

    Raises:
        UsageError: It is wrong; the message says where, and what was expected.
    """
    try:
        return _parse(url)
    except ValueError as error:
        raise UsageError(f"wrong connection URL {without_password(url)!r}: {error}") from None


def _parse(url: str) -> ConnectionOptions:
    split = urlsplit(url)
    _check_scheme(split, url)
    if split.fragment:
        raise ValueError("a '#' in a password is written %23")
    if "@" in split.query or "@" in split.path:
        raise ValueError("a '/', '?' or '@' in a user or password is written %2F, %3F, %40")
    values, tls = _query(split)
    if split.scheme == "unix":
        _check_unix(split)
        values |= {"path": unquote(split.path)}
    else:
        values = _place(split) | values
    if split.username:
        values.setdefault("username", unquote(split.username))
    if split.password is not None:
        values.setdefault("password", unquote(split.password))
    return ConnectionOptions(scheme=split.scheme, tls=tls, **values)


def _check_scheme(split: SplitResult, url: str) -> None:
    if split.scheme in _LATER:
        raise ValueError(f"{split.scheme} is not supported yet; use the URL of one server, redis://host:port")
    if not split.scheme or (split.scheme not in SCHEMES and "://" not in url):
        raise ValueError(f"expected a scheme, one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    if split.scheme in SCHEMES and not url.lower().startswith(f"{split.scheme}://"):
        raise ValueError(f"expected two slashes after the scheme, {split.scheme}://...")


def _check_unix(split: SplitResult) -> None:
    if not split.path or split.path == "/" or split.hostname:
        raise ValueError("expected the absolute path of a socket, unix:///run/redis.sock")


def _place(split: SplitResult) -> dict[str, Any]:
    try:
        port = split.port
    except ValueError:
        raise ValueError("the port is a number from 1 to 65535") from None
    if port == 0:
        raise ValueError("the port is a number from 1 to 65535")
    place: dict[str, Any] = {"host": unquote(split.hostname)} if split.hostname else {}
    if port is not None:
        place["port"] = port
    database = split.path.strip("/")
    if database:
        if not database.isascii() or not database.isdigit():
            raise ValueError(f"the path is the number of a database, not {database!r}")
        place["db"] = int(database)
    return place


def _query(split: SplitResult) -> tuple[dict[str, Any], TLSOptions | None]:
    values: dict[str, Any] = {}
    tls = TLSOptions() if SCHEMES.get(split.scheme) else None
    for name, text in _pairs(split.query):
        if name in _TLS_OPTIONS:
            if tls is None:
                raise ValueError(f"{name} needs TLS: use rediss:// or valkeys://")
            field, read = _TLS_OPTIONS[name]
            tls = attrs.evolve(tls, **{field: _value(name, text, read)})
        elif name in _OPTIONS:
            values[name] = _value(name, text, _OPTIONS[name])
        else:
            raise ValueError(_unknown(name))
    return values, tls


def _pairs(query: str) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise ValueError("expected name=value pairs after the '?'") from None


def _value(name: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError as error:
        shown = "***" if name == "password" else repr(text)
        raise ValueError(f"{name}={shown}: {error}") from None


def _unknown(name: str) -> str:
    known = [*_OPTIONS, *_TLS_OPTIONS]
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
    return f"unknown option {name!r}{hint}"
