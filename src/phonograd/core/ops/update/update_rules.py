"""Formulas of weight updates: each function returns the new weight, then the new states.

Each formula is written once, for arrays and for nodes. ``F`` is the namespace of functions: :mod:`phonograd.ndarray`
for the classes of :mod:`phonograd.optimizer`, the registry for the operators of :mod:`.updates`. Numbers that change
from update to update (`lr`, `wd`, `scale`) may be Python numbers, nodes, or 0-d arrays. A `wd` or `scale` of None
has no effect.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = [
    "adagrad",
    "adam",
    "add_weight_decay",
    "clip_to_limit",
    "ftml",
    "ftrl",
    "group_adagrad",
    "lamb_direction",
    "lamb_step",
    "lars_rate",
    "momentum",
    "moving_average",
    "nesterov",
    "plain",
    "rescale",
    "rescale_and_clip",
    "rmsprop",
    "rmsprop_centered",
    "sign_momentum",
    "sign_step",
]


# -- gradients


def rescale(grad: Any, scale: Any) -> Any:
    """Return ``scale * grad``."""
    return grad if scale is None else grad * scale


def clip_to_limit(F: Any, grad: Any, limit: float | None) -> Any:
    """Clip a gradient to [-limit, limit]; None means no limit."""
    return grad if limit is None else F.clip(grad, a_min=-limit, a_max=limit)


def add_weight_decay(grad: Any, wd: Any, weight: Any) -> Any:
    """Add weight decay to a gradient: ``grad + wd * weight``."""
    return grad if wd is None else grad + wd * weight


def rescale_and_clip(F: Any, grad: Any, scale: Any, limit: float | None) -> Any:
    """Rescale a gradient, then clip it."""
    return clip_to_limit(F, rescale(grad, scale), limit)


def moving_average(average: Any, factor: float, value: Any) -> Any:
    """Return the new exponential moving average: ``factor * average + (1 - factor) * value``."""
    return factor * average + (1.0 - factor) * value


# -- first-order steps and momentum


def plain(weight: Any, direction: Any, lr: Any) -> Any:
    """Return the weight after one step: ``weight - lr * direction``."""
    return weight - lr * direction


def momentum(weight: Any, direction: Any, moment: Any, lr: Any, factor: float) -> tuple[Any, Any]:
    """Return the weight after one step with momentum, and the momentum; `factor` decays the momentum."""
    moment = factor * moment - lr * direction
    return weight + moment, moment


def nesterov(weight: Any, grad: Any, moment: Any, lr: Any, wd: Any, factor: float) -> tuple[Any, Any]:
    """Return the weight after one step with Nesterov momentum, and the momentum."""
    direction = add_weight_decay(grad, wd, weight)
    ahead = factor * moment - lr * direction
    moved = weight + factor * ahead - lr * direction
    # as in MXNet, the stored momentum applies weight decay to the updated weight
    return moved, factor * moment - lr * add_weight_decay(grad, wd, moved)


def sign_step(F: Any, weight: Any, grad: Any, lr: Any, kept: Any) -> Any:
    """Return ``kept * weight - lr * sign(grad)``."""
    return kept * weight - lr * F.sign(grad)


def sign_momentum(
    F: Any, weight: Any, direction: Any, moment: Any, lr: Any, kept: Any, factor: float
) -> tuple[Any, Any]:
    """Return ``kept * weight + lr * sign(moment)``, and the momentum."""
    moment = factor * moment - (1 - factor) * direction
    return kept * weight + lr * F.sign(moment), moment


# -- adaptive learning rates per element


def adam(
    F: Any, weight: Any, grad: Any, mean: Any, square: Any, lr: Any, beta1: float, beta2: float, epsilon: float
) -> tuple[Any, Any, Any]:
    """Return the weight after one Adam step, and the moving averages of the gradient and its square."""
    mean = moving_average(mean, beta1, grad)
    square = moving_average(square, beta2, F.square(grad))
    return weight - lr * mean / (F.sqrt(square) + epsilon), mean, square


def adagrad(F: Any, weight: Any, grad: Any, squares: Any, lr: Any, wd: Any, epsilon: float) -> tuple[Any, Any]:
    """Return the weight after one AdaGrad step, and the sum of squared gradients."""
    squares = squares + F.square(grad)
    direction = grad / F.sqrt(squares + epsilon)
    return weight - lr * add_weight_decay(direction, wd, weight), squares


def group_adagrad(F: Any, weight: Any, grad: Any, squares: Any, lr: Any, epsilon: float) -> tuple[Any, Any]:
    """Return the weight after one AdaGrad step with one sum of squares per row, and the sums."""
    axes = tuple(range(1, len(weight.shape)))
    squares = squares + F.mean(F.square(grad), axis=axes, keepdims=True)
    return weight - F.broadcast_div(lr * grad, F.sqrt(squares + epsilon)), squares


def rmsprop(
    F: Any, weight: Any, grad: Any, square: Any, lr: Any, factor: float, epsilon: float, largest: float | None
) -> tuple[Any, Any]:
    """Return the weight after one RMSProp step, clipped to [-largest, largest], and the mean square."""
    square = moving_average(square, factor, F.square(grad))
    return clip_to_limit(F, weight - lr * (grad / F.sqrt(square + epsilon)), largest), square


def rmsprop_centered(
    F: Any,
    weight: Any,
    grad: Any,
    square: Any,
    mean: Any,
    moment: Any,
    lr: Any,
    factors: tuple[float, float],
    epsilon: float,
    largest: float | None,
) -> tuple[Any, Any, Any, Any]:
    """Return the weight after one step of centered RMSProp, and the mean square, mean and momentum."""
    square = moving_average(square, factors[0], F.square(grad))
    mean = moving_average(mean, factors[0], grad)
    spread = F.sqrt(square - F.square(mean) + epsilon)
    moment = factors[1] * moment - lr * (grad / spread)
    return clip_to_limit(F, weight + moment, largest), square, mean, moment


def ftrl(
    F: Any, weight: Any, grad: Any, linear: Any, squares: Any, lr: Any, wd: Any, lamda1: float, beta: float
) -> tuple[Any, Any, Any]:
    """Return the weight after one FTRL step, and the sums of gradients and of squared gradients."""
    more = squares + F.square(grad)
    linear = linear + grad - (F.sqrt(more) - F.sqrt(squares)) * weight / lr
    excess = F.relu(F.abs(linear) - lamda1)
    curvature = (beta + F.sqrt(more)) / lr
    return -F.sign(linear) * excess / (curvature if wd is None else curvature + wd), linear, more


def ftml(
    F: Any,
    weight: Any,
    grad: Any,
    before: Any,
    square: Any,
    linear: Any,
    factor: Any,
    correction: Any,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Any, Any, Any, Any]:
    """Return the weight after one FTML step, and d, v and z of the paper (Zheng and Kwok, 2017)."""
    square = moving_average(square, beta2, F.square(grad))
    now = factor * (F.sqrt(square / correction) + epsilon)
    linear = beta1 * linear + (1.0 - beta1) * grad - (now - beta1 * before) * weight
    return -linear / now, now, square, linear


# -- learning rates scaled by norms


def _ratio(F: Any, above: Any, below: Any, both: tuple[Any, Any]) -> Any:
    """Return ``above / below``, or 1 if either norm in `both` is 0."""
    return F.where(F.sign(both[0]) * F.sign(both[1]), above / below, F.ones_like(above))


def lars_rate(F: Any, size: Any, slope: Any, wd: Any, scale: Any, eta: float, epsilon: float) -> Any:
    """Return the LARS factor of the learning rate; `size` and `slope` are the norms of weight and gradient."""
    return _ratio(F, eta * size, slope * scale + wd * size + epsilon, (size, slope))


def lamb_direction(
    F: Any,
    weight: Any,
    grad: Any,
    mean: Any,
    square: Any,
    wd: Any,
    corrections: tuple[Any, Any] | None,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Any, Any, Any]:
    """Return the direction of a LAMB step, and both moving averages.

    `corrections` are the divisors of the bias correction, None for no correction.
    """
    mean = moving_average(mean, beta1, grad)
    square = moving_average(square, beta2, F.square(grad))
    first, second = (mean, square) if corrections is None else (mean / corrections[0], square / corrections[1])
    return add_weight_decay(first / (F.sqrt(second) + epsilon), wd, weight), mean, square


def lamb_step(
    F: Any, weight: Any, direction: Any, size: Any, slope: Any, lr: Any, lower: float | None, upper: float | None
) -> Any:
    """Return the weight after one LAMB step: ``weight - lr * norm(weight) / norm(direction) * direction``.

    `size` is the norm of the weight, which is clipped to [lower, upper]; `slope` is the norm of the direction. An upper
    bound below the lower one wins, as in MXNet.
    """
    if lower is not None and upper is not None:
        lower = min(lower, upper)
    if lower is not None or upper is not None:
        size = F.clip(size, a_min=-math.inf if lower is None else lower, a_max=math.inf if upper is None else upper)
    ratio = F.cast(_ratio(F, size, slope, (size, slope)) * lr, dtype=weight.dtype)
    return weight - F.broadcast_mul(F.reshape(ratio, shape=(1,) * len(weight.shape)), direction)
