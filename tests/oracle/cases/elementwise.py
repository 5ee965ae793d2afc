"""Cases of operators that map one array element by element."""

from __future__ import annotations

from ..case import Family, Spec, counting, integers, normal, uniform, values

family = Family("elementwise")

# The interval from which ordinary arguments of each operator are drawn.
DOMAINS = {
    "abs": (-3, 3),
    "arccos": (-0.95, 0.95),
    "arccosh": (1.1, 5),
    "arcsin": (-0.95, 0.95),
    "arcsinh": (-3, 3),
    "arctan": (-3, 3),
    "arctanh": (-0.95, 0.95),
    "cbrt": (0.1, 9),
    "ceil": (-3, 3),
    "cos": (-4, 4),
    "cosh": (-3, 3),
    "degrees": (-4, 4),
    "erf": (-2, 2),
    "erfinv": (-0.9, 0.9),
    "exp": (-3, 3),
    "expm1": (-2, 2),
    "fix": (-3, 3),
    "floor": (-3, 3),
    "gamma": (0.3, 5),
    "gammaln": (0.3, 9),
    "hard_sigmoid": (-4, 4),
    "identity": (-3, 3),
    "log": (0.1, 9),
    "log10": (0.1, 9),
    "log1p": (-0.8, 5),
    "log2": (0.1, 9),
    "logical_not": (-1, 1),
    "negative": (-3, 3),
    "ones_like": (-3, 3),
    "radians": (-200, 200),
    "rcbrt": (0.1, 9),
    "reciprocal": (0.2, 3),
    "relu": (-3, 3),
    "rint": (-3, 3),
    "round": (-3, 3),
    "rsqrt": (0.1, 9),
    "sigmoid": (-5, 5),
    "sign": (-3, 3),
    "sin": (-4, 4),
    "sinh": (-3, 3),
    "smooth_l1": (-3, 3),
    "softsign": (-3, 3),
    "sqrt": (0.1, 9),
    "square": (-3, 3),
    "tan": (-1.3, 1.3),
    "tanh": (-3, 3),
    "trunc": (-3, 3),
    "zeros_like": (-3, 3),
}
STEPS = {"ceil", "fix", "floor", "logical_not", "rint", "round", "sign", "trunc"}
# MXNet computes these with constants of single precision, whatever the dtype.
SINGLE = {"degrees", "erf", "erfinv", "gamma", "gammaln", "hard_sigmoid", "radians"}
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0]
BOUNDARY = [0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 1e-3, -1e-3, 20.0, -20.0]
HUGE = [1e-30, -1e-30, 1e10, -1e10, 1e30, -1e30, 88.0, -88.0, 100.0, -100.0]


def sample(name: str, *shape: int, dtype: str = "float32") -> Spec:
    """Return ordinary arguments of an operator."""
    low, high = DOMAINS[name]
    return uniform(*shape, dtype=dtype, low=low, high=high)


for operator in DOMAINS:
    exact = "exact" if operator in STEPS else "elementwise"
    double = "single" if operator in SINGLE else exact
    family.call(f"nd.{operator}", sample(operator, 3, 4), tolerance=exact)
    family.call(f"nd.{operator}", sample(operator, 2, 1, 3, dtype="float64"), tolerance=double)
    family.call(f"nd.{operator}", sample(operator, 5, dtype="float16"), tolerance=exact)
    family.call(f"nd.{operator}", values(SPECIAL), tag="special", tolerance=exact)
    family.call(f"nd.{operator}", values(BOUNDARY), tag="boundary", tolerance=exact)
    family.call(f"nd.{operator}", values(HUGE), tag="huge", tolerance=exact)
    family.call(f"nd.{operator}", values(SPECIAL, "float64"), tag="special", tolerance=double)
    family.call(f"nd.{operator}", values(BOUNDARY, "float64"), tag="boundary", tolerance=double)

for operator in DOMAINS:
    family.call(f"nd.{operator}", values([1, 2, 3, 7], "int32"), tag="positive")
for operator in ("abs", "sign", "negative", "square", "floor", "round", "relu", "logical_not"):
    family.call(f"nd.{operator}", values([-5, -1, 0, 1, 3], "int32"))
    family.call(f"nd.{operator}", values([-5, -1, 0, 1, 3], "int64"))
    family.call(f"nd.{operator}", values([0, 1, 3, 200], "uint8"))
    family.call(f"nd.{operator}", values([-5, -1, 0, 1, 3], "int8"))
for operator in ("exp", "sqrt", "sigmoid", "tanh", "log", "sin"):
    family.call(f"nd.{operator}", values([0, 1, 3, 4], "int64"))
    family.call(f"nd.{operator}", values([0, 1, 3, 4], "uint8"))
