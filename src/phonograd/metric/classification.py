"""Provide metrics of predicted classes: accuracies, correlations and likelihoods.

Takes ``EvalMetric`` and the registry from :mod:`.base`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ndarray
from ..core.base.docstrings import complete_classes
from ..distributed.world import world
from .base import EvalMetric, alias, check_label_shapes, register

__all__ = ["F1", "MCC", "PCC", "Accuracy", "CrossEntropy", "NegativeLogLikelihood", "Perplexity", "TopKAccuracy"]


@register
@alias("acc")
class Accuracy(EvalMetric):
    """Compute the fraction of correct predictions.

    Predictions are classes, or scores of classes along `axis`.
    """

    def __init__(
        self,
        axis: int = 1,
        name: str = "accuracy",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, axis=axis, has_global_stats=True)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            chosen = pred.asnumpy() if pred.shape == label.shape else np.argmax(pred.asnumpy(), axis=self.axis)
            chosen, right = chosen.astype(np.int32).ravel(), label.asnumpy().astype(np.int32).ravel()
            check_label_shapes(right, chosen)
            self._add(int(np.count_nonzero(chosen == right)), len(chosen))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """Compute the fraction of labels among the `top_k` highest scores."""

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, top_k=top_k, has_global_stats=True)
        assert top_k > 1, "Please use Accuracy if top_k is no more than 1"
        self.top_k = top_k
        self.name += f"_{top_k}"

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            assert len(pred.shape) <= 2, "Predictions should be no more than 2 dims"
            scores, right = pred.asnumpy().astype(np.float32), label.asnumpy().astype(np.int32).ravel()
            check_label_shapes(right, scores)
            if scores.ndim == 1:
                hits = np.count_nonzero(np.argsort(scores) == right)
            else:
                most = min(self.top_k, scores.shape[1])
                best = np.argpartition(scores, -most)[:, -most:]
                hits = np.count_nonzero(best == right[:, None])
            self._add(int(hits), scores.shape[0])


class _Confusion:
    """Count predictions of the classes 0 and 1 by (predicted class, true class)."""

    def __init__(self) -> None:
        self.counts = np.zeros((2, 2), np.int64)

    @property
    def total(self) -> int:
        """The number of all predictions."""
        return int(self.counts.sum())

    def add(self, label: Any, pred: Any) -> None:
        """Count the predictions of a batch, which are scores of two classes."""
        right, chosen = label.asnumpy().astype(np.int32), np.argmax(pred.asnumpy(), axis=1)
        check_label_shapes(right, chosen)
        if len(np.unique(right)) > 2:
            raise ValueError("this metric currently only supports binary classification.")
        np.add.at(self.counts, ((chosen == 1).astype(int).ravel(), (right == 1).astype(int).ravel()), 1)

    def f1(self) -> float:
        """Return the harmonic mean of precision and recall; 0 without true positives."""
        hits = float(self.counts[1, 1])
        return 2 * hits / float(self.counts[1].sum() + self.counts[:, 1].sum()) if hits else 0.0

    def matthews(self) -> float:
        """Return Matthews's correlation coefficient, without the marginal sums that are 0."""
        (true_negative, false_negative), (false_positive, true_positive) = self.counts.astype(float).tolist()
        sums = [*self.counts.sum(axis=0), *self.counts.sum(axis=1)]
        below = math.prod([float(part) for part in sums if part])
        difference = float(true_positive * true_negative - false_positive * false_negative)
        return difference / math.sqrt(below)


