"""Every test of autograd begins and ends with both flags off."""

from collections.abc import Iterator

import pytest

from phonograd import autograd


@pytest.fixture(autouse=True)
def flags_are_off() -> Iterator[None]:
    assert (autograd.is_recording(), autograd.is_training()) == (False, False)
    yield
    left = autograd.set_recording(False), autograd.set_training(False)
    assert left == (False, False), "the test left a flag on"
