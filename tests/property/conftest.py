"""How hard the properties are searched: quickly by default, longer where there is time."""

import os

from hypothesis import settings

settings.register_profile("echomq", max_examples=int(os.environ.get("ECHOMQ_TEST_EXAMPLES", "40")), deadline=None)
settings.load_profile("echomq")
