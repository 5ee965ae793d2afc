"""Calls with values of every type for every parameter do what they do in MXNet 1.9.1; :mod:`.reasons` has exceptions.

The quick test compares one call of 32, the slow one of 16; ``python -m tests.sweep.compare`` compares all.
"""

import pytest

import phonograd as mx

from . import compare


def unexplained(parts):
    found = compare.differences(mx, 0, parts)
    return [difference for difference in found if compare.reason_for(difference) is None]


def test_calls_are_those_of_mxnet():
    assert unexplained(32) == []


@pytest.mark.slow
def test_more_calls_are_those_of_mxnet():
    assert unexplained(16) == []


def test_the_comparison_finds_differences():
    assert compare.agree("!MXNetError", "!ValueError")
    assert compare.agree("float322x3 1.234 0.5", "float322x3 1.235 0.5")
    assert not compare.agree("float322x3 1.234 0.5", "float322x3 1.834 0.5")
    assert not compare.agree("float322x3 1.234 0.5", "float323x2 1.234 0.5")
    assert not compare.agree("{} ['x'] ['y'] [(2, 3)]", "{} ['x'] ['y'] !MXNetError")
    assert compare.agree("!MXNetError", "{} ['x'] ['y'] !MXNetError")
    assert compare.direction("!MXNetError", "float322 1 1") == "accepts"
    assert compare.direction("float322 1 1", "!MXNetError") == "refuses"


def test_the_recording_is_large():
    assert compare.count() > 50_000
    assert len(compare.recording()) > 250
