"""Dynamic loss scaling: keep gradients of 16 bits inside their range."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ... import ndarray as nd
from ...autograd import pause
from ...core.base.errors import MXNetError
from ...core.base.signals import Signal
from ...core.graph.node import Node
from ...core.ops.math.special import gradientmultiplier

__all__ = ["LossScaler"]

#: below this scale gradients are infinite or NaN for another reason than the scale
_SMALLEST_SCALE = 2.0**-24


class LossScaler:
    """Find a factor for losses by which gradients neither vanish nor overflow.

    The factor is halved after a step whose gradients are not finite, and doubled after 2000 steps in a row that are.

    >>> scaler = LossScaler()
    >>> scaler.loss_scale
    65536.0
    """

    def __init__(self) -> None:
        #: emitted after the scale of recorded output layers changed
        self.changed: Signal[[]] = Signal()
        self._scale, self._is_recorded = 2.0**16, False
        self._next_loss_scale = self._scale
        self._max_loss_scale = 2.0**24
        self._scale_seq_len = 2000
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The factor of the current step."""
        return self._scale

    @property
    def _loss_scale(self) -> float:
        # MXNet's name: programs set it to begin with another scale
        return self._scale

    @_loss_scale.setter
    def _loss_scale(self, value: float) -> None:
        changed, self._scale = value != self._scale, value
        if changed and self._is_recorded:
            self._is_recorded = False
            self.changed.emit()

    def scale_gradient(self, data: Node) -> Node:
        """Return a node with the same value, whose gradient is multiplied by the scale."""
        self._is_recorded = True
        found: Node = gradientmultiplier(data, scalar=self._scale)
        return found

    def has_overflow(self, params: Sequence[Any]) -> bool:
        """Return whether a gradient of some parameters is infinite or NaN, and choose the scale of the next step.

        Raises
        ------
        MXNetError
            If gradients are not finite however small the scale is.
        """
        grads = [grad for parameter in params if parameter._grad is not None for grad in parameter.list_grad()]
        overflow = False
        if grads:
            with pause():
                overflow = not bool(nd.multi_all_finite(*grads, num_arrays=len(grads)).asscalar())
        self._loss_scale = self._next_loss_scale
        if overflow:
            self._unskipped = 0
            self._next_loss_scale = self._loss_scale / 2
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
            if self._next_loss_scale < _SMALLEST_SCALE:
                raise MXNetError(
                    f"gradients are infinite or NaN at a loss scale of {self._loss_scale}, and no scale helps: look "
                    f"for NaN in {_broken(params)}, its inputs or the loss, or train in float32"
                )
        else:
            self._unskipped += 1
            if self._unskipped == self._scale_seq_len:
                self._unskipped = 0
                self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2)
                logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return overflow


def _broken(params: Sequence[Any]) -> str:
    """Return the name of the first parameter whose gradient is not finite."""
    for parameter in params:
        if parameter._grad is not None:
            for grad in parameter.list_grad():
                if not bool(nd.multi_all_finite(grad, num_arrays=1).asscalar()):
                    return str(parameter.name)
    return "the parameters"
