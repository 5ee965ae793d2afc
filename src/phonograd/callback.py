"""Provide callbacks of training loops: speed, progress, metrics and checkpoints (``mxnet.callback``).

Callbacks of batches take an object with ``epoch``, ``nbatch`` and ``eval_metric``
(:class:`phonograd.model.BatchEndParam`). Callbacks of epochs take the number of the epoch, the symbol and its
parameters.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from .core.base.docstrings import complete_classes
from .model import save_checkpoint

__all__ = [
    "LogValidationMetricsCallback",
    "ProgressBar",
    "Speedometer",
    "do_checkpoint",
    "log_train_metric",
    "module_checkpoint",
]


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """Return a callback that writes a checkpoint of a module after every `period` epochs."""
    period = max(1, int(period))

    def _callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return _callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback that writes a symbol and its parameters after every `period` epochs.

    The files are those of :func:`phonograd.model.save_checkpoint`.
    """
    period = max(1, int(period))

    def _callback(iter_no: int, sym: Any, arg: Any, aux: Any) -> None:
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return _callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """Return a callback that logs the metric after every `period` batches; `auto_reset` resets it each time."""

    def _callback(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return _callback


class Speedometer:
    """Log the training speed in examples per second, and the metric.

    Parameters
    ----------
    batch_size
        The number of examples in a batch.
    frequent
        The number of batches from line to line.
    auto_reset
        Whether the metric covers only the batches since the last line.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: Any) -> None:
        count = param.nbatch
        if self.last_count > count:
            self.init = False
        self.last_count = count
        if not self.init:
            self.init = True
            self.tic = time.time()
            return
        if count % self.frequent:
            return
        seconds = time.time() - self.tic
        speed = self.frequent * self.batch_size / seconds if seconds > 0 else math.inf
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
        else:
            found = param.eval_metric.get_name_value()
            if self.auto_reset:
                param.eval_metric.reset_local()
            begin = count - self.frequent if self.auto_reset else 0
            values = "".join([f"\t{name}={value:f}" for name, value in found])
            logging.info("Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", param.epoch, begin, count, speed, values)
        self.tic = time.time()


class ProgressBar:
    """Log a bar that shows the progress of `total` batches.

    >>> ProgressBar(total=10, length=20).text(5)
    '[==========----------] 50%'
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.bar_len = length
        self.total = total

    def text(self, count: int) -> str:
        """Return the bar after some batches."""
        filled = round(self.bar_len * count / self.total)
        percent = math.ceil(100.0 * count / self.total)
        return f"[{'=' * filled}{'-' * (self.bar_len - filled)}] {percent}%"

    def __call__(self, param: Any) -> None:
        logging.info("%s\r", self.text(param.nbatch))


class LogValidationMetricsCallback:
    """Log the metric after a validation pass."""

    def __call__(self, param: Any) -> None:
        if param.eval_metric:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)


complete_classes(globals())
