"""The hooks a plugin may implement, and the markers for them.

A plugin is a module named by an entry point of the group ``echomq``. It marks
its functions with :data:`hookimpl`.

Source: design.md section 7.
"""

import pluggy

from .driver import DriverPlugin

__all__ = ["PROJECT", "echomq_register_driver", "hookimpl"]

PROJECT = "echomq"
"""Name of the entry-point group, and prefix of every hook."""

_hookspec = pluggy.HookspecMarker(PROJECT)

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plugin's implementation of a hook."""


@_hookspec
def echomq_register_driver() -> DriverPlugin:  # type: ignore[empty-body]  # a specification has no body
    """Tell what driver this plugin brings.

    Must not import the client library: discovery runs for every program, whatever driver it then uses.

    Returns:
        Name, URL schemes and openers.
    """
