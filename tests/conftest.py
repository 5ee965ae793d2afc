"""Settings for every test: how hypothesis searches, the same plans on all machines, and garbage collection."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# before the library reads its settings; processes that tests start inherit it
os.environ.setdefault("PHONOGRAD_TUNING", "off")
# tests count what is planned and compiled in this process; those of the planner process turn it on
os.environ.setdefault("PHONOGRAD_PLANNER", "thread")

import phonograd as mx
from phonograd.core.array import single
from phonograd.core.backward import machine_code, repetition
from phonograd.core.graph import generic
from phonograd.core.trace.novelty import NOVELTY
from phonograd.core.trace.trace import LOCAL, Trace, ready_trace

# Patterns of extents are learned from the second combination on: few tests use more than two or three.
generic.LEAST_EXTENTS = 2

# Records are new, whatever earlier tests have left in the cache directory.
repetition.MOST_MISSES = 0

# The first use of a graph compiles it, so single examples vary too much in time for a deadline.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# Fifty thousand tests are half a gigabyte of objects that stay. Collecting garbage while they are made takes a third of
# the time, and every later collection would look at them again.
gc.disable()


def pytest_collection_finish() -> None:
    """Set the collected tests aside, and collect garbage from here on."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def planned() -> Iterator[None]:
    """Plan every graph at its first evaluation: for tests about plans."""
    with mx.settings.override(tiers="plan"):
        yield


@pytest.fixture
def python_functions() -> Iterator[None]:
    """Run hot functions as Python: for tests that replace functions which these call."""
    code = machine_code.install()
    if code is None:
        yield
        return
    code.uninstall()
    yield
    code.install()


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
