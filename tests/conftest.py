"""Settings for every test: how hypothesis searches."""

import os

from hypothesis import settings

# The first use of a graph compiles it, so single examples vary too much in time for a deadline.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
