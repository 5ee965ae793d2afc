"""Updates of weights by gradients, as operators: ``sgd_update``, ``adam_update`` and so on.

All return the weight after the update (``out=weight`` writes it where it was) and change their states in place. The
rules are those of :mod:`.update_rules`, which the classes of optimisers follow, too. From an update of one weight
follow the forms in mixed precision (``mp_``: a float16 weight with a float32 copy) and for several weights at once
(``multi_``, ``preloaded_multi_``), see :mod:`.update_forms`.

Learning rate, weight decay and the factor of gradients are data: another value needs no other plan. A `clip_gradient`
below 0 is no limit. For a row_sparse gradient, `lazy_update` leaves all rows alone that the gradient does not have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.node import Node
from ...graph.operator import REGISTRY, composite, single
from ...graph.parameters import Count, Number
from ..math.arithmetic import power
from ..math.broadcasting import broadcast
from ..math.comparison import not_equal
from ..math.examination import isfinite
from ..math.primitives import cast, reshape_to
from ..math.structural import constant
from . import update_rules as rules

__all__ = ["F", "corrections", "limit_of", "states_change"]


class _Functions:
    """The operators of the registry as attributes: what rules take for ``F``."""

    def __getattr__(self, name: str) -> Any:
        if name not in REGISTRY:
            raise AttributeError(f"there is no operator {name!r}")
        return REGISTRY[name]


F: Any = _Functions()


def limit_of(number: float) -> float | None:
    """Return a limit, of which there is none below 0."""
    return None if number < 0 else number


def states_change(inputs: tuple[Node, ...], outputs: tuple[Node, ...]) -> dict[int, Node]:
    """Return the new states by their places: those of an update stand behind weight and gradient, in order."""
    return {2 + place: node for place, node in enumerate(outputs[1:])}


def corrections(t: Any, beta1: float, beta2: float, like: Node) -> tuple[Any, Any]:
    """Return what is missing to 1 in means that began with 0, after `t` updates."""
    if not isinstance(t, Node):
        return 1.0 - beta1**t, 1.0 - beta2**t
    wide = np.dtype(np.float64)
    first, second = [power(constant(beta, wide), t) for beta in (beta1, beta2)]
    return cast(1.0 - first, like.dtype), cast(1.0 - second, like.dtype)


def _prepared(grad: Node, rescale_grad: Any, clip_gradient: float) -> Any:
    return rules.prepared(F, grad, rescale_grad, limit_of(clip_gradient))


def _with_decay(grad: Node, weight: Node, rescale_grad: Any, wd: Any, clip_gradient: float) -> Any:
    """Return a gradient rescaled, with weight decay, and then cut off."""
    return rules.limited(F, rules.decayed(rules.rescaled(grad, rescale_grad), wd, weight), limit_of(clip_gradient))


@composite()
def sgd_update(
    weight: Node,
    grad: Node,
    *,
    lr: Number,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool = True,
) -> Node:
    """Return the weight after a step of gradient descent: ``weight - lr * (rescale_grad * grad + wd * weight)``."""
    direction = rules.decayed(_prepared(grad, rescale_grad, clip_gradient), wd, weight)
    return single(rules.plain(weight, direction, lr))


@composite(visible=1, effects=states_change)
def sgd_mom_update(
    weight: Node,
    grad: Node,
    mom: Node,
    *,
    lr: Number,
    momentum: float = 0.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool = True,
) -> tuple[Node, ...]:
    """Return the weight after a step with momentum: ``mom = momentum * mom - lr * (grad + wd * weight)``, added."""
    direction = rules.decayed(_prepared(grad, rescale_grad, clip_gradient), wd, weight)
    return rules.momentum(weight, direction, mom, lr, momentum)


@composite(visible=1, effects=states_change)
def nag_mom_update(
    weight: Node,
    grad: Node,
    mom: Node,
    *,
    lr: Number,
    momentum: float = 0.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight after a step with Nesterov's momentum."""
    return rules.nesterov(weight, _prepared(grad, rescale_grad, clip_gradient), mom, lr, wd, momentum)


