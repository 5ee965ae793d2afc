"""Provide handlers for the beginning and end of training, epochs and batches.

A handler inherits from the classes of its events. The estimator calls the handlers of an event in the order of their
``priority`` (default 0), the lowest first. A handler stops training by returning True at the end of a batch or epoch.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .... import metric as metrics_module
from ....core.base.docstrings import complete_classes
from ....metric import EvalMetric
from ...utils import clip_global_norm
from .checkpoint_handler import CheckpointHandler
from .events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    TrainBegin,
    TrainEnd,
    check_monitor,
    make_comparison,
)

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "CheckpointHandler",
    "EarlyStoppingHandler",
    "EpochBegin",
    "EpochEnd",
    "EventHandler",
    "GradientUpdateHandler",
    "LoggingHandler",
    "MetricHandler",
    "StoppingHandler",
    "TrainBegin",
    "TrainEnd",
    "ValidationHandler",
]


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stop training after a number of epochs or batches."""

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reset the counts, and take the limits from the estimator."""
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Count a batch, and return whether the limit is reached."""
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Count an epoch, and return whether the limit is reached."""
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Update metrics: losses update metrics of class Loss, labels and predictions all others."""

    def __init__(self, metrics: list[EvalMetric], priority: float = -1000) -> None:
        self.metrics = list_metrics(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reset the metrics."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Update the metrics with the results of a batch."""
        for metric in self.metrics:
            if isinstance(metric, metrics_module.Loss):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluate at intervals of epochs, batches or both.

    Parameters
    ----------
    val_data
        An iterable of batches.
    eval_fn
        The function to call with ``val_data``, ``batch_axis`` and ``event_handlers``: an estimator's ``evaluate``.
    epoch_period, batch_period
        The intervals; None for never.
    event_handlers
        The handlers of the evaluation.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Any = None,
    ) -> None:
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.priority = priority
        self.event_handlers = event_handlers
        self.current_batch = self.current_epoch = 0

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reset the counts."""
        self.current_batch = self.current_epoch = 0

    def _evaluate(self, estimator: Estimator) -> None:
        self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers)

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Evaluate if a batch interval is complete."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Evaluate if an epoch interval is complete."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Log the progress of training to the estimator's logger.

    Parameters
    ----------
    log_interval
        ``'epoch'``, or the number of batches from line to line.
    metrics
        The metrics to report.
    """

    def __init__(
        self, log_interval: int | str = "epoch", metrics: list[EvalMetric] | None = None, priority: float = math.inf
    ) -> None:
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics = list_metrics(metrics)
        self.log_interval = log_interval
        self.priority = priority
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0

    def _values(self) -> str:
        return ", ".join([f"{name}: {value:.4f}" for name, value in [metric.get() for metric in self.metrics]])

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the optimizer and the planned epochs or batches."""
        self.train_start = time.perf_counter()
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0
        trainer = estimator.trainer
        name, rate = type(trainer.optimizer).__name__, trainer.learning_rate
        estimator.logger.info("Training begin: using optimizer %s with current learning rate %.4f ", name, rate)
        if estimator.max_epoch is not None:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the total time and the metrics."""
        seconds = time.perf_counter() - self.train_start
        message = f"Train finished using total {int(seconds)}s with {self.current_epoch} epochs. {self._values()}"
        estimator.logger.info("%s", message)

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self.batch_start = time.perf_counter()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log a line if a batch interval is complete."""
        if not isinstance(self.log_interval, int):
            return
        self.log_interval_time += time.perf_counter() - self.batch_start
        self.processed_samples += sum([part.shape[estimator.batch_axis] for part in kwargs["label"]])
        if self.batch_index % self.log_interval == 0:
            where = f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples {self.processed_samples}]"
            message = f"{where} time/interval: {self.log_interval_time:.3f}s {self._values()}"
            estimator.logger.info("%s", message)
            self.log_interval_time = 0.0
        self.batch_index += 1

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the beginning of an epoch or of a validation."""
        self.epoch_start = time.perf_counter()
        if any([metric in estimator.train_metrics for metric in self.metrics]):
            rate = estimator.trainer.learning_rate
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch, rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the time and metrics of an epoch."""
        seconds = time.perf_counter() - self.epoch_start
        message = f"[Epoch {self.current_epoch}] Finished in {seconds:.3f}s, {self._values()}"
        estimator.logger.info("%s", message)
        self.current_epoch += 1
        self.batch_index = 0


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stop training when a metric no longer improves.

    Parameters
    ----------
    monitor
        One of the estimator's metrics.
    min_delta
        The smallest difference that counts as an improvement.
    patience
        The number of epochs to wait for an improvement.
    mode
        ``'min'``, ``'max'``, or ``'auto'`` to infer from the name of the metric whether higher is better.
    baseline
        The value that the metric must exceed.
    """

    def __init__(
        self,
        monitor: EvalMetric,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        self.monitor = check_monitor(monitor)
        self.min_delta = min_delta
        self.patience = patience
        self.baseline = baseline
        self.is_better = make_comparison(monitor, mode)
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = math.nan

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reset the best value and the counts."""
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = math.nan if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Compare the metric with its best value, and return whether to stop."""
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"{name} is not updated, make sure you pass one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor.",
                RuntimeWarning,
                stacklevel=2,
            )
        elif math.isnan(self.best) or self.is_better(value, self.best, self.min_delta):
            self.best, self.wait = value, 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch, self.stop_training = self.current_epoch, True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the reason if this handler stopped the training."""
        if self.stop_training:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHandler: early stopping due to %s not improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )


class GradientUpdateHandler(BatchEnd):
    """Update the parameters after each batch. `max_norm` clips the global norm of all gradients first.

    The norm is that of the gradients of the mean loss.
    """

    def __init__(self, priority: float = -2000, *, max_norm: float | None = None) -> None:
        self.priority = priority
        self.max_norm = max_norm

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Run one step of the trainer."""
        loss = kwargs["loss"]
        parts = loss if isinstance(loss, list) else [loss]
        batch_size = sum([part.shape[0] if part.shape else 1 for part in parts])
        if self.max_norm is not None:
            parameters = [p for p in estimator.net.collect_params().values() if p.grad_req != "null"]
            for number in range(len(estimator.context)):
                grads = [parameter.list_grad()[number] for parameter in parameters]
                clip_global_norm(grads, self.max_norm * batch_size, check_isfinite=False)
        estimator.trainer.step(batch_size)


# -- checks that several modules share


def list_metrics(metrics: Any) -> list[EvalMetric]:
    """Return a list of metrics from None, one metric, or several. Raise if one is not a metric."""
    found = [] if metrics is None else list(metrics) if isinstance(metrics, (list, tuple)) else [metrics]
    if not all([isinstance(metric, EvalMetric) for metric in found]):
        raise ValueError(f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: {metrics}")
    return found


complete_classes(globals())
