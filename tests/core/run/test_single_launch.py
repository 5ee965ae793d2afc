"""A kernel that one thread runs at once does what rows do."""

import gc
import sys

import numpy as np
import pytest

from phonograd import settings
from phonograd.core.run import driver, kernel_cache, launcher
from phonograd.core.run.driver import SizedLaunch

pytestmark = pytest.mark.skipif(
    not (kernel_cache.available() and launcher.is_supported()), reason="rows are called as they are here"
)

FLOAT = np.dtype(np.float32)
#: writes a number of its table to all elements of its first array from its second number on
FILL = """
define void @fill(ptr %table, ptr %bases, i64 %lo, i64 %hi) {
entry:
  %first.at = getelementptr i64, ptr %table, i64 1
  %first = load i64, ptr %first.at, align 8
  %number = load i64, ptr %table, align 8
  %out = load ptr, ptr %bases, align 8
  br label %loop
loop:
  %k = phi i64 [ %lo, %entry ], [ %next, %loop ]
  %place = add i64 %k, %first
  %out.at = getelementptr i64, ptr %out, i64 %place
  store i64 %number, ptr %out.at, align 8
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %over
over:
  ret void
}
"""


@pytest.fixture
def sized():
    return SizedLaunch(kernel_cache.compile_text(FILL, "fill"), 2)


def test_work_that_is_not_shared_takes_no_row(sized, monkeypatch):
    monkeypatch.setattr(driver.Row, "of_one", None)
    for number, first, extent in ((7, 0, 5), (-1, 2, 3), (1 << 62, 1, 1)):
        out = np.zeros(8, np.int64)
        sized.run((number, first), extent, extent, (out, out), False)
        expected = np.zeros(8, np.int64)
        expected[first : first + extent] = number
        assert out.tolist() == expected.tolist()


def test_work_that_is_shared_takes_a_row(sized, monkeypatch, python_functions):
    monkeypatch.setattr(driver, "_has_one_thread", lambda: False)
    for extent, chunk, is_much in ((8, 2, False), (8, 8, True)):
        out = np.zeros(8, np.int64)
        sized.run((3, 0), extent, chunk, (out, out), is_much)
        assert out.tolist() == [3] * 8
    assert len(sized._free) == 1


def test_one_thread_takes_no_row(sized, monkeypatch, python_functions):
    out = np.zeros(8, np.int64)
    with settings.override(num_threads=1):
        # the first row finds out that there are no other threads
        sized.run((3, 0), 8, 2, (out, out), True)
        monkeypatch.setattr(driver.Row, "of_one", None)
        sized._free.clear()
        for number in (4, 5):
            sized.run((number, 0), 8, 2, (out, out), True)
            assert out.tolist() == [number] * 8
    with settings.override(num_threads=2), pytest.raises(TypeError):
        sized.run((6, 0), 8, 2, (out, out), True)


def test_arguments_of_other_kinds_are_refused(sized):
    out = np.zeros(8, np.int64)
    for table, error in (((1 << 70, 0), OverflowError), (("a", 0), TypeError), ([1, 0], SystemError)):
        with pytest.raises(error):
            sized._alone((table, 1, (out, out)))
    with pytest.raises(IndexError):
        sized._alone(((1, 0), 1))
    with pytest.raises(SystemError):
        sized._alone(None)
    assert not out.any()


def test_references(sized):
    out = np.zeros(8, np.int64)
    watched = [out, sized._alone, None]

    def run():
        for _ in range(100):
            sized.run((12345678, 0), 3, 3, (out, out), False)

    run()
    gc.collect()
    before = [sys.getrefcount(value) for value in watched]
    run()
    after = [sys.getrefcount(value) for value in watched]
    assert np.abs(np.subtract(after, before)).max() < 20
