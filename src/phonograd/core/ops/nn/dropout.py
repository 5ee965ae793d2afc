"""Dropout: elements set to zero at random while training, the rest scaled up so that the mean stays."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...base.dtypes import DType
from ...base.errors import MXNetError
from ...graph.interface import Interface, alike
from ...graph.node import Node, Shape
from ...graph.operator import composite, single
from ...graph.shapes import real_axes, with_ones
from ..math.comparison import greater_equal
from ..math.elementary import identity
from ..math.primitives import cast
from ..math.structural import constant, full
from ..random.random import uniform_between
from .softmax import demand_floating

__all__ = ["Dropout", "dropout_mask"]

FLOAT32 = np.dtype("float32")


def dropout_mask(counter: Node, p: float, shape: Shape, dtype: DType) -> Node:
    """Return the node of numbers that are 0 with probability p, else 1 / (1 - p)."""
    if p >= 1:
        return full(shape, 0, dtype, counter.context)
    # float32 fractions whatever the dtype: those of float16 are too coarse for a small p
    kept = greater_equal(uniform_between(counter, 0, 1, shape, FLOAT32), constant(p, FLOAT32))
    return cast(kept, dtype) * (1 / (1 - p))


@composite(npx="dropout")
def Dropout(
    data: Node,
    counter: Node,
    *,
    p: float = 0.5,
    mode: Literal["always", "training"] = "training",
    axes: Shape = (),
    cudnn_off: bool | None = False,
    training: bool = False,
) -> Node:
    """Return the array with elements set to zero at random, each with probability p; the others grow by 1 / (1 - p).

    Outside of training the array is returned as it is, unless ``mode`` is ``"always"``. Along ``axes`` all elements
    share one decision. The gradient sees the same decisions as the result, however often it is asked for.
    """
    demand_floating(data.dtype, "Dropout")
    if not 0 <= p <= 1:
        raise MXNetError(f'value {p:g} for Parameter p exceed bound [0,1], in operator Dropout(name="", p="{p:g}")')
    shared = real_axes(axes, data.ndim, "Dropout")
    if p == 0 or not (training or mode == "always"):
        return single(identity(data))
    return data * dropout_mask(counter, p, with_ones(data.shape, shared), data.dtype)


# -- how they appear in symbols

Dropout.interface = Interface(outputs=("output", "mask"), shown=1, shapes=alike)
