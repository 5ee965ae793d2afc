"""Provide mx.metric: measures of the quality of predictions, accumulated batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.base.foreign_names import unknown_name
from .base import (
    Caffe,
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    Loss,
    Torch,
    alias,
    check_label_shapes,
    create,
    np,
    register,
)
from .classification import F1, MCC, PCC, Accuracy, CrossEntropy, NegativeLogLikelihood, Perplexity, TopKAccuracy
from .regression import MAE, MSE, RMSE, PearsonCorrelation

__all__ = [
    "F1",
    "MAE",
    "MCC",
    "MSE",
    "PCC",
    "RMSE",
    "Accuracy",
    "Caffe",
    "CompositeEvalMetric",
    "CrossEntropy",
    "CustomMetric",
    "EvalMetric",
    "Loss",
    "NegativeLogLikelihood",
    "PearsonCorrelation",
    "Perplexity",
    "TopKAccuracy",
    "Torch",
    "alias",
    "check_label_shapes",
    "create",
    "np",
    "register",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise unknown_name(__name__, name, __all__)
