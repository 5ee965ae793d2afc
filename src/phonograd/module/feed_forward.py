"""FeedForward: MXNet's first trainer of symbols (``mxnet.model.FeedForward``), built on a module."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import metric
from ..core.base.docstrings import complete_classes
from ..io import NDArrayIter, ResizeIter
from ..model import load_checkpoint, save_checkpoint
from ..symbol import Symbol
from .base_module import UNIFORM, Arrays
from .module import Module

__all__ = ["FeedForward"]

_DEPRECATED = "mxnet.model.FeedForward has been deprecated. Please use mxnet.mod.Module instead."


class FeedForward:
    """Train a symbol on arrays or iterators.

    Parameters
    ----------
    symbol
        The symbol to compute.
    ctx
        The context to compute on.
    num_epoch, begin_epoch
        One past the number of the last epoch, and the number of the first.
    epoch_size
        The number of batches in an epoch; all by default.
    optimizer
        The optimizer or its name; keywords are its parameters.
    initializer
        The initializer of parameters that are not in ``arg_params``.
    numpy_batch_size
        The batch size for NumPy arrays.
    arg_params, aux_params
        Initial parameters and auxiliary states.
    allow_extra_params
        Whether to allow parameters that the symbol does not use.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = UNIFORM,
        numpy_batch_size: int = 128,
        arg_params: Arrays | None = None,
        aux_params: Arrays | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        warnings.warn(_DEPRECATED, DeprecationWarning, stacklevel=2)
        self.symbol = symbol
        self.ctx = ctx
        self.num_epoch = num_epoch
        self.begin_epoch = begin_epoch
        self.epoch_size = epoch_size
        self.optimizer = optimizer
        self.initializer = initializer
        self.numpy_batch_size = numpy_batch_size
        self.arg_params = arg_params
        self.aux_params = aux_params
        self.allow_extra_params = allow_extra_params
        self.kwargs = dict(kwargs)

    def _batches(self, data: Any, labels: Any, is_train: bool) -> Any:
        """Return an iterator over data given as arrays or as an iterator."""
        if hasattr(data, "provide_data"):
            return data
        data = np.asarray(data) if isinstance(data, list) else data
        if labels is None:
            if is_train:
                raise ValueError("y must be specified when X is numpy.ndarray")
            labels = np.zeros(data.shape[0])
        labels = np.asarray(labels.asnumpy() if hasattr(labels, "asnumpy") else labels)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels.reshape(-1)
        if labels.ndim != 1:
            raise ValueError(f"y must be a vector or a column, not an array of shape {labels.shape}")
        if data.shape[0] != labels.shape[0]:
            raise ValueError(f"The numbers of data points and labels not equal: {data.shape[0]} and {labels.shape[0]}")
        size = min(data.shape[0], self.numpy_batch_size)
        handling = "roll_over" if is_train else "pad"
        return NDArrayIter(data, labels, batch_size=size, shuffle=is_train, last_batch_handle=handling)

    def _module(self, batches: Any, logger: Any = logging) -> Module:
        data_names = [each[0] for each in batches.provide_data]
        # like MXNet, recognize labels by name, because data for prediction has no labels
        label_names = [name for name in self.symbol.list_arguments() if name.endswith("label")]
        return Module(self.symbol, data_names, label_names, logger=logger, context=self.ctx)

    def fit(
        self,
        X: Any,  # noqa: N803 - MXNet's name
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        monitor: Any = None,
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train on data and labels, or on an iterator; ``eval_data`` is an iterator or a pair of data and labels."""
        batches = self._batches(X, y, True)
        if self.epoch_size is not None:
            batches = ResizeIter(batches, self.epoch_size)
        if eval_data is not None and not hasattr(eval_data, "provide_data"):
            if not isinstance(eval_data, (tuple, list)) or len(eval_data) != 2:
                raise TypeError("Eval data must be a DataIter, or a pair of data and labels")
            eval_data = self._batches(eval_data[0], eval_data[1], True)
        module = self._module(batches, logger or logging)
        arguments, states = self.arg_params, self.aux_params
        if self.allow_extra_params:
            known = self.symbol.list_inputs()
            arguments = {name: array for name, array in (arguments or {}).items() if name in known}
            states = {name: array for name, array in (states or {}).items() if name in known}
        batches.reset()
        module.fit(
            batches,
            eval_data=eval_data,
            eval_metric=eval_metric,
            epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback,
            kvstore=kvstore,
            optimizer=self.optimizer,
            optimizer_params=self.kwargs,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
            initializer=self.initializer,
            arg_params=arguments,
            aux_params=states,
            allow_missing=True,
            begin_epoch=self.begin_epoch,
            num_epoch=self.num_epoch,
            monitor=monitor,
        )
        self.arg_params, self.aux_params = module.get_params()

    def _predictor(self, batches: Any) -> Module:
        module = self._module(batches)
        module.bind(batches.provide_data, None, for_training=False)
        module.init_params(None, self.arg_params or {}, self.aux_params or {}, False, True, True)
        return module

    def predict(
        self,
        X: Any,  # noqa: N803 - MXNet's name
        num_batch: int | None = None,
        return_data: bool = False,
        reset: bool = True,
    ) -> Any:
        """Return the outputs as NumPy arrays, on request with data and labels; a single output is not in a list."""
        batches = self._batches(X, None, False)
        predictor = self._predictor(batches)
        parts: list[list[list[Any]]] = [[], [], []]
        for outputs, _, batch in predictor.iter_predict(batches, num_batch, reset):
            kept = outputs[0].shape[0]
            for found, arrays in zip(parts, (outputs, batch.data, batch.label or []), strict=True):
                found.append([array.asnumpy()[:kept] for array in arrays])
        merged = [[np.concatenate(pieces) for pieces in zip(*found, strict=True)] for found in parts]
        results = [arrays[0] if len(arrays) == 1 else arrays for arrays in merged]
        return tuple(results) if return_data else results[0]

    def score(
        self,
        X: Any,  # noqa: N803 - MXNet's name
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> Any:
        """Return the value of a metric over an iterator with labels."""
        measured = metric.create(eval_metric)
        module = self._module(X)
        module.bind(X.provide_data, X.provide_label, for_training=False)
        module.init_params(None, self.arg_params or {}, self.aux_params or {}, False, True, True)
        module.score(X, measured, num_batch, batch_end_callback, reset=reset)
        return measured.get()[1]

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write symbol and parameters as :func:`phonograd.model.save_checkpoint` does."""
        number = self.num_epoch if epoch is None else epoch
        if number is None:
            raise AssertionError("save: specify the epoch")
        save_checkpoint(prefix, number, self.symbol, self.arg_params or {}, self.aux_params or {}, remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """Return the model of a checkpoint."""
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=arguments, aux_params=states, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(
        symbol: Symbol,
        X: Any,  # noqa: N803 - MXNet's name
        y: Any = None,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = UNIFORM,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        eval_end_callback: Callable[..., Any] | None = None,
        eval_batch_end_callback: Any = None,
        **kwargs: Any,
    ) -> FeedForward:
        """Train a new model and return it; the arguments are those of the constructor and of :meth:`fit`."""
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        model.fit(
            X,
            y,
            eval_data=eval_data,
            eval_metric=eval_metric,
            epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback,
            kvstore=kvstore,
            logger=logger,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
        )
        return model


complete_classes(globals())
