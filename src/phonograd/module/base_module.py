"""BaseModule: the base class of modules, with the loops for training, scoring and predicting.

A module is bound to shapes (``bind``), gets values (``init_params``) and an optimizer (``init_optimizer``), and then
computes batches: ``forward``, ``backward``, ``update``. The loops over data call these methods. ``bind``,
``init_params`` and ``init_optimizer`` are template methods: a subclass overrides ``_bind``, ``_init_params`` and
``_init_optimizer``.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .. import metric, ndarray
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError
from ..initializer import Uniform
from ..io import DataBatch, NDArrayIter
from ..model import BatchEndParam
from ..ndarray import NDArray

__all__ = ["UNIFORM", "BaseModule", "Binding", "Values", "as_list", "need"]

#: the default initializer of parameters
UNIFORM = Uniform(0.01)

Arrays = dict[str, NDArray]
Metric = Any


def as_list(value: Any) -> list[Any]:
    """Convert a list or tuple to a list, and anything else to a list of one element."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def need(condition: bool, what: str, do: str) -> None:
    """Raise AssertionError, as MXNet does, unless a condition on the module's state holds."""
    if not condition:
        raise AssertionError(f"{what}: call {do} first")


class Binding(NamedTuple):
    """The arguments of :meth:`BaseModule.bind`."""

    data_shapes: Any
    label_shapes: Any
    for_training: bool
    inputs_need_grad: bool
    force_rebind: bool
    shared_module: Any
    grad_req: Any

    def check_training(self) -> None:
        """Raise if gradients of inputs are requested without training."""
        if self.inputs_need_grad and not self.for_training:
            raise AssertionError("bind: gradients of inputs require training; set for_training=True")


class Values(NamedTuple):
    """The arguments of :meth:`BaseModule.init_params`."""

    initializer: Any
    arg_params: Arrays | None
    aux_params: Arrays | None
    allow_missing: bool
    force_init: bool
    allow_extra: bool


