"""Provide the events of a training loop, and the comparison of values of a metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....core.base.docstrings import complete_classes
from ....metric import EvalMetric

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "EpochBegin",
    "EpochEnd",
    "EventHandler",
    "TrainBegin",
    "TrainEnd",
    "check_monitor",
    "make_comparison",
]


class EventHandler:
    """Base class of event handlers."""

    priority: float = 0


class TrainBegin(EventHandler):
    """Handle the beginning of training."""

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Run before the first epoch."""


class TrainEnd(EventHandler):
    """Handle the end of training."""

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Run after the last epoch."""


class EpochBegin(EventHandler):
    """Handle the beginning of an epoch."""

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Run before the first batch of an epoch."""


class EpochEnd(EventHandler):
    """Handle the end of an epoch."""

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Run after the last batch of an epoch; return True to stop training."""
        return False


class BatchBegin(EventHandler):
    """Handle the beginning of a batch."""

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Run before a batch, given as ``batch``."""


class BatchEnd(EventHandler):
    """Handle the end of a batch."""

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Run after a batch, given as ``batch``, ``pred``, ``label`` and ``loss``; return True to stop training."""
        return False


def check_monitor(monitor: Any) -> EvalMetric:
    """Return a monitor if it is a metric, and raise otherwise."""
    if not isinstance(monitor, EvalMetric):
        raise ValueError(
            "Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as "
            "monitor."
        )
    return monitor


_MORE_IS_BETTER = ("acc", "f1", "mcc", "pcc", "correlation")


def make_comparison(monitor: EvalMetric, mode: str) -> Callable[[float, float, float], bool]:
    """Return a function ``is_better(value, best, by)``: whether a value beats the best one by more than `by`."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(f"mode {mode} is unknown, fallback to auto mode.", RuntimeWarning, stacklevel=3)
        mode = "auto"
    name = str(monitor.get()[0]).lower()
    if mode == "max" or (mode == "auto" and any([part in name for part in _MORE_IS_BETTER])):
        return lambda value, best, by: value - by > best
    return lambda value, best, by: value + by < best


complete_classes(globals())
