"""Works: operators that are computed by kernels of their own, from operands that lie in memory in order."""

from __future__ import annotations

import math

from ..graph.node import Node
from ..kernels.launch import Plan
from ..lower.lowering import Cumulative, Scatter, Windowed
from .expansion import parameters

__all__ = ["plan_work"]


def plan_work(expression: Node, lowering: Cumulative | Scatter | Windowed) -> tuple[Plan, tuple[str, ...]] | None:
    """Return the kernels that compute an expression, and the names of its inputs in their plan; None: NumPy does it."""
    # most plans have none of them, and there is much to import for some
    if isinstance(lowering, Windowed):
        from .window_kernels import plan_windows

        plan = plan_windows(lowering.primitive, expression)
        return None if plan is None else (plan, expression.operator.input_names)
    if isinstance(lowering, Cumulative):
        from ..kernels.cumsum import running_sums

        axis, reverse = lowering.along(**parameters(expression, lowering.along))
        shape = expression.shape
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        return running_sums(outer, shape[axis], inner, expression.dtype, reverse), ("data",)
    from ..kernels.scatter import add_slices, last_places

    shapes = [source.shape for source in expression.inputs]
    outer, inner, extent = lowering.sizes(*shapes, **parameters(expression, lowering.sizes))
    count = math.prod(shapes[-1])
    if lowering.last:
        return last_places(extent, count), ("index",)
    return add_slices(outer, inner, extent, count, expression.dtype), ("data", "index")
