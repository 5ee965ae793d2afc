"""What tests of mx.np share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from phonograd import npx


@pytest.fixture
def semantics() -> Iterator[None]:
    """Turn NumPy semantics on for a test."""
    npx.set_np()
    yield
    npx.reset_np()