for operator in ("identity", "zeros_like", "ones_like"):
    for dtype in ("int32", "int64", "uint8", "int8", "bool"):
        family.call(f"nd.{operator}", values([0, 1, 1], dtype), tag="integers")

for operator in ("stop_gradient", "BlockGrad", "make_loss"):
    family.call(f"nd.{operator}", normal(2, 3), tolerance="exact")
    family.call(f"nd.{operator}", normal(2, dtype="float64"), tolerance="exact")
family.expression("x * nd.stop_gradient(x)", normal(2, 3))
family.expression("nd.make_loss(x * x) * 3", normal(2, 3))

for low, high in ((-1.0, 1.0), (0.0, 0.5), (-0.5, float("inf")), (1.0, -1.0)):
    family.call("nd.clip", normal(3, 4), a_min=low, a_max=high)
family.call("nd.clip", values([-2, -1, -0.5, 0, 0.5, 1, 2, *SPECIAL]), a_min=-1.0, a_max=1.0)
family.call("nd.clip", normal(3, dtype="float64"), a_min=-0.3, a_max=0.3, tolerance="single")
family.call("nd.clip", normal(3, dtype="float16"), a_min=-0.3, a_max=0.3)
family.call("nd.clip", integers(6, dtype="int32", low=-9), a_min=-3, a_max=4)
family.call("nd.clip", integers(6, dtype="uint8", high=255), a_min=20, a_max=100)
family.call("nd.clip", normal(3, 4), arguments=(-1, 1))

for alpha, beta in ((0.5, 0.1), (0.2, 0.0)):
    family.call("nd.hard_sigmoid", normal(3, 4), alpha=alpha, beta=beta)
for scalar in (0.5, 1.0, 3.0):
    family.call("nd.smooth_l1", normal(3, 4), scalar=scalar)
    family.call("nd.smooth_l1", values([-4, -1, -0.25, 0, 0.25, 1, 4]), scalar=scalar)
family.call("nd.smooth_l1", normal(3, dtype="float64"), scalar=1.3)

FLOAT_CONTENT = [-2.7, -0.5, 0.0, 0.5, 1.0, 1.9, 100.4]
for source in ("float16", "float32", "float64"):
    for target in ("float16", "float32", "float64", "int8", "int32", "int64"):
        family.call("nd.cast", values(FLOAT_CONTENT, source), dtype=target)
    family.call("nd.cast", values([0, 0.9, 1.5, 255], source), dtype="uint8")
for source in ("uint8", "int8", "int32", "int64", "bool"):
    for target in ("float16", "float32", "float64", "int32", "int64", "uint8", "bool"):
        family.call("nd.cast", values([0, 1, 1, 0], source), dtype=target)
family.call("nd.Cast", normal(2, 3), dtype="float64")
family.call("nd.cast", values([0.0, -1.5, float("nan")]), dtype="bool")
family.call("nd.cast", values([-1.0, 300.0]), dtype="uint8", tag="wrapping")
family.call("nd.amp_cast", normal(2, 3), dtype="float16")
family.call("nd.amp_cast", normal(2, 3, dtype="float16"), dtype="float32")
family.call("nd.amp_cast", integers(2, 3, dtype="int32"), dtype="float16")
family.expression("x.astype('int32').astype('float32') * 2.5", normal(5, scale=3))
family.expression("x.astype('float64') * x.astype('float64')", normal(5))
family.expression("x.astype('float16') * 3", normal(5))

# Chains: the derivative of one operator is the head gradient of the next.
family.expression("nd.exp(nd.sin(x)) * nd.log(x * x + 1)", normal(3, 4))
family.expression("nd.sigmoid(x) * nd.tanh(x) - nd.relu(x - 0.3)", normal(3, 4))
family.expression("nd.sqrt(x) / (1 + nd.cbrt(x))", uniform(3, 4, low=0.5, high=3))
family.expression("nd.exp(x, out=x)", counting(3, step=0.1), grad=False)
family.statement("nd.square(x, out=y)", normal(2, 3), normal(2, 3))
family.statement("nd.square(x, y)", normal(2, 3), normal(2, 3), tag="positional")
family.statement("nd.exp(x, out=y)", normal(2, 3), normal(3, 2))
family.statement("nd.exp(x, out=y)", normal(2, 3), normal(2, 3, dtype="float64"))
family.expression("nd.exp(3)")
family.expression("nd.exp([1, 2])")
family.expression("nd.exp(x, foo=1)", normal(2))
family.expression("nd.clip(x)", normal(2))
