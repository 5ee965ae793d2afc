"""The codes of reshape, recorded from MXNet 1.9.1, and its errors."""

from __future__ import annotations

import re

import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.shapes import infer_reshape, legacy_reshape, real_axes, real_axis


@pytest.mark.parametrize(
    "shape, codes, reverse, expected",
    [
        ((2, 3, 4), (4, 6), False, (4, 6)),
        ((2, 3, 4), (4, 0, 2), False, (4, 3, 2)),
        ((2, 3, 4), (6, 1, -1), False, (6, 1, 4)),
        ((2, 3, 4), (-2, 1, 1), False, (2, 3, 4, 1, 1)),
        ((2, 3, 4), (-2, -2), False, (2, 3, 4)),
        ((2, 3, 4, 5), (-3, -3), False, (6, 20)),
        ((2, 3, 4), (0, -3), False, (2, 12)),
        ((2, 3, 4), (-4, 1, 2, -2), False, (1, 2, 3, 4)),
        ((2, 3, 4), (2, -4, -1, 3, -2), False, (2, 1, 3, 4)),
        ((2, 3, 4), (6, -1, -4, 2, 2), False, (6, 1, 2, 2)),
        ((2, 3, 4), (-1, -4, -1, 3, 4), False, (2, 1, 3, 4)),
        ((10, 5, 4), (-1, 0), False, (40, 5)),
        ((10, 5, 4), (-1, 0), True, (50, 4)),
        ((8, 3, 2), (-1, 4, 0), True, (6, 4, 2)),
        ((1,), (1, 1, 1), False, (1, 1, 1)),
        ((0, 3, 4), (0, -1), False, (0, 12)),
        ((0, 3), (-1,), False, (0,)),
        ((), (-1,), False, (1,)),
        ((1,), (), False, ()),
    ],
)
def test_codes(shape, codes, reverse, expected):
    assert infer_reshape(shape, codes, reverse) == expected


@pytest.mark.parametrize(
    "codes, kind, sentence",
    [
        ((5, 5), MXNetError, "target shape size is larger than the current shape"),
        ((2, 2), ValueError, "Cannot reshape array of size 24 into shape (2, 2)"),
        ((7, -1), ValueError, "Cannot reshape array of size 24 into shape (7, -1)"),
        ((25, -1), ValueError, "Cannot reshape array of size 24 into shape (25, -1)"),
        ((-1, -1), MXNetError, "One and only one dim can be inferred"),
        ((-5, 1), MXNetError, "shape dim size must be >= -1, while received -5"),
        ((0, 0, 0, 0), MXNetError, "code 0 takes 1 axes, but 0 are left in reshape of [2,3,4] to (0, 0, 0, 0)"),
        ((-3, -3), MXNetError, "code -3 takes 2 axes, but 1 are left"),
        ((-4, 2, 2, -2), MXNetError, "Split dims 2, 2 do not divide original dim 2"),
        ((-4, 5, -1, -2), MXNetError, "Split dims 5, 0 do not divide original dim 2"),
        ((-4, -1, 0, -2), MXNetError, "Split dims 0, 0 do not divide original dim 2"),
        ((-4, -1, -1, -2), MXNetError, "Split dims cannot both be -1."),
        ((-4, 2), MXNetError, "code -4 must be followed by two sizes"),
    ],
)
def test_errors(codes, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        infer_reshape((2, 3, 4), codes)


def test_deprecated_target_shape():
    assert legacy_reshape((2, 3, 4), (4, 6)) == (4, 6)
    assert legacy_reshape((2, 3, 4), (5, 12), keep_highest=True) == (2, 12)
    with pytest.raises(MXNetError, match="One and only one dim"):
        legacy_reshape((2, 3, 4), (0, 0))


def test_axes():
    assert [real_axis(axis, 3, "x") for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    with pytest.raises(MXNetError, match="axis 3 exceeds the input dimension of 3 in operator x"):
        real_axis(3, 3, "x")
    with pytest.raises(MXNetError, match="duplicate value in axis"):
        real_axes((0, -3), 3, "x")
