"""Threads that wake on the processor of their waker move to another one, and keep their affinity."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from phonograd import settings
from phonograd.core.run import kernel_cache, thread_pool
from phonograd.core.run import thread_placement as placement


class Machine:
    """The functions that the code calls: a lock, and a thread on a processor."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        #: the processor of the thread, its affinity, and every affinity that it was given
        self.number, self.affinity = 70, (1 << 70) | (1 << 3)
        self.given: list[int] = []
        self.failure = 0
        integer, address = ctypes.c_int, ctypes.c_void_p
        self._functions = [
            ctypes.CFUNCTYPE(integer, address, integer)(self._acquire),
            ctypes.CFUNCTYPE(None, address)(self._release),
            ctypes.CFUNCTYPE(integer)(lambda: self.number),
            ctypes.CFUNCTYPE(integer, integer, ctypes.c_size_t, address)(self._find),
            ctypes.CFUNCTYPE(integer, integer, ctypes.c_size_t, address)(self._set),
        ]
        addresses = [ctypes.cast(function, address).value for function in self._functions]
        self.place = np.array([1234, -1, *addresses], np.int64)

    def _acquire(self, lock: int, waits: int) -> int:
        self.calls.append(f"acquire {lock} {waits}")
        return 1

    def _release(self, lock: int) -> None:
        self.calls.append(f"release {lock}")

    def _find(self, thread: int, size: int, mask: int) -> int:
        assert thread == 0
        ctypes.memmove(mask, self.affinity.to_bytes(size, "little"), size)
        return self.failure

    def _set(self, thread: int, size: int, mask: int) -> int:
        assert thread == 0
        self.given.append(int.from_bytes(ctypes.string_at(mask, size), "little"))
        return 0


@pytest.fixture(scope="module")
def functions() -> Iterator[tuple[Any, Any]]:
    """Yield the functions that acquire and release."""
    if not kernel_cache.available():
        pytest.skip("kernels cannot be compiled here")
    kernel = kernel_cache.compile_text(placement.thread_placement_text(), "thread_placement_functions")
    addresses = (ctypes.c_int64 * len(placement.FUNCTIONS))()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(ctypes.addressof(addresses))
    acquire = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(addresses[0])
    yield acquire, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses[1])
    del kernel


def test_a_thread_leaves_the_processor_of_its_waker(functions: tuple[Any, Any]) -> None:
    acquire, release = functions
    machine = Machine()
    release(machine.place.ctypes.data)
    assert machine.place[placement.WAKER] == 70
    assert acquire(machine.place.ctypes.data, 1) == 1
    assert machine.calls == ["release 1234", "acquire 1234 1"]
    assert machine.given == [1 << 3, machine.affinity]


def test_a_thread_stays_on_another_processor(functions: tuple[Any, Any]) -> None:
    acquire, release = functions
    machine = Machine()
    acquire(machine.place.ctypes.data, 1)
    release(machine.place.ctypes.data)
    machine.number = 3
    acquire(machine.place.ctypes.data, 1)
    assert machine.given == []


@pytest.mark.parametrize(("failure", "number"), [(-1, 70), (0, -1), (0, 64 * placement.MASK_WORDS)])
def test_a_system_that_does_not_tell_changes_nothing(functions: tuple[Any, Any], failure: int, number: int) -> None:
    acquire, release = functions
    machine = Machine()
    machine.failure, machine.number = failure, number
    release(machine.place.ctypes.data)
    assert acquire(machine.place.ctypes.data, 1) == 1
    assert machine.given == []


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not place threads")
def test_workers_keep_their_affinity() -> None:
    import phonograd as mx

    with settings.override(num_threads=3):
        pool = thread_pool.renew()
        assert pool is not None
        assert thread_pool._code is not None
        assert len(thread_pool._code._place) == placement.WORDS
        x = mx.nd.ones((400, 400))
        for _ in range(30):
            (mx.nd.dot(x, x) + 1).asnumpy()
            # longer than workers look for work
            threading.Event().wait(2 * thread_pool.SPIN_SECONDS)
        own = os.sched_getaffinity(0)
        assert [os.sched_getaffinity(thread.native_id or 0) for thread in pool._threads] == [own, own]
