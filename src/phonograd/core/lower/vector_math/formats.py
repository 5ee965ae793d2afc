"""Formats: constants of the two floating point formats in which elementary functions are computed."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ...base.dtypes import FLOAT32, FLOAT64, INT32, INT64, DType

__all__ = ["FORMATS", "Format"]


class Format(NamedTuple):
    """A floating point format."""

    integer: DType
    mantissa_bits: int
    bias: int
    least_normal: float
    #: 1.5 * 2**mantissa_bits: adding it rounds to an integer, which is then in the lowest bits
    shifter: float
    shifter_bits: int
    #: log 2 in two parts; the first has so few bits that its multiples are exact
    log2: tuple[float, float]
    #: log10(2) in two parts of the same kind
    log10_2: tuple[float, float]
    #: below and above these, exp is 0 and infinite
    exp_least: float
    exp_most: float
    #: below this, expm1 rounds to -1
    expm1_least: float
    #: beyond this, sigmoid rounds to 1
    sigmoid_most: float
    #: beyond this, tanh rounds to 1
    tanh_most: float
    #: the bits of the largest number whose square does not exceed 1/2
    root_half_bits: int
    #: beyond this, x * x + 1 rounds to x * x
    square_ignores_one: float
    #: largest angle that pi / 2 in three parts can reduce
    angle_most: float


FORMATS = {
    FLOAT32: Format(
        integer=INT32,
        mantissa_bits=23,
        bias=127,
        least_normal=2.0**-126,
        shifter=12582912.0,
        shifter_bits=0x4B400000,
        log2=(0.693145751953125, 1.42860682030941723212e-6),
        log10_2=(0.301025390625, 4.605038981195213739e-6),
        exp_least=-104.0,
        exp_most=89.0,
        expm1_least=-18.0,
        sigmoid_most=18.0,
        tanh_most=9.1,
        root_half_bits=0x3F3504F3,
        square_ignores_one=2.0**13,
        angle_most=2.0**15,
    ),
    FLOAT64: Format(
        integer=INT64,
        mantissa_bits=52,
        bias=1023,
        least_normal=2.0**-1022,
        shifter=6755399441055744.0,
        shifter_bits=0x4338000000000000,
        log2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
        log10_2=(3.01029995663611771306e-01, 3.69423907715893078616e-13),
        exp_least=-746.0,
        exp_most=710.0,
        expm1_least=-39.0,
        sigmoid_most=38.0,
        tanh_most=19.1,
        root_half_bits=struct.unpack("<q", struct.pack("<d", 0.5**0.5))[0],
        square_ignores_one=2.0**28,
        angle_most=2.0**20,
    ),
}
