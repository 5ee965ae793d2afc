"""Differentiable communication: sums over all ranks inside of a recorded computation.

Takes arrays that may be recorded, and hands arrays back. The forward pass evaluates its input; the backward pass
communicates, too, so all ranks must differentiate the same computations.
"""

from __future__ import annotations

from typing import Any

from .. import autograd
from ..core.array.handle import make_concrete, read
from .communicator import Communicator

__all__ = ["AllReduce"]


class AllReduce(autograd.Function):
    """The sum of an array over all ranks; its gradient is the sum of the gradients of all ranks.

    >>> import phonograd as mx
    >>> from phonograd.distributed import world
    >>> AllReduce(world(), "total")(mx.nd.array([1.0, 2.0])).asnumpy().tolist()
    [1.0, 2.0]
    """

    def __init__(self, group: Communicator, label: str) -> None:
        super().__init__()
        self._group = group
        self._label = label

    def forward(self, *inputs: Any) -> Any:
        """Return the sum."""
        return self._sum(inputs[0], self._label)

    def backward(self, *output_grads: Any) -> Any:
        """Return the sum of the gradients."""
        return self._sum(output_grads[0], f"gradient of {self._label}")

    def _sum(self, array: Any, label: str) -> Any:
        return make_concrete(self._group.all_reduce([read(array)], label=label)[0], array.context)
