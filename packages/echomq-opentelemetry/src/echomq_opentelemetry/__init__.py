"""Traces and metrics of EchoMQ jobs for OpenTelemetry.

Installed, it works: the plugin uses the providers that the program has set.
:class:`Telemetry` is for providers of one's own, :class:`QueueGauges` for what
only the server knows of a queue.
"""

from .gauges import QueueGauges
from .telemetry import Telemetry

__all__ = ["QueueGauges", "Telemetry"]
