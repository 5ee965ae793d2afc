"""Calls that random programs are made of beside the operators of the registry: keys, methods, functions, layers."""

from __future__ import annotations

import random
from typing import Any

import phonograd as mx
from phonograd import gluon

SPECIAL = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-40, -3e-39, 88.8, -103.5, 1e30)
NUMBERS = ("0.5", "(-1.25)", "2", "3", "0", "1")

#: signs of Python, the operator of nd arrays, and whether its gradient is its derivative everywhere
SIGNS = [
    ("+", "broadcast_add", True),
    ("-", "broadcast_sub", True),
    ("*", "broadcast_mul", True),
    ("/", "broadcast_div", True),
    ("**", "broadcast_power", False),
    ("%", "broadcast_mod", False),
    (">", "broadcast_greater", True),
    ("<=", "broadcast_lesser_equal", True),
    ("==", "broadcast_equal", True),
    ("!=", "broadcast_not_equal", True),
]

#: functions of NumPy that mx.np has with the same arguments, and whether they can be differentiated
NUMPY = [
    *[(f"{name}({{x}}, {{y}})", True) for name in ("add", "subtract", "multiply", "maximum", "minimum", "hypot")],
    *[(f"{name}({{x}}, {{y}})", False) for name in ("true_divide", "arctan2", "power", "copysign", "lcm")],
    *[(f"{name}({{x}}, {{y}})", True) for name in ("equal", "less", "greater_equal", "logical_and", "bitwise_xor")],
    *[(f"{name}({{x}})", True) for name in ("sum", "mean", "std", "var", "ravel", "transpose", "flip", "squeeze")],
    *[
        (f"{name}({{x}}, axis={{axis}})", True)
        for name in ("sum", "mean", "max", "min", "prod", "var", "cumsum", "sort")
    ],
    *[(f"{name}({{x}}, axis={{axis}})", False) for name in ("argmax", "argmin", "argsort", "median")],
    ("expand_dims({x}, {axis})", True),
    ("concatenate([{x}, {x}], axis={axis})", True),
    ("stack([{x}, {x}, {x}], axis={axis})", True),
    ("vstack([{x}, {x}])", True),
    ("hstack([{x}, {x}])", True),
    ("where({x} > 0, {x}, {y})", True),
    ("where({x}, {y}, 2)", False),
    ("clip({x}, -0.75, 0.75)", True),
    ("roll({x}, 1, axis={axis})", True),
    ("tile({x}, 2)", True),
    ("repeat({x}, 2, axis={axis})", True),
    ("swapaxes({x}, 0, {axis})", True),
    ("diff({x}, axis={axis})", True),
    ("outer({x}, {y})", True),
    ("dot({x}, {y})", True),
    ("matmul({x}, {y})", True),
    ("tensordot({x}, {y}, 1)", True),
    ("einsum('...i,...i->...', {x}, {y})", True),
    ("inner({x}, {y})", True),
    ("kron({x}, {y})", True),
    ("tril({x})", True),
    ("diag({x})", True),
    ("trace({x})", True),
    ("full_like({x}, 1.5)", True),
    ("zeros_like({x})", True),
    ("ones_like({x})", True),
    ("rint({x})", False),
    ("isfinite({x})", True),
    ("logical_not({x})", True),
    ("around({x}, 1)", False),
    ("nan_to_num({x})", False),
    ("take({x}, onp.array([0, 0]), axis={axis})", True),
    ("broadcast_to({x}, (2, *{x}.shape))", True),
    ("average({x}, axis={axis})", True),
    ("linalg.norm({x})", True),
    ("rot90({x})", True),
    ("pad({x}, 1)", True),
    ("split({x}, 1, axis={axis})[0]", True),
    ("percentile({x}, 30)", False),
    ("interp({x}, onp.arange(3.0), onp.array([1.0, 3.0, 2.0]))", False),
    ("unique({x})", False),
    ("nonzero({x})[0]", False),
]

CREATIONS = [
    "{module}.zeros((2, 3), dtype={dtype!r})",
    "{module}.ones((3,), dtype={dtype!r})",
    "{module}.arange(4, dtype={dtype!r})",
    "{module}.full((2, 1), 0.75, dtype={dtype!r})",
    "{module}.zeros((0, 3), dtype={dtype!r})",
    "{module}.ones((), dtype={dtype!r})",
    "{module}.full((2, 0), 3, dtype='int32')",
    "{module}.arange(6, dtype='int32')",
    "{module}.eye(3, dtype={dtype!r})",
    "{module}.linspace(0, 1, 5, dtype={dtype!r})",
    "{module}.array(onp.array([[1, 2], [3, 4]]), dtype='int64')",
]

