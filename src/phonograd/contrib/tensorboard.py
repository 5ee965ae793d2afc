"""LogMetricsCallback: log training metrics for TensorBoard (``mxnet.contrib.tensorboard``); needs mxboard."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.base.docstrings import complete_classes

__all__ = ["LogMetricsCallback"]


class LogMetricsCallback:
    """A callback of ``Module.fit`` that writes the metric of each batch for TensorBoard.

    Parameters
    ----------
    logging_dir
        The log directory.
    prefix
        The prefix of metric names, such as ``'train'``.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        try:
            writer = importlib.import_module("mxboard").SummaryWriter
        except ImportError as error:
            raise ImportError(
                "LogMetricsCallback needs mxboard: pip install mxboard, or use mx.callback.LogValidationMetrics"
                "Callback and mx.callback.Speedometer, which log"
            ) from error
        self.prefix = prefix
        self.summary_writer = writer(logging_dir)

    def __call__(self, param: Any) -> None:
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            whole = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(whole, value, global_step=param.epoch)


complete_classes(globals())
