"""Train a symbol on several contexts with one executor each, as MXNet's FeedForward does.

:class:`DataParallelExecutorGroup` binds the executors of one symbol, :class:`DataParallelExecutorManager` chooses the
group of a batch. :class:`phonograd.module.Module` replaces both. Takes executors from :mod:`phonograd.executor`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from .core.base.devices import Context
from .core.base.docstrings import complete_classes
from .executor import Executor, bind_new_arrays
from .ndarray.array import NDArray
from .ndarray.creation import concatenate

__all__ = ["DataParallelExecutorGroup", "DataParallelExecutorManager"]

#: an array with the part of a batch that it takes
Target = tuple[slice, NDArray]


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """Return the part of a batch for each device, in proportion to the work loads.

    >>> _split_input_slice(10, [1, 1, 2])
    [slice(0, 2, None), slice(2, 4, None), slice(4, 10, None)]
    """
    total = sum(work_load_list)
    counts = [round(load * batch_size / total) for load in work_load_list]
    counts[-1] += max(0, batch_size - sum(counts))
    slices, end = [], 0
    for count in counts:
        begin, end = min(end, batch_size), min(end + count, batch_size)
        if begin >= end:
            raise ValueError("Too many slices. Some splits are empty.")
        slices.append(slice(begin, end))
    return slices


def _check_arguments(symbol: Any) -> None:
    """Raise a ValueError if two arguments, or two auxiliary states, of a symbol have the same name."""
    for kind, names in (("argument", symbol.list_arguments()), ("auxiliary", symbol.list_auxiliary_states())):
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f'Find duplicated {kind} param name "{name}", please make the names non-duplicated (e.g. with '
                    f"the parameter name of operators); {kind}s are {names}"
                )


def _load_general(data: Sequence[NDArray], targets: Sequence[Any]) -> None:
    """Copy arrays to arrays, or to several arrays that take a part of each."""
    for source, target in zip(data, targets):
        if isinstance(target, NDArray):
            source.copyto(target)
        else:
            for part, array in target:
                source[part].copyto(array)


def _load_data(batch: Any, targets: Sequence[Any]) -> None:
    """Copy the data of a batch to the arrays of executors."""
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[Any]) -> None:
    """Copy the labels of a batch to the arrays of executors."""
    _load_general(batch.label, targets)


def _bind_exec(
    sym: Any,
    ctx: Context,
    input_shapes: dict[str, tuple[int, ...]],
    param_names: Sequence[str],
    need_grad: bool | set[str] = False,
    base_exec: Executor | None = None,
    shared_data_arrays: dict[str, NDArray] | None = None,
    input_types: dict[str, Any] | None = None,
    logger: Any = logging,
) -> Executor:
    """Return an executor; parameters and their gradients are those of `base_exec` if there is one."""
    trained = set(param_names) if need_grad is True else set(need_grad or ())
    requests = {name: "write" if name in trained else "null" for name in sym.list_arguments()}
    shared = None
    if base_exec is not None:
        grads = {name: base_exec.grad_dict[name] for name in trained if base_exec.grad_dict.get(name) is not None}
        shared = {
            "args": {name: base_exec.arg_dict[name] for name in param_names if name in base_exec.arg_dict},
            "grads": {name: grad for name, grad in grads.items() if grad is not None},
            "states": base_exec.aux_dict,
        }
    return bind_new_arrays(sym, ctx, requests, input_types or {}, input_shapes, shared)


class DataParallelExecutorGroup:
    """Hold one executor of a symbol for each device, each with a part of the batch.

    Parameters
    ----------
    sym
        The network.
    arg_names, param_names
        The names of its arguments, and of those that are parameters.
    ctx
        The devices.
    slices
        The part of a batch for each device.
    train_data
        An iterator, for the names and shapes of data and labels.
    shared_group
        A group whose parameters are shared.
    """

    def __init__(
        self,
        sym: Any,
        arg_names: Sequence[str],
        param_names: Sequence[str],
        ctx: Sequence[Context],
        slices: Sequence[slice],
        train_data: Any,
        shared_group: DataParallelExecutorGroup | None = None,
    ) -> None:
        _check_arguments(sym)
        self.data_names = [each[0] for each in train_data.provide_data]
        self.label_names = [each[0] for each in train_data.provide_label]
        self.aux_names = sym.list_auxiliary_states()
        self.param_names = [name for name in arg_names if name in param_names]
        self.param_idx = [number for number, name in enumerate(arg_names) if name in param_names]
        self.slices = list(slices)
        self.shared_data_arrays: list[dict[str, NDArray]] = [{} for _ in ctx]
        self.train_execs: list[Executor] = []
        described = [*train_data.provide_data, *train_data.provide_label]
        for number, device in enumerate(ctx):
            rows = slices[number].stop - slices[number].start
            shapes = {each[0]: (rows, *each[1][1:]) for each in described}
            base = None if shared_group is None else shared_group.train_execs[number]
            self.train_execs.append(_bind_exec(sym, device, shapes, self.param_names, True, base))
        self.data_arrays = [self._targets(name) for name in self.data_names]
        self.label_arrays = [self._targets(name) for name in self.label_names]
        self.param_arrays = [[each.arg_dict[name] for each in self.train_execs] for name in self.param_names]
        self.grad_arrays = [[each.grad_dict[name] for each in self.train_execs] for name in self.param_names]
        self.aux_arrays = [[each.aux_dict[name] for each in self.train_execs] for name in self.aux_names]

    def _targets(self, name: str) -> list[Target]:
        """Return the array of an input on each device, with its part of the batch."""
        return [(part, each.arg_dict[name]) for part, each in zip(self.slices, self.train_execs)]

    def load_data_batch(self, data_batch: Any) -> None:
        """Copy data and labels of a batch to the devices."""
        _load_data(data_batch, self.data_arrays)
        _load_label(data_batch, self.label_arrays)

    def forward(self, is_train: bool = False) -> None:
        """Compute the outputs on each device."""
        for executor in self.train_execs:
            executor.forward(is_train=is_train)

    def backward(self) -> None:
        """Compute the gradients on each device."""
        for executor in self.train_execs:
            executor.backward()

    def update_metric(self, metric: Any, labels: Sequence[NDArray], pre_sliced: bool = False) -> None:
        """Update a metric with the outputs and the labels of each device."""
        for number, (executor, part) in enumerate(zip(self.train_execs, self.slices)):
            own = labels[number] if pre_sliced else [label[part] for label in labels]
            metric.update(own, executor.outputs)


class DataParallelExecutorManager:
    """Hold the executors of a symbol, or of the symbols of several buckets, on several devices.

    Parameters
    ----------
    symbol
        The network.
    ctx
        The devices.
    train_data
        An iterator, for the batch size and the shapes of data and labels.
    arg_names, param_names, aux_names
        Names of arguments, parameters and auxiliary states.
    work_load_list
        The work load of each device; by default equal.
    logger
        The logger of progress.
    sym_gen
        A function from the key of a bucket to its symbol.
    """

    def __init__(
        self,
        symbol: Any,
        ctx: Sequence[Context],
        train_data: Any,
        arg_names: Sequence[str],
        param_names: Sequence[str],
        aux_names: Sequence[str],
        work_load_list: Sequence[float] | None = None,
        logger: Any = None,
        sym_gen: Callable[[Any], Any] | None = None,
    ) -> None:
        logger = logging if logger is None else logger
        logger.info("Start training with %s", str(ctx))
        loads = [1] * len(ctx) if work_load_list is None else work_load_list
        assert isinstance(loads, list), "Invalid settings for work load. "
        assert len(loads) == len(ctx), "Invalid settings for work load. "
        self.symbol, self.ctx, self.sym_gen = symbol, list(ctx), sym_gen
        self.slices = _split_input_slice(train_data.batch_size, loads)
        self.arg_names, self.param_names, self.aux_names = arg_names, param_names, aux_names
        self.execgrp: DataParallelExecutorGroup = self._make_group(symbol, train_data, None)
        self.curr_execgrp: DataParallelExecutorGroup | None = None
        if sym_gen is not None:
            self.execgrp_bucket = {train_data.default_bucket_key: self.execgrp}

    def _make_group(self, symbol: Any, batch: Any, shared: DataParallelExecutorGroup | None) -> Any:
        names = symbol.list_arguments()
        return DataParallelExecutorGroup(symbol, names, self.param_names, self.ctx, self.slices, batch, shared)

    def install_monitor(self, monitor: Any) -> None:
        """Let a monitor watch all executors; not for buckets."""
        if self.sym_gen is not None:
            raise NotImplementedError("Monitoring is not implemented for bucketing")
        for executor in self.execgrp.train_execs:
            monitor.install(executor)

    def set_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Copy parameters and auxiliary states to all devices."""
        for executor in self.execgrp.train_execs:
            executor.copy_params_from(arg_params, aux_params)

    def copy_to(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Write the means of parameters and auxiliary states over all devices into given arrays."""
        for names, arrays, target in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, parts in zip(names, arrays):
                mean = concatenate([part.expand_dims(0) for part in parts]).mean(axis=0)
                mean.astype(target[name].dtype).copyto(target[name])

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """Return the arrays of each parameter, one for each device."""
        return self.execgrp.param_arrays

    @property
    def grad_arrays(self) -> list[list[NDArray | None]]:
        """Return the gradients of each parameter, one for each device."""
        return self.execgrp.grad_arrays

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """Return the arrays of each auxiliary state, one for each device."""
        return self.execgrp.aux_arrays

    def load_data_batch(self, data_batch: Any) -> None:
        """Choose the executors of the bucket of a batch, and copy the batch to them."""
        if self.sym_gen is None:
            self.curr_execgrp = self.execgrp
        else:
            key = data_batch.bucket_key
            if key not in self.execgrp_bucket:
                self.execgrp_bucket[key] = self._make_group(self.sym_gen(key), data_batch, self.execgrp)
            self.curr_execgrp = self.execgrp_bucket[key]
        self.curr_execgrp.load_data_batch(data_batch)

    def _current(self) -> DataParallelExecutorGroup:
        if self.curr_execgrp is None:
            raise RuntimeError("call load_data_batch first")
        return self.curr_execgrp

    def forward(self, is_train: bool = False) -> None:
        """Compute the outputs of the current batch."""
        self._current().forward(is_train=is_train)

    def backward(self) -> None:
        """Compute the gradients of the current batch."""
        self._current().backward()

    def update_metric(self, metric: Any, labels: Sequence[NDArray], pre_sliced: bool = False) -> None:
        """Update a metric with the outputs of the current batch."""
        self._current().update_metric(metric, labels, pre_sliced)


complete_classes(globals())
