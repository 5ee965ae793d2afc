"""Cases of comparisons and logical operators."""

from __future__ import annotations

from ..case import Family, integers, normal, values

family = Family("comparison", tolerance="exact")

COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
EDGES = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0]

for operator in (*COMPARISONS, *LOGICAL):
    for prefix in ("nd.broadcast_", "nd."):
        name = prefix + operator
        family.call(name, integers(2, 3, high=2), integers(2, 3, high=2))
        family.call(name, integers(2, 1, 3, high=3), integers(4, 1, high=3))
        family.call(name, values([[e] for e in EDGES]), values([EDGES]), tag="edges")
        for dtype in ("float64", "float16", "int32", "int64", "uint8", "int8"):
            family.call(name, integers(2, 3, dtype=dtype, high=3), integers(3, dtype=dtype, high=3))
        family.call(name, normal(2, 3), normal(2, 3, dtype="float64"))
        family.call(name, normal(2, 3), normal(4))
    family.expression(f"nd.{operator}(x, 1)", integers(2, 3, high=3))
    family.expression(f"nd.{operator}(1, x)", integers(2, 3, high=3))
    family.expression(f"nd.{operator}(x, 1.5)", integers(4, dtype="int32", high=3))
    family.expression(f"nd.{operator}(2, 1)")
    bools = values([True, False, True, False], "bool"), values([True, True, False, False], "bool")
    family.call(f"nd.broadcast_{operator}", *bools)

for symbol in ("==", "!=", ">", ">=", "<", "<="):
    family.expression(f"x {symbol} y", integers(2, 3, high=3), integers(3, high=3))
    family.expression(f"x {symbol} y", values([[e] for e in EDGES]), values([EDGES]))
    for scalar in ("1", "0.5", "True", "np.float32(1)", "None", "'a'", "[1, 2]", "np.ones(3)"):
        family.expression(f"x {symbol} {scalar}", integers(2, 3, high=3))
        family.expression(f"{scalar} {symbol} x", integers(2, 3, high=3))
    for dtype in ("int32", "int64", "uint8", "float64", "float16"):
        family.expression(f"x {symbol} 1.5", integers(5, dtype=dtype, high=4))
        family.expression(f"x {symbol} 1", integers(5, dtype=dtype, high=4))
        family.expression(f"1 {symbol} x", integers(5, dtype=dtype, high=4))
    family.expression(f"x {symbol} y", normal(2), integers(2, dtype="int32"))

family.expression("(x > 0) * x", normal(2, 3))
family.expression("nd.where(x > y, x, y * 2)", normal(2, 3), normal(2, 3))
family.expression("bool(x == x)", normal(1))
family.expression("bool(x)", values([0.0]))
family.expression("bool(x)", values([2.0]), tag="nonzero")
family.expression("bool(x)", normal(2))
family.expression("x in [y]", values([2.0]), values([2.0]))
family.expression("bool(x)", values([[3.0]]), tag="matrix")
family.expression("(x != x).sum()", values(EDGES))
