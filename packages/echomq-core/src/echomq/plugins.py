"""Finds the installed drivers and chooses one.

A driver named by ``driver=`` is used. Else a ready client goes to the driver
that owns it, and a URL or options object to the driver whose first choice its
scheme is, or to one that serves the scheme as well. Two first choices are an
error that names both.

A plugin that fails to load is reported with its name and breaks only itself.

Source: design.md sections 4 and 7.
"""

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import attrs
import pluggy

from . import hookspecs
from .address import parse_url
from .driver import AsyncConnection, Connection, ConnectionOptions, ConnectionSource, DriverPlugin
from .errors import DriverMissing, PluginError, UsageError

__all__ = ["Drivers", "choose", "connect", "connect_async", "installed_drivers", "load_drivers", "resolved"]


@attrs.frozen
class Drivers:
    """The drivers that are installed.

    Attributes:
        working: By name.
        broken: What kept the others from loading, by name of their entry point.
    """

    working: dict[str, DriverPlugin]
    broken: dict[str, Exception] = attrs.field(factory=dict)


def load_drivers(points: "tuple[EntryPoint, ...]") -> Drivers:
    """Load the plugins that these entry points name, and register their hooks.

    A plugin that fails is warned about and left out.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    working: dict[str, DriverPlugin] = {}
    broken: dict[str, Exception] = {}
    for point in points:
        try:
            working |= _register(manager, point, working)
        except Exception as error:  # noqa: BLE001  # whatever a stranger's module raises must not break the others
            broken[point.name] = error
            warnings.warn(f"EchoMQ plugin {point.name!r} ({point.value}) failed to load: {error!r}", stacklevel=2)
    return Drivers(working, broken)


def _register(
    manager: pluggy.PluginManager, point: EntryPoint, known: dict[str, DriverPlugin]
) -> dict[str, DriverPlugin]:
    plugin = point.load()
    manager.register(plugin, point.name)
    try:
        # Only this finds a misspelt hook; without it the plugin would do nothing, silently.
        manager.check_pending()
        others = [other for other in manager.get_plugins() if other is not plugin]
        found = manager.subset_hook_caller("echomq_register_driver", others)()
    except Exception:
        manager.unregister(plugin)
        raise
    for driver in found:
        if not isinstance(driver, DriverPlugin):
            raise PluginError(f"echomq_register_driver returned {driver!r}, expected a DriverPlugin")
        if driver.name in known:
            raise PluginError(f"another plugin brings a driver called {driver.name!r} already")
    return {driver.name: driver for driver in found}


@cache
def installed_drivers() -> Drivers:
    """Return the drivers of this environment; looked for once."""
    return load_drivers(tuple(entry_points(group=hookspecs.PROJECT)))


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
        raise DriverMissing(f"no installed driver serves {scheme}:// URLs. {_advice(drivers)}")
    return _only(first or second, f"{scheme}:// URLs")


def _only(drivers: list[DriverPlugin], what: str) -> DriverPlugin:
    if len(drivers) > 1:
        names = " and ".join(repr(driver.name) for driver in drivers)
        raise UsageError(f"the drivers {names} both serve {what}; choose one with driver=")
    return drivers[0]


def _advice(drivers: Drivers) -> str:
    parts = []
    if drivers.working:
        parts.append(f"Installed: {', '.join(sorted(drivers.working))}.")
    parts += [f"{name} is installed but failed to load: {error!r}." for name, error in drivers.broken.items()]
    parts.append("Next step: pip install echomq-redis or echomq-valkey.")
    return " ".join(parts)
