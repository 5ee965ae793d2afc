"""Cases of softmax, log_softmax, softmin and SoftmaxActivation."""

from __future__ import annotations

from ..case import Family, integers, normal, values

family = Family("softmax", tolerance="sum")

INFINITY, NOT_A_NUMBER = float("inf"), float("nan")
EXTREME = [[1000.0, 0.0, -1000.0], [100.0, 100.0, 100.0], [-1e30, 0.0, 1e30], [0.0, -0.0, 1e-30]]
BROKEN = [[INFINITY, 1.0, 2.0], [-INFINITY, 1.0, 2.0], [NOT_A_NUMBER, 1.0, 2.0]]
MASKED = [[-INFINITY, -INFINITY, -INFINITY], [0.0, -INFINITY, 1.0]]

for operator in ("softmax", "log_softmax", "softmin"):
    name = f"nd.{operator}"
    family.tolerance = "logarithm" if operator == "log_softmax" else "sum"
    for axis in (-1, 0, 1, 2, -3):
        family.call(name, normal(2, 3, 4), axis=axis)
    for temperature in (0.5, 1.0, 3.0):
        family.call(name, normal(2, 3), temperature=temperature)
        family.call(name, normal(2, 3), axis=0, temperature=temperature)
    family.call(name, normal(2, 3))
    family.call(name, normal(5))
    family.call(name, normal(2, 1))
    family.call(name, normal(2, 3, 2, 2), axis=1)
    for dtype in ("float64", "float16"):
        family.call(name, normal(2, 3, dtype=dtype))
        family.call(name, normal(2, 3, dtype=dtype), axis=0)
    family.call(name, values(EXTREME), tag="extreme")
    family.call(name, values(EXTREME, "float64"), tag="extreme")
    family.call(name, values(BROKEN), tag="broken")
    family.call(name, values(MASKED), tag="masked")
    family.call(name, normal(2, 3, dtype="float16"), dtype="float32", tolerance="coarse")
    family.call(name, normal(2, 3), dtype="float64", tolerance="coarse")
    family.call(name, integers(2, 3, dtype="int32"))
    family.call(name, normal(2, 3), axis=2)
    family.call(f"method:{operator}", normal(2, 3))
    family.call(f"method:{operator}", normal(2, 3), axis=0)
    family.call(name, normal(3, 70), tag="long")

family.tolerance = "sum"
for dtype in ("int32", "int64"):
    family.call("nd.softmax", normal(3, 4), values([1, 4, 2], dtype), use_length=True)
    family.call("nd.softmax", normal(2, 3, 4), values([[1, 2, 4], [3, 4, 1]], dtype), use_length=True, axis=-1)
    family.call("nd.softmax", normal(2, 3, 4), values([[1, 2, 3, 3], [3, 1, 2, 1]], dtype), use_length=True, axis=1)
family.call("nd.softmax", normal(3, 4), values([0, 4, 2], "int32"), use_length=True, tag="empty")
family.call("nd.softmax", normal(3, 4), values([1.0, 4, 2]), use_length=True)

family.call("nd.SoftmaxActivation", normal(2, 3))
family.call("nd.SoftmaxActivation", normal(2, 3, 4))
family.call("nd.SoftmaxActivation", normal(2, 3, 4), mode="channel")
family.call("nd.SoftmaxActivation", normal(2, 3, 2, 2), mode="channel")
family.expression("nd.log(nd.softmax(x))", normal(2, 3))
family.expression("-nd.pick(nd.log_softmax(x), y)", normal(3, 4), values([0, 3, 1]))
