"""Update operators of optimizers: ``sgd_update``, ``adam_update`` and so on.

This is a table. Each row has the arrays of one weight (the arguments of the formula), the parameters in MXNet's order
with their defaults, and a formula from :mod:`.update_rules`, which the optimizer classes also use. The end of the file
declares the forms in mixed precision and for several weights; :mod:`.update_forms` makes the operators.

Every operator returns the weight after the update (``out=weight`` writes it in place) and changes its states in place.
Learning rate, weight decay and `rescale_grad` are data: a new value needs no new plan. A `clip_gradient` below 0
means no limit. For a row_sparse gradient, `lazy_update` updates only the rows that the gradient has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import check_bounds
from ...graph.interface import Interface, same_shapes
from ...graph.node import Node
from ...graph.operator import REGISTRY, composite, single
from ...graph.parameters import Number
from ...graph.partial_shapes import same_results
from ..math.arithmetic import power
from ..math.broadcasting import broadcast
from ..math.comparison import not_equal
from ..math.examination import isfinite
from ..math.primitives import cast, reshape_to
from ..math.structural import constant
from . import update_rules as rules
from .update_forms import Rule, declare, declare_several, mixed_precision, update


class _Functions:
    """Expose the operators of the registry as attributes: the ``F`` of the formulas."""

    def __getattr__(self, name: str) -> Any:
        if name not in REGISTRY:
            raise AttributeError(f"there is no operator {name!r}")
        return REGISTRY[name]


F: Any = _Functions()


def _limit(number: float) -> float | None:
    """Return a limit, or None for a number below 0."""
    return None if number < 0 else number


def _rescale_and_clip(p: Any, grad: Node) -> Any:
    """Rescale a gradient, then clip it."""
    return rules.rescale_and_clip(F, grad, p.rescale_grad, _limit(p.clip_gradient))


def _clip_then_decay(p: Any, weight: Node, grad: Node) -> Any:
    """Rescale and clip a gradient, then add weight decay."""
    return rules.add_weight_decay(_rescale_and_clip(p, grad), p.wd, weight)


def _decay_then_clip(p: Any, weight: Node, grad: Node, clip_gradient: float) -> Any:
    """Rescale a gradient and add weight decay, then clip it."""
    return rules.clip_to_limit(
        F, rules.add_weight_decay(rules.rescale(grad, p.rescale_grad), p.wd, weight), _limit(clip_gradient)
    )


def _bias_corrections(p: Any, like: Node) -> tuple[Any, Any]:
    """Return the divisors of Adam's bias correction: ``1 - beta ** t`` for both moving averages."""
    if not isinstance(p.t, Node):
        return 1.0 - p.beta1**p.t, 1.0 - p.beta2**p.t
    wide = np.dtype(np.float64)
    first, second = [power(constant(beta, wide), p.t) for beta in (p.beta1, p.beta2)]
    return cast(1.0 - first, like.dtype), cast(1.0 - second, like.dtype)


# -- first-order steps and momentum


@update("lr wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 lazy_update=True")
def sgd_update(p: Any, weight: Node, grad: Node) -> Any:
    """Return the weight after one SGD step: ``weight - lr * (rescale_grad * grad + wd * weight)``."""
    return rules.plain(weight, _clip_then_decay(p, weight, grad), p.lr)


@update("lr momentum=0.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 lazy_update=True")
def sgd_mom_update(p: Any, weight: Node, grad: Node, mom: Node) -> Any:
    """Return the weight after one SGD step with momentum.

    ``mom = momentum * mom - lr * (rescale_grad * grad + wd * weight)``, then ``weight + mom``. The operator updates
    `mom` in place.
    """
    return rules.momentum(weight, _clip_then_decay(p, weight, grad), mom, p.lr, p.momentum)


@update("lr momentum=0.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0")
def nag_mom_update(p: Any, weight: Node, grad: Node, mom: Node) -> Any:
    """Return the weight after one SGD step with Nesterov momentum. The operator updates `mom` in place."""
    return rules.nesterov(weight, _rescale_and_clip(p, grad), mom, p.lr, p.wd, p.momentum)


@update("lr wd=0.0 rescale_grad=1.0 clip_gradient=-1.0")
def signsgd_update(p: Any, weight: Node, grad: Node) -> Any:
    """Return the weight after one signSGD step: ``(1 - lr * wd) * weight - lr * sign(grad)``.

    As in MXNet, `rescale_grad` and `clip_gradient` have no effect: they do not change signs.
    """
    return rules.sign_step(F, weight, grad, p.lr, 1.0 - p.lr * p.wd)


@update("lr momentum=0.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 wd_lh=0.0")
def signum_update(p: Any, weight: Node, grad: Node, mom: Node) -> Any:
    """Return the weight after one Signum step: signSGD with momentum.

    ``mom = momentum * mom - (1 - momentum) * (rescale_grad * grad + wd * weight)``, then
    ``(1 - lr * wd_lh) * weight + lr * sign(mom)``. `wd_lh` is decoupled weight decay.
    """
    direction = _clip_then_decay(p, weight, grad)
    return rules.sign_momentum(F, weight, direction, mom, p.lr, 1.0 - p.lr * p.wd_lh, p.momentum)


