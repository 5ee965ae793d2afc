"""Provide gradient descent: plain, with momentum, by sign, or with noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import ndarray
from ..core.base.docstrings import complete_classes
from ..core.ops.update import update_rules as rules
from ..ndarray import random
from ..ndarray.array import NDArray
from .optimizer import Optimizer, UpdateStep, assign, assign_all, register, zeros_like

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .optimizer import OptimizerArguments, RateArguments

__all__ = ["DCASGD", "NAG", "SGD", "SGLD", "Signum", "ccSGD"]


def descend(weight: NDArray, grad: NDArray, momentum: NDArray | None, lr: Any, factor: float) -> None:
    """Take a step against a gradient; `factor` multiplies the momentum."""
    if momentum is None:
        assign(weight, rules.plain(weight, grad, lr))
    else:
        assign_all((weight, momentum), rules.momentum(weight, grad, momentum, lr, factor))


class _Momentum(Optimizer):
    """Keep a momentum as the state, unless its factor is 0."""

    momentum: float
    _copy_first = False

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the momentum, or None without momentum."""
        return None if self.momentum == 0.0 else zeros_like(weight)


@register
class SGD(_Momentum):
    """Apply stochastic gradient descent with momentum: ``m = momentum * m - lr * (grad + wd * w); w = w + m``.

    Parameters
    ----------
    momentum
        The factor of the momentum.
    lazy_update
        Whether a row_sparse gradient changes only its own rows: all others keep their momentum and weight.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Unpack[RateArguments]) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        # MXNet's number of weights per call: files of states contain it, and it has no other effect
        self.aggregate_num = 4

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        direction = rules.add_weight_decay(self._prepare_gradient(grad, scale), wd, weight)
        descend(weight, direction, state, lr, self.momentum)

    def _keeps_rows(self, state: Any, scale: float | None, *rates: float | None) -> bool:
        lr, wd = rates
        # factors whose product with 0 is 0, not -0 or NaN
        are_plain = all([0 <= factor < math.inf for factor in (scale, lr) if factor is not None])
        return are_plain and state is None and wd is None


@register
class ccSGD(SGD):  # noqa: N801 - MXNet's name
    """Apply :class:`SGD` under its older name."""


@register
class NAG(_Momentum):
    """Apply gradient descent with Nesterov's momentum; `momentum` is its factor.

    Without momentum, a row_sparse gradient changes only its own rows.
    """

    def __init__(self, momentum: float = 0.0, **kwargs: Unpack[RateArguments]) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def _is_lazy(self, weight: NDArray) -> bool:
        return self.momentum == 0.0

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepare_gradient(grad, scale)
        if state is None:
            assign(weight, rules.plain(weight, rules.add_weight_decay(grad, wd, weight), lr))
        else:
            assign_all((weight, state), rules.nesterov(weight, grad, state, lr, wd, self.momentum))


@register
class Signum(_Momentum):
    """Take steps of equal size in the direction of the sign of the momentum (Bernstein et al. 2018).

    `wd_lh` is a weight decay that does not enter the gradient. With ``momentum=0`` the sign is that of the gradient.
    """

    _copy_first = True

    def __init__(
        self,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        wd_lh: float = 0.0,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        return step.lr, step.wd or None, 1 - step.lr * (step.wd if self.momentum == 0.0 else self.wd_lh)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any, kept: Any) -> None:
        if state is None:
            assign(weight, rules.sign_step(ndarray, weight, grad, lr, kept))
            return
        direction = rules.add_weight_decay(self._prepare_gradient(grad, scale), wd, weight)
        changed = rules.sign_momentum(ndarray, weight, direction, state, lr, kept, self.momentum)
        assign_all((weight, state), changed)


@register
class DCASGD(Optimizer):
    """Apply gradient descent that compensates for delayed gradients in asynchronous training (Zheng et al. 2016).

    `lamda` scales the compensation.
    """

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Unpack[RateArguments]) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Any, NDArray] = {}
        self.lamda = lamda

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the momentum (None without momentum) and the weight before the last update."""
        return None if self.momentum == 0.0 else zeros_like(weight), weight.copy()

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        momentum, before = state
        grad = self._prepare_gradient(grad, scale)
        late = self.lamda * grad * grad * (weight - before)
        change = -(lr * (rules.add_weight_decay(grad, wd, weight) + late))
        if momentum is not None:
            assign(momentum, self.momentum * momentum + change)
            change = momentum
        assign(before, weight)
        assign(weight, weight + change)


@register
class SGLD(Optimizer):
    """Apply stochastic gradient Langevin dynamics (Welling and Teh 2011).

    It is gradient descent with noise, so that the weights are samples of their posterior distribution.
    """

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        return step.lr / 2, step.wd or None, math.sqrt(step.lr)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, half: Any, wd: Any, spread: Any) -> None:
        moved = weight - half * rules.add_weight_decay(self._prepare_gradient(grad, scale), wd, weight)
        # the spread multiplies standard normal numbers, so that it is an argument of compiled updates and no constant
        noise = random.normal(0, 1, weight.shape, dtype=weight.dtype, ctx=weight.context)
        assign(weight, moved + spread * noise)


complete_classes(globals())
