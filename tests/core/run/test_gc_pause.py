"""Planning does not look for garbage, and leaves the collector as it was."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from phonograd.core.run import gc_pause
from phonograd.core.run.gc_pause import gc_paused


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


def test_nothing_is_collected_meanwhile() -> None:
    gc.enable()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    with gc_paused():
        assert not gc.isenabled()
    assert not gc.isenabled(), "it was off"


def test_errors_leave_it_on() -> None:
    gc.enable()
    with pytest.raises(ZeroDivisionError), gc_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """Have the collector look at the collected tests, which conftest.py has set aside."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_many_new_objects_are_old_at_once() -> None:
    gc.enable()
    gc.collect()
    with gc_paused():
        objects = [[] for _ in range(2 * gc_pause.MANY)]
    assert gc.get_freeze_count() < gc_pause.FROZEN
    assert gc.get_count()[0] < len(objects), "they count as new no more"
    # garbage among them is found when everything is looked at
    loop: list[object] = []
    loop.append(loop)
    del loop
    assert gc.collect() >= 1


def test_what_others_have_frozen_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.enable()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: gc_pause.FROZEN)
    monkeypatch.setattr(gc, "unfreeze", lambda: pytest.fail("it was others' to do"))
    with gc_paused():
        objects = [[] for _ in range(2 * gc_pause.MANY)]
    assert len(objects) == 2 * gc_pause.MANY
    assert gc.isenabled()


def test_the_modules_of_the_first_evaluation_are_old_at_once() -> None:
    program = """
import gc
import phonograd as mx

(mx.nd.ones((2,)) + 1).asnumpy()
print(len(gc.get_objects(0)) + len(gc.get_objects(1)))
"""
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(found.stdout) < gc_pause.MANY // 2, "a collection in one of the first steps would look at them"