# -- adaptive learning rates per element


@update(
    "lr beta1=0.9 beta2=0.999 epsilon=1e-8 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 lazy_update=True",
)
def adam_update(p: Any, weight: Node, grad: Node, mean: Node, var: Node) -> Any:
    """Return the weight after one Adam step: ``weight - lr * mean / (sqrt(var) + epsilon)``.

    `lr` must already include Adam's bias correction, ``sqrt(1 - beta2**t) / (1 - beta1**t)``. The operator updates
    `mean` and `var`, the moving averages of the gradient and its square, in place.
    """
    grad = _decay_then_clip(p, weight, grad, p.clip_gradient)
    return rules.adam(F, weight, grad, mean, var, p.lr, p.beta1, p.beta2, p.epsilon)


@update("lr beta1=0.9 beta2=0.999 epsilon=1e-8 wd=0.0 eta clip_gradient=-1.0", name="_adamw_update", shared=1)
def adamw_update(p: Any, weight: Node, grad: Node, mean: Node, var: Node, rescale_grad: Node) -> Any:
    """Return the weight after one AdamW step: Adam with decoupled weight decay.

    The result is ``weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight)``. `rescale_grad` is an array of
    one element. If it is 0 or not finite, the weight and the states stay the same. `lr` must already include Adam's
    bias correction.
    """
    scale = reshape_to(cast(rescale_grad, weight.dtype), ())
    valid = isfinite(scale) * not_equal(scale, scale * 0.0)
    grad = rules.rescale_and_clip(F, grad, scale, _limit(p.clip_gradient))
    direction, *means = rules.adam(F, weight * 0.0, grad, mean, var, -p.lr, p.beta1, p.beta2, p.epsilon)
    after = (weight - p.eta * rules.add_weight_decay(direction, p.wd, weight), *means)
    condition = broadcast(valid, weight.shape)
    return tuple([single(F.where(condition, new, old)) for new, old in zip(after, (weight, mean, var), strict=True)])


@update("lr gamma1=0.95 epsilon=1e-8 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 clip_weights=-1.0")
def rmsprop_update(p: Any, weight: Node, grad: Node, n: Node) -> Any:
    """Return the weight after one RMSProp step: ``weight - lr * grad / sqrt(n + epsilon)``.

    `n` is the moving average of the squared gradient: ``n = gamma1 * n + (1 - gamma1) * grad**2``. A `clip_weights`
    of at least 0 clips the result.
    """
    grad = _decay_then_clip(p, weight, grad, p.clip_gradient)
    return rules.rmsprop(F, weight, grad, n, p.lr, p.gamma1, p.epsilon, _limit(p.clip_weights))


@update("lr gamma1=0.95 gamma2=0.9 epsilon=1e-8 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 clip_weights=-1.0")
def rmspropalex_update(p: Any, weight: Node, grad: Node, n: Node, g: Node, delta: Node) -> Any:
    """Return the weight after one step of centered RMSProp with momentum (Graves, 2013).

    ``delta = gamma2 * delta - lr * grad / sqrt(n - g**2 + epsilon)``, then ``weight + delta``; `n` and `g` are the
    moving averages of the squared gradient and of the gradient.
    """
    grad, limit = _decay_then_clip(p, weight, grad, p.clip_gradient), _limit(p.clip_weights)
    return rules.rmsprop_centered(F, weight, grad, n, g, delta, p.lr, (p.gamma1, p.gamma2), p.epsilon, limit)


@update("lr lamda1=0.01 beta=1.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0")
def ftrl_update(p: Any, weight: Node, grad: Node, z: Node, n: Node) -> Any:
    """Return the weight after one FTRL step (follow the regularized leader); `lamda1` sets small weights to 0."""
    return rules.ftrl(F, weight, _rescale_and_clip(p, grad), z, n, p.lr, p.wd, p.lamda1, p.beta)


@update("lr beta1=0.6 beta2=0.999 epsilon=1e-8 t wd=0.0 rescale_grad=1.0 clip_grad=-1.0")
def ftml_update(p: Any, weight: Node, grad: Node, d: Node, v: Node, z: Node) -> Any:
    """Return the weight after one FTML step (follow the moving leader); `t` counts the updates from 1."""
    for word, value in (("beta1", p.beta1), ("beta2", p.beta2)):
        check_bounds("ftml_update", word, value)
    grad = _decay_then_clip(p, weight, grad, p.clip_grad)
    first, second = _bias_corrections(p, weight)
    return rules.ftml(F, weight, grad, d, v, z, first / p.lr, second, p.beta1, p.beta2, p.epsilon)


