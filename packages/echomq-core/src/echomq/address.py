"""Connection URLs. Pure.

``scheme://[user[:password]@]host[:port][/db][?option=value...]`` over TCP or TLS,
``unix:///path/to/socket[?db=1]`` for a Unix socket. Of several servers,
``redis+sentinel://host[:port],host[:port]/service[/db]`` names sentinels and
``redis+cluster://host[:port],host[:port]`` nodes of a cluster. User, password,
path and values are percent-decoded. An error says what is wrong and shows the URL
without its password.

Source: design.md section 2.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import attrs

from .driver import Address, ClusterOptions, ConnectionOptions, SentinelOptions, TLSOptions
from .errors import UsageError

__all__ = ["SCHEMES", "parse_url", "without_password"]

SCHEMES = {"redis": False, "rediss": True, "valkey": False, "valkeys": True, "unix": False}
"""URL scheme -> whether it speaks TLS. Schemes of third-party drivers are taken as they are."""

_MANY = {
    f"{scheme}+{topology}": (topology, has_tls)
    for scheme, has_tls in SCHEMES.items()
    if scheme != "unix"
    for topology in ("sentinel", "cluster")
}
"""URL scheme of several servers -> what they are, and whether they speak TLS."""

_PORTS = {"sentinel": 26379, "cluster": 6379}


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


def _yes(text: str) -> bool:
    if text not in {"yes", "no"}:
        raise ValueError('must be "yes" or "no"')
    return text == "yes"


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


_SENTINEL_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "sentinel_username": ("username", str),
    "sentinel_password": ("password", str),
    "sentinel_ssl": ("ssl", _yes),
}

_SENTINEL_TLS_OPTIONS = {f"sentinel_{name}": option for name, option in _TLS_OPTIONS.items()}


_HEAD = re.compile(r"[A-Za-z0-9+.-]*://|")
_PASSWORD_OPTION = re.compile(r"(password=)[^&#]*")
_FRAGMENT = re.compile("#.+", re.DOTALL)


def without_password(url: str) -> str:
    """Return the URL with ``***`` in place of every password in it, however wrong the URL is."""
    head = _HEAD.match(url)
    scheme = head[0] if head else ""
    secret, at, rest = _PASSWORD_OPTION.sub(r"\1***", url[len(scheme) :]).rpartition("@")
    # Where a '#' in a password was not written %23, the rest of it stands here.
    rest = _FRAGMENT.sub("#***", rest)
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
    topology, has_tls = _MANY.get(split.scheme, ("", SCHEMES.get(split.scheme, False)))
    asked = _query(split.query)
    tls = _tls(asked.tls, has_tls=has_tls)
    values = {**_place(split, topology), **asked.values}
    if split.username:
        values.setdefault("username", unquote(split.username))
    if split.password is not None:
        values.setdefault("password", unquote(split.password))
    if topology == "sentinel":
        values["sentinel"] = _sentinel(split, asked, tls)
    elif asked.sentinel or asked.sentinel_tls:
        raise ValueError(f"{_asked_name(split.query, 'sentinel_')} needs sentinels: redis+sentinel://host/mymaster")
    return ConnectionOptions(scheme=split.scheme, tls=tls, **values)


def _check_scheme(split: SplitResult, url: str) -> None:
    if not split.scheme or (split.scheme not in SCHEMES.keys() | _MANY and "://" not in url):
        raise ValueError(f"expected a scheme, one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    if split.scheme in SCHEMES.keys() | _MANY and not url.lower().startswith(f"{split.scheme}://"):
        raise ValueError(f"expected two slashes after the scheme, {split.scheme}://...")


def _check_unix(split: SplitResult) -> None:
    if not split.path or split.path == "/" or split.hostname:
        raise ValueError("expected the absolute path of a socket, unix:///run/redis.sock")


def _place(split: SplitResult, topology: str) -> dict[str, Any]:
    """Return what host and path of the URL say."""
    if split.scheme == "unix":
        _check_unix(split)
        return {"path": unquote(split.path)}
    parts = split.path.strip("/").split("/") if split.path.strip("/") else []
    if topology == "sentinel":
        return _database(parts[1:])  # the first one is the service
    if topology == "cluster":
        return {**_database(parts), "cluster": ClusterOptions(seeds=_addresses(split, topology))}
    try:
        port = split.port
    except ValueError:
        raise ValueError(_WRONG_PORT) from None
    if port == 0:
        raise ValueError(_WRONG_PORT)
    place: dict[str, Any] = {"host": unquote(split.hostname)} if split.hostname else {}
    if port is not None:
        place["port"] = port
    return {**place, **_database(parts)}


_WRONG_PORT = "the port is a number from 1 to 65535"


def _database(parts: list[str]) -> dict[str, Any]:
    if not parts:
        return {}
    database = "/".join(parts)
    if not database.isascii() or not database.isdigit():
        raise ValueError(f"the path is the number of a database, not {database!r}")
    return {"db": int(database)}


def _addresses(split: SplitResult, topology: str) -> tuple[Address, ...]:
    hosts = split.netloc.rpartition("@")[2]
    return tuple(_address(one.strip(), _PORTS[topology]) for one in hosts.split(",")) if hosts else _nobody(split)


def _nobody(split: SplitResult) -> tuple[Address, ...]:
    raise ValueError(f"expected at least one host, {split.scheme}://host:port,host:port")


def _address(text: str, otherwise: int) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"expected host or host:port between commas, not {text!r}")
    port = int(found["port"]) if found["port"] else otherwise
    if not 0 < port < 65536:
        raise ValueError(_WRONG_PORT)
    return Address(unquote(found["v6"] or found["host"]), port)


_ADDRESS = re.compile(r"(\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:,]+))(:(?P<port>[0-9]{1,5}))?", re.ASCII)


def _sentinel(split: SplitResult, asked: "_Asked", tls: TLSOptions | None) -> SentinelOptions:
    service = unquote(split.path.strip("/").partition("/")[0])
    if not service:
        raise ValueError(f"expected the name of the master as first part of the path, {split.scheme}://host/mymaster")
    values = dict(asked.sentinel)
    has_tls = values.pop("ssl", tls is not None or bool(asked.sentinel_tls))
    _check_tls(asked.sentinel_tls, _SENTINEL_TLS_OPTIONS, "sentinel_ssl=yes", has_tls=has_tls)
    own = attrs.evolve(tls or TLSOptions(), **asked.sentinel_tls) if has_tls else None
    return SentinelOptions(service=service, addresses=_addresses(split, "sentinel"), tls=own, **values)


@attrs.define
class _Asked:
    """What the options of a URL ask for, by the name of the field.

    Attributes:
        values: Of the connection.
        tls: Of its TLS.
        sentinel: Of the sentinels.
        sentinel_tls: Of the sentinels' TLS.
    """

    values: dict[str, Any] = attrs.field(factory=dict)
    tls: dict[str, Any] = attrs.field(factory=dict)
    sentinel: dict[str, Any] = attrs.field(factory=dict)
    sentinel_tls: dict[str, Any] = attrs.field(factory=dict)


def _query(query: str) -> _Asked:
    asked = _Asked()
    groups = (
        (asked.values, {name: (name, read) for name, read in _OPTIONS.items()}),
        (asked.tls, _TLS_OPTIONS),
        (asked.sentinel, _SENTINEL_OPTIONS),
        (asked.sentinel_tls, _SENTINEL_TLS_OPTIONS),
    )
    for name, text in _pairs(query):
        for values, options in groups:
            if name in options:
                field, read = options[name]
                values[field] = _value(name, text, read)
                break
        else:
            raise ValueError(_unknown(name))
    return asked


def _tls(asked: dict[str, Any], *, has_tls: bool) -> TLSOptions | None:
    _check_tls(asked, _TLS_OPTIONS, "rediss:// or valkeys://", has_tls=has_tls)
    return TLSOptions(**asked) if has_tls else None


def _check_tls(
    asked: dict[str, Any], options: dict[str, tuple[str, Callable[[str], Any]]], advice: str, *, has_tls: bool
) -> None:
    if asked and not has_tls:
        name = next(name for name, (field, _) in options.items() if field in asked)
        raise ValueError(f"{name} needs TLS: use {advice}")


def _asked_name(query: str, prefix: str) -> str:
    return next(name for name, _ in _pairs(query) if name.startswith(prefix))


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
        shown = "***" if name.endswith("password") else repr(text)
        raise ValueError(f"{name}={shown}: {error}") from None


def _unknown(name: str) -> str:
    known = [*_OPTIONS, *_TLS_OPTIONS, *_SENTINEL_OPTIONS, *_SENTINEL_TLS_OPTIONS]
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
    return f"unknown option {name!r}{hint}"