@composite()
def signsgd_update(
    weight: Node,
    grad: Node,
    *,
    lr: Number,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> Node:
    """Return the weight after a step of equal size everywhere: ``(1 - lr * wd) * weight - lr * sign(grad)``.

    As in MXNet, `rescale_grad` and `clip_gradient` mean nothing: signs do not depend on sizes.
    """
    return single(rules.sign_step(F, weight, grad, lr, 1.0 - lr * wd))


@composite(visible=1, effects=states_change)
def signum_update(
    weight: Node,
    grad: Node,
    mom: Node,
    *,
    lr: Number,
    momentum: float = 0.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    wd_lh: Number = 0.0,
) -> tuple[Node, ...]:
    """Return the weight after a step of equal size along the signs of the momentum; `wd_lh` is a decay of its own."""
    direction = rules.decayed(_prepared(grad, rescale_grad, clip_gradient), wd, weight)
    return rules.sign_momentum(F, weight, direction, mom, lr, 1.0 - lr * wd_lh, momentum)


@composite(visible=1, effects=states_change)
def adam_update(
    weight: Node,
    grad: Node,
    mean: Node,
    var: Node,
    *,
    lr: Number,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool = True,
) -> tuple[Node, ...]:
    """Return the weight after a step of Adam; `lr` is what makes up for means that begin with 0."""
    grad = _with_decay(grad, weight, rescale_grad, wd, clip_gradient)
    return rules.adam(F, weight, grad, mean, var, lr, beta1, beta2, epsilon)


@composite(name="_adamw_update", visible=1, effects=states_change)
def adamw_update(
    weight: Node,
    grad: Node,
    mean: Node,
    var: Node,
    rescale_grad: Node,
    *,
    lr: Number,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: Number = 0.0,
    eta: Number,
    clip_gradient: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight after a step of Adam with a weight decay of its own: ``eta * (lr * step + wd * weight)``.

    `rescale_grad` is an array of one element. If it is 0 or not finite, nothing changes.
    """
    scale = reshape_to(cast(rescale_grad, weight.dtype), ())
    valid = isfinite(scale) * not_equal(scale, scale * 0.0)
    grad = _prepared(grad, scale, clip_gradient)
    direction = rules.adam(F, weight * 0.0, grad, mean, var, -lr, beta1, beta2, epsilon)
    after = (weight - eta * rules.decayed(direction[0], wd, weight), *direction[1:])
    condition = broadcast(valid, weight.shape)
    return tuple([single(F.where(condition, new, old)) for new, old in zip(after, (weight, mean, var), strict=True)])


@composite(visible=1, effects=states_change)
def rmsprop_update(
    weight: Node,
    grad: Node,
    n: Node,
    *,
    lr: Number,
    gamma1: float = 0.95,
    epsilon: float = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    clip_weights: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight after a step over the root of the running mean of squared gradients."""
    grad = _with_decay(grad, weight, rescale_grad, wd, clip_gradient)
    return rules.rmsprop(F, weight, grad, n, lr, gamma1, epsilon, limit_of(clip_weights))


@composite(visible=1, effects=states_change)
def rmspropalex_update(
    weight: Node,
    grad: Node,
    n: Node,
    g: Node,
    delta: Node,
    *,
    lr: Number,
    gamma1: float = 0.95,
    gamma2: float = 0.9,
    epsilon: float = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    clip_weights: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight after a step with momentum over the running standard deviation of gradients."""
    grad = _with_decay(grad, weight, rescale_grad, wd, clip_gradient)
    limit = limit_of(clip_weights)
    return rules.rmsprop_centered(F, weight, grad, n, g, delta, lr, (gamma1, gamma2), epsilon, limit)


@composite(visible=1, effects=states_change)
def ftrl_update(
    weight: Node,
    grad: Node,
    z: Node,
    n: Node,
    *,
    lr: Number,
    lamda1: float = 0.01,
    beta: float = 1.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight that follows the regularised leader, which makes most weights 0."""
    grad = _prepared(grad, rescale_grad, clip_gradient)
    return rules.ftrl(F, weight, grad, z, n, lr, wd, lamda1, beta)


@composite(visible=1, effects=states_change)
def ftml_update(
    weight: Node,
    grad: Node,
    d: Node,
    v: Node,
    z: Node,
    *,
    lr: Number,
    beta1: float = 0.6,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    t: Count,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_grad: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight that follows the moving leader, in update number `t`."""
    grad = _with_decay(grad, weight, rescale_grad, wd, clip_grad)
    first, second = corrections(t, beta1, beta2, weight)
    return rules.ftml(F, weight, grad, d, v, z, first / lr, second, beta1, beta2, epsilon)


@composite(name="_sparse_adagrad_update", visible=1, effects=states_change)
def adagrad_update(
    weight: Node,
    grad: Node,
    history: Node,
    *,
    lr: Number,
    epsilon: float = 1e-7,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight after a step over the root of the sum of all squared gradients."""
    grad = _prepared(grad, rescale_grad, clip_gradient)
    return rules.adagrad(F, weight, grad, history, lr, wd, epsilon)


@composite(name="_contrib_group_adagrad_update", visible=1, effects=states_change)
def group_adagrad_update(
    weight: Node,
    grad: Node,
    history: Node,
    *,
    lr: Number,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    epsilon: float = 1e-5,
) -> tuple[Node, ...]:
    """Return the weight after a step of AdaGrad with one sum of squares for each row."""
    return rules.group_adagrad(F, weight, _prepared(grad, rescale_grad, clip_gradient), history, lr, epsilon)


@composite(visible=1, effects=states_change)
def lamb_update_phase1(
    weight: Node,
    grad: Node,
    mean: Node,
    var: Node,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    t: Count,
    bias_correction: bool = True,
    wd: Number,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Node, ...]:
    """Return the direction of a step of LAMB, in update number `t`."""
    grad = _prepared(grad, rescale_grad, clip_gradient)
    missing = corrections(t, beta1, beta2, weight) if bias_correction else None
    return rules.lamb_direction(F, weight, grad, mean, var, wd, missing, beta1, beta2, epsilon)


@composite()
def lamb_update_phase2(
    weight: Node,
    g: Node,
    r1: Node,
    r2: Node,
    *,
    lr: Number,
    lower_bound: float = -1.0,
    upper_bound: float = -1.0,
) -> Node:
    """Return the weight after a step of LAMB in direction `g`; `r1` and `r2` are the norms of the weight and of `g`."""
    return single(rules.lamb_step(F, weight, g, r1, r2, lr, limit_of(lower_bound), limit_of(upper_bound)))


@composite()
def multi_lars(
    lrs: Node,
    weights_sum_sq: Node,
    grads_sum_sq: Node,
    wds: Node,
    *,
    eta: float,
    eps: float,
    rescale_grad: Number = 1.0,
) -> Node:
    """Return the learning rates of weights by LARS, from the sums of squares of weights and gradients."""
    size, slope = F.sqrt(weights_sum_sq), F.sqrt(grads_sum_sq)
    return single(lrs * rules.lars_rate(F, size, slope, wds, rescale_grad, eta, eps))
