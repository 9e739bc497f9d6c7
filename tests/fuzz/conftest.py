"""How hard is searched: quickly by default; ``ECHOMQ_TEST_EXAMPLES=5000`` searches longer."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("ECHOMQ_TEST_EXAMPLES", "8")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fuzz")
