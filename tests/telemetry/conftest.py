"""What a program's telemetry exports, in memory."""

from collections.abc import Iterator

import pytest

from echomq import plugins
from echomq_opentelemetry import Telemetry
from support.shells import SHELLS, Shell
from support.telemetry import Exported


@pytest.fixture
def exported() -> Exported:
    """Providers that keep what they are given."""
    return Exported()


@pytest.fixture(autouse=True)
def telemetry(exported: Exported) -> Iterator[Telemetry]:
    """The plugin on these providers, for the length of a test."""
    plugin = Telemetry(exported.tracer_provider, exported.meter_provider, max_job_names=3)
    plugins.register(plugin, "telemetry")
    yield plugin
    plugins.unregister("telemetry")
    exported.close()


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> Shell:
    """Each shell in turn."""
    return SHELLS[request.param]
