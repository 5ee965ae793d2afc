"""Cases of reading and writing by index, and of operators that select by position or condition."""

from __future__ import annotations

from ..case import Family, Spec, counting, distinct, integers, normal, values

family = Family("indexing", tolerance="exact")

CUBE = normal(3, 4, 5)
KEYS = [
    "0",
    "-1",
    "1:3",
    "0:1",
    ":2",
    "2:",
    "-2:",
    ":-1",
    "::2",
    "::-1",
    "2:0:-1",
    "-1:-4:-2",
    ":",
    "...",
    "()",
    "None",
    "True",
    "np.int64(1)",
    "0, 1",
    "0, 1, 2",
    "-1, -1, -1",
    "0, 1:3",
    "0, 1:3, 2",
    "0, :, 2",
    ":, 0",
    ":, -1, 1:4",
    "1:3, 1:3",
    "1:3, ::2",
    "::2, ::-1, 1",
    "..., 0",
    "..., 1:3",
    "0, ...",
    "0, ..., 1",
    "1:2, ..., ::2",
    "None, 0",
    "0, None",
    ":, None, 1:3",
    "..., None",
    "None, ..., None, 2",
    "[0, 2]",
    "[0, 0, 2]",
    "[[0, 1], [2, 0]]",
    "[0, 2], [1, 3]",
    "[0, 2], [1, 3], [4, 0]",
    "[0, 2], 1",
    "1, [0, 2]",
    "[0, 2], :, [1, 3]",
    "[0, 2], 1:3",
    ":, [0, 2]",
    ":, [0, 2], [1, 3]",
    "1:3, [0, 2]",
    "..., [0, 2]",
    "[0, 2], ..., 1",
    "[[0], [2]], [1, 3]",
    "None, [0, 2]",
    "[0, 1], None, [0, 2]",
    "np.array([0, 2])",
    "np.array([[0, 2], [1, 1]])",
    "np.array([0.7, 1.9])",
    "range(2)",
    "nd.array([0, 2])",
    "nd.array([0, 2], dtype='int32')",
    "nd.array([0, 2]), nd.array([1, 3])",
    "nd.array([0.7, 1.9])",
    "(0, 2), 1",
    "[True, False, True]",
    "np.array([True, False, True])",
    "[]",
    "5:9",
    "2:1",
    "3",
    "-4",
    "0, 4",
    "0, 0, 0, 0",
    "1.5",
    "'a'",
    "::0",
    "..., ...",
    "nd.array([True, False, True], dtype='bool')",
    "1:2.5",
]
for key in KEYS:
    family.expression(f"x[{key}]", CUBE, tolerance="sum")
for key in ("0", "1:3", "::2", ":, 1", "[0, 2]", "[1, 0], [0, 1]"):
    family.expression(f"x[{key}]", counting(3, 4, dtype="int32"))
    family.expression(f"x[{key}]", normal(3, 4, dtype="float64"), tolerance="sum")
    family.expression(f"x[{key}]", normal(3, 4, dtype="float16"))
    family.expression(f"x[{key}]", integers(3, 4, dtype="uint8"))
    family.expression(f"x[{key}]", integers(3, 4, dtype="int64"))
for key in ("0", "-1", "1:3", "::2", "::-1", "[2, 0]", "None", "4", "3:3"):
    family.expression(f"x[{key}]", normal(4))
family.expression("x[[-1, 1]]", normal(3, 4), grad=False)
family.expression("x[[0, 3]]", normal(3, 4))
family.expression("x[[-1, 1], [0, -2]]", normal(3, 4), grad=False)
family.expression("x[y]", normal(4, 3), values([3, 0, 0], "int32"), tolerance="sum")
family.expression("x[y]", normal(4, 3), values([3.0, 0, 0]), tolerance="sum")
family.expression("x[y, z]", normal(4, 3), values([3, 0], "int64"), values([1, 2], "int64"))
family.expression("x[0] * x[1] + x[2:4].sum()", normal(4, 3), tolerance="sum")
family.expression("[row for row in x]", normal(3, 2))
family.expression("[item for item in x]", normal(3))

