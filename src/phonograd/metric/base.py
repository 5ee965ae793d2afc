"""Provide the base class of metrics, and metrics of losses, of other metrics and of functions.

A metric is a sum divided by a count. It keeps both since the last ``reset_local`` and since the last ``reset``.
Takes arrays from ``ndarray``; hands ``EvalMetric`` and the registry to the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy

from .. import registry
from ..base import numeric_types
from ..core.base.docstrings import complete_classes
from ..distributed.world import world
from ..ndarray.array import NDArray

__all__ = [
    "Caffe",
    "CompositeEvalMetric",
    "CustomMetric",
    "EvalMetric",
    "Loss",
    "Torch",
    "alias",
    "check_label_shapes",
    "create",
    "np",
    "register",
]


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Return labels and predictions after checking that their numbers are equal.

    `shape` compares shapes instead of lengths; `wrap` puts single arrays into lists.
    """
    found = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if found[0] != found[1]:
        raise ValueError(f"Shape of labels {found[0]} does not match shape of predictions {found[1]}")
    if wrap:
        labels = [labels] if isinstance(labels, NDArray) else labels
        preds = [preds] if isinstance(preds, NDArray) else preds
    return labels, preds


class EvalMetric:
    """Base class of metrics. A subclass overrides ``update(labels, preds)`` and calls ``_add`` in it.

    Parameters
    ----------
    name
        The name of the metric in results.
    output_names, label_names
        The names of the outputs and labels of a network that the metric takes; None for all.

    >>> import phonograd as mx
    >>> metric = mx.metric.Accuracy()
    >>> metric.update([mx.nd.array([0, 1, 1])], [mx.nd.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])])
    >>> name, value = metric.get()
    >>> name, round(value, 3)
    ('accuracy', 0.667)
    """

    def __init__(
        self,
        name: str,
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of this metric, which :func:`create` accepts."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    # -- adding up

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions, one array for each output of a network."""
        raise NotImplementedError(f"{type(self).__name__} has no update(self, labels, preds)")

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Add labels and predictions that are given by their names."""
        preds = pred.values() if self.output_names is None else [pred[name] for name in self.output_names]
        labels = label.values() if self.label_names is None else [label[name] for name in self.label_names]
        self.update(list(labels), list(preds))

    def _add(self, total: Any, count: Any) -> None:
        """Add to the sum and to the count, locally and globally."""
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def reset(self) -> None:
        """Reset the metric to its initial state."""
        self.num_inst: Any = 0
        self.sum_metric: Any = 0.0
        self.global_num_inst: Any = 0
        self.global_sum_metric: Any = 0.0

    def reset_local(self) -> None:
        """Reset the metric, except for the values that :meth:`get_global` returns."""
        self.num_inst = 0
        self.sum_metric = 0.0

    def allreduce(self) -> None:
        """Add up the metric over all processes that train together, so that all have the value of all examples.

        Call it once before :meth:`get`, and :meth:`reset` afterwards. All processes must call it.
        """
        group = world()
        if group.size > 1:
            state = [numpy.asarray(part, numpy.float64) for part in self._state()]
            label = f"allreduce of the metric {self.name}"
            for number, part in enumerate(state):
                state[number] = numpy.stack(group.all_gather(part.reshape(1, *part.shape), label))[:, 0]
            self._merge_states(state)

    def _state(self) -> list[Any]:
        """Return the numbers that describe the examples so far."""
        return [self.sum_metric, self.num_inst, self.global_sum_metric, self.global_num_inst]

    def _merge_states(self, states: list[Any]) -> None:
        """Take the numbers of all processes, each with an axis of processes in front."""
        self.sum_metric, self.num_inst = float(states[0].sum()), int(states[1].sum())
        self.global_sum_metric, self.global_num_inst = float(states[2].sum()), int(states[3].sum())

    # -- results

    def _value(self, total: Any, count: Any) -> Any:
        """Return the value of the metric for a sum and a count."""
        value = total / count
        # a subclass may add up NumPy scalars or arrays of one element, which NumPy 2 prints as np.float64(...)
        return value.item() if isinstance(value, (numpy.generic, numpy.ndarray)) and value.size == 1 else value

    def get(self) -> tuple[Any, Any]:
        """Return name and value; the value is nan before the first update."""
        return self.name, self._value(self.sum_metric, self.num_inst) if self.num_inst else float("nan")

    def get_global(self) -> tuple[Any, Any]:
        """Return name and value since the last :meth:`reset`."""
        if not self._has_global_stats:
            return self.get()
        if not self.global_num_inst:
            return self.name, float("nan")
        return self.name, self._value(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, Any]]:
        """Return a list of pairs of name and value."""
        return _name_value_pairs(*self.get())

    def get_global_name_value(self) -> list[tuple[str, Any]]:
        """Return a list of pairs of name and value since the last :meth:`reset`."""
        return _name_value_pairs(*self.get_global())


