"""Provide optimizers that adapt steps to the size of earlier gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import ndarray
from ..core.base.docstrings import complete_classes
from ..core.ops.update import update_rules as rules
from ..ndarray.array import NDArray
from .optimizer import Optimizer, UpdateStep, assign, assign_all, register, zeros_like

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .optimizer import OptimizerArguments, RateArguments

__all__ = ["FTML", "AdaDelta", "AdaGrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSProp"]


def remember(average: NDArray, factor: float, value: NDArray) -> None:
    """Update a moving average: ``average = factor * average + (1 - factor) * value``."""
    assign(average, rules.moving_average(average, factor, value))


@register
class Adam(Optimizer):
    """Divide the moving mean of gradients by the root of the moving mean of their squares (Kingma and Ba 2014).

    Parameters
    ----------
    learning_rate
        The learning rate, before the correction of the bias of both means.
    beta1, beta2
        The decay rates of the mean of gradients and of the mean of their squares.
    epsilon
        The number added to the root.
    lazy_update
        Whether a row_sparse gradient changes only its own rows.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        lazy_update: bool = True,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for both means."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        corrected = step.lr * math.sqrt(1.0 - self.beta2**step.number) / (1.0 - self.beta1**step.number)
        return corrected, step.wd or None

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepare_gradient_with_decay(grad, scale, wd, weight)
        mean, square = state
        changed = rules.adam(ndarray, weight, grad, mean, square, lr, self.beta1, self.beta2, self.epsilon)
        assign_all((weight, mean, square), changed)


@register
class AdaGrad(Optimizer):
    """Divide gradients by the root of the sum of all their squares so far (Duchi et al. 2011)."""

    def __init__(self, eps: float = 1e-07, **kwargs: Unpack[RateArguments]) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the sum of squares."""
        return zeros_like(weight)

    def _is_lazy(self, weight: NDArray) -> bool:
        # without weight decay, a gradient of zero changes nothing
        return not self.wd

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepare_gradient(grad, scale)
        assign_all((weight, state), rules.adagrad(ndarray, weight, grad, state, lr, wd, self.float_stable_eps))


@register
class RMSProp(Optimizer):
    """Divide gradients by the root of the moving mean of their squares (Tieleman and Hinton 2012).

    Parameters
    ----------
    learning_rate
        The learning rate.
    gamma1
        The decay rate of the means.
    gamma2
        The factor of the momentum; only `centered` has a momentum.
    epsilon
        The number added to the variance.
    centered
        Whether to divide by the standard deviation of gradients, and to use momentum (Graves 2013).
    clip_weights
        The limit to which weights are clipped; None for no limit.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-08,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the mean of squares; with `centered`, also for the mean and the momentum."""
        return tuple([zeros_like(weight) for _ in range(3 if self.centered else 1)])

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepare_gradient_with_decay(grad, scale, wd, weight)
        limit = self.clip_weights or None
        changed: tuple[NDArray, ...]
        if self.centered:
            square, mean, moment = state
            factors = self.gamma1, self.gamma2
            changed = rules.rmsprop_centered(
                ndarray, weight, grad, square, mean, moment, lr, factors, self.epsilon, limit
            )
        else:
            changed = rules.rmsprop(ndarray, weight, grad, state[0], lr, self.gamma1, self.epsilon, limit)
        assign_all((weight, *state), changed)


@register
class AdaDelta(Optimizer):
    """Scale gradients by the ratio of the moving root mean squares of steps and gradients (Zeiler 2012)."""

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-05, **kwargs: Unpack[RateArguments]) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for both means."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        return (step.wd or None,)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, wd: Any) -> None:
        grad = self._prepare_gradient(grad, scale)
        gradients, changes = state
        remember(gradients, self.rho, ndarray.square(grad))
        change = ndarray.sqrt(changes + self.epsilon) / ndarray.sqrt(gradients + self.epsilon) * grad
        remember(changes, self.rho, ndarray.square(change))
        assign(weight, weight - rules.add_weight_decay(change, wd, weight))


@register
class Ftrl(Optimizer):
    """Follow the regularized leader, which sets most weights to 0 (McMahan et al. 2013).

    A row_sparse gradient changes only its own rows if the weight is row_sparse, too.
    """

    def __init__(
        self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Unpack[OptimizerArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.lamda1 = lamda1
        self.beta = beta
        self.lr = learning_rate

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the sum of gradients and for the sum of their squares."""
        return zeros_like(weight), zeros_like(weight)

    def _is_lazy(self, weight: NDArray) -> bool:
        return weight.stype == "row_sparse"

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepare_gradient(grad, scale)
        linear, squares = state
        changed = rules.ftrl(ndarray, weight, grad, linear, squares, lr, wd, self.lamda1, self.beta)
        assign_all((weight, linear, squares), changed)


@register
class FTML(Optimizer):
    """Follow the moving leader (Zheng and Kwok 2017)."""

    def __init__(
        self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-08, **kwargs: Unpack[RateArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for d, v and z of the paper."""
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        powers = 1.0 - self.beta1**step.number, 1.0 - self.beta2**step.number
        return powers[0] / step.lr if step.lr else None, step.wd or None, powers[1]

    def _apply(
        self, weight: NDArray, grad: NDArray, state: Any, scale: Any, factor: Any, wd: Any, correction: Any
    ) -> None:
        if factor is None:
            # MXNet divides by the learning rate: with a rate of 0 its weights become NaN; take no step instead
            return
        grad = self._prepare_gradient_with_decay(grad, scale, wd, weight)
        before, square, linear = state
        betas = self.beta1, self.beta2
        changed = rules.ftml(ndarray, weight, grad, before, square, linear, factor, correction, *betas, self.epsilon)
        assign_all((weight, before, square, linear), changed)


@register
class Adamax(Optimizer):
    """Replace the mean of squares in :class:`Adam` by the largest gradient, with decay (Kingma and Ba 2014)."""

    def __init__(
        self,
        learning_rate: float = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the mean and for the largest gradient."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        return step.lr / (1.0 - self.beta1**step.number), step.wd or None

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepare_gradient_with_decay(grad, scale, wd, weight)
        mean, largest = state
        remember(mean, self.beta1, grad)
        assign(largest, ndarray.maximum(self.beta2 * largest, ndarray.abs(grad)))
        assign(weight, weight - lr * mean / largest)


@register
class Nadam(Optimizer):
    """Combine :class:`Adam` with Nesterov's momentum (Dozat 2016).

    The momentum rises to `beta1` with the number of updates, at the rate `schedule_decay`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        schedule_decay: float = 0.004,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for both means."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        now, later = [
            self.beta1 * (1.0 - 0.5 * pow(0.96, number * self.schedule_decay))
            for number in (step.number, step.number + 1)
        ]
        self.m_schedule *= now
        slope = (1.0 - now) / (1.0 - self.m_schedule)
        drift = later / (1.0 - self.m_schedule * later)
        return step.lr, step.wd or None, slope, drift, 1.0 - pow(self.beta2, step.number)

    def _apply(
        self,
        weight: NDArray,
        grad: NDArray,
        state: Any,
        scale: Any,
        lr: Any,
        wd: Any,
        slope: Any,
        drift: Any,
        correction: Any,
    ) -> None:
        grad = self._prepare_gradient_with_decay(grad, scale, wd, weight)
        mean, square = state
        remember(mean, self.beta1, grad)
        remember(square, self.beta2, ndarray.square(grad))
        direction = slope * grad + drift * mean
        assign(weight, weight - lr * direction / (ndarray.sqrt(square / correction) + self.epsilon))


complete_classes(globals())
