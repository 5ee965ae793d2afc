"""Module: a symbol with parameters and an optimizer, run by an executor."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

from .. import ndarray
from ..core.base.devices import Context, cpu
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError, nearest
from ..core.base.files import write_atomically
from ..distributed.arrays import broadcast
from ..distributed.membership import is_elastic
from ..initializer import InitDesc
from ..io import DataBatch, DataDesc
from ..kvstore import DistributedKVStore, Horovod
from ..kvstore import create as create_store
from ..kvstore.base import is_distributed, name_keys
from ..model import load_checkpoint, save_checkpoint
from ..ndarray import NDArray
from ..optimizer import Optimizer, create, get_updater
from ..symbol import Symbol
from .base_module import Arrays, BaseModule, Binding, Metric, Values, need
from .batches import arrays_of, check_names, describe_inputs
from .executor_group import DataParallelExecutorGroup

__all__ = ["Module"]


class Module(BaseModule):
    """Train and run a symbol.

    Parameters
    ----------
    symbol
        The network.
    data_names, label_names
        The arguments that are data and labels; the others are parameters.
    logger
        The logger of progress.
    context
        The device, or several devices, each of which computes a part of every batch.
    work_load_list
        The share of each device in a batch; equal shares by default.
    group2ctxs, compression_params
        Accepted for compatibility, without effect.
    fixed_param_names
        Parameters that are not trained.
    state_names
        Arguments that keep their values between batches, see ``set_states``.
    """

    _has_parameters = True

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ) -> None:
        super().__init__(logger)
        self._context = [cpu()] if context is None else [context] if isinstance(context, Context) else list(context)
        self._work_load_list = [1] * len(self._context) if work_load_list is None else list(work_load_list)
        if len(self._work_load_list) != len(self._context):
            raise AssertionError(f"work_load_list {work_load_list} needs a number for each of {self._context}")
        self._group2ctxs, self._compression_params = group2ctxs, compression_params
        self._symbol: Symbol = symbol
        self._data_names = list(data_names or [])
        self._label_names = list(label_names or [])
        self._state_names = list(state_names or [])
        self._fixed_param_names = list(fixed_param_names or [])
        check_names(symbol, self._data_names, "data", True)
        check_names(symbol, self._label_names, "label", False)
        check_names(symbol, self._state_names, "state", True)
        check_names(symbol, self._fixed_param_names, "fixed_param", True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names, self._output_names = symbol.list_auxiliary_states(), symbol.list_outputs()
        self._numbers = {name: number for number, name in enumerate(self._param_names)}
        #: the executors, one for each device
        self._exec_group: DataParallelExecutorGroup | None = None
        self._data_shapes: list[DataDesc] | None = None
        self._label_shapes: list[DataDesc] | None = None
        self._grad_req: Any = None
        self._optimizer: Any = None
        self._updater: Any = None
        #: the factor of gradients in one process, if the program did not choose it
        self._scale: float | None = None
        #: the store that adds up gradients of several processes
        self._kvstore: Any = None
        self._update_on_kvstore: bool | None = None
        self._monitors: list[Any] = []
        self._preload_opt_states: str | None = None

    #: MXNet's names: parameters are read from the devices whenever they are asked for
    _params_dirty = False
    _total_exec_bytes = 0

    @property
    def _arg_params(self) -> Arrays | None:
        """Return copies of the parameters, or None before ``init_params``."""
        return self.get_params()[0] if self.params_initialized else None

    @property
    def _aux_params(self) -> Arrays | None:
        """Return copies of the auxiliary states, or None before ``init_params``."""
        return self.get_params()[1] if self.params_initialized else None

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Return the module of a checkpoint; keywords are those of :class:`Module`."""
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        module = Module(symbol=symbol, **kwargs)
        module._loaded = (arguments, states)
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    #: parameters and auxiliary states of a checkpoint, kept until the module is bound
    _loaded: tuple[Arrays, Arrays] | None = None

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write symbol and parameters to ``prefix-symbol.json`` and ``prefix-0001.params``, with the epoch's number.

        The states of the optimizer go to ``prefix-0001.states``.
        """
        save_checkpoint(prefix, epoch, self._symbol, *self.get_params(), remove_amp_cast=remove_amp_cast)
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    # -- inputs and outputs

    @property
    def data_names(self) -> list[str]:
        """The names of the inputs."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """The names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return self._symbol.list_outputs()

    @property
    def data_shapes(self) -> list[DataDesc]:
        """The names and shapes of the inputs."""
        need(self.binded, "data_shapes", "bind")
        assert self._data_shapes is not None
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """The names and shapes of the labels, or None."""
        need(self.binded, "label_shapes", "bind")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """The names and shapes of the outputs."""
        return self._require_bound("output_shapes").get_output_shapes()

    def _require_bound(self, what: str) -> DataParallelExecutorGroup:
        need(self.binded, what, "bind")
        assert self._exec_group is not None
        return self._exec_group

    # -- arrays

    def _bind(self, wanted: Binding) -> None:
        wanted.check_training()
        kept = self.get_params() if self.binded and self.params_initialized else self._loaded
        self.for_training, self.inputs_need_grad = wanted.for_training, wanted.inputs_need_grad
        self._grad_req, other = wanted.grad_req, wanted.shared_module
        self._make(wanted.data_shapes, wanted.label_shapes, None if other is None else other._require_bound("bind"))
        if other is not None and other.params_initialized:
            self.params_initialized = True
        elif kept is not None:
            self._copy(*kept)
            self._loaded = None
        if other is not None and other.optimizer_initialized:
            self.borrow_optimizer(other)

    def _make(self, data_shapes: Any, label_shapes: Any, shared: DataParallelExecutorGroup | None) -> None:
        self._data_shapes = describe_inputs(data_shapes, self._data_names, "data", True)
        self._label_shapes = describe_inputs(label_shapes, self._label_names, "label", False) if label_shapes else None
        self._exec_group = DataParallelExecutorGroup(
            self._symbol,
            self._context,
            self._work_load_list,
            self._data_shapes,
            self._label_shapes,
            self._param_names,
            self.for_training,
            self.inputs_need_grad,
            shared,
            self.logger,
            self._fixed_param_names,
            self._grad_req,
            self._state_names,
            self._group2ctxs,
        )
        self.binded = True
        for monitor in self._monitors:
            self._exec_group.install_monitor(monitor)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind to inputs of other shapes; parameters, their gradients and the optimizer stay."""
        self._make(data_shapes, label_shapes, self._require_bound("reshape"))

    # -- parameters

    def get_params(self) -> tuple[Arrays, Arrays]:
        """Return copies of the parameters and of the auxiliary states, by name."""
        if self._loaded is not None:
            arguments, states = self._loaded
            return dict(arguments), dict(states)
        self._need_params("get_params")
        return self._require_bound("get_params").means()

    def _copy(self, arguments: Arrays, states: Arrays) -> None:
        """Write values into the arrays."""
        for executor in self._require_bound("set_params").execs:
            for given, own in ((arguments, executor.arg_dict), (states, executor.aux_dict)):
                for name, value in given.items():
                    if name in own:
                        _write(name, own[name], value)

    def _refuse_values(self) -> None:
        warnings.warn("Parameters already initialized and force_init=False. init_params call ignored.", stacklevel=3)

    def _init_params(self, wanted: Values) -> None:
        executor, *others = self._require_bound("init_params").execs
        attributes = self._symbol.attr_dict()
        parameters = {name: executor.arg_dict[name] for name in self._param_names}
        for own, given in ((parameters, wanted.arg_params), (executor.aux_dict, wanted.aux_params)):
            for name in sorted(own):
                if given is not None and name in given:
                    if given[name] is not own[name]:
                        _write(name, own[name], given[name])
                elif given is not None and not wanted.allow_missing:
                    raise RuntimeError(f"{name} is not presented{nearest(name, list(given))}")
                elif wanted.initializer is not None:
                    wanted.initializer(InitDesc(name, attributes.get(name, None)), own[name])
            extra = sorted(set(given or {}) - {*own, *executor.arg_dict})
            if extra and not wanted.allow_extra:
                raise ValueError(f"{extra[0]!r} is not a parameter of the network; allow_extra=True ignores it")
        for other in others:
            other.copy_params_from(parameters, executor.aux_dict)

    # -- the optimizer

    def _init_optimizer(self, kvstore: Any, optimizer: Any, optimizer_params: Any, force_init: bool) -> None:
        self._kvstore, self._update_on_kvstore = _shared_store(kvstore), False
        if self._kvstore is not None:
            self._take_values_of_first_rank(self._kvstore)
        self._optimizer = self._make_optimizer(optimizer, dict(optimizer_params))
        self._updater = get_updater(self._optimizer)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _take_values_of_first_rank(self, store: Any) -> None:
        """Replace parameters and auxiliary states by those of rank 0."""
        group = self._require_bound("init_optimizer")
        names = [*self._param_names, *self._aux_names]
        arrays = [*group.param_arrays, *group.aux_arrays]
        firsts = [parts[0] for parts in arrays]
        for parts, value in zip(arrays, broadcast(store._group, firsts, label=f"parameters {name_keys(names)}")):
            for array in parts:
                if value is not array:
                    array[:] = value

    def _make_optimizer(self, given: Any, parameters: dict[str, Any]) -> Any:
        first = self.data_shapes[0]
        examples = first.shape[max(DataDesc.get_batch_axis(first.layout), 0)]
        chosen = isinstance(given, str) and "rescale_grad" not in parameters
        self._scale = 1.0 / examples if chosen else None
        examples *= 1 if self._kvstore is None else self._kvstore.num_workers
        names = dict(enumerate(self._param_names))
        if isinstance(given, str):
            parameters.setdefault("rescale_grad", 1.0 / examples)
            return create(given, sym=self._symbol, param_idx2name=names, **parameters)
        if not isinstance(given, Optimizer):
            raise AssertionError(f"optimizer must be the name of an optimizer or an Optimizer, not {type(given)}")
        if given.rescale_grad != 1.0 / examples:
            warnings.warn(
                f"Optimizer created manually outside Module but rescale_grad is not normalized to 1.0/batch_size/"
                f"num_workers ({given.rescale_grad} vs. {1.0 / examples}). Is this intended?",
                stacklevel=3,
            )
        if not given.idx2name:
            given.idx2name = names.copy()
        return given

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Share the optimizer of another module, with its states."""
        need(shared_module.optimizer_initialized, "borrow_optimizer", "init_optimizer of the other module")
        self._optimizer, self._updater = shared_module._optimizer, shared_module._updater
        self._scale = shared_module._scale
        self._kvstore = shared_module._kvstore
        # the optimizer's states are keyed by the other module's numbers
        self._numbers = shared_module._numbers
        self.optimizer_initialized = True

    def save_optimizer_states(self, fname: str) -> None:
        """Write the states of the optimizer to a file, in the format of the setting ``states_format``."""
        need(self.optimizer_initialized, "save_optimizer_states", "init_optimizer")
        write_atomically(fname, [self._updater.get_states()])

    def load_optimizer_states(self, fname: str) -> None:
        """Read the states of the optimizer from a file; an error leaves them as they were."""
        need(self.optimizer_initialized, "load_optimizer_states", "init_optimizer")
        executor = self._require_bound("load_optimizer_states").execs[0]
        weights = {number: executor.arg_dict[name] for name, number in self._numbers.items()}
        with open(fname, "rb") as file:
            self._updater._install(self._updater._read_states(file.read(), fname, weights))

    # -- batches

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; other shapes than the bound ones reshape the module.

        Parameters
        ----------
        data_batch
            An object with lists ``data`` and ``label``, or a list of such parts of one batch.
        is_train
            Whether to compute in training mode; defaults to the mode in which the module is bound.
        """
        self._need_params("forward")
        data, labels = arrays_of(data_batch)
        if [array.shape for array in data] != [each.shape for each in self.data_shapes]:
            self._take_shapes(data_batch, data, labels)
        self._require_bound("forward").forward(DataBatch(data, labels), is_train)

    def _take_shapes(self, batch: Any, data: list[NDArray], labels: list[NDArray]) -> None:
        """Reshape the module for a batch."""
        if len(data) != len(self.data_shapes):
            raise MXNetError(f"forward: the batch has {len(data)} arrays, but data_names are {self._data_names}")

        def describe(old: list[DataDesc], arrays: list[NDArray]) -> list[DataDesc]:
            return [
                DataDesc(each.name, array.shape, each.dtype, each.layout)
                for each, array in zip(old, arrays, strict=False)
            ]

        data_shapes = getattr(batch, "provide_data", None) or describe(self.data_shapes, data)
        label_shapes = getattr(batch, "provide_label", None)
        if not label_shapes and self._label_shapes and labels:
            label_shapes = describe(self._label_shapes, labels)
        self.reshape(data_shapes, label_shapes or None)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last batch; losses need no ``out_grads``."""
        self._need_params("backward")
        if not self.for_training:
            raise AssertionError("backward: the module is bound with for_training=False")
        self._require_bound("backward").backward(out_grads)

    def update(self) -> None:
        """Update the parameters with the gradients of the last batch."""
        self._need_params("update")
        need(self.optimizer_initialized, "update", "init_optimizer")
        first, *others = self._require_bound("update").execs
        names = [name for name in self._param_names if first.grad_dict[name] is not None]
        numbers = [self._numbers[name] for name in names]
        grads: dict[str, Any] = {name: first.grad_dict[name] for name in names}
        for other in others:
            parts: dict[str, Any] = other.grad_dict
            grads = {name: grad + parts[name].as_in_context(grad.context) for name, grad in grads.items()}
        if self._kvstore is not None:
            grads = self._kvstore._add_up(grads)
            if self._scale is not None and is_elastic():
                # the number of processes may have changed
                self._optimizer.rescale_grad = self._scale / self._kvstore.num_workers
        # one call for all parameters: an optimizer may update several at once
        self._updater(numbers, list(grads.values()), [first.arg_dict[name] for name in names])
        for other in others:
            for name in names:
                first.arg_dict[name].copyto(other.arg_dict[name])

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last batch, or lists of their parts on each device."""
        self._need_params("get_outputs")
        return self._require_bound("get_outputs").get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the inputs of a module bound with ``inputs_need_grad=True``."""
        self._need_params("get_input_grads")
        if not self.inputs_need_grad:
            raise AssertionError("get_input_grads: bind the module with inputs_need_grad=True")
        return self._require_bound("get_input_grads").get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the arrays of states."""
        self._need_params("get_states")
        return self._require_bound("get_states").get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states to arrays, or to one number."""
        self._need_params("set_states")
        if (states is None) == (value is None):
            raise AssertionError("set_states: give either states or value")
        self._require_bound("set_states").set_states(states, value)

    def update_metric(self, eval_metric: Metric, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and the outputs of the last batch."""
        if pre_sliced:
            labels = [ndarray.concatenate(list(parts)) for parts in zip(*labels, strict=True)]
        self._require_bound("update_metric").update_metric(eval_metric, labels, False, self._label_names)

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor of all computed values."""
        self._monitors.append(mon)
        self._require_bound("install_monitor").install_monitor(mon)


def _write(name: str, own: NDArray, value: NDArray) -> None:
    if own.shape != value.shape:
        raise MXNetError(f"parameter {name} has shape {own.shape}, but the given array has shape {value.shape}")
    own[:] = value.astype(own.dtype)


def _shared_store(kvstore: Any) -> Any:
    """Return the store of several processes; None if one process needs none."""
    store = create_store(kvstore) if isinstance(kvstore, str) and is_distributed(kvstore) else kvstore
    return store if isinstance(store, (DistributedKVStore, Horovod)) else None


complete_classes(globals())
