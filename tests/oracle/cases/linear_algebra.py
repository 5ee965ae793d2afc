"""Cases of dot, batch_dot, FullyConnected and khatri_rao."""

from __future__ import annotations

from ..case import Family, integers, normal, values

family = Family("linear_algebra", tolerance="product")

PAIRS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((2, 3, 4), (4, 5)),
    ((2, 3), (3, 2, 4)),
    ((2, 2, 3), (3, 2, 2)),
    ((1, 1), (1, 1)),
    ((2, 3), (2, 3)),
]
for left, right in PAIRS:
    family.call("nd.dot", normal(*left), normal(*right))
TRANSPOSED = [
    ((3, 2), (3, 4), True, False),
    ((2, 3), (4, 3), False, True),
    ((3, 2), (4, 3), True, True),
    ((3, 2, 4), (3, 5), True, False),
    ((2, 3), (4, 5, 3), False, True),
    ((3, 2), (3,), True, False),
    ((3,), (2, 3), False, True),
    ((3,), (3,), True, True),
]
for left, right, first, second in TRANSPOSED:
    family.call("nd.dot", normal(*left), normal(*right), transpose_a=first, transpose_b=second)
for dtype in ("float64", "float16"):
    family.call("nd.dot", normal(2, 3, dtype=dtype), normal(3, 4, dtype=dtype))
    family.call("nd.batch_dot", normal(2, 2, 3, dtype=dtype), normal(2, 3, 4, dtype=dtype))
for dtype in ("int32", "int64", "uint8"):
    family.call("nd.dot", integers(2, 3, dtype=dtype), integers(3, 4, dtype=dtype))
family.call("nd.dot", normal(2, 3), normal(3, 4, dtype="float64"))
family.call("nd.dot", normal(17, 40), normal(40, 9))
family.call("nd.dot", normal(33, 1), normal(1, 7))
family.call("nd.dot", values([[float("inf"), 1.0]]), values([[0.0], [1.0]]), tag="special")
family.expression("nd.dot(x)", normal(2, 3))
family.expression("nd.dot(x, x.T)", normal(2, 3))
family.expression("nd.dot(nd.dot(x, y), z) + z.sum()", normal(2, 3), normal(3, 2), normal(2, 2))

for first in (False, True):
    for second in (False, True):
        left = (2, 4, 3) if first else (2, 3, 4)
        right = (2, 5, 4) if second else (2, 4, 5)
        family.call("nd.batch_dot", normal(*left), normal(*right), transpose_a=first, transpose_b=second)
family.call("nd.batch_dot", normal(2, 3, 4), normal(3, 4, 5))
family.call("nd.batch_dot", normal(2, 3, 4), normal(2, 3, 5))
family.call("nd.batch_dot", normal(2, 3), normal(3, 2))

for data, hidden, flatten in (((2, 3), 4, True), ((2, 3, 2), 4, True), ((2, 3, 2), 4, False), ((1, 5), 1, True)):
    width = data[-1]
    if flatten:
        width = data[1] * (data[2] if len(data) > 2 else 1)
    weight = normal(hidden, width)
    family.call("nd.FullyConnected", normal(*data), weight, normal(hidden), num_hidden=hidden, flatten=flatten)
    family.call("nd.FullyConnected", normal(*data), weight, num_hidden=hidden, no_bias=True, flatten=flatten)
for dtype in ("float64", "float16"):
    operands = normal(2, 3, dtype=dtype), normal(4, 3, dtype=dtype), normal(4, dtype=dtype)
    family.call("nd.FullyConnected", *operands, num_hidden=4)
family.call("nd.FullyConnected", normal(3), normal(4, 3), normal(4), num_hidden=4, flatten=False)
family.call("nd.FullyConnected", normal(3), normal(4, 1), normal(4), num_hidden=4)
family.call("nd.FullyConnected", normal(2, 3), normal(4, 2), normal(4), num_hidden=4)
family.call("nd.FullyConnected", normal(2, 3), normal(4, 3), normal(3), num_hidden=4)
family.call("nd.FullyConnected", normal(2, 3), normal(4, 3), normal(4))
family.call("nd.FullyConnected", normal(2, 3), normal(4, 3), num_hidden=4)

family.call("nd.khatri_rao", normal(2, 3), normal(4, 3), grad=False)
family.call("nd.khatri_rao", normal(2, 3), normal(4, 3), normal(2, 3), grad=False)
family.call("nd.khatri_rao", normal(2, 3), normal(4, 3), tag="differentiated")
