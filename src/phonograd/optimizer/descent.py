"""Optimisers that follow the gradient: plain, with momentum, by its sign, or with noise."""

from __future__ import annotations

import math
from typing import Any

from .. import ndarray
from ..core.ops.update import update_rules as rules
from ..ndarray import random
from ..ndarray.array import NDArray
from .optimizer import Optimizer, UpdateStep, assign, assign_all, register, zeros_like

__all__ = ["DCASGD", "NAG", "SGD", "SGLD", "Signum", "ccSGD"]


def descend(weight: NDArray, grad: NDArray, momentum: NDArray | None, lr: Any, factor: float) -> None:
    """Make a step against a gradient, with a momentum that is kept times `factor`."""
    if momentum is None:
        assign(weight, rules.plain(weight, grad, lr))
    else:
        assign_all((weight, momentum), rules.momentum(weight, grad, momentum, lr, factor))


class _Momentum(Optimizer):
    """An optimiser whose state is a momentum, unless its factor is 0."""

    momentum: float
    _copy_first = False

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the momentum, or None if there is none."""
        return None if self.momentum == 0.0 else zeros_like(weight)


@register
class SGD(_Momentum):
    """Stochastic gradient descent with momentum: ``m = momentum * m - lr * (grad + wd * w); w = w + m``.

    With `lazy_update` a row_sparse gradient changes only the rows it has: others keep momentum and weight.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        # weights that MXNet updates at once: stands in files of states, and changes nothing here
        self.aggregate_num = 4

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        descend(weight, rules.add_weight_decay(self._prepared(grad, scale), wd, weight), state, lr, self.momentum)


@register
class ccSGD(SGD):  # noqa: N801 - MXNet's name
    """:class:`SGD` under its older name."""


@register
class NAG(_Momentum):
    """Gradient descent with Nesterov's momentum. Without momentum, a row_sparse gradient changes only its rows."""

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def _is_lazy(self, weight: NDArray) -> bool:
        return self.momentum == 0.0

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepared(grad, scale)
        if state is None:
            assign(weight, rules.plain(weight, rules.add_weight_decay(grad, wd, weight), lr))
        else:
            assign_all((weight, state), rules.nesterov(weight, grad, state, lr, wd, self.momentum))


@register
class Signum(_Momentum):
    """Steps of equal size in the direction of the momentum's signs (Bernstein et al. 2018).

    `wd_lh` is a weight decay apart from the gradient. Without momentum, signs are those of gradients.
    """

    _copy_first = True

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        return step.lr, step.wd or None, 1 - step.lr * (step.wd if self.momentum == 0.0 else self.wd_lh)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any, kept: Any) -> None:
        if state is None:
            assign(weight, rules.sign_step(ndarray, weight, grad, lr, kept))
            return
        direction = rules.add_weight_decay(self._prepared(grad, scale), wd, weight)
        changed = rules.sign_momentum(ndarray, weight, direction, state, lr, kept, self.momentum)
        assign_all((weight, state), changed)


@register
class DCASGD(Optimizer):
    """Gradient descent that makes up for gradients being late (Zheng et al. 2016): `lamda` says how much."""

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Any, NDArray] = {}
        self.lamda = lamda

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the momentum, or None if there is none, and the weight before the last update."""
        return None if self.momentum == 0.0 else zeros_like(weight), weight.copy()

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        momentum, before = state
        grad = self._prepared(grad, scale)
        late = self.lamda * grad * grad * (weight - before)
        change = -(lr * (rules.add_weight_decay(grad, wd, weight) + late))
        if momentum is not None:
            assign(momentum, self.momentum * momentum + change)
            change = momentum
        assign(before, weight)
        assign(weight, weight + change)


@register
class SGLD(Optimizer):
    """Gradient descent with noise, which draws weights from their distribution (Welling and Teh 2011)."""

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        return step.lr / 2, step.wd or None, math.sqrt(step.lr)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, half: Any, wd: Any, spread: Any) -> None:
        moved = weight - half * rules.add_weight_decay(self._prepared(grad, scale), wd, weight)
        # the spread is a factor of standard normal numbers, and so no part of what is compiled
        noise = random.normal(0, 1, weight.shape, dtype=weight.dtype, ctx=weight.context)
        assign(weight, moved + spread * noise)
