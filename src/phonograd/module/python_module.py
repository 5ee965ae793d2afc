"""Modules written in Python, for chains of modules."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from .. import ndarray
from ..core.base.docstrings import complete_classes
from ..io import DataBatch, DataDesc
from ..ndarray import NDArray
from .base_module import Arrays, BaseModule, Binding, Metric, Values, need

__all__ = ["PythonLossModule", "PythonModule"]


class PythonModule(BaseModule):
    """A module without parameters. A subclass overrides ``forward``, ``backward`` and ``_compute_output_shapes``.

    Parameters
    ----------
    data_names, label_names, output_names
        The names of inputs, labels and outputs.
    """

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Any = logging,
    ) -> None:
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        """The names of the inputs."""
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        """The names and shapes of the inputs."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """The names and shapes of the labels, or None."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """The names and shapes of the outputs."""
        return self._output_shapes

    def get_params(self) -> tuple[Arrays, Arrays]:
        """Return no parameters and no auxiliary states."""
        return {}, {}

    def _init_params(self, wanted: Values) -> None:
        """Do nothing: there are no parameters."""

    def update(self) -> None:
        """Do nothing: there are no parameters."""

    def update_metric(self, eval_metric: Metric, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and outputs if the module takes labels."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError("PythonModule does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())

    def _bind(self, wanted: Binding) -> None:
        """Store the shapes of the inputs."""
        if wanted.grad_req != "write":
            raise AssertionError("Python module only support write gradient")
        self.for_training, self.inputs_need_grad = wanted.for_training, wanted.inputs_need_grad
        self._data_shapes = [DataDesc(*each) for each in wanted.data_shapes]
        labels = wanted.label_shapes
        self._label_shapes = None if labels is None else [DataDesc(*each) for each in labels]
        if [each.name for each in self._data_shapes] != self._data_names:
            raise AssertionError(f"bind: data_shapes {self._data_shapes} do not match data_names {self._data_names}")
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> Any:
        """Return the names and shapes of the outputs, given ``data_shapes``."""
        raise self._missing("_compute_output_shapes")

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Do nothing: there are no parameters."""

    def install_monitor(self, mon: Any) -> None:
        """Do nothing: a monitor observes only symbols."""


class PythonLossModule(PythonModule):
    """A loss whose gradient is a Python function of scores and labels; it returns the scores.

    Parameters
    ----------
    name
        The name of the output, without ``_output``.
    data_names, label_names
        The names of input and label.
    grad_func
        Returns the gradient of the scores, given scores and labels: an NDArray or a NumPy array.

    >>> import phonograd as mx
    >>> loss = PythonLossModule(grad_func=lambda scores, labels: scores - labels)
    >>> loss.bind([("data", (2,))], [("softmax_label", (2,))])
    >>> loss.init_params()
    >>> loss.forward(mx.io.DataBatch([mx.nd.array([1, 2])], [mx.nd.array([0, 3])]))
    >>> loss.backward()
    >>> loss.get_input_grads()[0].asnumpy().tolist()
    [1.0, -1.0]
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        grad_func: Callable[[NDArray, NDArray], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        if len(self._data_names) != 1 or len(self._label_names or ()) != 1:
            raise AssertionError("PythonLossModule takes one input and one label")
        if grad_func is not None and not callable(grad_func):
            raise AssertionError(f"grad_func must be a function of scores and labels, not {grad_func!r}")
        self._name = name
        self._grad_func = grad_func
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None

    def _compute_output_shapes(self) -> list[tuple[str, Any]]:
        return [(f"{self._name}_output", self._data_shapes[0].shape)]

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Store the scores, and in training the labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            labels: Any = getattr(data_batch, "label", None)
            need(bool(labels), "forward for training", "it with a batch that has labels")
            self._labels = labels[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the scores."""
        if not merge_multi_context:
            raise AssertionError("PythonLossModule computes in one context")
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradient of the scores."""
        if out_grads is not None:
            raise AssertionError("For a loss module, out_grads should be None")
        if not self.for_training:
            raise AssertionError("backward: the module is bound with for_training=False")
        self._backward_impl()

    def _backward_impl(self) -> None:
        """Set ``_scores_grad``; a subclass may compute it without ``grad_func``."""
        if self._grad_func is None:
            raise self._missing("grad_func: give one, or override _backward_impl")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else ndarray.array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradient of the scores."""
        if not merge_multi_context:
            raise AssertionError("PythonLossModule computes in one context")
        return [self._scores_grad]


complete_classes(globals())
