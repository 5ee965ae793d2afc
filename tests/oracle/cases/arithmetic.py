"""Cases of arithmetic between arrays and with scalars: functions, operators, in-place forms."""

from __future__ import annotations

from ..case import Family, Spec, integers, normal, uniform, values

family = Family("arithmetic")

SHAPES = [((2, 3), (2, 3)), ((2, 1, 4), (3, 1)), ((1,), (2, 3)), ((3, 1), (1, 4)), ((2, 3), (3,))]
BROADCASTING = {
    "add": "exact",
    "plus": "exact",
    "sub": "exact",
    "minus": "exact",
    "mul": "elementwise",
    "div": "elementwise",
    "mod": "elementwise",
    "power": "elementwise",
    "maximum": "exact",
    "minimum": "exact",
    "hypot": "elementwise",
}
NAMED = ("add", "subtract", "multiply", "divide", "true_divide", "modulo", "power")
INFINITY, NOT_A_NUMBER = float("inf"), float("nan")
EDGES = [NOT_A_NUMBER, INFINITY, -INFINITY, 0.0, 1.0, -1.0, 2.0, -2.5]


def grid(dtype: str = "float32") -> tuple[Spec, Spec]:
    """Return two arrays whose broadcast pairs every edge value with every other."""
    return values([[edge] for edge in EDGES], dtype), values([EDGES], dtype)


def operand(operator: str, shape: tuple[int, ...], dtype: str = "float32") -> Spec:
    """Return operands for which the operator is smooth."""
    if operator in ("power", "div", "mod", "divide", "true_divide", "modulo"):
        return uniform(*shape, dtype=dtype, low=0.5, high=3)
    return normal(*shape, dtype=dtype)


for operator in BROADCASTING:
    name = f"nd.broadcast_{operator}"
    for left, right in SHAPES:
        family.call(name, operand(operator, left), operand(operator, right), tolerance="sum")
    for dtype in ("float64", "float16"):
        first, second = ((2, 3), (1, 3))
        operands = operand(operator, first, dtype), operand(operator, second, dtype)
        family.call(name, *operands, tolerance="sum")
    family.call(name, *grid(), tag="edges", tolerance="sum")
    family.call(name, normal(2, 3), normal(2))
    family.call(name, normal(2, 3), normal(2, 3, dtype="float64"))
    for dtype in ("int32", "int64", "uint8", "int8"):
        operands = integers(2, 3, dtype=dtype, low=1, high=6), integers(3, dtype=dtype, low=1, high=4)
        family.call(name, *operands)
family.call("nd.broadcast_div", values([-7, 7, -7, 7], "int32"), values([2, 2, -2, -2], "int32"), tag="signs")
family.call("nd.broadcast_mod", values([-7, 7, -7, 7], "int32"), values([2, 2, -2, -2], "int32"), tag="signs")
family.call("nd.broadcast_mod", values([-7.5, 7.5, -7.5, 7.5]), values([2.0, 2, -2, -2]))
family.call("nd.broadcast_mod", values([3, 0, -3], "int32"), values([0, 0, 0], "int32"))
family.call("nd.broadcast_maximum", values([1.0, 2, 3]), values([1.0, 3, 2]), tag="ties")
family.call("nd.broadcast_minimum", values([1.0, 2, 3]), values([1.0, 3, 2]), tag="ties")

for operator in ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div"):
    for dtype in ("float32", "float64", "float16", "int32", "int64"):
        shape = (2, 3)
        if dtype.startswith("int"):
            operands = integers(*shape, dtype=dtype, low=1), integers(*shape, dtype=dtype, low=1)
        else:
            operands = operand("div", shape, dtype), operand("div", shape, dtype)
        family.call(f"nd.{operator}", *operands)
    family.call(f"nd.{operator}", normal(2, 3), normal(1, 3))

for operator in (*NAMED, "maximum", "minimum"):
    family.call(f"nd.{operator}", operand(operator, (2, 3)), operand(operator, (3,)), tolerance="sum")
    family.expression(f"nd.{operator}(x, 1.5)", operand(operator, (2, 3)))
    family.expression(f"nd.{operator}(1.5, x)", operand(operator, (2, 3)))
    family.expression(f"nd.{operator}(2.5, 1.5)")

