"""Dropout: set random elements to zero during training, and scale up the rest to keep the mean."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...base.dtypes import DType
from ...base.errors import check_bounds
from ...graph.interface import Interface, same_shapes
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
    """Return an array that is 0 with probability p, else 1 / (1 - p)."""
    if p >= 1:
        return full(shape, 0, dtype, counter.context)
    # draw float32 fractions for every dtype: those of float16 are too coarse for a small p
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
    """Set elements to zero at random with probability p, and multiply the others by 1 / (1 - p).

    Outside training mode the array stays the same, unless ``mode`` is ``"always"``. Elements along ``axes`` share one
    random decision. The gradient uses the same mask as the result.
    """
    demand_floating(data.dtype, "Dropout")
    check_bounds("Dropout", "p", p)
    shared = real_axes(axes, data.ndim, "Dropout")
    if p == 0 or not (training or mode == "always"):
        return single(identity(data))
    return data * dropout_mask(counter, p, with_ones(data.shape, shared), data.dtype)


# -- symbol declarations

Dropout.interface = Interface(outputs=("output", "mask"), shown=1, shapes=same_shapes)
