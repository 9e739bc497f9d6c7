"""The plugin for the providers that the program has set: ``opentelemetry.trace.set_tracer_provider`` and its kin.

They may be set after the plugin was loaded: until then nothing is recorded. It does nothing
where ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS`` names ``echomq``, as instrumentations are switched off.
"""

import os

from .telemetry import Telemetry

if "echomq" not in [name.strip() for name in os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")]:
    _telemetry = Telemetry()
    echomq_register_middleware = _telemetry.echomq_register_middleware
    echomq_job_completed = _telemetry.echomq_job_completed
    echomq_job_failed = _telemetry.echomq_job_failed
