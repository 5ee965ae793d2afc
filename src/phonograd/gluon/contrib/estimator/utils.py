"""Check the metrics of an Estimator and of its handlers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import SoftmaxCrossEntropyLoss

__all__: list[str] = []


def _check_metrics(metrics: Any) -> list[EvalMetric]:
    """Return metrics as a list; the parts of a composite metric are single metrics."""
    if isinstance(metrics, CompositeEvalMetric):
        return [single for part in metrics.metrics for single in _check_metrics(part)]
    found = [metrics] if isinstance(metrics, EvalMetric) else list(metrics or [])
    if not all(isinstance(each, EvalMetric) for each in found):
        raise ValueError(f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: {metrics}")
    return found


def _check_metric_known(handler: Any, metric: Any, known_metrics: Sequence[EvalMetric]) -> None:
    """Raise a ValueError if a handler refers to a metric that the estimator does not update."""
    if metric not in known_metrics:
        raise ValueError(
            f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of the known "
            "training and validation metrics. Please use the metrics from estimator.train_metrics and "
            "estimator.val_metrics instead."
        )


def _check_handler_metric_ref(handler: Any, known_metrics: Sequence[EvalMetric]) -> None:
    """Check all metrics in the attributes of a handler."""
    for name in dir(handler):
        if "metric" not in name:
            continue
        reference = getattr(handler, name)
        for metric in reference if isinstance(reference, list) else [reference] if reference else []:
            _check_metric_known(handler, metric, known_metrics)


def _suggest_metric_for_loss(loss: Any) -> EvalMetric | None:
    """Return accuracy for the loss of classification, None for other losses."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
