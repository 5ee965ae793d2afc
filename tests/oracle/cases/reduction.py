"""Cases of reductions, norms, arg-reductions and running sums."""

from __future__ import annotations

from ..case import Family, distinct, integers, normal, uniform, values

family = Family("reduction", tolerance="sum")

AXES = [None, 0, 1, 2, -1, (), (0,), (0, 2), (1, -1), (2, 0), (0, 1, 2)]
NAN = float("nan")
HOLES = [[1.0, NAN, 3.0], [NAN, NAN, NAN], [2.0, -1.0, 0.5]]

for operator in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min"):
    name = f"nd.{operator}"
    data = uniform if "prod" in operator else distinct
    shaped = data(2, 3, 4) if operator not in ("prod", "nanprod") else uniform(2, 3, 4, low=0.5, high=1.5)
    for axis in AXES:
        family.call(name, shaped, axis=axis)
    for axis in (None, 1, (0, 2), -1):
        family.call(name, shaped, axis=axis, keepdims=True)
    for axis in (1, (0, 2), -1, ()):
        family.call(name, shaped, axis=axis, exclude=True)
    family.call(name, shaped, axis=(0, 1), exclude=True, keepdims=True)
    family.call(name, shaped)
    family.call(name, shaped, axis=3)
    family.call(name, shaped, axis=(0, 0))
    for dtype in ("float64", "float16"):
        family.call(name, uniform(3, 4, dtype=dtype, low=0.5, high=1.5))
        family.call(name, uniform(3, 4, dtype=dtype, low=0.5, high=1.5), axis=1)
    for dtype in ("int32", "int64", "uint8", "int8"):
        family.call(name, integers(2, 3, dtype=dtype, low=1, high=4), axis=0)
        family.call(name, integers(2, 3, dtype=dtype, low=1, high=4))
    family.call(name, values(HOLES), axis=1, tag="nan")
    family.call(name, values(HOLES), tag="nan")
    family.call(name, values([[float("inf"), 1.0], [float("-inf"), float("inf")]]), axis=1, tag="inf")
    family.call(name, normal(1, 1))
    family.call(name, values([1, 0, 1], "bool"), tag="bool")
    family.expression(f"x.{operator}()", shaped)
    family.expression(f"x.{operator}(axis=(0, 2), keepdims=True)", shaped)
    family.expression(f"nd.{operator}(x, 1)", shaped)

for name in ("sum_axis", "max_axis", "min_axis"):
    family.call(f"nd.{name}", distinct(2, 3, 4), axis=1)
    family.call(f"nd.{name}", distinct(2, 3, 4), axis=(0, 2), keepdims=True)