VALUES = {
    "scalar": "7",
    "fraction": "2.5",
    "flag": "True",
    "numpy scalar": "np.float32(1.5)",
}
for key in KEYS:
    family.statement(f"x[{key}] = 7", CUBE)
for key in KEYS[:65]:
    family.statement(f"x[{key}] = nd.arange(x[{key}].size).reshape(x[{key}].shape)", CUBE)
for key in ("1", "1:3", "::2", ":, 1", "1:3, ::2", "[0, 2]", "[0, 2], [1, 3]", ":"):
    for value in VALUES.values():
        family.statement(f"x[{key}] = {value}", normal(3, 4))
        family.statement(f"x[{key}] = {value}", counting(3, 4, dtype="int32"))
    family.statement(f"x[{key}] = y", normal(3, 4), normal(1))
    family.statement(f"x[{key}] = y", normal(3, 4), normal(1, 1))
    family.statement(f"x[{key}] = y", normal(3, 4), counting(1, dtype="int32", start=3))
    family.statement(f"x[{key}] = np.full((1,), 3.5)", normal(3, 4))
    family.statement(f"x[{key}] = [3]", normal(3, 4))
    family.statement(f"x[{key}] = y", normal(3, 4), normal(7, 5))
    family.statement(f"x[{key}] = 'a'", normal(3, 4))
    family.statement(f"x[{key}] = None", normal(3, 4))
    family.statement(f"x[{key}] = x[{key}] * 2 + 1", normal(3, 4), tolerance="elementwise")
family.statement("x[:] = y", normal(3, 4), normal(4))
family.statement("x[:] = y", normal(3, 4), normal(1, 3, 4))
family.statement("x[:] = y", normal(3, 4), normal(3, 4, dtype="float64"))
family.statement("x[:] = y", counting(3, 4, dtype="int32"), normal(3, 4, scale=3))
family.statement("x[:] = np.arange(12).reshape(3, 4)", normal(3, 4))
family.statement("x[:] = [[1, 2], [3, 4]]", normal(2, 2))
family.statement("x[1:3] = y", normal(4, 2), normal(2, 2))
family.statement("x[1:3] = [[1, 2], [3, 4]]", normal(4, 2))
family.statement("x[:, 1] = y", normal(4, 2), normal(4))
family.statement("x[:, 1:2] = y", normal(4, 2), normal(4, 1))
family.statement("x[[0, 0, 1]] = y", normal(3, 2), normal(3, 2))
family.statement("x[y] = 5", normal(4, 2), values([0, 3], "int32"))
family.statement("x[y, z] = w", normal(4, 3), values([0, 3]), values([2, 1]), normal(2))
family.statement("x[0][1] = 5", normal(3, 4))
family.statement("x[:] = 16800001", values([0, 1], "int32"))
family.statement("x[:] = 9007199254740993", values([0, 1], "int64"))
family.statement("x[0] = 9007199254740993", values([0, 1], "int64"))
family.statement("x[:] = 3", values([0, 1], "uint8"))
family.statement("x[:] = True", values([0, 1, 0], "bool"))
for view in ("x[1:3]", "x[1]", "x[1:]", "x[0:4]", "x.reshape((2, 6))", "x.detach()", "x[2, 1:3]"):
    family.statement(f"v = {view}; v[:] = 9", normal(4, 3))
    family.statement(f"v = {view}; v += 1", normal(4, 3))
    family.statement(f"v = {view}; x[:] = 5; result = v", normal(4, 3))
for copy in ("x[::2]", "x[:, 1]", "x[[0, 1]]", "x.copy()", "x.T", "x.astype('float32')", "x.flatten()"):
    family.statement(f"v = {copy}; v[:] = 9", normal(4, 3))
    family.statement(f"v = {copy}; x[:] = 5; result = v", normal(4, 3))
for again in ("expand_dims(0)", "squeeze()", "flatten()"):
    family.statement(f"v = x.{again}; v[:] = 9", normal(4, 1))
