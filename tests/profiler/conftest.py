"""Every test of observation begins and ends with nobody listening."""

from collections.abc import Iterator

import pytest

from phonograd.core import events
from phonograd.core.observe import allocations
from phonograd.profiler import collecting


@pytest.fixture(autouse=True)
def nobody_listens() -> Iterator[None]:
    assert not any(events.LISTENING)
    yield
    left = [listening for listening in events.LISTENING if listening]
    events.clear_callbacks()
    events.set_sampling_seed(None)
    assert not left, "the test left an observer"


@pytest.fixture
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that other tests keep are not found when a profile of memory begins, nor seen to go."""
    monkeypatch.setattr(collecting, "inventory", list)
    monkeypatch.setattr(allocations, "_held", {})


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What an observer of everything has seen so far, one line for each start and end."""
    written: list[str] = []
    handle = events.add_global_callback(
        lambda fn: written.append(f"start {fn.name}"), lambda fn, context: written.append(f"end {fn.name}")
    )
    yield written
    events.remove_callback(handle)
