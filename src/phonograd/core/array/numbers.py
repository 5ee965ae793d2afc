"""Parameters of operators that are data: they become leaves, so that another number does not change the expression."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtypes import promote
from ..graph.node import Node
from ..graph.operator import Operator
from ..trace.trace import Trace

__all__ = ["with_data"]

_FLOAT64 = np.dtype(np.float64)


def with_data(
    declared: Operator, nodes: tuple[Node | None, ...], attributes: tuple[Any, ...], trace: Trace
) -> tuple[Any, ...]:
    """Return attributes in which data are leaves, of the widest dtype among the arrays."""
    present = [node for node in nodes if node is not None]
    widest, context = promote(*[node.dtype for node in present]), present[0].context
    found = list(attributes)
    for place, kind in declared.numbers:
        dtype = _FLOAT64 if kind.startswith("Count") else widest
        value = found[place]
        if isinstance(value, tuple):
            found[place] = tuple([trace.bind_scalar(each, dtype, dtype.num, context) for each in value])
        else:
            found[place] = trace.bind_scalar(value, dtype, dtype.num, context)
    return tuple(found)
