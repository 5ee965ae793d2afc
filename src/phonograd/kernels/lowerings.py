"""The lowerings of the operators that have one, by operator name.

:func:`attach` puts each on its operator. An operator that is not listed is evaluated by NumPy.
"""

from __future__ import annotations

from typing import Any

from ..node import Shape
from ..operator import REGISTRY
from ..operators import random  # noqa: F401 - declares _uniform01
from . import philox
from .lowering import NUMBERS, Constant, Elementwise, Location, Lowering, Matmul, Random, Reduction

__all__ = ["LOWERINGS", "attach"]


def _axes_summed_to(data: Shape, *, shape: Shape) -> Shape:
    """Return the axes along which ``shape`` would be repeated to give the shape of the data."""
    added = len(data) - len(shape)
    return (*range(added), *[axis + added for axis, extent in enumerate(shape) if extent != data[axis + added]])


def _bytes(*, data: Any) -> bytes:
    return bytes(data)


LOWERINGS: dict[str, Lowering] = {
    "broadcast_add": Elementwise(lambda e, lhs, rhs: e.add(lhs, rhs), NUMBERS),
    "broadcast_mul": Elementwise(lambda e, lhs, rhs: e.multiply(lhs, rhs), NUMBERS),
    "exp": Elementwise(lambda e, data: e.exp(data)),
    "tanh": Elementwise(lambda e, data: e.tanh(data)),
    "_sum_to": Reduction(lambda e, first, second: e.add(first, second), 0.0, _axes_summed_to),
    "_matmul": Matmul(),
    "_reshape": Location(lambda pattern, *, shape: pattern.reshape(shape)),
    "_permute": Location(lambda pattern, *, axes: pattern.permute(axes)),
    "_slice_step": Location(lambda pattern, *, begin, end, step: pattern.slice(begin, end, step)),
    "_broadcast": Location(lambda pattern, *, shape: pattern.broadcast(shape)),
    "_constant": Constant(_bytes),
    "_full": Constant(_bytes),
    "_uniform01": Random(philox.uniform),
}


def attach() -> None:
    """Give the operators of the registry their lowerings."""
    for name, lowering in LOWERINGS.items():
        REGISTRY[name].lowering = lowering
