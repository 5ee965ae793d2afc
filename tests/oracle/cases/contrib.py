"""Cases of the contrib namespace: attention, masks, resizing, loops and small helpers."""

from __future__ import annotations

from ..case import Family, integers, normal, values

family = Family("contrib")

SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, 1.0, -1.0]

# Length 4, batch 2, 3 heads of width 2; queries, keys and values are interleaved per head.
PROJECTED, ATTENTION = normal(4, 2, 18), normal(6, 4, 4)
QUERIES, MEMORY, CROSSED = normal(4, 2, 6), normal(5, 2, 12), normal(6, 4, 5)
for function, operands in (
    ("selfatt_qk", (PROJECTED,)),
    ("selfatt_valatt", (PROJECTED, ATTENTION)),
    ("encdec_qk", (QUERIES, MEMORY)),
    ("encdec_valatt", (MEMORY, CROSSED)),
):
    family.call(f"nd.contrib.interleaved_matmul_{function}", *operands, heads=3, tolerance="product")
for heads in (1, 2):
    family.call("nd.contrib.interleaved_matmul_selfatt_qk", normal(3, 1, 12), heads=heads, tolerance="product")
    family.call(
        "nd.contrib.interleaved_matmul_selfatt_valatt",
        normal(3, 1, 12),
        normal(heads, 3, 3),
        heads=heads,
        tolerance="product",
    )
family.call("nd.contrib.interleaved_matmul_selfatt_qk", normal(3, 1, 10), heads=1)
family.call("nd.contrib.interleaved_matmul_selfatt_qk", normal(3, 6), heads=1)

for shape in ((3, 4), (2, 3, 5), (7,)):
    family.call("nd.contrib.div_sqrt_dim", normal(*shape))
family.call("nd.contrib.div_sqrt_dim", normal(3, 4, dtype="float64"))

for function in ("isnan", "isinf", "isfinite"):
    family.call(f"nd.contrib.{function}", values(SPECIAL), grad=False)
    family.call(f"nd.contrib.{function}", values(SPECIAL, "float64"), grad=False)
    family.call(f"nd.contrib.{function}", values([1, 2], "int32"), grad=False)

family.call("nd.contrib.arange_like", normal(2, 3))
for axis in (0, 1, -1):
    family.call("nd.contrib.arange_like", normal(2, 3), axis=axis)
family.call("nd.contrib.arange_like", normal(2, 3), start=2.0, step=0.5)
family.call("nd.contrib.arange_like", normal(2, 3), axis=1, start=-1.0, step=2.0)
family.call("nd.contrib.arange_like", normal(2, 6), repeat=2)
family.call("nd.contrib.arange_like", normal(2, 6), axis=1, repeat=3)
family.call("nd.contrib.arange_like", normal(2, 3, dtype="float64"))
family.call("nd.contrib.arange_like", integers(2, 3, dtype="int32"))
family.call("nd.contrib.index_array", normal(2, 3))
family.call("nd.contrib.index_array", normal(2, 3, 2), axes=(1, 0))

for mask in ([1.0, 0, 1, 1], [0.0, 0, 1, 0], [1.0, 1, 1, 1], [2.0, -1, 0, 0.5]):
    family.call(
        "nd.contrib.boolean_mask", normal(4, 2), values(mask), tag="".join(f"{m:g}" for m in mask), tolerance="exact"
    )
family.call("nd.contrib.boolean_mask", normal(4), values([1, 0, 1, 0], "int32"), tolerance="exact")
family.call(
    "nd.contrib.boolean_mask", normal(4, 2, 2, dtype="float64"), values([1, 0, 1, 0], "uint8"), tolerance="exact"
)
family.call("nd.contrib.boolean_mask", integers(4, 2, dtype="int32"), values([1.0, 0, 1, 0]), tolerance="exact")
family.call("nd.contrib.boolean_mask", normal(4, 2), values([0.0, 0, 0, 0]), tag="none")
family.call("nd.contrib.boolean_mask", normal(4, 2), values([1.0, 0, 1]))

family.call("nd.contrib.index_copy", normal(4, 3), values([2, 0], "int32"), normal(2, 3), tolerance="exact")
family.call("nd.contrib.index_copy", normal(4, 3), values([2, 0], "int64"), normal(2, 3), tolerance="exact")
family.call("nd.contrib.index_copy", normal(4), values([3], "int32"), normal(1), tolerance="exact")
family.call("nd.contrib.index_copy", normal(4, 2, 2), values([1], "int32"), normal(1, 2, 2), tolerance="exact")

for height, width in ((4, 6), (2, 2), (7, 3), (1, 1), (3, 4)):
    for aligned in (True, False):
        options = {"height": height, "width": width, "align_corners": aligned}
        family.call("nd.contrib.BilinearResize2D", normal(1, 2, 3, 4), tolerance="sum", **options)
family.call("nd.contrib.BilinearResize2D", normal(1, 2, 3, 4), height=5, width=5, tolerance="sum")
family.call("nd.contrib.BilinearResize2D", normal(1, 2, 3, 4, dtype="float64"), height=5, width=5, tolerance="sum")
family.call("nd.contrib.BilinearResize2D", normal(1, 2, 3, 4), scale_height=2.0, scale_width=1.5, tolerance="sum")
for mode in ("odd_scale", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
    options = {"scale_height": 2.0, "scale_width": 2.0} if mode == "odd_scale" else {}
    family.call("nd.contrib.BilinearResize2D", normal(1, 1, 3, 4), mode=mode, tolerance="sum", **options)
family.call("nd.contrib.BilinearResize2D", normal(1, 1, 3, 4), normal(1, 1, 5, 6), mode="like", tolerance="sum")

for function in ("round_ste", "sign_ste"):
    family.call(f"nd.contrib.{function}", normal(3, 4, scale=2), tolerance="exact")
family.call("nd.contrib.gradientmultiplier", normal(2, 3), scalar=-0.5)
family.call("nd.contrib.quadratic", normal(2, 3), a=1.0, b=2.0, c=3.0)
family.call("nd.contrib.allclose", values([1.0, 2.0]), values([1.0, 2.000001]), grad=False)
family.call("nd.contrib.allclose", values([1.0, 2.0]), values([1.0, 2.1]), grad=False, tag="far")

family.expression("nd.contrib.foreach(lambda d, s: (d + s, d * s), x, y)", normal(3, 2), normal(2))
family.expression(
    "nd.contrib.foreach(lambda d, s: ([d[0] * s[0], d[1] + s[1]], [s[0] + d[0], s[1]]), [x, y], [z, w])",
    normal(3, 2),
    normal(3, 2),
    normal(2),
    normal(2),
)
family.expression("nd.contrib.foreach(lambda d, s: (s, s * 2), x, [])", normal(3, 2))
family.expression(
    "nd.contrib.while_loop(lambda i, s: i < 3, lambda i, s: (s * i, [i + 1, s + x]), [y, z], max_iterations=3)",
    normal(2),
    values([0.0]),
    normal(2),
)
family.expression(
    "nd.contrib.while_loop(lambda i: i < 0, lambda i: (i, i + 1), [x], max_iterations=3)", values([0.0]), tag="none"
)
family.expression("nd.contrib.while_loop(lambda i: i < 3, lambda i: (i, i + 1), [x])", values([0.0]))
for condition in ("<", ">"):
    family.expression(f"nd.contrib.cond(x.sum() {condition} 1e9, lambda: x * y, lambda: x - y)", normal(2), normal(2))