def _name_value_pairs(name: Any, value: Any) -> list[tuple[str, Any]]:
    names = name if isinstance(name, list) else [name]
    return list(zip(names, value if isinstance(value, list) else [value]))


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a metric by its name or from a function of labels and predictions, or a composite from a list.

    >>> create("acc").name, create(["mae", "mse"]).get()
    ('accuracy', (['mae', 'mse'], [nan, nan]))
    """
    if isinstance(metric, EvalMetric):
        return _create(metric, *args, **kwargs)
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for part in metric:
            composite.add(create(part, *args, **kwargs))
        return composite
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Update several metrics at once."""

    def __init__(
        self,
        metrics: Iterable[Any] | None = None,
        name: str = "composite",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        self.metrics = [create(metric) for metric in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Append a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> Any:
        """Return the metric at an index."""
        if index >= len(self.metrics):
            raise ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")
        return self.metrics[index]

    def update_dict(self, labels: Mapping[str, NDArray], preds: Mapping[str, NDArray]) -> None:
        """Add labels and predictions that are given by their names."""
        labels = {name: array for name, array in labels.items() if name in (self.label_names or labels)}
        preds = {name: array for name, array in preds.items() if name in (self.output_names or preds)}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        """Reset all metrics."""
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        """Reset all metrics, except for the values that :meth:`get_global` returns."""
        for metric in self.metrics:
            metric.reset_local()

    def allreduce(self) -> None:
        """Add up all metrics over all processes that train together."""
        for metric in self.metrics:
            metric.allreduce()

    def _gather_results(self, results: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        names: list[str] = []
        values: list[Any] = []
        for name, value in results:
            names.extend([name] if isinstance(name, str) else name)
            values.extend([value] if isinstance(value, numeric_types) else value)
        return names, values

    def get(self) -> tuple[Any, Any]:
        """Return the names and values of all metrics."""
        return self._gather_results([metric.get() for metric in self.metrics])

    def get_global(self) -> tuple[Any, Any]:
        """Return the names and values of all metrics since the last :meth:`reset`."""
        return self._gather_results([metric.get_global() for metric in self.metrics])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of this metric and of all its parts."""
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


@register
class Loss(EvalMetric):
    """Compute the mean of predictions that are losses; labels are ignored."""

    def __init__(
        self,
        name: str = "loss",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, _: Any, preds: Any) -> None:
        """Add losses."""
        for pred in [preds] if isinstance(preds, NDArray) else preds:
            self._add(float(pred.sum().asscalar()), pred.size)


@register
class Torch(Loss):
    """Compute :class:`Loss` under another name."""

    def __init__(
        self,
        name: str = "torch",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """Compute :class:`Loss` under another name."""

    def __init__(
        self,
        name: str = "caffe",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """Evaluate a function ``feval(label, pred)`` of NumPy arrays that returns a value, or a sum and a count.

    `allow_extra_outputs` permits more predictions than labels.
    """

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        if name is None:
            name = feval.__name__
            if "<" in name:
                name = f"custom({name})"
        super().__init__(
            name,
            output_names,
            label_names,
            feval=feval,
            allow_extra_outputs=allow_extra_outputs,
            has_global_stats=True,
        )
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        """Add lists of labels and predictions."""
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels):
            value = self._feval(label.asnumpy(), pred.asnumpy())
            self._add(*(value if isinstance(value, tuple) else (value, 1)))

    def get_config(self) -> dict[str, Any]:
        """Raise NotImplementedError: a function cannot be serialized."""
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(numpy_feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False) -> Any:
    """Return a metric from a function of NumPy arrays."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)


def as_columns(array: NDArray) -> numpy.ndarray[Any, Any]:
    """Return an array with at least two axes."""
    values = array.asnumpy()
    return values.reshape(-1, 1) if values.ndim == 1 else values


complete_classes(globals())