OPERATORS = ("+", "-", "*", "/", "%", "**")
FLOAT_SCALARS = ("2", "-1.5", "0", "0.1", "np.float32(1.25)", "np.float64(0.3)", "True")
for symbol in OPERATORS:
    for left, right in SHAPES[:3]:
        operands = operand("div", left), operand("div", right)
        family.expression(f"x {symbol} y", *operands, tolerance="sum")
    family.expression(f"x {symbol} y", normal(2, 3), integers(2, 3, dtype="int32", low=1))
    family.expression(f"x {symbol} y", normal(2, 3), normal(2, 4))
    family.expression(f"x {symbol} None", normal(2, 3))
    family.expression(f"x {symbol} 'a'", normal(2, 3))
    family.expression(f"x {symbol} np.ones((2, 3))", normal(2, 3))
    for scalar in FLOAT_SCALARS:
        family.expression(f"x {symbol} {scalar}", operand("div", (2, 3)))
        family.expression(f"{scalar} {symbol} x", operand("div", (2, 3)))
    for scalar in ("2", "-1.5", "0", "0.1", "1e3"):
        family.expression(f"x {symbol} {scalar}", values(EDGES))
        family.expression(f"{scalar} {symbol} x", values(EDGES))
    family.expression(f"x {symbol} 0.1", operand("div", (4,), "float64"))
    family.expression(f"0.1 {symbol} x", operand("div", (4,), "float64"))
    family.expression(f"x {symbol} 3", operand("div", (4,), "float16"))
    family.expression(f"3 {symbol} x", operand("div", (4,), "float16"))
    for dtype in ("int32", "int64", "uint8", "int8"):
        family.expression(f"x {symbol} 2", values([1, 2, 5, 7], dtype))
        family.expression(f"x {symbol} 1.7", values([1, 2, 5, 7], dtype))
        family.expression(f"2 {symbol} x", values([1, 2, 5, 7], dtype))
        family.expression(f"2.9 {symbol} x", values([1, 2, 5, 7], dtype))
        family.expression(f"x {symbol} y", values([5, 7], dtype), values([2, 3], dtype))
    family.expression(f"x {symbol} 2", values([True, False], "bool"))
    family.expression(f"x {symbol} y", values([True, False], "bool"), values([True, True], "bool"))
family.expression("x + 16800001", values([0, 1], "int32"))
family.expression("x * 3000000019", values([1, 2], "int64"))
family.expression("x + 9007199254740993", values([0, 1], "int64"))
family.expression("x / 2", values([-7, -1, 1, 7], "int32"), tag="signs")
family.expression("x % 3", values([-7, -1, 1, 7], "int32"), tag="signs")
family.expression("x % -3", values([-7, -1, 1, 7], "int32"), tag="signs")
family.expression("x % 0", values([-7, 7], "int32"), tag="signs")
family.expression("-x", normal(2, 3))
family.expression("-x", values([1, -2, 0], "int32"))
family.expression("-x", values([1, 2, 0], "uint8"))
family.expression("+x", normal(2, 3))
family.expression("abs(x)", normal(2, 3))
family.expression("x // 2", normal(2, 3))
family.expression("x @ y", normal(2, 3), normal(3, 2))
for power in ("0", "1", "2", "3", "-1", "-2", "0.5", "-0.5", "1.5", "2.7"):
    family.expression(f"x ** {power}", values([0.0, 1.0, 2.5, -1.0, -2.5]))
    family.expression(f"x ** {power}", uniform(4, dtype="float64", low=0.5, high=3), tag="double")
family.expression("x * x * x - x / (x + 3)", uniform(2, 3))
family.expression("x * x", values([1, 2, 3], "int32"))

for symbol in ("+=", "-=", "*=", "/=", "%="):
    family.statement(f"x {symbol} y", operand("div", (2, 3)), operand("div", (2, 3)))
    family.statement(f"x {symbol} y", operand("div", (2, 3)), operand("div", (3,)))
    family.statement(f"x {symbol} y", operand("div", (3,)), operand("div", (2, 3)))
    family.statement(f"x {symbol} 1.5", operand("div", (2, 3)))
    family.statement(f"x {symbol} 2", values([1, 5, 9], "int32"))
    family.statement(f"x {symbol} 2.5", values([1, 5, 9], "int64"))
    family.statement(f"x {symbol} x", operand("div", (2, 3)))
    family.statement(f"v = x[1:]; v {symbol} 2", operand("div", (3, 2)))
    family.statement(f"x[1] {symbol} 2", operand("div", (3, 2)))
    family.statement(f"x[:, 1] {symbol} y", operand("div", (3, 2)), operand("div", (3,)))
    family.statement(f"v = x; x {symbol} 2; result = v", operand("div", (3, 2)))
    family.statement(f"x {symbol} np.ones((2, 3))", operand("div", (2, 3)))
family.statement("v = x; x **= 2; result = [v, x]", normal(3))

for name in ("add_n", "ElementWiseSum"):
    family.call(f"nd.{name}", normal(2, 3))
    family.call(f"nd.{name}", normal(2, 3), normal(2, 3))
    family.call(f"nd.{name}", *[normal(2, 3)] * 5, tolerance="sum")
    family.call(f"nd.{name}", *[normal(4, dtype="float64")] * 3, tolerance="sum")
    family.call(f"nd.{name}", *[integers(4, dtype="int32")] * 3)
family.call("nd.add_n", normal(2, 3), normal(3))
family.expression("nd.add_n(x, x, y)", normal(2, 3), normal(2, 3))

family.call("nd.amp_multicast", normal(2, 3), normal(2, dtype="float16"), num_outputs=2)
family.call("nd.amp_multicast", normal(2, 3), normal(2, dtype="float16"), num_outputs=2, cast_narrow=True)
family.call("nd.amp_multicast", normal(2, 3), normal(3), num_outputs=2)
family.call("nd.amp_multicast", normal(2, dtype="float16"), normal(3, dtype="float16"), num_outputs=2)
family.expression("sum([x, x * 2, x * 3])", normal(2, 3))
