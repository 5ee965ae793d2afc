"""Events of a training loop, and what it means for a metric to get better."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
    "better_for",
    "checked_monitor",
]


class EventHandler:
    """Whatever is told of events."""

    priority: float = 0


class TrainBegin(EventHandler):
    """Told when training begins."""

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Called before the first epoch."""


class TrainEnd(EventHandler):
    """Told when training ends."""

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Called after the last epoch."""


class EpochBegin(EventHandler):
    """Told when an epoch begins."""

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Called before the first batch of an epoch."""


class EpochEnd(EventHandler):
    """Told when an epoch ends."""

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Called after the last batch of an epoch; returns True to stop training."""
        return False


class BatchBegin(EventHandler):
    """Told when a batch begins."""

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Called with ``batch``."""


class BatchEnd(EventHandler):
    """Told when a batch ends."""

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> Any:
        """Called with ``batch``, ``pred``, ``label`` and ``loss``; returns True to stop training."""
        return False


def checked_monitor(monitor: Any) -> EvalMetric:
    """Return what is to be watched if it is a metric."""
    if not isinstance(monitor, EvalMetric):
        raise ValueError(
            "Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as "
            "monitor."
        )
    return monitor


_MORE_IS_BETTER = ("acc", "f1", "mcc", "pcc", "correlation")


def better_for(monitor: EvalMetric, mode: str) -> Callable[[float, float, float], bool]:
    """Return a function that says whether a value is better than another one by more than a third."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(f"mode {mode} is unknown, fallback to auto mode.", RuntimeWarning, stacklevel=3)
        mode = "auto"
    name = str(monitor.get()[0]).lower()
    if mode == "max" or (mode == "auto" and any([part in name for part in _MORE_IS_BETTER])):
        return lambda value, best, by: value - by > best
    return lambda value, best, by: value + by < best