family.statement("v = x[1:3]; w = v[1:]; w[:] = 4; result = v", normal(4, 3))
family.statement("v = x[:]; v[:] = 4", normal(4, 3))

for begin, end in ((0, 2), (1, None), (-2, None), (0, -1), (2, 2), (1, 9), (-3, -1)):
    for axis in (0, 1, -1):
        family.call("nd.slice_axis", normal(4, 3), axis=axis, begin=begin, end=end)
family.call("method:slice_axis", normal(4, 3), axis=1, begin=0, end=2)
family.call("nd.slice_axis", counting(4, dtype="int32"), axis=0, begin=1, end=3)
family.call("nd.slice_axis", normal(4, 3), axis=2, begin=0, end=1)
SLICES: list[tuple[object, object, object]] = [
    ((0, 1), (2, 3), None),
    ((1,), (3,), None),
    ((None, 1), (None, None), None),
    ((0, 0), (4, 5), (2, 2)),
    ((3, None), (None, None), (-1, -2)),
    ((-3, -2), (-1, None), None),
    ((None, 4), (None, 0), (1, -1)),
    ((0, 0), (9, 9), None),
    ((2, 0), (2, 3), None),
    ((3, 0), (1, 2), None),
    ((0, 0, 0), (1, 1, 1), None),
    ((0,), (4,), (0,)),
]
for begins, ends, steps in SLICES:
    for call in ("nd.slice", "method:slice"):
        extra = {} if steps is None else {"step": steps}
        family.call(call, normal(4, 5), begin=begins, end=ends, **extra)
family.call("nd.crop", normal(4, 5), begin=(1, 0), end=(3, 2))
family.call("nd.slice", counting(6, dtype="int32"), begin=(1,), end=(5,), step=(2,))
for axes in ((), (0,), (1,), (-1,), (0, 1), (2,)):
    family.call("nd.slice_like", normal(4, 5), normal(2, 3), axes=axes)
family.call("nd.slice_like", normal(4, 5), normal(2, 3, 4))
family.call("nd.slice_like", normal(4, 5), normal(2, 9), axes=(0,), tag="bigger")
family.call("nd.slice_like", normal(2, 2), normal(3, 3))
family.call("method:slice_like", normal(4, 5), normal(2, 3), axes=(1,))

POSITIONS = [[0.0, 3.0, 1.0], [-1.0, 2.0, 9.0]]
for mode in ("clip", "wrap", "raise"):
    family.call("nd.take", normal(4, 3), values(POSITIONS), mode=mode, tolerance="sum")
    family.call("nd.take", normal(4, 3), values([[0, 2], [2, 1]]), axis=1, mode=mode, tolerance="sum")
    family.call("nd.take", normal(2, 4, 3), values([5, -7, 0]), axis=1, mode=mode, tolerance="sum")
for dtype in ("float64", "float16", "int32", "int64", "uint8"):
    family.call("nd.take", normal(4, 3), values([0, 3, 3], dtype), tolerance="sum")
    family.call("nd.take", integers(4, 3, dtype=dtype), values([0, 3, 3]), tolerance="sum")
family.call("nd.take", normal(4, 3), values([0, 2.7]), axis=-1, tolerance="sum")
family.call("nd.take", normal(4, 3), values([0, 2]), axis=2)
family.call("nd.take", normal(5), values([[0, 2], [4, 4]]), tolerance="sum")
family.call("method:take", normal(4, 3), values([0, 2]), axis=1, tolerance="sum")
family.call("nd.batch_take", normal(3, 4), values([0, 3, 1], "int32"))
family.call("nd.batch_take", normal(3, 4), values([0, 3, 1], "int32"), grad=False, tag="value")

for call in ("nd.pick", "nd.choose_element_0index", "method:pick"):
    family.call(call, normal(3, 4), values([0, 3, 1]))
    family.call(call, normal(3, 4), values([0, 2, 1, 1]), axis=0)
    family.call(call, normal(3, 4), values([0, 3, 1]), axis=1, keepdims=True)
    family.call(call, normal(3, 4), values([[0], [3], [1]]), axis=1, keepdims=True)
