"""Conversions between float16 and float32 for processors without instructions for them.

Kernels convert with ``fpext`` and ``fptrunc``. Processors with F16C, and those of ARM, have instructions for that;
for others LLVM would call functions that no library here has. :func:`emulate_half_conversions` takes the text of a
kernel from :mod:`~phonograd.core.run.compiler` and returns one that computes the same bits, NaN included, with integer
and float32 instructions.
"""

from __future__ import annotations

import re

__all__ = ["emulate_half_conversions"]

_WIDENING = re.compile(r"^ *(%\S+) = fpext (?:<(\d+) x half>|half) (\S+) to (?:<\d+ x float>|float)$", re.MULTILINE)
_ROUNDING = re.compile(r"^ *(%\S+) = fptrunc (?:<(\d+) x float>|float) (\S+) to (?:<\d+ x half>|half)$", re.MULTILINE)


def emulate_half_conversions(text: str) -> str:
    """Return a module without conversions of float16: several instructions take the place of each of them."""
    text = _WIDENING.sub(lambda found: _expanded(_WIDEN, *found.groups()), text)
    return _ROUNDING.sub(lambda found: _expanded(_ROUND, *found.groups()), text)


def _expanded(body: str, result: str, lanes: str | None, operand: str) -> str:
    """Return instructions for some lanes: ``{i32}`` is a type, ``[i32 5]`` a number in all lanes, ``%.x`` a name."""

    def number(found: re.Match[str]) -> str:
        kind, value = found[1].split()
        return value if lanes is None else f"<{', '.join([f'{kind} {value}'] * int(lanes))}>"

    body = re.sub(r"\[(\w+ \S+?)\]", number, body)
    body = re.sub(r"\{(\w+)\}", lambda found: found[1] if lanes is None else f"<{lanes} x {found[1]}>", body)
    return body.replace("%.", f"{result}.").replace("RESULT", result).replace("OPERAND", operand).strip("\n")


#: the number without its sign, moved to the place of a float32 and multiplied by 2^112; the exponent of infinities and
#: NaN is the largest one, and NaN becomes quiet
_WIDEN = """
  %.word = bitcast {half} OPERAND to {i16}
  %.wide = zext {i16} %.word to {i32}
  %.magnitude = and {i32} %.wide, [i32 32767]
  %.moved = shl {i32} %.magnitude, [i32 13]
  %.number = bitcast {i32} %.moved to {float}
  %.scaled = fmul {float} %.number, [float 0x46F0000000000000]
  %.finite = bitcast {float} %.scaled to {i32}
  %.largest = or {i32} %.moved, [i32 2139095040]
  %.quiet = or {i32} %.largest, [i32 4194304]
  %.is_nan = icmp ugt {i32} %.magnitude, [i32 31744]
  %.special = select {i1} %.is_nan, {i32} %.quiet, {i32} %.largest
  %.is_finite = icmp ult {i32} %.magnitude, [i32 31744]
  %.found = select {i1} %.is_finite, {i32} %.finite, {i32} %.special
  %.sign = and {i32} %.wide, [i32 32768]
  %.upper = shl {i32} %.sign, [i32 16]
  %.all = or {i32} %.found, %.upper
  RESULT = bitcast {i32} %.all to {float}
"""

#: three cases: numbers below 2^-14 are rounded by adding 0.5, whose last place is theirs; numbers below 2^16 by adding
#: half of a last place, less one bit if the result would not be even; others are infinite or NaN
_ROUND = """
  %.bits = bitcast {float} OPERAND to {i32}
  %.magnitude = and {i32} %.bits, [i32 2147483647]
  %.number = bitcast {i32} %.magnitude to {float}
  %.added = fadd {float} %.number, [float 5.000000e-01]
  %.added_bits = bitcast {float} %.added to {i32}
  %.small = sub {i32} %.added_bits, [i32 1056964608]
  %.shifted = lshr {i32} %.magnitude, [i32 13]
  %.odd = and {i32} %.shifted, [i32 1]
  %.moved = add {i32} %.magnitude, [i32 -939520001]
  %.nearest = add {i32} %.moved, %.odd
  %.normal = lshr {i32} %.nearest, [i32 13]
  %.payload = and {i32} %.shifted, [i32 1023]
  %.nan = or {i32} %.payload, [i32 32256]
  %.is_nan = icmp ugt {i32} %.magnitude, [i32 2139095040]
  %.large = select {i1} %.is_nan, {i32} %.nan, {i32} [i32 31744]
  %.is_small = icmp ult {i32} %.magnitude, [i32 947912704]
  %.finite = select {i1} %.is_small, {i32} %.small, {i32} %.normal
  %.is_large = icmp uge {i32} %.magnitude, [i32 1199570944]
  %.found = select {i1} %.is_large, {i32} %.large, {i32} %.finite
  %.upper = lshr {i32} %.bits, [i32 16]
  %.sign = and {i32} %.upper, [i32 32768]
  %.all = or {i32} %.found, %.sign
  %.word = trunc {i32} %.all to {i16}
  RESULT = bitcast {i16} %.word to {half}
"""
