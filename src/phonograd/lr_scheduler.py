"""Provide mx.lr_scheduler: learning rates as functions of the number of updates."""

from __future__ import annotations

import itertools
import logging
import math
from typing import TYPE_CHECKING, Any

from .core.base.docstrings import complete_classes
from .core.base.foreign_names import unknown_name

__all__ = ["CosineScheduler", "FactorScheduler", "LRScheduler", "MultiFactorScheduler", "PolyScheduler"]

_logger = logging.getLogger(__name__)


class LRScheduler:
    """Base class of schedulers, which map the number of updates to a learning rate.

    A subclass overrides ``__call__``.

    Parameters
    ----------
    base_lr
        The initial learning rate, after the warm-up.
    warmup_steps
        The number of updates of the warm-up.
    warmup_begin_lr
        The learning rate at the beginning of the warm-up.
    warmup_mode
        'linear' to rise to `base_lr`, or 'constant' to keep `warmup_begin_lr` during the warm-up.
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        assert isinstance(warmup_steps, int), f"warmup_steps must be an integer, not {warmup_steps!r}"
        if warmup_begin_lr > base_lr:
            raise ValueError("Base lr has to be higher than warmup_begin_lr")
        if warmup_steps < 0:
            raise ValueError("Warmup steps has to be positive or 0")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError("Supports only linear and constant modes of warmup")
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_final_lr = base_lr
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """Return the learning rate during the warm-up."""
        assert num_update < self.warmup_steps, f"after {num_update} updates the warm-up is over"
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = (self.warmup_final_lr - self.warmup_begin_lr) * float(num_update) / float(self.warmup_steps)
        return self.warmup_begin_lr + rise

    def __call__(self, num_update: int) -> float:
        """Return the learning rate after a number of updates."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__(self, num_update)")


#: turns of the loop of a call of FactorScheduler; a second takes some ten million
_MOST_TURNS = 1_000_000


class FactorScheduler(LRScheduler):
    """Multiply the learning rate by `factor` every `step` updates, down to `stop_factor_lr`.

    >>> schedule = FactorScheduler(step=2, factor=0.5, base_lr=1.0)
    >>> [schedule(update) for update in (1, 2, 3, 4, 5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-08,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError("Schedule step must be greater or equal than 1 round")
        if factor > 1.0:
            raise ValueError("Factor must be no more than 1 to make lr reduce")
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __call__(self, num_update: int) -> float:
        """Return the learning rate after a number of updates, which must not decrease from call to call."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        times = -((self.count - num_update) // self.step) - 1
        for done in range(times):
            before, self.base_lr = self.base_lr, max(self.base_lr * self.factor, self.stop_factor_lr)
            _logger.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
            if self.base_lr == before:
                break
            if done == _MOST_TURNS:
                # a jump in the numbers of updates: the last bits may differ from those of single steps
                self.base_lr = max(self.base_lr * self.factor ** (times - done - 1), self.stop_factor_lr)
                break
        self.count += max(0, times) * self.step
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiply the learning rate by `factor` after each number of updates in the list `step`."""

    def __init__(
        self,
        step: list[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(step, list), f"step must be a list of numbers of updates, not {step!r}"
        assert len(step) >= 1, "step must have at least one number of updates"
        if any([later <= earlier for earlier, later in itertools.pairwise(step)]):
            raise ValueError("Schedule step must be an increasing integer list")
        if step[0] < 1:
            raise ValueError("Schedule step must be greater or equal than 1 round")
        if factor > 1.0:
            raise ValueError("Factor must be no more than 1 to make lr reduce")
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def __call__(self, num_update: int) -> float:
        """Return the learning rate after a number of updates, which must not decrease from call to call."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            _logger.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _Descent(LRScheduler):
    """Decrease the learning rate along a curve to the final one after `max_update` updates."""

    def __init__(
        self,
        max_update: int,
        base_lr: float,
        final_lr: float,
        warmup_steps: int,
        warmup_begin_lr: float,
        warmup_mode: str,
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(max_update, int), f"max_update must be an integer, not {max_update!r}"
        if max_update < 1:
            raise ValueError("maximum number of updates must be strictly positive")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _height(self, progress: float) -> float:
        """Return the remaining fraction of the decrease: 1 at the beginning, 0 at the end."""
        raise NotImplementedError

    def __call__(self, num_update: int) -> float:
        """Return the learning rate after a number of updates."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            left = self._height(float(num_update - self.warmup_steps) / float(self.max_steps))
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * left
        return self.base_lr


class PolyScheduler(_Descent):
    """Decrease the learning rate polynomially from `base_lr` to `final_lr` over `max_update` updates.

    ``lr = final_lr + (base_lr - final_lr) * (1 - progress)^pwr``, with a `progress` from 0 to 1.
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _height(self, progress: float) -> float:
        return float(pow(1 - progress, self.power))


class CosineScheduler(_Descent):
    """Decrease the learning rate along half a cosine from `base_lr` to `final_lr` over `max_update` updates.

    ``lr = final_lr + (base_lr - final_lr) * (1 + cos(π * progress)) / 2``, with a `progress` from 0 to 1.
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def _height(self, progress: float) -> float:
        return (1 + math.cos(math.pi * progress)) / 2


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise unknown_name(__name__, name, __all__)


complete_classes(globals())
