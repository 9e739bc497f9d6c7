"""Loads plugins and keeps them.

A plugin that fails to load is reported with its name and breaks only itself.

Source: design.md sections 4 and 7.
"""

import warnings
from importlib.metadata import EntryPoint

import attrs
import pluggy

from . import hookspecs
from .driver import DriverPlugin
from .errors import PluginError
from .extensions import Extensions, hooks_of

__all__ = ["Drivers", "Registry", "load_drivers", "load_plugins"]


@attrs.frozen
class Drivers:
    """The drivers that are installed.

    Attributes:
        working: By name.
        broken: What kept the others from loading, by name of their entry point.
    """

    working: dict[str, DriverPlugin]
    broken: dict[str, Exception] = attrs.field(factory=dict)


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


@attrs.define(eq=False)
class Registry:
    """The plugins in use.

    Attributes:
        drivers: What they bring as drivers.
        extensions: What they bring beside.
    """

    drivers: Drivers = attrs.field(factory=lambda: Drivers({}))
    extensions: Extensions = attrs.field(factory=Extensions)
    _manager: pluggy.PluginManager = attrs.field(factory=_manager)

    def add(self, plugin: object, name: str) -> None:
        """Take a plugin in, or leave everything as it was.

        Raises:
            Exception: Whatever is wrong with it.
        """
        self._manager.register(plugin, name)
        try:
            # Only this finds a misspelt hook; without it the plugin would do nothing, silently.
            self._manager.check_pending()
            found = self._drivers_of(name)
            self.extensions.read(self._manager)
        except Exception:
            self._manager.unregister(plugin)
            raise
        self.drivers.working.update(found)

    def remove(self, name: str) -> None:
        """Let go of a plugin.

        Raises:
            PluginError: None has that name.
        """
        if not self._manager.has_plugin(name):
            raise PluginError(f"no plugin is called {name!r}; there are {', '.join(self.names) or 'none'}")
        for driver in self._drivers_of(name, is_new=False):
            self.drivers.working.pop(driver)
        self._manager.unregister(name=name)
        self.extensions.read(self._manager)

    @property
    def names(self) -> list[str]:
        """Names of the plugins, sorted."""
        return sorted(name for name, _ in self._manager.list_name_plugin())

    def _drivers_of(self, name: str, *, is_new: bool = True) -> dict[str, DriverPlugin]:
        hooks = [hook for hook in hooks_of(self._manager, "echomq_register_driver") if hook.plugin == name]
        found = {}
        for driver in [hook.function() for hook in hooks]:
            if not isinstance(driver, DriverPlugin):
                raise PluginError(f"echomq_register_driver returned {driver!r}, expected a DriverPlugin")
            if is_new and driver.name in self.drivers.working:
                raise PluginError(f"another plugin brings a driver called {driver.name!r} already")
            found[driver.name] = driver
        return found


def load_plugins(points: tuple[EntryPoint, ...]) -> Registry:
    """Load the plugins that these entry points name.

    One that fails is warned about and left out.
    """
    registry = Registry()
    for point in sorted(points, key=lambda point: point.name):
        try:
            registry.add(point.load(), point.name)
        except Exception as error:  # noqa: BLE001  # whatever a stranger's module raises must not break the others
            registry.drivers.broken[point.name] = error
            warnings.warn(f"EchoMQ plugin {point.name!r} ({point.value}) failed to load: {error!r}", stacklevel=2)
    return registry


def load_drivers(points: tuple[EntryPoint, ...]) -> Drivers:
    """Load the plugins that these entry points name, for their drivers."""
    return load_plugins(points).drivers