class _Binary(EvalMetric):
    """Compute a score of confusion counts: the mean over batches ('macro') or one score of all samples ('micro')."""

    def __init__(
        self,
        name: str,
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _score(self, counts: _Confusion) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        batch = _Confusion()
        for label, pred in zip(labels, preds):
            batch.add(label, pred)
        if self.average == "macro":
            self._add(self._score(batch), 1)
            return
        for counts in (self._local, self._all):
            counts.counts += batch.counts
        self._score_counts()

    def _state(self) -> list[Any]:
        return [*super()._state(), self._local.counts, self._all.counts]

    def _merge_states(self, states: list[Any]) -> None:
        super()._merge_states(states)
        if self.average != "macro":
            for own, counts in zip((self._local, self._all), states[4:]):
                own.counts = counts.sum(axis=0).astype(np.int64)
            self._score_counts()

    def _score_counts(self) -> None:
        self.sum_metric, self.num_inst = self._score(self._local) * self._local.total, self._local.total
        self.global_sum_metric, self.global_num_inst = self._score(self._all) * self._all.total, self._all.total

    def reset(self) -> None:
        """Reset the metric to its initial state."""
        super().reset()
        self._local, self._all = _Confusion(), _Confusion()

    def reset_local(self) -> None:
        """Reset the metric, except for the values that ``get_global`` returns."""
        super().reset_local()
        self._local = _Confusion()


@register
class F1(_Binary):
    """Compute the F1 score of a binary classification: the harmonic mean of precision and recall.

    `average` is 'macro' for the mean of the scores of batches, or 'micro' for one score of all samples.
    """

    def __init__(
        self,
        name: str = "f1",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: _Confusion) -> float:
        return counts.f1()


@register
class MCC(_Binary):
    """Compute Matthews's correlation coefficient of a binary classification.

    `average` is 'macro' for the mean of the scores of batches, or 'micro' for one score of all samples.
    """

    def __init__(
        self,
        name: str = "mcc",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: _Confusion) -> float:
        return counts.matthews()


@register
class PCC(EvalMetric):
    """Compute Pearson's correlation for any number of classes; it equals :class:`MCC` for two."""

    def __init__(
        self,
        name: str = "pcc",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        has_global_stats: bool = True,
    ) -> None:
        self._local = self._all = np.zeros((2, 2))
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            right, chosen = label.asnumpy().astype(np.int32), pred.asnumpy()
            chosen = chosen.astype(np.int32) if chosen.shape == right.shape else chosen.argmax(axis=1)
            size = max(len(self._all), int(max(chosen.max(), right.max())) + 1)
            more = np.zeros((size, size))
            np.add.at(more, (chosen.ravel(), right.ravel()), 1)
            self._local, self._all = _enlarge(self._local, size) + more, _enlarge(self._all, size) + more
        self.num_inst += 1
        self.global_num_inst += 1
        self._score_counts()

    def _score_counts(self) -> None:
        self.sum_metric = _correlation(self._local) * self.num_inst
        self.global_sum_metric = _correlation(self._all) * self.global_num_inst

    def allreduce(self) -> None:
        """Add up the metric over all processes that train together, so that all have the value of all examples."""
        sizes = world().all_gather(np.array([len(self._local), len(self._all)]), f"classes of the metric {self.name}")
        self._local, self._all = (_enlarge(own, max(each)) for own, each in zip((self._local, self._all), zip(*sizes)))
        super().allreduce()

    def _state(self) -> list[Any]:
        return [*super()._state(), self._local, self._all]

    def _merge_states(self, states: list[Any]) -> None:
        super()._merge_states(states)
        self._local, self._all = states[4].sum(axis=0), states[5].sum(axis=0)
        self._score_counts()

    def reset(self) -> None:
        """Reset the metric to its initial state."""
        super().reset()
        self._local = self._all = np.zeros((2, 2))

    def reset_local(self) -> None:
        """Reset the metric, except for the values that ``get_global`` returns."""
        super().reset_local()
        self._local = np.zeros((2, 2))


def _enlarge(counts: Any, size: int) -> Any:
    more = size - len(counts)
    return np.pad(counts, ((0, more), (0, more)))


def _correlation(counts: Any) -> float:
    """Return the correlation of two classifications from their confusion matrix."""
    total, chosen, right = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    spreads = np.sum(chosen * (total - chosen)) * np.sum(right * (total - right))
    if spreads == 0:
        return float("nan")
    return float(np.sum(counts.diagonal() * total - chosen * right) / np.sqrt(spreads))


@register
@alias("ce")
class CrossEntropy(EvalMetric):
    """Compute the mean of ``-log(pred[label] + eps)``: predictions are probabilities of classes."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            right, probabilities = label.asnumpy().ravel().astype(np.int64), pred.asnumpy()
            count = len(right)
            assert count == probabilities.shape[0], (count, probabilities.shape[0])
            self._add(-float(np.log(probabilities[np.arange(count), right] + self.eps).sum()), count)


@register
@alias("nll_loss")
class NegativeLogLikelihood(CrossEntropy):
    """Compute :class:`CrossEntropy` under another name."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "nll-loss",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
class Perplexity(EvalMetric):
    """Compute the perplexity: the exponential of the mean of ``-log(pred[label])`` along `axis`.

    The metric skips samples with the label `ignore_label`; None keeps all samples.
    """

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, has_global_stats=True)
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        assert len(labels) == len(preds), f"there are {len(labels)} labels, but {len(preds)} predictions"
        for label, pred in zip(labels, preds):
            assert label.size == pred.size / pred.shape[-1], f"shape mismatch: {label.shape} vs. {pred.shape}"
            right = label.as_in_context(pred.context).reshape((label.size,))
            chosen = ndarray.pick(pred, right.astype("int32"), axis=self.axis).asnumpy()
            logarithms = np.log(np.maximum(chosen, 1e-10))
            if self.ignore_label is not None:
                logarithms = logarithms[right.asnumpy() != self.ignore_label]
            self._add(-float(logarithms.sum()), logarithms.size)

    def _value(self, total: Any, count: Any) -> Any:
        return math.exp(total / count)


complete_classes(globals())
