"""Bind a symbol on several devices, each of which computes a part of the batch.

:class:`phonograd.module.Module` computes through a group, which it keeps as ``_exec_group``. Takes executors from
:mod:`phonograd.executor` and the division of batches from :mod:`phonograd.executor_manager`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..core.base.devices import Context
from ..executor import Executor, bind_new_arrays
from ..executor_manager import _load_general, _split_input_slice
from ..io import DataDesc
from ..ndarray.array import NDArray
from ..ndarray.creation import concatenate

__all__ = ["DataParallelExecutorGroup"]


def _load_data(batch: Any, targets: Sequence[Any], major_axis: Sequence[int]) -> None:
    """Copy the data of a batch to the arrays of executors."""
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[Any], major_axis: Sequence[int]) -> None:
    """Copy the labels of a batch to the arrays of executors."""
    _load_general(batch.label, targets)


def _merge_multi_context(outputs: Sequence[Sequence[Any]], major_axis: Sequence[int]) -> list[NDArray]:
    """Return arrays joined from their parts on each device, along the axis of the batch."""
    return [
        parts[0] if len(parts) == 1 or axis < 0 else concatenate(list(parts), axis=axis)
        for parts, axis in zip(outputs, major_axis)
    ]


def _describe(shapes: Any) -> list[DataDesc]:
    return [each if isinstance(each, DataDesc) else DataDesc(*each) for each in shapes or ()]


def _mean(parts: Sequence[NDArray]) -> NDArray:
    """Return the mean of arrays on several devices, on the first of them."""
    total: Any = sum([part.as_in_context(parts[0].context) for part in parts[1:]], parts[0])
    mean: NDArray = (total / len(parts)).astype(parts[0].dtype)
    return mean


class DataParallelExecutorGroup:
    """Hold one executor of a symbol for each device, each with a part of the batch.

    Parameters
    ----------
    symbol
        The network.
    contexts, workload
        The devices, and the work load of each of them.
    data_shapes, label_shapes
        Descriptions of data and labels.
    param_names
        The names of the parameters.
    for_training, inputs_need_grad
        Whether gradients are computed, of parameters and of data.
    shared_group
        A group whose parameters are shared.
    logger
        The logger of progress.
    fixed_param_names
        Parameters without gradients.
    grad_req
        The request for gradients, or a request for each argument.
    state_names
        Arguments that keep their values between batches.
    group2ctxs
        Accepted for compatibility, without effect.
    """

    #: the size of a batch, and the part of it for each device
    batch_size: int | None
    slices: list[slice]

    def __init__(
        self,
        symbol: Any,
        contexts: Sequence[Context],
        workload: Sequence[float] | None,
        data_shapes: Any,
        label_shapes: Any,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Any = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        self.symbol = symbol
        self.arg_names, self.aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
        self.output_names = symbol.list_outputs()
        self.contexts = list(contexts)
        self.workload = [1.0] * len(self.contexts) if workload is None else list(workload)
        self.param_names = list(param_names)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.logger = logger
        self.group2ctxs = group2ctxs
        self.fixed_param_names, self.state_names = list(fixed_param_names or ()), list(state_names or ())
        self.shared_group = shared_group
        self._given_req = grad_req
        self.execs: list[Executor] = []
        self.bind_exec(data_shapes, label_shapes, shared_group)

    def _requests(self) -> dict[str, str]:
        """Return the request for the gradient of each argument."""
        given = self._given_req
        if not self.for_training:
            return dict.fromkeys(self.arg_names, "null")
        if isinstance(given, (list, tuple)):
            return dict(zip(self.arg_names, given, strict=True))
        every = given if isinstance(given, str) else "write"
        trained = set(self.param_names) - set(self.fixed_param_names)
        trained |= set(self.data_names) if self.inputs_need_grad else set()
        requests = {name: every if name in trained else "null" for name in self.arg_names}
        return requests if isinstance(given, str) else {**requests, **given}

    def decide_slices(self, data_shapes: Any) -> list[int]:
        """Divide the batch between the devices, and return the axis of the batch in each array."""
        axes = [DataDesc.get_batch_axis(each.layout) for each in data_shapes]
        for each, axis in zip(data_shapes, axes):
            if axis < 0:
                continue
            size = each.shape[axis]
            if self.batch_size is not None and size != self.batch_size:
                raise ValueError(
                    f"all data must have the same batch size: batch_size = {self.batch_size}, but {each.name} has "
                    f"shape {each.shape}"
                )
            if self.batch_size is None:
                self.batch_size = size
                self.slices = _split_input_slice(size, self.workload)
        return axes

    def _sizes_on(self, number: int, shapes: list[DataDesc], axes: list[int]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input on one device."""
        rows = self.slices[number].stop - self.slices[number].start
        return {
            each.name: tuple(rows if place == axis else extent for place, extent in enumerate(each.shape))
            for each, axis in zip(shapes, axes)
        }

    def bind_exec(
        self,
        data_shapes: Any,
        label_shapes: Any,
        shared_group: DataParallelExecutorGroup | None = None,
        reshape: bool = False,
    ) -> None:
        """Bind an executor on each device."""
        self.batch_size, self.slices = None, []
        self.data_shapes, self.label_shapes = _describe(data_shapes), _describe(label_shapes) or None
        self.data_layouts = self.decide_slices(self.data_shapes)
        self.label_layouts = self.decide_slices(self.label_shapes) if self.label_shapes else []
        self.data_names = [each.name for each in self.data_shapes]
        self.label_names = [each.name for each in self.label_shapes or ()]
        self.grad_req = self._requests()
        inputs, axes = [*self.data_shapes, *(self.label_shapes or ())], [*self.data_layouts, *self.label_layouts]
        types = {each.name: each.dtype for each in inputs if each.name in self.arg_names}
        old = self.execs if reshape else shared_group.execs if shared_group is not None else []
        bound = []
        for number, context in enumerate(self.contexts):
            sizes = self._sizes_on(number, inputs, axes)
            sizes = {name: shape for name, shape in sizes.items() if name in self.arg_names}
            shared = self._shared_arrays(old[number]) if old else None
            bound.append(bind_new_arrays(self.symbol, context, self.grad_req, types, sizes, shared))
        self.execs = bound
        self._collect_arrays()

    def _shared_arrays(self, executor: Executor) -> dict[str, dict[str, NDArray]]:
        """Return the parameters, their gradients and the auxiliary states of an executor."""
        grads = {name: executor.grad_dict.get(name) for name in self.param_names}
        return {
            "args": {name: executor.arg_dict[name] for name in self.param_names if name in executor.arg_dict},
            "grads": {name: grad for name, grad in grads.items() if grad is not None},
            "states": executor.aux_dict,
        }

    def _collect_arrays(self) -> None:
        """Collect the arrays of all executors by their role."""

        self.num_outputs = len(self.output_names)
        self.output_layouts = [
            DataDesc.get_batch_axis(self.symbol[name].attr("__layout__")) for name in self.output_names
        ]

        def on_devices(names: Sequence[str]) -> list[list[tuple[slice, NDArray]]]:
            return [
                [(part, each.arg_dict[name]) for part, each in zip(self.slices, self.execs)]
                for name in names
                if name in self.arg_names
            ]

        self.data_arrays, self.label_arrays = on_devices(self.data_names), on_devices(self.label_names)
        self.state_arrays = [[each.arg_dict[name] for each in self.execs] for name in self.state_names]
        trained = [name for name in self.arg_names if name in self.param_names]
        self.param_arrays = [[each.arg_dict[name] for each in self.execs] for name in trained]
        self.grad_arrays = [[each.grad_dict[name] for each in self.execs] for name in trained]
        self.input_grad_arrays = [[each.grad_dict.get(name) for each in self.execs] for name in self.data_names]
        self.aux_arrays = [[each.aux_dict[name] for each in self.execs] for name in self.aux_names]

    def reshape(self, data_shapes: Any, label_shapes: Any) -> None:
        """Bind executors for other shapes, with the same parameters."""
        if (_describe(data_shapes), _describe(label_shapes)) != (self.data_shapes, self.label_shapes or []):
            self.bind_exec(data_shapes, label_shapes, reshape=True)

    def set_params(self, arg_params: Any, aux_params: Any, allow_extra: bool = False) -> None:
        """Copy parameters and auxiliary states to all devices."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Write the means of parameters and auxiliary states over all devices into given arrays."""
        for target, means in zip((arg_params, aux_params), self.means()):
            for name, mean in means.items():
                mean.astype(target[name].dtype).copyto(target[name])

    def means(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return copies of parameters and auxiliary states by name, or their means if there are several devices."""
        trained = [name for name in self.arg_names if name in self.param_names]
        arguments, states = (
            {name: parts[0].copy() if len(parts) == 1 else _mean(parts) for name, parts in zip(names, arrays)}
            for names, arrays in ((trained, self.param_arrays), (self.aux_names, self.aux_arrays))
        )
        return arguments, states

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Copy a batch to the devices and compute the outputs."""
        names, arrays = [*self.data_names], [*data_batch.data]
        axes = [*self.data_layouts]
        if self.label_arrays and data_batch.label:
            names += self.label_names
            arrays += data_batch.label
            axes += self.label_layouts
        given = [each for each in zip(names, arrays, axes) if each[0] in self.arg_names]
        for number, executor in enumerate(self.execs):
            feed = {name: self._part(array, number, axis) for name, array, axis in given}
            executor.forward(self.for_training if is_train is None else is_train, **feed)

    def _part(self, array: NDArray, number: int, axis: int) -> NDArray:
        """Return the part of an array that belongs to a device."""
        if len(self.execs) == 1 or axis < 0:
            return array
        part = self.slices[number]
        return array.slice_axis(axis=axis, begin=part.start, end=part.stop).as_in_context(self.contexts[number])

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients on each device."""
        assert self.for_training, "re-bind with for_training=True to run backward"
        if len(self.execs) == 1 or out_grads is None:
            for executor in self.execs:
                executor.backward(out_grads)
            return
        given = [out_grads] if isinstance(out_grads, NDArray) else out_grads
        for number, executor in enumerate(self.execs):
            parts = [self._part(grad, number, axis) for grad, axis in zip(given, self.output_layouts)]
            executor.backward(parts)

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the name and the shape of each output for a whole batch."""
        shapes = []
        for name, output, axis in zip(self.output_names, self.execs[0].outputs, self.output_layouts):
            whole = list(output.shape)
            if len(self.execs) > 1 and axis >= 0 and self.batch_size is not None:
                whole[axis] = self.batch_size
            shapes.append((name, tuple(whole)))
        return shapes

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None) -> list[Any]:
        """Return the outputs, joined or as lists of their parts on each device."""
        numbers = range(len(self.output_names))[begin:end]
        parts = [[each.outputs[number] for each in self.execs] for number in numbers]
        return _merge_multi_context(parts, self.output_layouts[begin:end]) if merge_multi_context else parts

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the data, joined or as lists of their parts on each device."""
        assert self.inputs_need_grad
        parts = self.input_grad_arrays
        return _merge_multi_context(parts, self.data_layouts) if merge_multi_context else parts

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the states, joined or as lists of their parts on each device."""
        parts = self.state_arrays
        return _merge_multi_context(parts, [0] * len(parts)) if merge_multi_context else parts

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states to given arrays, or all to a number."""
        if states is not None:
            assert value is None, "Only one of states & value can be specified."
            for parts, given in zip(self.state_arrays, states):
                for number, part in enumerate(parts):
                    part[:] = given[number] if isinstance(given, (list, tuple)) else self._part(given, number, 0)
            return
        assert value is not None, "At least one of states & value must be specified."
        for parts in self.state_arrays:
            for part in parts:
                part[:] = value

    def update_metric(
        self, eval_metric: Any, labels: Any, pre_sliced: bool, names: Sequence[str] | None = None
    ) -> None:
        """Update a metric with the outputs and the labels of each device.

        ``names`` are the names of the labels, those of ``label_shapes`` by default.
        """
        names = self.label_names or names or ()
        axes = [*self.label_layouts, *[0] * len(names)]
        for number, executor in enumerate(self.execs):
            if pre_sliced:
                own = labels[number]
            else:
                own = [self._part(label, number, axis) for label, axis in zip(labels or (), axes)]
            predictions = dict(zip(self.output_names, executor.outputs))
            eval_metric.update_dict(dict(zip(names, own)), predictions)

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor watch all executors."""
        for executor in self.execs:
            mon.install(executor)