#: labels of losses, by their shape
LABELS = {(4,)}
#: constructors of Gluon, the shapes of their inputs, and whether their gradients are derivatives of their values
LAYERS = [
    ("nn.Dense(3, in_units=4)", [(2, 4)], True),
    ("nn.Dense(2, activation='tanh', in_units=3, use_bias=False, flatten=False)", [(2, 4, 3)], True),
    ("nn.Conv2D(2, 3, padding=1, in_channels=2)", [(1, 2, 5, 5)], True),
    ("nn.Conv1D(3, 2, in_channels=2)", [(2, 2, 6)], True),
    ("nn.Conv2DTranspose(2, 2, in_channels=2)", [(1, 2, 5, 5)], True),
    ("nn.BatchNorm(in_channels=2)", [(3, 2)], False),
    ("nn.LayerNorm(in_channels=4)", [(2, 4)], True),
    ("nn.InstanceNorm(in_channels=2)", [(1, 2, 5, 5)], True),
    ("nn.PReLU(in_channels=1)", [(2, 3)], False),
    ("nn.Swish()", [(2, 3)], True),
    ("nn.GELU()", [(2, 3)], True),
    ("nn.LeakyReLU(0.1)", [(2, 3)], True),
    ("nn.Dropout(0.5)", [(2, 3)], False),
    ("nn.MaxPool2D(2)", [(1, 2, 5, 5)], True),
    ("nn.AvgPool1D(2)", [(2, 2, 6)], True),
    ("nn.GlobalAvgPool2D()", [(1, 2, 5, 5)], True),
    ("nn.Flatten()", [(2, 4, 3)], True),
    ("loss.L2Loss()", [(2, 3), (2, 3)], True),
    ("loss.L1Loss()", [(2, 3), (2, 3)], True),
    ("loss.HuberLoss()", [(2, 3), (2, 3)], True),
    ("loss.SoftmaxCrossEntropyLoss()", [(4, 3), (4,)], True),
    ("loss.SigmoidBinaryCrossEntropyLoss()", [(2, 3), (2, 3)], True),
    ("loss.KLDivLoss(from_logits=False)", [(2, 3), (2, 3)], True),
    ("loss.HingeLoss()", [(2, 3), (2, 3)], True),
    ("loss.TripletLoss()", [(2, 3), (2, 3), (2, 3)], True),
    ("loss.CosineEmbeddingLoss()", [(2, 3), (2, 3), (2,)], False),
]


def make_layer(text: str, number: int, dtype: str) -> Any:
    """Return a layer with parameters that are always the same."""
    made = eval(f"gluon.{text[:-1]}{'' if text.endswith('()') else ', '}prefix='layer{number}_')", {"gluon": gluon})
    mx.random.seed(number)
    made.initialize(mx.init.Uniform(0.5))
    made.cast(dtype)
    return made


def key_of(choose: random.Random, shape: tuple[int, ...], module: str) -> tuple[str, str]:
    """Return a key that fits a shape, as text, and its kind: basic, advanced or mask."""
    if not shape:
        return choose.choice([("()", "basic"), ("...", "basic")])
    if module == "np" and choose.random() < 0.08:
        pattern = [choose.random() < 0.5 for _ in range(shape[0])]
        return f"onp.array({pattern}, bool)", "mask"
    parts, kind = [], "basic"
    for extent in shape[: choose.randint(1, len(shape))]:
        draw = choose.random()
        if draw < 0.25 and extent:
            parts.append(str(choose.randrange(-extent, extent)))
        elif draw < 0.6:
            start, stop = choose.randrange(extent + 1), choose.randrange(extent + 1)
            start, stop = (min(start, stop), max(start, stop)) if choose.random() < 0.9 else (start, stop)
            step = choose.choice(["", "", "", ":2", ":-1"])
            parts.append(f"{start}:{stop}{step}" if step != ":-1" else "::-1")
        elif draw < 0.85 or not extent or kind == "advanced":
            parts.append(":")
        else:
            kind = "advanced"
            parts.append(str([choose.randrange(-extent, extent) for _ in range(choose.randint(1, 3))]))
    if choose.random() < 0.06:
        parts.insert(choose.randrange(len(parts) + 1), "None")
    elif choose.random() < 0.06:
        parts.append("...")
    return ", ".join(parts), kind


def method_of(choose: random.Random, source: Any, name: str) -> tuple[str, str, bool]:
    """Return a call of a method, the same in NumPy, and whether its result shares memory."""
    x, shape = source.name, source.shape
    choices = [(f"{x}.copy()", f"{x}.copy()", False), (f"{x}.reshape((-1,))", f"{x}.reshape(-1)", True)]
    if shape:
        axis = choose.randrange(len(shape))
        choices += [
            # an array of one axis is its own transpose
            (f"{x}.T", f"{x}.T.copy()" if len(shape) > 1 else x, len(shape) < 2),
            (f"{x}.sum(axis={axis})", f"like({name!r}, {x}.sum(axis={axis}))", False),
            (f"{x}.max()", f"like({name!r}, {x}.max())", False),
            (f"{x}.expand_dims({axis})", f"onp.expand_dims({x}, {axis}).copy()", False),
        ]
        if source.size:
            choices += [(f"{x}.reshape((-1, {shape[-1]}))", f"{x}.reshape(-1, {shape[-1]})", True)] * 2
    dtype = choose.choice(["float16", "float32", "float64", "int32", "int64", "uint8", "int8", "bool"])
    choices.append((f"{x}.astype({dtype!r})", f"like({name!r}, {x}.astype({dtype!r}))", False))
    if source.module == "nd":
        choices.append((f"{x}.as_np_ndarray()", x, True))
    else:
        choices.append((f"{x}.as_nd_ndarray()", x, True))
    return choose.choice(choices)
