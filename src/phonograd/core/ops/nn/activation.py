"""Activation functions: ``Activation`` and ``LeakyReLU`` with all their kinds.

Where a function has two branches, the branch not taken receives a harmless argument. Its gradient is then a clean
zero instead of zero times infinity.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ...base.errors import MXNetError, format_shape
from ...base.settings import has_mxnet_bug
from ...graph.interface import Interface, Onnx, Partial, merge, same_shapes
from ...graph.node import Node
from ...graph.operator import Array, composite, operator, single
from ...graph.partial_shapes import first_results
from ...lower import vector_math
from ...lower.lowering import Elementwise
from ..math.broadcasting import same_dtype
from ..math.comparison import greater
from ..math.elementary import expm1, relu, sigmoid, softsign, tanh
from ..math.primitives import reshape_to, select
from ..math.special import erf
from ..math.structural import constant, full
from ..random.random import uniform_between
from .softmax import demand_floating

__all__ = ["ACTIVATIONS", "Activation", "LeakyReLU"]

#: scale and slope of the self-normalizing unit (SELU)
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


@operator(cost=20, lowering=Elementwise(vector_math.softplus), onnx=Onnx("Softplus", reads=False))
def _softrelu(data: Array) -> Array:
    """Return log(1 + exp(x)), computed without overflow."""
    smooth = np.asarray(np.maximum(data, data.dtype.type(0)) + np.log1p(np.exp(-np.abs(data))))
    return smooth.astype(data.dtype, copy=False)


@_softrelu.gradient
def softrelu_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return out_grad * single(sigmoid(data))


#: the operator of each ``act_type``
ACTIVATIONS = {"relu": relu, "sigmoid": sigmoid, "softrelu": _softrelu, "softsign": softsign, "tanh": tanh}


@composite(npx="activation")
def Activation(data: Node, *, act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"]) -> Node:
    """Apply an activation function to each element.

    ``relu`` is max(x, 0), ``sigmoid`` is 1 / (1 + exp(-x)), ``softrelu`` is log(1 + exp(x)) and ``softsign`` is
    x / (1 + abs(x)); ``tanh`` is the hyperbolic tangent.
    """
    demand_floating(data.dtype, "Activation")
    if act_type == "relu" and has_mxnet_bug("relu_nan"):
        return select(greater(data, 0), data, 0)
    return single(ACTIVATIONS[act_type](data))


@composite(visible=lambda *, act_type, **parameters: 2 if act_type == "rrelu" else 1, npx="leaky_relu")
def LeakyReLU(
    data: Node,
    gamma: Node | None = None,
    counter: Node | None = None,
    *,
    act_type: Literal["elu", "gelu", "leaky", "prelu", "rrelu", "selu"] = "leaky",
    slope: float = 0.25,
    lower_bound: float = 0.125,
    upper_bound: float = 0.334,
    training: bool = False,
) -> Any:
    """Apply an activation function with a nonzero slope for negative elements.

    ``leaky`` multiplies negative elements by ``slope``, ``prelu`` by the array ``gamma`` (one number, or one per
    channel of axis 1). ``elu`` is slope * (exp(x) - 1) for them, and ``selu`` is a scaled ``elu`` with fixed
    constants. ``gelu`` is x times the normal distribution function of x. ``rrelu`` draws the slope of each element
    between the bounds in training mode and uses their mean otherwise; it returns the result and the slopes.
    """
    demand_floating(data.dtype, "LeakyReLU")
    expected = 2 if act_type == "prelu" else 1
    given = 1 if gamma is None else 2
    if given != expected:
        raise MXNetError(
            f"Operator LeakyReLU expects {expected} inputs, but got {given} instead. Only act_type='prelu' takes gamma."
        )
    if act_type == "gelu":
        return data * 0.5 * (single(erf(data * math.sqrt(0.5))) + 1)
    positive = greater(data, constant(0, data.dtype))
    if act_type == "leaky":
        return select(positive, data, data * slope)
    if act_type == "prelu":
        assert gamma is not None
        return select(positive, data, data * _per_channel(gamma, data))
    if act_type == "rrelu":
        slopes = _random_slopes(data, counter, lower_bound, upper_bound, training)
        return select(positive, data, data * slopes), slopes
    bent = expm1(select(positive, 0, data))
    if act_type == "elu":
        return select(positive, data, bent * slope)
    return select(positive, data * _SELU_SCALE, bent * (_SELU_SCALE * _SELU_ALPHA))


def _per_channel(gamma: Node, data: Node) -> Node:
    """Return gamma in a shape that broadcasts against data: one number, or one per channel."""
    same_dtype(data, gamma)
    channels = data.shape[min(1, data.ndim - 1)] if data.ndim else 1
    if gamma.size == 1:
        return reshape_to(gamma, ())
    if gamma.shape != (channels,):
        raise MXNetError(
            f"Cannot broadcast gamma to data. gamma: {format_shape(gamma.shape)}, data: {format_shape(data.shape)}. "
            f"Operator LeakyReLU takes one number or {channels}, one for each channel."
        )
    return reshape_to(gamma, (channels,) + (1,) * max(data.ndim - 2, 0))


def _random_slopes(data: Node, counter: Node | None, lower: float, upper: float, training: bool) -> Node:
    if not training:
        return full(data.shape, (lower + upper) / 2, data.dtype, data.context)
    assert counter is not None, "the caller passes the position in the random stream"
    return uniform_between(counter, lower, upper, data.shape, data.dtype)


# -- symbol declarations


def _slopes(inputs: list[Partial], outputs: list[Partial], *, act_type: str) -> list[Partial]:
    data = merge(inputs[0], outputs[0])
    if act_type != "prelu" or data is None or not data:
        return [data, *inputs[1:]]
    # one slope per channel, unless the user gives a single slope
    return [data, inputs[1] or (data[1] if len(data) > 1 else data[0],)]


Activation.interface = Interface(shapes=same_shapes)
LeakyReLU.interface = Interface(
    arguments=lambda names, *, act_type: names if act_type == "prelu" else names[:1],
    initial={"gamma": '["Constant", {"value": 0.25}]'},
    outputs=lambda *, act_type: ("output", "mask") if act_type == "rrelu" else ("output",),
    shapes=_slopes,
    results=first_results,
)


# -- precision in mixed-precision training

Activation.float32_when = ("act_type", ("softrelu",))
LeakyReLU.float32_when = ("act_type", ("elu", "selu"))
