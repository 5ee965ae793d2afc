"""Provide the forward and backward passes of an estimator for one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import autograd
from ....core.base.docstrings import complete_classes
from ...utils import split_and_load

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["BatchProcessor"]

Parts = list[Any]


class BatchProcessor:
    """Run forward and backward passes of a batch. A subclass may override both methods."""

    def _get_data_and_label(self, batch: Any, ctx: Any, batch_axis: int = 0) -> tuple[Parts, Parts]:
        """Return data and labels, one part for each context."""
        if not isinstance(batch, (list, tuple)) or len(batch) < 2:
            raise ValueError(f"a batch must be a pair of data and labels, not {type(batch)}")
        return split_and_load(batch[0], ctx, batch_axis), split_and_load(batch[1], ctx, batch_axis)

    def evaluate_batch(
        self, estimator: Estimator, val_batch: Any, batch_axis: int = 0
    ) -> tuple[Parts, Parts, Parts, Parts]:
        """Return data, labels, predictions and losses of a validation batch, one part for each context."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(y_hat, y) for y_hat, y in zip(pred, label)]
        return data, label, pred, loss

    def fit_batch(
        self, estimator: Estimator, train_batch: Any, batch_axis: int = 0
    ) -> tuple[Parts, Parts, Parts, Parts]:
        """Compute gradients, and return data, labels, predictions and losses of a training batch."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(y_hat, y) for y_hat, y in zip(pred, label)]
        for part in loss:
            part.backward()
        return data, label, pred, loss


complete_classes(globals())
