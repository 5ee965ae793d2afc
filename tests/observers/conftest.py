"""Every test of observers begins and ends with nobody listening."""

from collections.abc import Iterator

import pytest

from phonograd import observers
from phonograd.observers import LISTENING


@pytest.fixture(autouse=True)
def nobody_listens() -> Iterator[None]:
    assert not any(LISTENING)
    yield
    observers.clear_callbacks()
    observers.set_sampling_seed(None)
    assert not any(LISTENING)