for name in ("max", "min"):
    family.call(f"nd.{name}", values([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), axis=1, tag="ties")
    family.call(f"nd.{name}", values([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), tag="ties")
family.call("nd.prod", values([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]), axis=1, tag="zeros")
family.call("nd.nanprod", values([[1.0, 0.0, 2.0], [NAN, 4.0, 3.0]]), axis=1, tag="zeros")
family.call("nd.sum", normal(40, 50))
family.call("nd.sum", normal(40, 50), axis=1)
family.call("nd.mean", normal(40, 50), axis=0)
family.call("nd.sum", values([True, True, False], "bool"))
family.expression("nd.sum(x * x, axis=1) / nd.max(x)", normal(3, 4))
family.expression("(x - x.mean(axis=0)) ** 2", normal(3, 4))

for order in (1, 2):
    for axis in (None, 0, 1, -1, (0, 1), (1, 2), (0, 2)):
        for keepdims in (False, True):
            family.call("nd.norm", normal(2, 3, 4), ord=order, axis=axis, keepdims=keepdims)
    family.call("nd.norm", normal(5, dtype="float64"), ord=order)
    family.call("nd.norm", normal(5, dtype="float16"), ord=order)
    family.call("nd.norm", values([[0.0, 0.0], [3.0, -4.0]]), ord=order, axis=1, tag="zeros")
    family.call("nd.norm", values([[0.0, 0.0], [0.0, 0.0]]), ord=order, tag="zeros")
family.call("nd.norm", normal(3, 4))
family.call("nd.norm", normal(3, 4), ord=3)
family.call("nd.norm", normal(3, 4), out_dtype="float64")
family.call("nd.norm", normal(3, 4, dtype="float16"), out_dtype="float32")
family.call("nd.norm", integers(3, 4, dtype="int32"))
family.call("nd.norm", normal(2, 2, 2, 2), axis=(0, 1, 2))
family.call("method:norm", normal(3, 4))
family.call("method:norm", normal(3, 4), axis=1)

for operator in ("argmax", "argmin"):
    for axis in (None, 0, 1, -1, -3):
        family.call(f"nd.{operator}", distinct(2, 3, 4), axis=axis, tolerance="exact")
        family.call(f"nd.{operator}", distinct(2, 3, 4), axis=axis, keepdims=True, tolerance="exact")
    family.call(f"nd.{operator}", distinct(2, 3), tolerance="exact")
    family.call(f"nd.{operator}", distinct(2, 3), axis=2, tolerance="exact")
    family.call(f"nd.{operator}", values([[1.0, 3, 3], [2, 2, 2], [1, 0, 0]]), axis=1, tag="ties")
    family.call(f"nd.{operator}", values(HOLES), axis=1, tag="nan", tolerance="exact")
    for dtype in ("float64", "float16", "int32", "int64", "uint8"):
        family.call(f"nd.{operator}", integers(3, 4, dtype=dtype), axis=1, tolerance="exact")
    family.call(f"method:{operator}", distinct(2, 3), axis=1, tolerance="exact")
family.call("nd.argmax_channel", distinct(2, 3), tolerance="exact")
family.call("nd.argmax_channel", distinct(2, 3), grad=False, tag="value", tolerance="exact")
family.call("nd.argmax_channel", distinct(2, 3, 4), grad=False, tag="value", tolerance="exact")
family.call("method:argmax_channel", distinct(4, 3), grad=False, tolerance="exact")

for axis in (None, 0, 1, 2, -1):
    family.call("nd.cumsum", normal(2, 3, 4), axis=axis)
family.call("nd.cumsum", normal(2, 3))
family.call("nd.cumsum", normal(5, dtype="float64"), axis=0)
family.call("nd.cumsum", normal(5, dtype="float16"), axis=0)
family.call("nd.cumsum", normal(5), axis=0, dtype="float64")
family.call("nd.cumsum", integers(2, 3, dtype="int32"), axis=1)
family.call("nd.cumsum", integers(2, 3, dtype="int32"), axis=1, dtype="int64")
family.call("nd.cumsum", normal(2, 3), axis=2)

for axes in (None, (0,), (1,), (0, 2), (-1,)):
    family.call("nd.moments", normal(2, 3, 4), axes=axes)
    family.call("nd.moments", normal(2, 3, 4), axes=axes, keepdims=True)
family.call("nd.moments", normal(2, 3, dtype="float64"), axes=(1,))

for count in (1, 2, 3):
    arrays = [normal(2, 3), normal(4), normal(2, 2, 2)][:count]
    family.call("nd.multi_sum_sq", *arrays, num_arrays=count, grad=False)
family.call("nd.multi_sum_sq", normal(2, 3), num_arrays=1, tag="differentiated")
family.call("nd.multi_sum_sq", *[normal(3, dtype="float64")] * 2, num_arrays=2, grad=False)
family.call("nd.multi_sum_sq", *[normal(3, dtype="float16")] * 2, num_arrays=2, grad=False, tolerance="coarse")
family.call("nd.all_finite", normal(2, 3), grad=False)
family.call("nd.all_finite", values([1.0, NAN]), grad=False)
family.call("nd.multi_all_finite", normal(2), values([1.0, NAN]), num_arrays=2, grad=False)
family.call("nd.multi_all_finite", normal(2), normal(3), num_arrays=2, grad=False)
