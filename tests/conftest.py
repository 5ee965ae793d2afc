"""Settings for every test: how hypothesis searches, and the same plans on all machines."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# before the library reads its settings; processes that tests start inherit it
os.environ.setdefault("PHONOGRAD_TUNING", "off")

import phonograd as mx
from phonograd.core.array import single
from phonograd.core.trace.novelty import NOVELTY
from phonograd.core.trace.trace import LOCAL, Trace, ready_trace

# The first use of a graph compiles it, so single examples vary too much in time for a deadline.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def planned() -> Iterator[None]:
    """Plan every graph at its first evaluation: for tests about plans."""
    with mx.settings.override(tiers="plan"):
        yield


@pytest.fixture(autouse=True)
def known_program() -> None:
    """Begin each test with an empty trace and no single calls, as a program that is not new all the time."""
    NOVELTY.forget()
    single.forget()
    if LOCAL.trace.handles or LOCAL.trace.leaves:
        LOCAL.trace.flush(end=True)
    if LOCAL.trace.is_immediate:
        LOCAL.trace = Trace()
        ready_trace()
