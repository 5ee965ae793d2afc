"""Cases of methods, properties and Python protocols of NDArray."""

from __future__ import annotations

from ..case import Family, counting, distinct, integers, normal, uniform, values

family = Family("ndarray_methods")

UNARY = {
    "abs": (-3, 3),
    "arccos": (-0.9, 0.9),
    "arccosh": (1.1, 5),
    "arcsin": (-0.9, 0.9),
    "arcsinh": (-3, 3),
    "arctan": (-3, 3),
    "arctanh": (-0.9, 0.9),
    "cbrt": (0.1, 9),
    "ceil": (-3, 3),
    "cos": (-3, 3),
    "cosh": (-3, 3),
    "degrees": (-3, 3),
    "exp": (-3, 3),
    "expm1": (-2, 2),
    "fix": (-3, 3),
    "floor": (-3, 3),
    "log": (0.1, 9),
    "log10": (0.1, 9),
    "log1p": (-0.5, 5),
    "log2": (0.1, 9),
    "radians": (-99, 99),
    "rcbrt": (0.1, 9),
    "reciprocal": (0.2, 3),
    "relu": (-3, 3),
    "rint": (-3, 3),
    "round": (-3, 3),
    "rsqrt": (0.1, 9),
    "sigmoid": (-5, 5),
    "sign": (-3, 3),
    "sin": (-3, 3),
    "sinh": (-3, 3),
    "sqrt": (0.1, 9),
    "square": (-3, 3),
    "tan": (-1.3, 1.3),
    "tanh": (-3, 3),
    "trunc": (-3, 3),
    "zeros_like": (-3, 3),
    "ones_like": (-3, 3),
    "copy": (-3, 3),
}
for method, (low, high) in UNARY.items():
    family.call(f"method:{method}", uniform(2, 3, low=low, high=high))
family.call("method:clip", normal(2, 3), a_min=-0.5, a_max=0.5)
family.call("method:clip", normal(2, 3), arguments=(-0.5, 0.5))

ANYTHING = normal(2, 3)
EXPRESSIONS = [
    "x.shape",
    "x.size",
    "x.ndim",
    "x.dtype",
    "x.stype",
    "x.context == mx.cpu()",
    "x.ctx == mx.cpu(0)",
    "str(x.context)",
    "len(x)",
    "x.asnumpy()",
    "x.asnumpy().flags.c_contiguous",
    "x.grad",
    "x.wait_to_read()",
    "x.asscalar()",
    "x.as_in_context(mx.cpu())",
    "x.as_in_context(mx.cpu(1))",
    "x.as_in_context(mx.cpu()) is x",
    "x.copyto(mx.cpu(1))",
    "x.detach()",
    "x.tostype('default')",
    "x.copy() is x",
    "x[:] is x",
    "x.astype('float32') is x",
    "x.astype('float32', copy=False) is x",
    "x.dtype == np.float32",
    "x.dtype == 'float32'",
    "isinstance(hash(x), int)",
    "x.writable",
    "x.foo",
    "float(x)",
    "int(x)",
    "np.asarray(x.asnumpy()).shape",
    "x.T.shape",
    "x.item()",
    "x.tolist()",
]
for code in EXPRESSIONS:
    family.expression(code, ANYTHING, grad=False)
for code in ("x.asscalar()", "bool(x)", "x.asscalar().dtype.name", "float(x)", "int(x)", "x.item()"):
    family.expression(code, values([2.5]), grad=False)
    family.expression(code, values([3], "int32"), grad=False)
    family.expression(code, values([[2.5]]), grad=False)
family.expression("[float(v.asscalar()) for v in x]", counting(4), grad=False)
family.expression("[v.shape for v in x]", counting(2, 3), grad=False)
family.expression("sum(x)", counting(4), grad=False)
family.expression("max(x)", distinct(4), grad=False)
family.expression("sorted(x)[0]", distinct(4), grad=False)
for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"):
    family.expression("x.dtype", values([[0, 1]], dtype), grad=False)
    family.expression("repr(x)", values([[0, 1]], dtype), grad=False)
    family.call("method:astype", values([[0.0, 1.7, -2.3]]), dtype=dtype) if dtype != "uint8" else None
    family.call("method:astype", values([[0, 1]], dtype), dtype="float32", grad=False)
