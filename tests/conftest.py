"""Settings for every test: how hypothesis searches."""

import os

import pytest
from hypothesis import settings

from phonograd.core.plan.cache import NOVELTY

# The first use of a graph compiles it, so single examples vary too much in time for a deadline.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def _nothing_was_planned() -> None:
    """Have every test begin like a process of its own: plans that others never used again do not count."""
    NOVELTY.clear()
