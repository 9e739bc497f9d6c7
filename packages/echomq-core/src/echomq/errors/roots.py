"""What all errors descend from, and those that stand alone."""

__all__ = ["EchoMQError", "JobSignal", "PluginError", "ProtocolError"]


class EchoMQError(Exception):
    """Root of all errors of this library."""


class ProtocolError(EchoMQError):
    """Data or a reply lies outside the wire contract."""


class PluginError(EchoMQError):
    """An extension misbehaved; the message names it."""


class JobSignal(EchoMQError):
    """What job code raises to steer its own job instead of failing; see :mod:`echomq.signals`."""