family.call("method:astype", normal(2, 3), arguments=("float64",))
family.expression("x.astype(np.float16)", normal(2, 3))
family.expression("x.astype(np.dtype('int32'))", normal(2, 3, scale=3))
family.expression("x.astype('zzz')", normal(2, 3))
for code in ("repr(x)", "str(x)"):
    family.expression(code, values([1.0, 2.5, -3.0]), grad=False)
    family.expression(code, values([[1.0, 2.0], [3.0, 4.0]]), grad=False)
    family.expression(code, values([[[1, 2]]], "int32"), grad=False)

family.statement("x.copyto(y)", normal(2, 3), normal(2, 3))
family.statement("result = x.copyto(y) is y", normal(2, 3), normal(2, 3))
family.statement("x.copyto(y)", normal(2, 3), normal(2, 3, dtype="float64"))
family.statement("x.copyto(y)", normal(2, 3, scale=3), counting(2, 3, dtype="int32"))
family.statement("x.copyto(y)", normal(2, 3), normal(3, 2))
family.statement("x.copyto(3)", normal(2, 3))
family.expression("x.copyto(mx.cpu()) * 2", normal(2, 3))
family.expression("x.copy() * 3", normal(2, 3))
family.expression("x.detach() * x", normal(2, 3))
family.expression("x.as_in_context(mx.cpu(1)) * 2", normal(2, 3))
family.statement("import copy; v = copy.deepcopy(x); v[:] = 1; result = v", normal(2, 3))
family.statement("import copy; v = copy.copy(x); result = v", normal(2, 3))
family.statement("import pickle; result = pickle.loads(pickle.dumps(x))", normal(2, 3))
family.statement("import pickle; result = pickle.loads(pickle.dumps(x))", integers(2, 3, dtype="int32"))
family.statement("x.attach_grad(); result = x.grad", normal(2, 3))
family.statement("x.attach_grad(); result = x.grad", integers(2, 3, dtype="int32"))
family.statement("x.attach_grad('zzz')", normal(2, 3))
family.statement("x.foo = 1", normal(2, 3))
family.statement("x.shape = (3, 2)", normal(2, 3))

# Every gradient request, several uses, several heads.
RECORD = "with mx.autograd.record():\n"
for request in ("write", "add", "null"):
    family.statement(
        f"x.attach_grad('{request}')\n"
        "for _ in range(2):\n"
        "    y.attach_grad()\n"
        "    with mx.autograd.record():\n        v = (x * y).sum()\n"
        "    v.backward()\n"
        "result = [x.grad, y.grad]",
        normal(3),
        normal(3),
        tolerance="sum",
    )
family.statement(
    "x.attach_grad()\n" + RECORD + "    v = x * x\nv.backward(nd.array([1, 2, 3]))\nresult = x.grad", normal(3)
)
family.statement(
    "x.attach_grad()\n" + RECORD + "    v = x * 2\n    u = x * x\nmx.autograd.backward([v, u])\nresult = x.grad",
    normal(3),
)
family.statement(
    "x.attach_grad()\n" + RECORD + "    v = x * x\nv.backward(retain_graph=True)\nv.backward()\nresult = x.grad",
    normal(3),
)
family.statement("x.attach_grad()\n" + RECORD + "    v = x * x\nv.backward()\nv.backward()", normal(3))
family.statement("v = x * 2\nv.backward()", normal(3))
family.statement("x.attach_grad()\n" + RECORD + "    v = nd.sin(x)\nresult = mx.autograd.grad(v, x)", normal(3))
family.statement(
    "x.attach_grad()\n"
    + RECORD
    + "    v = nd.sin(x)\n    u = mx.autograd.grad(v, x, create_graph=True, retain_graph=True)[0]\n"
    + "u.backward()\nresult = x.grad",
    normal(3),
)
family.statement("x.attach_grad()\n" + RECORD + "    v = x * 2\n    x += 1", normal(3), tag="in place")

CUSTOM = """
class Cube(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] ** 3 * self.scale)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 3 * in_data[0] ** 2 * self.scale)


@mx.operator.register("recorded_cube")
class CubeProperties(mx.operator.CustomOpProp):
    def __init__(self, scale="1"):
        super().__init__(need_top_grad=True)
        self.scale = float(scale)

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        operator = Cube()
        operator.scale = self.scale
        return operator


x.attach_grad()
with mx.autograd.record():
    v = nd.Custom(x, op_type="recorded_cube", scale=2) * 3
v.backward()
result = [v, x.grad]
"""
family.statement(CUSTOM, normal(3), name="a custom operator")