for mode in ("clip", "wrap"):
    family.call("nd.pick", normal(3, 4), values([-1, 5, 9]), mode=mode)
    family.call("nd.pick", normal(2, 3, 4), values([[-1, 5, 9, 0], [0, 1, 2, 3]]), axis=1, mode=mode)
family.call("nd.pick", normal(3, 4), values([0, 3, 1], "int32"))
family.call("nd.pick", normal(3, 4, dtype="float64"), values([0, 3, 1], "float64"))
family.call("nd.pick", integers(3, 4, dtype="int32"), values([0, 3, 1]))
family.call("nd.pick", normal(4), values([2]), axis=0)
family.call("nd.pick", normal(3, 4), values([0, 1]))
family.call("nd.fill_element_0index", normal(3, 4), normal(3), values([0, 3, 1]), grad=False)

for index in ([[0, 1, 2]], [[0, 2], [1, 3]], [[0, 0], [1, 1]], [[[0, 1]], [[1, 2]]]):
    family.call("nd.gather_nd", normal(3, 4), values(index), tag=str(index).replace(" ", ""), tolerance="sum")
family.call("nd.gather_nd", normal(3, 4), values([[-1, 0]]), grad=False, tag="negative")
family.call("nd.gather_nd", normal(2, 3, 4), values([[0, 1], [2, 0]], "int32"), tolerance="sum")
family.call("nd.gather_nd", normal(2, 3), values([[0, 1], [2, 0]], "int64"), tolerance="sum")
family.call("nd.gather_nd", integers(2, 3, dtype="int32"), values([[0, 1], [2, 0]]))
family.call("nd.gather_nd", normal(3, 4), values([[7]]))
family.call("nd.gather_nd", normal(3), values([[0], [0]]))
family.call("nd.scatter_nd", normal(2), values([[0, 2], [1, 3]]), shape=(3, 4))
family.call("nd.scatter_nd", normal(2, 4), values([[0, 2]]), shape=(3, 4))
family.call("nd.scatter_nd", normal(3), values([[0, 2, 1], [1, 3, 0]], "int32"), shape=(3, 4))
family.call("nd.scatter_nd", normal(2, dtype="float64"), values([[0, 2]], "int64"), shape=(4,))
family.call("nd.scatter_nd", integers(2, dtype="int32"), values([[0, 2]]), shape=(4,))

for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8"):
    family.call("nd.one_hot", values([0, 2, 1, 0], dtype), depth=3)
    family.call("nd.one_hot", values([0, 2, 1, 0]), depth=3, dtype=dtype)
family.call("nd.one_hot", values([[0, 2], [1, 0]]), depth=4, on_value=2.5, off_value=-1.0)
family.call("nd.one_hot", values([-1, 3, 1.7]), depth=3)
family.call("method:one_hot", values([0, 2]), depth=3)
family.call("nd.one_hot", values([0, 2]), arguments=(3,))
family.statement("nd.onehot_encode(x, y)", values([0, 2]), normal(2, 3))

for condition in ([[1.0, 0, 0], [0, 1, 2]], [[0.0, -1, 0], [float("nan"), 0, 0.5]]):
    first, second = normal(2, 3), normal(2, 3)
    family.call("nd.where", values(condition), first, second, tag=f"{condition[0][0]:g}")
family.call("nd.where", values([1.0, 0]), normal(2, 3), normal(2, 3), tag="rows")
family.call("nd.where", values([[1, 0]], "int32"), normal(1, 2), normal(1, 2))
family.call("nd.where", values([[1, 0]], "uint8"), normal(1, 2, dtype="float64"), normal(1, 2, dtype="float64"))
family.call("nd.where", values([[1.0, 0]]), integers(1, 2, dtype="int32"), integers(1, 2, dtype="int32"))
family.call("nd.where", values([1.0, 0]), normal(2, 3), normal(3))
family.call("nd.where", values([1.0, 0]), normal(2), normal(2, dtype="float64"))
family.expression("nd.where(x > 0, x, 0)", normal(2, 3))

