"""Provide metrics of predicted numbers: mean errors and correlation.

Takes ``EvalMetric`` and the registry from :mod:`.base`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from .base import EvalMetric, alias, as_columns, check_label_shapes, register

__all__ = ["MAE", "MSE", "RMSE", "PearsonCorrelation"]


class _Error(EvalMetric):
    """Compute the mean of an error over batches."""

    def _error(self, difference: Any) -> Any:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self._add(float(self._error(as_columns(label) - as_columns(pred))), 1)


#: products of deviations: of labels, of both, of predictions
_PAIRS = ((0, 0), (0, 1), (1, 1))


@register
class MAE(_Error):
    """Compute the mean absolute error of each batch, and its mean over batches."""

    def __init__(
        self, name: str = "mae", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _error(self, difference: Any) -> Any:
        return np.abs(difference).mean()


@register
class MSE(_Error):
    """Compute the mean squared error of each batch, and its mean over batches."""

    def __init__(
        self, name: str = "mse", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _error(self, difference: Any) -> Any:
        return np.square(difference).mean()


@register
class RMSE(_Error):
    """Compute the root mean squared error of each batch, and its mean over batches."""

    def __init__(
        self, name: str = "rmse", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _error(self, difference: Any) -> Any:
        return np.sqrt(np.square(difference).mean())


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Compute Pearson's correlation of predictions and labels.

    `average` is 'macro' for the mean over batches, or 'micro' for the correlation of all samples.
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        """Reset the metric to its initial state."""
        super().reset()
        self.reset_micro()

    def reset_micro(self) -> None:
        """Reset the sums over all batches."""
        self._count = 0
        self._means = np.zeros(2)
        #: sums of products of deviations from the means: of labels, of both, of predictions
        self._products = np.zeros(3)

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            check_label_shapes(label, pred, False, True)
            pair = np.stack([label.asnumpy().ravel(), pred.asnumpy().ravel()]).astype(np.float64)
            if self.average == "macro":
                self._add(float(np.corrcoef(*pair)[0, 1]), 1)
            else:
                self._merge(pair)
                self._add(0.0, 1)

    def _merge(self, pair: Any) -> None:
        """Add the deviations of a batch to the sums so far."""
        means = pair.mean(axis=1)
        deviations = pair - means[:, None]
        products = [float(np.dot(deviations[one], deviations[other])) for one, other in _PAIRS]
        self._merge_sums(pair.shape[1], means, products)

    def _state(self) -> list[Any]:
        return [*super()._state(), self._count, self._means, self._products]

    def _merge_states(self, states: list[Any]) -> None:
        super()._merge_states(states)
        self.reset_micro()
        for size, means, products in zip(*states[4:]):
            if size:
                self._merge_sums(int(size), means, products)

    def _merge_sums(self, size: int, means: Any, products: Any) -> None:
        """Add sums of products of deviations to those so far, which belong to another mean."""
        shift = means - self._means
        weight = self._count * size / (self._count + size)
        for number, (one, other) in enumerate(_PAIRS):
            self._products[number] += products[number] + shift[one] * shift[other] * weight
        self._count += size
        self._means += shift * size / self._count

    def get(self) -> tuple[Any, Any]:
        """Return name and value."""
        if self.average == "macro" or not self.num_inst:
            return super().get()
        spreads = math.sqrt(self._products[0] * self._products[2])
        # the correlation with a constant is undefined
        return self.name, float(self._products[1]) / spreads if spreads else math.nan

    def get_global(self) -> tuple[Any, Any]:
        """Return name and value since the last :meth:`reset`."""
        return super().get_global() if self.average == "macro" else self.get()


complete_classes(globals())
