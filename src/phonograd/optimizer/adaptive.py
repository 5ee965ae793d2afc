"""Optimisers whose steps depend on how large gradients were before."""

from __future__ import annotations

import math
from typing import Any

from .. import ndarray
from ..ndarray.array import NDArray
from .optimizer import Optimizer, Step, assign, decayed, register, zeros_like

__all__ = ["FTML", "AdaDelta", "AdaGrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSProp"]


def remember(average: NDArray, factor: float, value: NDArray) -> None:
    """Move a running average towards a value: `factor` of it is kept."""
    assign(average, factor * average + (1.0 - factor) * value)


@register
class Adam(Optimizer):
    """Steps by running means of gradients over those of their squares (Kingma and Ba 2014).

    `beta1` and `beta2` are kept of the means, `epsilon` is added to the root of squares. `lazy_update` concerns sparse
    gradients in MXNet, and changes nothing here.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for both means."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: Step) -> tuple[float | None, ...]:
        corrected = step.lr * math.sqrt(1.0 - self.beta2**step.number) / (1.0 - self.beta1**step.number)
        return corrected, step.wd or None

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepared_with_decay(grad, scale, wd, weight)
        mean, square = state
        remember(mean, self.beta1, grad)
        remember(square, self.beta2, ndarray.square(grad))
        assign(weight, weight - lr * mean / (ndarray.sqrt(square) + self.epsilon))


@register
class AdaGrad(Optimizer):
    """Steps by gradients over the root of the sum of all their squares (Duchi et al. 2011)."""

    def __init__(self, eps: float = 1e-07, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the sum of squares."""
        return zeros_like(weight)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepared(grad, scale)
        assign(state, state + ndarray.square(grad))
        direction = grad / ndarray.sqrt(state + self.float_stable_eps)
        assign(weight, weight - lr * decayed(direction, wd, weight))


@register
class RMSProp(Optimizer):
    """Steps by gradients over the root of the running mean of their squares (Tieleman and Hinton 2012).

    With `centered`, over the standard deviation, and with momentum (Graves 2013): `gamma1` is kept of the means and
    `gamma2` of the momentum. Weights are cut off at `clip_weights`, if that is given.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-08,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the mean of squares; with `centered`, for the mean and the momentum, too."""
        return tuple([zeros_like(weight) for _ in range(3 if self.centered else 1)])

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepared_with_decay(grad, scale, wd, weight)
        remember(state[0], self.gamma1, ndarray.square(grad))
        if self.centered:
            square, mean, momentum = state
            remember(mean, self.gamma1, grad)
            spread = ndarray.sqrt(square - ndarray.square(mean) + self.epsilon)
            assign(momentum, self.gamma2 * momentum - lr * (grad / spread))
            moved = weight + momentum
        else:
            moved = weight - lr * (grad / ndarray.sqrt(state[0] + self.epsilon))
        if self.clip_weights:
            moved = ndarray.clip(moved, -self.clip_weights, self.clip_weights)
        assign(weight, moved)


@register
class AdaDelta(Optimizer):
    """Steps by gradients, in the ratio of running means of squared steps and squared gradients (Zeiler 2012)."""

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-05, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for both means."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: Step) -> tuple[float | None, ...]:
        return (step.wd or None,)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, wd: Any) -> None:
        grad = self._prepared(grad, scale)
        gradients, changes = state
        remember(gradients, self.rho, ndarray.square(grad))
        change = ndarray.sqrt(changes + self.epsilon) / ndarray.sqrt(gradients + self.epsilon) * grad
        remember(changes, self.rho, ndarray.square(change))
        assign(weight, weight - decayed(change, wd, weight))


@register
class Ftrl(Optimizer):
    """Follows the regularised leader, which makes most weights 0 (McMahan et al. 2013)."""

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lamda1 = lamda1
        self.beta = beta
        self.lr = learning_rate

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the sum of gradients and that of their squares."""
        return zeros_like(weight), zeros_like(weight)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepared(grad, scale)
        linear, squares = state
        more = squares + ndarray.square(grad)
        assign(linear, linear + grad - (ndarray.sqrt(more) - ndarray.sqrt(squares)) * weight / lr)
        assign(squares, more)
        excess = ndarray.relu(ndarray.abs(linear) - self.lamda1)
        curvature = (self.beta + ndarray.sqrt(squares)) / lr
        assign(weight, -ndarray.sign(linear) * excess / (curvature if wd is None else curvature + wd))


@register
class FTML(Optimizer):
    """Follows the moving leader (Zheng and Kwok 2017)."""

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-08, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for d, v and z of the paper."""
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def _rates(self, step: Step) -> tuple[float | None, ...]:
        powers = 1.0 - self.beta1**step.number, 1.0 - self.beta2**step.number
        return powers[0] / step.lr, step.wd or None, powers[1]

    def _apply(
        self, weight: NDArray, grad: NDArray, state: Any, scale: Any, factor: Any, wd: Any, correction: Any
    ) -> None:
        grad = self._prepared_with_decay(grad, scale, wd, weight)
        before, square, linear = state
        remember(square, self.beta2, ndarray.square(grad))
        now = factor * (ndarray.sqrt(square / correction) + self.epsilon)
        assign(linear, self.beta1 * linear + (1.0 - self.beta1) * grad - (now - self.beta1 * before) * weight)
        assign(before, now)
        assign(weight, -linear / now)


@register
class Adamax(Optimizer):
    """:class:`Adam` with the largest gradient in place of the mean of squares (Kingma and Ba 2014)."""

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the mean and the largest gradient."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: Step) -> tuple[float | None, ...]:
        return step.lr / (1.0 - self.beta1**step.number), step.wd or None

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any) -> None:
        grad = self._prepared_with_decay(grad, scale, wd, weight)
        mean, largest = state
        remember(mean, self.beta1, grad)
        assign(largest, ndarray.maximum(self.beta2 * largest, ndarray.abs(grad)))
        assign(weight, weight - lr * mean / largest)


@register
class Nadam(Optimizer):
    """:class:`Adam` with Nesterov's momentum (Dozat 2016).

    The momentum rises towards `beta1` with the number of updates: `schedule_decay` says how fast.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        schedule_decay: float = 0.004,
        **kwargs: Any,
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

    def _rates(self, step: Step) -> tuple[float | None, ...]:
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
        grad = self._prepared_with_decay(grad, scale, wd, weight)
        mean, square = state
        remember(mean, self.beta1, grad)
        remember(square, self.beta2, ndarray.square(grad))
        direction = slope * grad + drift * mean
        assign(weight, weight - lr * direction / (ndarray.sqrt(square / correction) + self.epsilon))
