"""Operators of one array and a constant: ``_plus_scalar(x, scalar=2)``.

Arrays use the operators of two operands, where a number is data. MXNet exposes these forms, where the number is an
attribute, in ``nd._internal`` and writes them into symbol files. One table declares all of them.
"""

from __future__ import annotations

import numpy as np

from ...base.dtypes import kind_of
from ...graph.interface import Interface, same_shapes
from ...graph.node import Node
from ...graph.operator import Operator, composite, single
from . import arithmetic, comparison
from .primitives import cast

__all__ = ["FORMS"]

#: (name, older name, operator of two operands, whether the number comes first)
FORMS: list[tuple[str, str, Operator, bool]] = [
    ("_plus_scalar", "_PlusScalar", arithmetic.add, False),
    ("_minus_scalar", "_MinusScalar", arithmetic.subtract, False),
    ("_rminus_scalar", "_RMinusScalar", arithmetic.subtract, True),
    ("_mul_scalar", "_MulScalar", arithmetic.multiply, False),
    ("_div_scalar", "_DivScalar", arithmetic.divide, False),
    ("_rdiv_scalar", "_RDivScalar", arithmetic.divide, True),
    ("_mod_scalar", "_ModScalar", arithmetic.mod, False),
    ("_rmod_scalar", "_RModScalar", arithmetic.mod, True),
    ("_power_scalar", "_PowerScalar", arithmetic.power, False),
    ("_rpower_scalar", "_RPowerScalar", arithmetic.power, True),
    ("_maximum_scalar", "_MaximumScalar", arithmetic.maximum, False),
    ("_minimum_scalar", "_MinimumScalar", arithmetic.minimum, False),
    ("_hypot_scalar", "_HypotScalar", arithmetic.hypot, False),
    ("_equal_scalar", "_EqualScalar", comparison.equal, False),
    ("_not_equal_scalar", "_NotEqualScalar", comparison.not_equal, False),
    ("_greater_scalar", "_GreaterScalar", comparison.greater, False),
    ("_greater_equal_scalar", "_GreaterEqualScalar", comparison.greater_equal, False),
    ("_lesser_scalar", "_LesserScalar", comparison.lesser, False),
    ("_lesser_equal_scalar", "_LesserEqualScalar", comparison.lesser_equal, False),
    ("_logical_and_scalar", "_LogicalAndScalar", comparison.logical_and, False),
    ("_logical_or_scalar", "_LogicalOrScalar", comparison.logical_or, False),
    ("_logical_xor_scalar", "_LogicalXorScalar", comparison.logical_xor, False),
]


def _declare(name: str, older_name: str, whole: Operator, number_first: bool) -> None:
    def body(data: Node, *, scalar: float = 1.0, is_int: bool = True) -> Node:
        if kind_of(data.dtype) == "b":
            data = cast(data, np.int64)
        if whole is arithmetic.power and not number_first and scalar.is_integer() and abs(scalar) <= 64:
            # exact products, as for ``x**2`` of arrays
            return arithmetic.integer_power(data, int(scalar))
        return single(whole(scalar, data) if number_first else whole(data, scalar))

    operands = "a number and an array" if number_first else "an array and a number"
    body.__doc__ = f"Return {whole.name} of {operands}."
    declared = composite(name=name, aliases=(older_name,), interface=Interface(shapes=same_shapes))(body)
    declared.become_form(whole, "number_first" if number_first else "number_last")


for _form in FORMS:
    _declare(*_form)

# 2 < x is x > 2
for _whole, _mirrored in (
    (comparison.greater, comparison.lesser),
    (comparison.greater_equal, comparison.lesser_equal),
    (comparison.lesser, comparison.greater),
    (comparison.lesser_equal, comparison.greater_equal),
):
    _whole.forms["number_first"] = _mirrored.forms["number_last"]
# the other operators are symmetric
for _form in FORMS:
    _form[2].forms.setdefault("number_first", _form[2].forms["number_last"])
