"""What tests that count captures and plans need: nothing is forgotten between."""

from collections.abc import Iterator

import pytest

from phonograd import settings


@pytest.fixture
def nothing_is_forgotten() -> Iterator[None]:
    """Raise the limits beyond which plans, and with them captured functions, are forgotten."""
    with settings.override(plan_limit=1_000_000, node_limit=100_000_000):
        yield
