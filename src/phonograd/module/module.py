"""Module: a symbol with parameters and an optimizer, run by an executor."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import ndarray
from ..core.base.devices import Context, cpu
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError, nearest
from ..core.base.files import write_atomically
from ..distributed.arrays import broadcast
from ..executor import Executor, bind_new_arrays
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
from .executor_group import DataParallelExecutorGroup, group_of_one

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
        The device; the first one of a list.
    work_load_list, group2ctxs, compression_params
        Accepted for compatibility, without effect.
    fixed_param_names
        Parameters that are not trained.
    state_names
        Arguments that keep their values between batches, see ``set_states``.

    Compatibility
    -------------
    MXNet divides batches between several contexts. Here a batch is computed as a whole: all contexts share one
    processor, whose cores already share the work.
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
        contexts = [cpu()] if context is None else [context] if isinstance(context, Context) else list(context)
        self._context = contexts[0]
        self._symbol: Symbol = symbol
        self._data_names = list(data_names or [])
        self._label_names = list(label_names or [])
        self._state_names = list(state_names or [])
        self._fixed_names = list(fixed_param_names or [])
        check_names(symbol, self._data_names, "data", True)
        check_names(symbol, self._label_names, "label", False)
        check_names(symbol, self._state_names, "state", True)
        check_names(symbol, self._fixed_names, "fixed_param", True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._numbers = {name: number for number, name in enumerate(self._param_names)}
        self._executor: Executor | None = None
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None
        self._grad_req: Any = "write"
        self._optimizer: Any = None
        self._updater: Any = None
        #: the store that adds up gradients of several processes
        self._store: Any = None
        self._monitors: list[Any] = []
        self._to_load: str | None = None

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Return the module of a checkpoint; keywords are those of :class:`Module`."""
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        module = Module(symbol=symbol, **kwargs)
        module._loaded = (arguments, states)
        module.params_initialized = True
        if load_optimizer_states:
            module._to_load = f"{prefix}-{epoch:04d}.states"
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
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """The names and shapes of the labels, or None."""
        need(self.binded, "label_shapes", "bind")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """The names and shapes of the outputs."""
        outputs = self._require_bound("output_shapes").outputs
        return list(zip(self.output_names, [array.shape for array in outputs], strict=True))

    def _require_bound(self, what: str) -> Executor:
        need(self.binded, what, "bind")
        assert self._executor is not None
        return self._executor

    @property
    def _exec_group(self) -> DataParallelExecutorGroup | None:
        """Return MXNet's view of the executor, whose arrays tutorials read, or None before ``bind``."""
        if self._executor is None:
            return None
        return group_of_one(
            self._executor,
            self._data_shapes,
            self._label_shapes,
            contexts=[self._context],
            param_names=self._param_names,
            for_training=self.for_training,
            inputs_need_grad=self.inputs_need_grad,
            fixed_param_names=self._fixed_names,
            state_names=self._state_names,
            _given_req=self._grad_req,
        )

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

    def _make(self, data_shapes: Any, label_shapes: Any, shared: Executor | None) -> None:
        self._data_shapes = describe_inputs(data_shapes, self._data_names, "data", True)
        self._label_shapes = describe_inputs(label_shapes, self._label_names, "label", False) if label_shapes else None
        given = [*self._data_shapes, *(self._label_shapes or ())]
        used = set(self._symbol.list_inputs())
        shapes = {each.name: each.shape for each in given if each.name in used}
        types = {each.name: each.dtype for each in given if each.name in used}
        same = _shared_arrays(self._param_names, self._symbol.list_auxiliary_states(), shared)
        executor = bind_new_arrays(self._symbol, self._context, self._requests(), types, shapes, same)
        self._executor = executor
        self.binded = True
        for monitor in self._monitors:
            monitor.install(executor)

    def _requests(self) -> dict[str, str]:
        """Return the gradient request of each argument."""
        names = self._symbol.list_arguments()
        requests = dict.fromkeys(names, "null")
        if not self.for_training:
            return requests
        chosen = self._grad_req
        if isinstance(chosen, (list, tuple)):
            chosen = dict(zip(names, chosen, strict=True))
        for name in names:
            if name in self._fixed_names:
                continue
            if name in self._param_names or (name in self._data_names and self.inputs_need_grad):
                default = "write" if name in self._data_names else "null"
                requests[name] = chosen if isinstance(chosen, str) else chosen.get(name, default)
        return requests

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind to inputs of other shapes; parameters, their gradients and the optimizer stay."""
        self._make(data_shapes, label_shapes, self._require_bound("reshape"))

    # -- parameters

    def _copies(self, executor: Executor) -> tuple[Arrays, Arrays]:
        arguments = {name: executor.arg_dict[name].copy() for name in self._param_names}
        return arguments, {name: array.copy() for name, array in executor.aux_dict.items()}

    def get_params(self) -> tuple[Arrays, Arrays]:
        """Return copies of the parameters and of the auxiliary states, by name."""
        if self._loaded is not None:
            arguments, states = self._loaded
            return dict(arguments), dict(states)
        self._need_params("get_params")
        return self._copies(self._require_bound("get_params"))

    def _copy(self, arguments: Arrays, states: Arrays) -> None:
        """Write values into the arrays."""
        executor = self._require_bound("set_params")
        for given, own in ((arguments, executor.arg_dict), (states, executor.aux_dict)):
            for name, value in given.items():
                if name in own:
                    _write(name, own[name], value)

    def _refuse_values(self) -> None:
        warnings.warn("Parameters already initialized and force_init=False. init_params call ignored.", stacklevel=3)

    def _init_params(self, wanted: Values) -> None:
        executor = self._require_bound("init_params")
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

    # -- the optimizer

    def _init_optimizer(self, kvstore: Any, optimizer: Any, optimizer_params: Any, force_init: bool) -> None:
        self._store = _shared_store(kvstore)
        if self._store is not None:
            self._take_values_of_first_rank(self._store)
        self._optimizer = self._make_optimizer(optimizer, dict(optimizer_params))
        self._updater = get_updater(self._optimizer)
        self.optimizer_initialized = True
        if self._to_load is not None:
            self.load_optimizer_states(self._to_load)
            self._to_load = None

    def _take_values_of_first_rank(self, store: Any) -> None:
        """Replace parameters and auxiliary states by those of rank 0."""
        executor = self._require_bound("init_optimizer")
        names = [*self._param_names, *executor.aux_dict]
        arrays = [*[executor.arg_dict[name] for name in self._param_names], *executor.aux_dict.values()]
        for array, value in zip(arrays, broadcast(store._group, arrays, label=f"parameters {name_keys(names)}")):
            if value is not array:
                array[:] = value

    def _make_optimizer(self, given: Any, parameters: dict[str, Any]) -> Any:
        first = self._data_shapes[0]
        examples = first.shape[max(DataDesc.get_batch_axis(first.layout), 0)]
        examples *= 1 if self._store is None else self._store.num_workers
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
        self._store = shared_module._store
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
        weights = {number: self._executor.arg_dict[name] for name, number in self._numbers.items() if self._executor}
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
        if [array.shape for array in data] != [each.shape for each in self._data_shapes]:
            self._take_shapes(data_batch, data, labels)
        feed = {each.name: array for each, array in zip(self._data_shapes, data, strict=False)}
        if labels and self._label_shapes:
            feed |= {each.name: array for each, array in zip(self._label_shapes, labels, strict=False)}
        executor = self._require_bound("forward")
        used = {name: array for name, array in feed.items() if name in executor.arg_dict}
        executor.forward(self.for_training if is_train is None else is_train, **used)

    def _take_shapes(self, batch: Any, data: list[NDArray], labels: list[NDArray]) -> None:
        """Reshape the module for a batch."""
        if len(data) != len(self._data_shapes):
            raise MXNetError(f"forward: the batch has {len(data)} arrays, but data_names are {self._data_names}")

        def describe(old: list[DataDesc], arrays: list[NDArray]) -> list[DataDesc]:
            return [
                DataDesc(each.name, array.shape, each.dtype, each.layout)
                for each, array in zip(old, arrays, strict=False)
            ]

        data_shapes = getattr(batch, "provide_data", None) or describe(self._data_shapes, data)
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
        executor = self._require_bound("update")
        names = [name for name in self._param_names if executor.grad_dict[name] is not None]
        numbers = [self._numbers[name] for name in names]
        grads = {name: executor.grad_dict[name] for name in names}
        if self._store is not None:
            grads = self._store._add_up(grads)
        # one call for all parameters: an optimizer may update several at once
        self._updater(numbers, list(grads.values()), [executor.arg_dict[n] for n in names])

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last batch, each in its own list unless ``merge_multi_context`` is set."""
        self._need_params("get_outputs")
        outputs = self._require_bound("get_outputs").outputs
        return list(outputs) if merge_multi_context else [[output] for output in outputs]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the inputs of a module bound with ``inputs_need_grad=True``."""
        self._need_params("get_input_grads")
        if not self.inputs_need_grad:
            raise AssertionError("get_input_grads: bind the module with inputs_need_grad=True")
        executor = self._require_bound("get_input_grads")
        grads = [executor.grad_dict[each.name] for each in self._data_shapes]
        return grads if merge_multi_context else [[grad] for grad in grads]

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the arrays of states."""
        self._need_params("get_states")
        executor = self._require_bound("get_states")
        states = [executor.arg_dict[name] for name in self._state_names]
        return states if merge_multi_context else [[state] for state in states]

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states to arrays, or to one number."""
        self._need_params("set_states")
        if (states is None) == (value is None):
            raise AssertionError("set_states: give either states or value")
        for position, own in enumerate(self.get_states()):
            given = value if states is None else states[position]
            own[:] = given[0] if isinstance(given, (list, tuple)) else given

    def update_metric(self, eval_metric: Metric, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and the outputs of the last batch."""
        executor = self._require_bound("update_metric")
        if pre_sliced:
            labels = [ndarray.concatenate(list(parts)) for parts in zip(*labels, strict=True)]
        names = [each.name for each in self._label_shapes] if self._label_shapes else self._label_names
        by_name = dict(zip(names, labels or [], strict=False))
        eval_metric.update_dict(by_name, dict(zip(self.output_names, executor.outputs, strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor of all computed values."""
        self._monitors.append(mon)
        mon.install(self._require_bound("install_monitor"))


def _shared_arrays(names: Sequence[str], states: Sequence[str], shared: Executor | None) -> Mapping[str, Arrays]:
    """Return the arrays shared with another executor: parameters, their gradients and auxiliary states."""
    if shared is None:
        return {}
    return {
        "args": {name: shared.arg_dict[name] for name in names if name in shared.arg_dict},
        "grads": {name: grad for name in names if (grad := shared.grad_dict.get(name)) is not None},
        "states": {name: shared.aux_dict[name] for name in states if name in shared.aux_dict},
    }


def _write(name: str, own: NDArray, value: NDArray) -> None:
    if own.shape != value.shape:
        raise MXNetError(f"parameter {name} has shape {own.shape}, but the given array has shape {value.shape}")
    own[:] = value.astype(own.dtype)


def _shared_store(kvstore: Any) -> Any:
    """Return the store of several processes; None if one process needs none."""
    store = create_store(kvstore) if isinstance(kvstore, str) and is_distributed(kvstore) else kvstore
    return store if isinstance(store, (DistributedKVStore, Horovod)) else None


complete_classes(globals())
