"""Provide optimizers for large batches: steps in proportion to the norm of weights, or a warm-up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ndarray
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import HALVES
from ..core.ops.update import update_rules as rules
from ..ndarray.array import NDArray
from .descent import _Momentum, descend
from .optimizer import Optimizer, UpdateStep, assign, assign_all, register, zeros_like

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .optimizer import OptimizerArguments, RateArguments

__all__ = ["LAMB", "LARS", "LBSGD"]


@register
class LARS(_Momentum):
    """Scale the learning rate of :class:`SGD` by the ratio of the norms of weight and gradient (You et al. 2017).

    Parameters
    ----------
    momentum, lazy_update
        See :class:`SGD`.
    eta
        The factor of the ratio.
    eps
        The number added to the denominator of the ratio.
    momentum_correction
        Whether to scale the momentum with the learning rate when that changes.
    """

    _by_rows = False

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Unpack[RateArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.momentum_correction = momentum_correction
        self.lazy_update = lazy_update
        self.eta = eta
        self.eps = eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None
        self.aggregate_num = 4

    def _decaying_endings(self) -> tuple[str, ...]:
        return ("_weight",)

    def _get_lrs(self, indices: Any) -> list[float]:
        """Return the learning rates of a group of weights, and store the rate of the previous group."""
        rate = float(self.learning_rate)
        self.last_lr = rate if self.cur_lr is None else self.cur_lr
        self.cur_lr = rate
        return [rate * self._multiplier(index, "lr_mult", self.lr_mult) for index in indices]

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight or a group of weights; a group has one correction of the momentum."""
        several = isinstance(index, (list, tuple))
        indices, weights, grads, states = [
            list(given) if several else [given] for given in (index, weight, grad, state)
        ]
        self._update_count(indices)
        rates = self._get_lrs(indices)
        momentum = self.momentum
        if self.momentum_correction and self.last_lr and self.cur_lr is not None:
            momentum *= self.cur_lr / self.last_lr
        for each, lr, wd, *arrays in zip(indices, rates, self._get_wds(indices), weights, grads, states, strict=True):
            self._change(*arrays, self._scale(), each, lr, wd, momentum)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight, or a group of weights of one dtype, through float32 copies if there are any."""
        if not isinstance(index, (list, tuple)) or not index:
            super().update_multi_precision(index, weight, grad, state)
        elif not self.multi_precision or weight[0]._dtype not in HALVES:
            self.update(index, weight, grad, state)
        else:
            own, copies = zip(*state)
            self.update(index, copies, [part.astype("float32") for part in grad], own)
            for array, copy in zip(weight, copies):
                assign(array, copy.astype(array.dtype))

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, *rates: Any) -> None:
        index, lr, wd, momentum = rates
        if not self.idx2name.get(index, str(index)).endswith(("gamma", "beta", "bias")):
            size, slope = ndarray.norm(weight), ndarray.norm(grad)
            lr = lr * rules.lars_rate(ndarray, size, slope, wd, self.rescale_grad, self.eta, self.eps)
            lr = lr.astype(weight.dtype).reshape((1,) * len(weight.shape))
        direction = rules.add_weight_decay(self._prepare_gradient(grad, scale), wd or None, weight)
        change = ndarray.broadcast_mul(lr, direction) if isinstance(lr, NDArray) else lr * direction
        descend(weight, change, state, 1.0, momentum)


@register
class LBSGD(Optimizer):
    """Accumulate gradients of `batch_scale` batches for one step of :class:`SGD`, with a learning rate warm-up.

    Parameters
    ----------
    momentum, multi_precision
        See :class:`SGD`.
    warmup_strategy
        The growth of the factor of the learning rate to `batch_scale`: 'linear', 'power2' or 'sqrt'. With 'lars' the
        factor is the ratio of the norms of weight and gradient.
    warmup_epochs
        The number of epochs of the warm-up.
    batch_scale
        The number of batches that make one update.
    updates_per_epoch
        The number of batches in an epoch.
    begin_epoch
        The number of earlier epochs.
    num_epochs
        The total number of epochs.
    """

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.multi_precision = multi_precision
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult = 1
        self.cumgrads: dict[Any, dict[str, Any]] = {}
        self.adaptive = False
        self.admult = 1

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the momentum, or None without momentum."""
        return None if self.momentum == 0.0 else zeros_like(weight)

    def _get_lbmult(self, nup: int) -> float:
        """Return the factor of the learning rate after a number of batches."""
        most, rising = float(self.batch_scale), self.warmup_epochs * self.updates_per_epoch
        if nup >= rising:
            return most
        if rising <= 1:
            return 1.0
        progress = float(nup) / rising
        heights = {"linear": progress, "power2": progress * progress, "sqrt": math.sqrt(progress)}
        return 1.0 + (most - 1) * heights.get(self.warmup_strategy, 0.0)

    def _get_lars(self, weight: NDArray, grad: NDArray, wd: float) -> float:
        """Return the ratio of norms, clipped to [0.01, 100]."""
        size, slope = [float(np.sum(np.square(array.asnumpy()))) for array in (weight, grad)]
        return min(max(math.sqrt(size / (slope + wd * size + 1e-18)), 0.01), 100)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Accumulate a gradient, and update the weight once in `batch_scale` calls."""
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        before = self.cumgrads.get(index, {"cum_grad": 0, "num_cums": 0})
        count = (before["num_cums"] or self.init_updates) + 1
        total = before["cum_grad"] + grad if isinstance(before["cum_grad"], NDArray) else grad.copy()
        if count % self.batch_scale != 0:
            self.cumgrads[index] = {"cum_grad": total, "num_cums": count}
            return
        mean = total / self.batch_scale
        lr *= self._get_lars(weight, mean, wd) if self.warmup_strategy == "lars" else self._get_lbmult(count)
        self._change(weight, mean, state, self._scale(), lr, wd or None)
        self.cumgrads[index] = {"cum_grad": 0, "num_cums": count}

    def _is_lazy(self, weight: NDArray) -> bool:
        return True

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, *rates: Any) -> None:
        lr, wd = rates
        direction = rules.add_weight_decay(self._prepare_gradient(grad, scale), wd, weight)
        descend(weight, direction, state, lr, self.momentum)


@register
class LAMB(Optimizer):
    """Scale the learning rate of :class:`Adam` by the ratio of the norms of weight and step (You et al. 2019).

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon
        See :class:`Adam`.
    lower_bound, upper_bound
        The limits to which the norm of a weight is clipped; None for no limit.
    bias_correction
        Whether to correct the bias of both means, which begin at 0.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction
        self.aggregate_num = 45

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for both means."""
        return zeros_like(weight), zeros_like(weight)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        if not self.bias_correction:
            return step.lr, step.wd or None, None, None
        return step.lr, step.wd or None, 1.0 - self.beta1**step.number, 1.0 - self.beta2**step.number

    def _apply(
        self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any, wd: Any, first: Any, second: Any
    ) -> None:
        grad = self._prepare_gradient(grad, scale)
        mean, square = state
        corrections = (first, second) if self.bias_correction else None
        betas = self.beta1, self.beta2
        direction, *means = rules.lamb_direction(
            ndarray, weight, grad, mean, square, wd, corrections, *betas, self.epsilon
        )
        size, slope = ndarray.norm(weight), ndarray.norm(direction)
        bounds = self.lower_bound or None, self.upper_bound or None
        moved = rules.lamb_step(ndarray, weight, direction, size, slope, lr, *bounds)
        assign_all((weight, *state), (moved, *means))


complete_classes(globals())