class BaseModule:
    """The base class of modules. A subclass computes a batch; this class has the loops over data.

    Parameters
    ----------
    logger
        The logger of progress.
    """

    #: True if the module itself has parameters; then :meth:`set_params` takes None for no arrays at all
    _has_parameters = False

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Any = None

    def _need_params(self, what: str) -> None:
        need(self.binded, what, "bind")
        need(self.params_initialized, what, "init_params")

    # -- loops over data

    def forward_backward(self, data_batch: DataBatch) -> None:
        """Compute the outputs of a batch and the gradients of all parameters."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(
        self,
        eval_data: Any,
        eval_metric: Metric,
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        score_end_callback: Any = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> list[tuple[str, float]]:
        """Return the names and values of a metric over data, or over its first ``num_batch`` batches."""
        self._need_params("score")
        if reset:
            eval_data.reset()
        eval_metric = metric.create(eval_metric)
        eval_metric.reset()
        seen = 0
        # variables have MXNet's names: callbacks look them up
        for nbatch, eval_batch in enumerate(_first(eval_data, num_batch)):
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self._score_batch(eval_metric, eval_batch)
            _tell(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            seen = nbatch + 1
        _tell(score_end_callback, BatchEndParam(epoch, seen, eval_metric, locals()))
        found: list[tuple[str, float]] = eval_metric.get_name_value()
        return found

    def _score_batch(self, eval_metric: Metric, batch: Any) -> None:
        if isinstance(batch, list):
            self.update_metric(eval_metric, [one.label for one in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def iter_predict(
        self, eval_data: Any, num_batch: int | None = None, reset: bool = True, sparse_row_id_fn: Any = None
    ) -> Iterator[tuple[list[NDArray], int, Any]]:
        """Yield outputs, number and batch for each batch; outputs exclude padding examples."""
        self._need_params("iter_predict")
        if reset:
            eval_data.reset()
        for number, batch in enumerate(_first(eval_data, num_batch)):
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            yield [_without_filling(output, batch) for output in self.get_outputs()], number, batch

    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """Return the outputs for data: an iterator, or one array as a single batch.

        Parameters
        ----------
        num_batch
            The number of batches to compute; all by default.
        merge_batches
            Whether to concatenate the outputs of all batches.
        reset
            Whether to reset the iterator first.
        always_output_list
            Whether to return a list even if there is one output.
        """
        self._need_params("predict")
        if isinstance(eval_data, NDArray) or hasattr(eval_data, "__array__"):
            eval_data = NDArrayIter(eval_data, batch_size=eval_data.shape[0])
        batches = []
        for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn):
            batches.append([output.copy() for output in outputs])
        if not batches or not merge_batches:
            return batches
        if len({len(outputs) for outputs in batches}) > 1:
            raise AssertionError(
                "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe bucketing is used?"
            )
        merged = [ndarray.concatenate(list(parts)) for parts in zip(*batches, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(
        self,
        train_data: Any,
        eval_data: Any = None,
        eval_metric: Metric = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
        initializer: Any = UNIFORM,
        arg_params: Arrays | None = None,
        aux_params: Arrays | None = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Metric = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
    ) -> None:
        """Train the module: bind, initialize, and run epochs up to ``num_epoch``.

        Parameters
        ----------
        train_data, eval_data
            Iterators over batches; each epoch ends with a score on ``eval_data``.
        eval_metric, validation_metric
            The metrics of training and of scoring.
        epoch_end_callback
            Called with the epoch, the symbol, the parameters and the auxiliary states.
        batch_end_callback, eval_end_callback, eval_batch_end_callback
            Called with a :class:`~phonograd.model.BatchEndParam`.
        kvstore
            'dist_sync', 'horovod' or such a store adds up gradients of all processes; other stores have no effect.
        optimizer, optimizer_params
            The optimizer or its name, and its parameters.
        initializer
            The initializer of parameters that are not in ``arg_params``; uniform in [-0.01, 0.01] by default.
        arg_params, aux_params
            Initial parameters and auxiliary states.
        allow_missing
            Whether ``arg_params`` may be incomplete.
        force_rebind, force_init
            Whether to bind and initialize again even if that has been done.
        begin_epoch, num_epoch
            The number of the first epoch, and one past the number of the last.
        monitor
            A :class:`~phonograd.monitor.Monitor`.
        """
        if num_epoch is None:
            raise AssertionError("please specify number of epochs")
        self.bind(
            data_shapes=train_data.provide_data,
            label_shapes=train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=initializer,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
        )
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = metric.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            self._train_epoch(epoch, train_data, eval_metric, batch_end_callback, monitor, sparse_row_id_fn)
            for name, value in eval_metric.get_global_name_value():
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            arguments, states = self.get_params()
            self.set_params(arguments, states)
            for callback in _callbacks(epoch_end_callback):
                callback(epoch, self.symbol, arguments, states)
            if eval_data is not None:
                found = self.score(
                    eval_data,
                    validation_metric,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                    sparse_row_id_fn=sparse_row_id_fn,
                )
                for name, value in found:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _train_epoch(
        self,
        epoch: int,
        train_data: Any,
        eval_metric: Metric,
        batch_end_callback: Any,
        monitor: Any,
        sparse_row_id_fn: Any,
    ) -> None:
        eval_metric.reset()
        # variables have MXNet's names: callbacks look them up
        for nbatch, data_batch in enumerate(train_data):
            if monitor is not None:
                monitor.tic()
            # binds the bucket of the batch if it is new
            self.prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward_backward(data_batch)
            self.update()
            self._score_batch(eval_metric, data_batch)
            if monitor is not None:
                monitor.toc_print()
            _tell(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))

    # -- preparing

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Allocate arrays for inputs of the given shapes.

        Parameters
        ----------
        data_shapes, label_shapes
            Pairs of names and shapes, or :class:`~phonograd.io.DataDesc`.
        for_training
            Whether to compute gradients.
        inputs_need_grad
            Whether to compute gradients of the inputs too.
        force_rebind
            Whether to bind again if the module is bound.
        shared_module
            A module that shares its parameters with this one.
        grad_req
            How to store gradients of parameters: ``"write"``, ``"add"`` or ``"null"``, or a dictionary by name.
        """
        requests = for_training, inputs_need_grad, force_rebind, shared_module, grad_req
        wanted = Binding(data_shapes, label_shapes, *requests)
        self._check_binding(wanted)
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        self._bind(wanted)

    def _check_binding(self, wanted: Binding) -> None:
        """Raise if the binding is not supported, even if the module is bound already."""

    def init_params(
        self,
        initializer: Any = UNIFORM,
        arg_params: Arrays | None = None,
        aux_params: Arrays | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set parameters and auxiliary states to given arrays, and initialize the others.

        Parameters
        ----------
        initializer
            The initializer of parameters that are not given.
        arg_params, aux_params
            Arrays by name.
        allow_missing
            Whether arrays may be missing; the initializer sets these parameters.
        force_init
            Whether to do so if the parameters are initialized already.
        allow_extra
            Whether to ignore arrays that are not parameters of the network.
        """
        if self.params_initialized and not force_init:
            self._refuse_values()
            return
        self._init_params(Values(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra))
        self.params_initialized = True

    def _refuse_values(self) -> None:
        """Ignore a call of :meth:`init_params` for parameters that have values."""

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Set the optimizer.

        Gradients are divided by the size of the batch, unless ``optimizer_params`` has ``rescale_grad``.

        Parameters
        ----------
        kvstore
            'dist_sync', 'horovod' or such a store adds up gradients of all processes; other stores have no effect.
        optimizer, optimizer_params
            An optimizer, or its name and parameters.
        force_init
            Whether to do so if the module has an optimizer already.
        """
        self._need_params("init_optimizer")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        self._init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    # -- parameters

    def set_params(
        self,
        arg_params: Arrays | None,
        aux_params: Arrays | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set parameters and auxiliary states to arrays.

        Parameters
        ----------
        arg_params, aux_params
            Arrays by name.
        allow_missing
            Whether arrays may be missing; these parameters keep their values.
        force_init
            Whether to do so if the parameters are initialized already.
        allow_extra
            Whether to ignore arrays that are not parameters of the network.
        """
        wanted = Values(None, arg_params, aux_params, allow_missing, force_init, allow_extra)
        if self._has_parameters:
            if self.params_initialized and not force_init:
                warnings.warn(
                    "Parameters already initialized and force_init=False. set_params call ignored.", stacklevel=2
                )
                return
            need(self.binded, "set_params", "bind")
            wanted = wanted._replace(arg_params=arg_params or {}, aux_params=aux_params or {}, force_init=True)
        self.init_params(*wanted)

    def save_params(self, fname: str) -> None:
        """Write parameters and auxiliary states to a file."""
        arguments, states = self.get_params()
        arrays = {f"arg:{name}": value for name, value in arguments.items()}
        ndarray.save(fname, arrays | {f"aux:{name}": value for name, value in states.items()})

    def load_params(self, fname: str) -> None:
        """Read parameters and auxiliary states from a file."""
        found: dict[str, Arrays] = {"arg": {}, "aux": {}}
        loaded = ndarray.load(fname) or {}
        if not isinstance(loaded, dict):
            raise ValueError(f"Invalid param file {fname}: its arrays have no names")
        for key, value in loaded.items():
            kind, _, name = key.partition(":")
            if kind not in found:
                raise ValueError(f"Invalid param file {fname}: {key!r} is neither 'arg:...' nor 'aux:...'")
            found[kind][name] = value
        self.set_params(found["arg"], found["aux"])

    # -- states

    def get_states(self, merge_multi_context: bool = True) -> list[NDArray]:
        """Return the states: inputs that keep their values between batches."""
        self._need_params("get_states")
        return []

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states to arrays, or to one number."""
        self._need_params("set_states")
        if states is not None or value is not None:
            raise MXNetError(f"{type(self).__name__} has no states")

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Prepare for the next batch."""

    @property
    def symbol(self) -> Any:
        """The symbol that the module computes."""
        return self._symbol

    # -- methods that a subclass overrides

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    @property
    def data_names(self) -> Sequence[str]:
        """The names of the inputs."""
        raise self._missing("data_names")

    @property
    def output_names(self) -> Sequence[str]:
        """The names of the outputs."""
        raise self._missing("output_names")

    @property
    def data_shapes(self) -> Any:
        """The names and shapes of the inputs."""
        raise self._missing("data_shapes")

    @property
    def label_shapes(self) -> Any:
        """The names and shapes of the labels, or None."""
        raise self._missing("label_shapes")

    @property
    def output_shapes(self) -> Any:
        """The names and shapes of the outputs."""
        raise self._missing("output_shapes")

    def get_params(self) -> tuple[Arrays, Arrays]:
        """Return copies of the parameters and of the auxiliary states, by name."""
        raise self._missing("get_params")

    def _bind(self, wanted: Binding) -> None:
        """Allocate arrays, for the first binding or again."""
        raise self._missing("bind")

    def _init_params(self, wanted: Values) -> None:
        """Set parameters and auxiliary states."""
        raise self._missing("init_params")

    def _init_optimizer(self, kvstore: Any, optimizer: Any, optimizer_params: Any, force_init: bool) -> None:
        """Set the optimizer."""
        raise self._missing("init_optimizer")

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch."""
        raise self._missing("forward")

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last batch."""
        raise self._missing("backward")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last batch."""
        raise self._missing("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the inputs."""
        raise self._missing("get_input_grads")

    def update(self) -> None:
        """Update the parameters with their gradients."""
        raise self._missing("update")

    def update_metric(self, eval_metric: Metric, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and the outputs of the last batch."""
        raise self._missing("update_metric")

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor of all computed values."""
        raise self._missing("install_monitor")


def _first(data: Iterable[Any], count: int | None) -> Iterator[Any]:
    """Yield the first `count` batches without fetching another one."""
    batches = iter(data)
    taken = 0
    while count is None or taken < count:
        try:
            yield next(batches)
        except StopIteration:
            return
        taken += 1


def _without_filling(output: NDArray, batch: Any) -> NDArray:
    """Return an output without the padding examples of the batch."""
    kept: NDArray = output[0 : output.shape[0] - (getattr(batch, "pad", None) or 0)]
    return kept


def _callbacks(given: Any) -> list[Callable[..., Any]]:
    return [] if given is None else as_list(given)


def _tell(callbacks: Any, parameters: BatchEndParam) -> None:
    for callback in _callbacks(callbacks):
        callback(parameters)


complete_classes(globals())