@update("lr epsilon=1e-7 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0", name="_sparse_adagrad_update")
def adagrad_update(p: Any, weight: Node, grad: Node, history: Node) -> Any:
    """Return the weight after one AdaGrad step: ``weight - lr * (grad / sqrt(history + epsilon) + wd * weight)``.

    `history` is the sum of all squared gradients.
    """
    return rules.adagrad(F, weight, _rescale_and_clip(p, grad), history, p.lr, p.wd, p.epsilon)


@update("lr rescale_grad=1.0 clip_gradient=-1.0 epsilon=1e-5", name="_contrib_group_adagrad_update")
def group_adagrad_update(p: Any, weight: Node, grad: Node, history: Node) -> Any:
    """Return the weight after one AdaGrad step with one sum of squares per row.

    The operator adds the mean squared gradient of each row to `history`.
    """
    return rules.group_adagrad(F, weight, _rescale_and_clip(p, grad), history, p.lr, p.epsilon)


# -- learning rates scaled by norms


@update(
    "beta1=0.9 beta2=0.999 epsilon=1e-6 t bias_correction=True wd rescale_grad=1.0 clip_gradient=-1.0",
)
def lamb_update_phase1(p: Any, weight: Node, grad: Node, mean: Node, var: Node) -> Any:
    """Return the direction of a LAMB step: Adam's direction plus ``wd * weight``; `t` counts the updates from 1."""
    missing = _bias_corrections(p, weight) if p.bias_correction else None
    grad = _rescale_and_clip(p, grad)
    return rules.lamb_direction(F, weight, grad, mean, var, p.wd, missing, p.beta1, p.beta2, p.epsilon)


@update("lr lower_bound=-1.0 upper_bound=-1.0", states=())
def lamb_update_phase2(p: Any, weight: Node, g: Node, r1: Node, r2: Node) -> Any:
    """Return the weight after one LAMB step: ``weight - lr * r1 / r2 * g``.

    `g` is the result of ``lamb_update_phase1``; `r1` and `r2` are the norms of the weight and of `g`. The bounds clip
    `r1`.
    """
    return rules.lamb_step(F, weight, g, r1, r2, p.lr, _limit(p.lower_bound), _limit(p.upper_bound))


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
    """Return LARS learning rates for several weights, from the sums of squares of weights and gradients.

    ``lrs * eta * norm(weight) / (rescale_grad * norm(grad) + wds * norm(weight) + eps)``; the factor is 1 if a norm is
    0.
    """
    size, slope = F.sqrt(weights_sum_sq), F.sqrt(grads_sum_sq)
    return single(lrs * rules.lars_rate(F, size, slope, wds, rescale_grad, eta, eps))


multi_lars.interface = Interface(shapes=same_shapes, results=same_results)


def _lamb_formula(p: Any, weight: Node, grad: Node, mean: Node, var: Node) -> Any:
    direction, *means = lamb_update_phase1.formula(p, weight, grad, mean, var)
    return lamb_update_phase2.formula(p, weight, direction, F.norm(weight), F.norm(direction)), *means


# -- derived forms

declare(mixed_precision("mp_nag_mom_update", nag_mom_update))
declare(mixed_precision("mp_lamb_update_phase1", lamb_update_phase1, narrow=False))
declare(mixed_precision("mp_lamb_update_phase2", lamb_update_phase2))

for _rule, _momentum in ((sgd_update, ""), (sgd_mom_update, "momentum=0.0")):
    for _form in (_rule, declare(mixed_precision(f"mp_{_rule.name}", _rule))):
        _common = f"{_momentum} rescale_grad=1.0 clip_gradient=-1.0 num_weights=1"
        declare_several(f"multi_{_form.name}", _form, f"lrs wds {_common}")
        declare_several(f"preloaded_multi_{_form.name}", _form, _common, preloaded=True)

_several_adamw = "lrs beta1=0.9 beta2=0.999 epsilon=1e-8 wds etas clip_gradient=-1.0 num_weights=1"
declare_several("_multi_adamw_update", adamw_update, _several_adamw)
declare_several("_multi_mp_adamw_update", declare(mixed_precision("_mp_adamw_update", adamw_update)), _several_adamw)

# MXNet has no LAMB operator that runs both phases for one weight
_lamb = Rule(
    name="lamb_update",
    inputs=("weight", "grad", "mean", "var"),
    parameters="",
    formula=_lamb_formula,
    states=("mean", "var"),
    doc="Return the weight after one LAMB step; `step_count` counts the updates from 1.",
)
_several_lamb = (
    "learning_rates beta1=0.9 beta2=0.999 epsilon=1e-6 wds rescale_grad=1.0 lower_bound=-1.0 upper_bound=-1.0 "
    "clip_gradient=-1.0 bias_correction=True step_count num_tensors=1"
)
declare_several("_multi_lamb_update", _lamb, _several_lamb)
declare_several("_multi_mp_lamb_update", mixed_precision("mp_lamb_update", _lamb), _several_lamb)
