"""The plugins of this environment, and the driver that serves a connection.

A driver named by ``driver=`` is used. Else a ready client goes to the driver
that owns it, and a URL or options object to the driver whose first choice its
scheme is, or to one that serves the scheme as well. Two first choices are an
error that names both.

Source: design.md sections 4 and 7.
"""

from functools import cache
from importlib.metadata import entry_points

import pluggy

from . import hookspecs
from .address import SCHEMES, parse_url
from .driver import AsyncConnection, Connection, ConnectionOptions, ConnectionSource, DriverPlugin
from .errors import DriverMissing, PluginError, UsageError
from .extensions import Extensions
from .registry import Drivers, Registry, load_drivers, load_plugins

__all__ = [
    "Drivers",
    "choose",
    "connect",
    "connect_async",
    "extensions",
    "installed",
    "installed_drivers",
    "load_drivers",
    "register",
    "resolved",
    "unregister",
]


@cache
def installed() -> Registry:
    """Return the plugins of this environment, and those registered since; looked for once."""
    return load_plugins(tuple(entry_points(group=hookspecs.PROJECT)))


def installed_drivers() -> Drivers:
    """Return the drivers of this environment."""
    return installed().drivers


def extensions() -> Extensions:
    """Return what the plugins of this environment bring beside drivers; always the same object."""
    return installed().extensions


def register(plugin: object, name: str) -> None:
    """Use a plugin that no entry point names: a module or an object whose functions are marked by ``hookimpl``.

    Queues and workers that exist already add through it too; they hear its other hooks if they are made afterwards.

    Args:
        plugin: The plugin.
        name: What it is called in reports.

    Raises:
        PluginError: A plugin of that name is registered, or this one does not fit.
    """
    try:
        installed().add(plugin, name)
    except (ValueError, pluggy.PluginValidationError) as error:
        raise PluginError(f"plugin {name!r} cannot be registered: {error}") from error


def unregister(name: str) -> None:
    """Use a plugin no longer.

    Raises:
        PluginError: None has that name.
    """
    installed().remove(name)


def connect(source: ConnectionSource, *, driver: str | None = None) -> Connection:
    """Open a blocking connection.

    Args:
        source: A URL, options, or a ready client.
        driver: Name of the driver; None chooses by ``source``.

    Raises:
        DriverMissing: No installed driver serves this.
        UsageError: The URL is wrong, or two drivers claim it.
    """
    where = resolved(source)
    return choose(installed_drivers(), where, driver).connect(where)


def connect_async(source: ConnectionSource, *, driver: str | None = None) -> AsyncConnection:
    """Make a connection for asyncio; touches no loop and no socket yet. Arguments as :func:`connect`."""
    where = resolved(source)
    return choose(installed_drivers(), where, driver).connect_async(where)


def resolved(source: ConnectionSource) -> ConnectionSource:
    """Return options for a URL; anything else as it is.

    Raises:
        UsageError: There is no URL, or it is wrong.
    """
    if source is None:
        raise UsageError("no connection: pass a URL such as redis://localhost, or set ECHOMQ_URL")
    return parse_url(source) if isinstance(source, str) else source


def choose(drivers: Drivers, source: ConnectionSource, name: str | None) -> DriverPlugin:
    """Return the driver for this source.

    Args:
        drivers: To choose from.
        source: :class:`~echomq.driver.ConnectionOptions` or a ready client.
        name: As the user asked for it, or None.

    Raises:
        DriverMissing: None serves it.
        UsageError: Two claim it.
    """
    if name is not None:
        if name not in drivers.working:
            raise DriverMissing(f"no driver is called {name!r}. {_advice(drivers)}")
        return drivers.working[name]
    if isinstance(source, ConnectionOptions):
        return _for_scheme(drivers, source.scheme)
    owners = [driver for driver in drivers.working.values() if driver.owns(source)]
    if not owners:
        kind = type(source)
        raise DriverMissing(
            f"{kind.__module__}.{kind.__qualname__} is not a connection: expected a URL, ConnectionOptions, or a "
            f"client of redis-py or valkey-py whose driver is installed. {_advice(drivers)}"
        )
    return _only(owners, f"clients of type {type(source).__name__}")


def _for_scheme(drivers: Drivers, scheme: str) -> DriverPlugin:
    first = [driver for driver in drivers.working.values() if scheme in driver.schemes]
    second = [driver for driver in drivers.working.values() if scheme in driver.also]
    if not first and not second:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        other = f"a URL that begins with one of {known}."
        next_step = _INSTALL if scheme.partition("+")[0] in SCHEMES else _OF_PACKAGES.get(scheme, other)
        raise DriverMissing(f"no installed driver serves {scheme}:// URLs. {_advice(drivers, next_step)}")
    return _only(first or second, f"{scheme}:// URLs")


def _only(drivers: list[DriverPlugin], what: str) -> DriverPlugin:
    if len(drivers) > 1:
        names = " and ".join(repr(driver.name) for driver in drivers)
        raise UsageError(f"the drivers {names} both serve {what}; choose one with driver=")
    return drivers[0]


_INSTALL = "pip install echomq-redis or echomq-valkey."
_OF_PACKAGES = {"memory": "pip install echomq-memory."}
"""Scheme -> what to install for it alone."""


def _advice(drivers: Drivers, next_step: str = _INSTALL) -> str:
    parts = []
    if drivers.working:
        parts.append(f"Installed: {', '.join(sorted(drivers.working))}.")
    parts += [f"{name} is installed but failed to load: {error!r}." for name, error in drivers.broken.items()]
    parts.append(f"Next step: {next_step}")
    return " ".join(parts)
