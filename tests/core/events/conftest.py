"""Every test of observers begins and ends with nobody listening."""

from collections.abc import Iterator

import pytest

from phonograd.core import events
from phonograd.core.events import LISTENING


@pytest.fixture(autouse=True)
def nobody_listens() -> Iterator[None]:
    assert not any(LISTENING)
    yield
    events.clear_callbacks()
    events.set_sampling_seed(None)
    assert not any(LISTENING)
