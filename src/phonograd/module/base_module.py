"""BaseModule: what every module does with the few things it can do: training, scoring, predicting.

A module is bound to shapes (``bind``), gets values (``init_params``) and an optimiser (``init_optimizer``), and then
computes batches: ``forward``, ``backward``, ``update``. The loops over data are made of these and stand here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .. import metric, ndarray
from ..core.base.errors import MXNetError
from ..initializer import Uniform
from ..io import DataBatch, NDArrayIter
from ..model import BatchEndParam
from ..ndarray import NDArray

__all__ = ["UNIFORM", "BaseModule", "as_list", "need"]

#: how parameters are initialized by default
UNIFORM = Uniform(0.01)

Arrays = dict[str, NDArray]
Metric = Any


def as_list(value: Any) -> list[Any]:
    """Return a list of callbacks or arrays that were given as a list or one alone."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def need(condition: bool, what: str, do: str) -> None:
    """Raise AssertionError, as MXNet does, if a module has not been prepared for what is asked of it."""
    if not condition:
        raise AssertionError(f"{what}: call {do} first")


class BaseModule:
    """What all modules have in common. A subclass says how to compute a batch; the loops are here.

    Parameters
    ----------
    logger
        Where progress is written to.
    """

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
        """Yield the outputs, the number and the batch for each batch; examples that only fill it are left out."""
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
        """Return the outputs for data: an iterator, or an array that is one batch.

        Parameters
        ----------
        num_batch
            How many batches to compute; all by default.
        merge_batches
            Whether to put the outputs of all batches together.
        reset
            Whether to start the iterator anew.
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
        """Train: bind, initialize, and go over the data ``num_epoch`` times.

        Parameters
        ----------
        train_data, eval_data
            Iterators over batches; after each epoch the module is scored on the second one.
        eval_metric, validation_metric
            What to measure while training and while scoring.
        epoch_end_callback
            Called with the epoch, the symbol, the parameters and the auxiliary states.
        batch_end_callback, eval_end_callback, eval_batch_end_callback
            Called with a :class:`~phonograd.model.BatchEndParam`.
        kvstore
            Whether a store keeps the parameters; everything is in one process here.
        optimizer, optimizer_params
            The optimiser or its name, and its parameters.
        initializer
            How parameters are initialized that are not in ``arg_params``; evenly in [-0.01, 0.01] by default.
        arg_params, aux_params
            Parameters and auxiliary states to begin with.
        allow_missing
            Whether ``arg_params`` may lack some.
        force_rebind, force_init
            Whether to bind and initialize a module again that is prepared already.
        begin_epoch, num_epoch
            The numbers of the first epoch, and of the one after the last.
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
            # a bucket may have to be bound first
            self.prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward_backward(data_batch)
            self.update()
            self._score_batch(eval_metric, data_batch)
            if monitor is not None:
                monitor.toc_print()
            _tell(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))

    # -- parameters

    def set_params(
        self,
        arg_params: Arrays | None,
        aux_params: Arrays | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Give parameters and auxiliary states values."""
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)

    def save_params(self, fname: str) -> None:
        """Write parameters and auxiliary states to a file."""
        arguments, states = self.get_params()
        arrays = {f"arg:{name}": value for name, value in arguments.items()}
        ndarray.save(fname, arrays | {f"aux:{name}": value for name, value in states.items()})

    def load_params(self, fname: str) -> None:
        """Give parameters and auxiliary states the values in a file."""
        found: dict[str, Arrays] = {"arg": {}, "aux": {}}
        loaded = ndarray.load(fname)
        if not isinstance(loaded, dict):
            raise ValueError(f"Invalid param file {fname}: its arrays have no names")
        for key, value in loaded.items():
            kind, _, name = key.partition(":")
            if kind not in found:
                raise ValueError(f"Invalid param file {fname}: {key!r} is neither 'arg:...' nor 'aux:...'")
            found[kind][name] = value
        self.set_params(found["arg"], found["aux"])

    # -- what modules with states have, and others do not

    def get_states(self, merge_multi_context: bool = True) -> list[NDArray]:
        """Return the arrays of states: inputs that are carried from batch to batch."""
        self._need_params("get_states")
        return []

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Give states values: arrays, or one number for all."""
        self._need_params("set_states")
        if states is not None or value is not None:
            raise MXNetError(f"{type(self).__name__} has no states")

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Get ready for a batch, which is computed next."""

    @property
    def symbol(self) -> Any:
        """The symbol that the module computes."""
        return self._symbol

    # -- what a subclass does

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

    def init_params(
        self,
        initializer: Any = UNIFORM,
        arg_params: Arrays | None = None,
        aux_params: Arrays | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give parameters and auxiliary states their first values."""
        raise self._missing("init_params")

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
        """Make arrays for inputs of the given shapes."""
        raise self._missing("bind")

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Choose how parameters are updated."""
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
        """Let a metric see the outputs of the last batch."""
        raise self._missing("update_metric")

    def install_monitor(self, mon: Any) -> None:
        """Have a monitor see what is computed."""
        raise self._missing("install_monitor")


def _first(data: Iterable[Any], count: int | None) -> Iterator[Any]:
    """Yield the first batches; no more are fetched than are wanted."""
    batches = iter(data)
    taken = 0
    while count is None or taken < count:
        try:
            yield next(batches)
        except StopIteration:
            return
        taken += 1


def _without_filling(output: NDArray, batch: Any) -> NDArray:
    """Return an output without the examples that are there only to fill the batch."""
    kept: NDArray = output[0 : output.shape[0] - (getattr(batch, "pad", None) or 0)]
    return kept


def _callbacks(given: Any) -> list[Callable[..., Any]]:
    return [] if given is None else as_list(given)


def _tell(callbacks: Any, parameters: BatchEndParam) -> None:
    for callback in _callbacks(callbacks):
        callback(parameters)