TABLE = [[3.0, 1.0, 2.0, 1.0], [0.0, -1.0, 5.0, 0.0]]


def matrix() -> Spec:
    """Return a matrix without equal elements."""
    return distinct(3, 5)


for ascending in (True, False):
    for axis in (0, 1, -1, None):
        for call in ("nd.sort", "method:sort"):
            family.call(call, matrix(), axis=axis, is_ascend=ascending)
        for call in ("nd.argsort", "method:argsort"):
            family.call(call, matrix(), axis=axis, is_ascend=ascending)
        for kind in ("value", "indices", "mask", "both"):
            family.call("nd.topk", matrix(), axis=axis, k=2, ret_typ=kind, is_ascend=ascending)
    family.call("nd.topk", matrix(), k=5, ret_typ="both", is_ascend=ascending)
    family.call("nd.topk", matrix(), k=0, ret_typ="both", is_ascend=ascending)
    for operator in ("sort", "argsort"):
        family.call(f"nd.{operator}", values(TABLE), axis=1, is_ascend=ascending, tag="ties")
        family.call(
            f"nd.{operator}", values([3.0, float("nan"), 1.0, float("inf")]), axis=0, is_ascend=ascending, tag="nan"
        )
for operator in ("sort", "argsort", "topk"):
    family.call(f"nd.{operator}", matrix())
    family.call(f"nd.{operator}", distinct(2, 3, 4), axis=1)
    family.call(f"nd.{operator}", matrix(), axis=2)
    for dtype in ("float64", "float16", "int32", "int64", "uint8"):
        start = 0 if dtype == "uint8" else -3
        family.call(f"nd.{operator}", distinct(2, 4, dtype=dtype, low=start, step=1), axis=1)
family.call("nd.sort", matrix(), grad=False, tag="value")
family.call("nd.sort", matrix(), is_ascend=False, grad=False, tag="value")
for dtype in ("int32", "int64", "float64", "uint8", "float16"):
    family.call("nd.argsort", matrix(), dtype=dtype)
    family.call("nd.topk", matrix(), k=2, dtype=dtype)
    family.call("nd.topk", matrix(), k=2, ret_typ="both", dtype=dtype)
family.call("nd.topk", values(TABLE), k=2, ret_typ="both", tag="ties")
family.call("nd.topk", matrix(), k=9)
family.call("method:topk", matrix(), k=2)

SIZES = {"input_dim": 4, "output_dim": 2}
for dtype in ("float32", "float64", "int32", "int64", "uint8"):
    table = normal(4, 2)
    family.call("nd.Embedding", values([[0, 3], [1, 3]], dtype), table, grad=(1,), tolerance="sum", **SIZES)
family.call("nd.Embedding", values([-1, 9, 2.6]), normal(4, 2), grad=(1,), tolerance="sum", **SIZES)
for dtype in ("float64", "float16"):
    table = normal(4, 2, dtype=dtype)
    family.call("nd.Embedding", values([0, 3, 3]), table, grad=(1,), tolerance="sum", dtype=dtype, **SIZES)
family.call("nd.Embedding", values([0, 3]), normal(4, 2), input_dim=5, output_dim=2)
family.call("nd.Embedding", values([0, 3]), normal(4, 2), input_dim=4)

for dtype in ("float32", "int32", "int64", "float64"):
    family.call("nd.ravel_multi_index", values([[0, 1, 2], [3, 1, 0]], dtype), shape=(3, 4))
    family.call("nd.unravel_index", values([0, 7, 11], dtype), shape=(3, 4))
family.call("nd.ravel_multi_index", values([[0, 1], [3, 1], [1, 0]]), shape=(3, 4, 2))
family.call("nd.ravel_multi_index", values([[0, 1], [3, 1]]), shape=(-1, 4))
family.call("nd.unravel_index", values([0, 7, 3]), shape=(2, 2, 3))
family.call("nd.unravel_index", values([0, 7]), shape=(-1, 4))
