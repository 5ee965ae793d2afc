"""Provide Estimator: a network with its loss, metrics and trainer, and loops that train and evaluate it.

Takes handlers from :mod:`.event_handler`, which it calls at each event of a loop.
"""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from .... import metric as metrics_module
from ....core.base.devices import Context, cpu
from ....core.base.docstrings import complete_classes
from ....metric import EvalMetric
from ...block import Block
from ...loss import Loss, SoftmaxCrossEntropyLoss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
    list_metrics,
)

__all__ = ["Estimator"]

_EVENTS: dict[str, type[EventHandler]] = {
    "train_begin": TrainBegin,
    "epoch_begin": EpochBegin,
    "batch_begin": BatchBegin,
    "batch_end": BatchEnd,
    "epoch_end": EpochEnd,
    "train_end": TrainEnd,
}


class Estimator:
    """Train and evaluate a network.

    Parameters
    ----------
    net, loss
        The network and the loss to minimize.
    train_metrics, val_metrics
        The metrics. The default is the loss, and the accuracy of a classifier. Metrics of training are named
        ``training ...``; those of validation are copies of them named ``validation ...``.
    initializer
        The initializer of parameters that are not initialized yet.
    trainer
        The trainer. The default is stochastic gradient descent with learning rate 0.001.
    context
        A context, or a list of contexts over which batches are split.
    val_net, val_loss
        The network and loss of the evaluation, if they differ from those of training.
    batch_processor
        The forward and backward passes of a batch; see :class:`BatchProcessor`.

    >>> import phonograd as mx
    >>> from phonograd.gluon.contrib.estimator import Estimator
    >>> mx.random.seed(0)
    >>> net = mx.gluon.nn.Dense(1)
    >>> net.initialize()
    >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.2})
    >>> estimator = Estimator(net, mx.gluon.loss.L2Loss(), trainer=trainer)
    >>> estimator.logger.disabled = True
    >>> x = mx.nd.random.normal(shape=(32, 2))
    >>> estimator.fit([(x, x.sum(axis=1))], epochs=100)
    >>> name, value = estimator.train_metrics[0].get()
    >>> name, value < 1e-4
    ('training l2loss', True)

    Compatibility
    -------------
    Batches may come from any iterable that supports several passes, not only from a DataLoader.
    """

    def __init__(
        self,
        net: Block,
        loss: Loss,
        train_metrics: Any = None,
        val_metrics: Any = None,
        initializer: Any = None,
        trainer: Trainer | None = None,
        context: Any = None,
        val_net: Block | None = None,
        val_loss: Loss | None = None,
        batch_processor: Any = None,
    ) -> None:
        self.net = net
        self.loss = _check_loss(loss)
        self.val_net = net if val_net is None else val_net
        self.val_loss = self.loss if val_loss is None else _check_loss(val_loss)
        self.logger = logging.Logger("Estimator", logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _list_contexts(context)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0
        self.stop_training = False
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = BatchProcessor() if batch_processor is None else batch_processor
        if not all([callable(getattr(self.batch_processor, name, None)) for name in ("fit_batch", "evaluate_batch")]):
            raise ValueError("Customized Batch Processor must contain fit_batch() and evaluate_batch() methods")
        self._train_metrics = list_metrics(train_metrics)
        self._val_metrics = list_metrics(val_metrics)
        self._complete_metrics()

    # -- parts

    def _initialize(self, initializer: Any) -> None:
        parameters = self.net.collect_params().values()
        if any([parameter._data is None and parameter._deferred_init is None for parameter in parameters]):
            if initializer is None:
                self.net.initialize(ctx=self.context)
            else:
                self.net.initialize(init=initializer, ctx=self.context)
        elif initializer is not None:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to pass initializer if you "
                "already initialized your net. You can use net.initialize(init=your_initializer, force_reinit=True)to "
                "force re-initialize.",
                stacklevel=3,
            )

    def _check_trainer(self, trainer: Trainer | None) -> Trainer:
        if trainer is None:
            warnings.warn("No trainer specified, default SGD optimizer with learning rate 0.001 is used.", stacklevel=3)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:{trainer}")
        return trainer

    def _complete_metrics(self) -> None:
        given = bool(self._train_metrics)
        if not given:
            if isinstance(self.loss, SoftmaxCrossEntropyLoss):
                self._train_metrics.append(metrics_module.Accuracy())
            self._train_metrics.append(metrics_module.Loss(self.loss.name.rstrip("0123456789")))
        for metric in self._train_metrics:
            _add_prefix(metric, "training")
        if not self._val_metrics:
            for metric in self._train_metrics:
                twin = copy.deepcopy(metric)
                twin.name = str(metric.name).removeprefix("training ")
                twin.reset()
                self._val_metrics.append(twin)
        for metric in self._val_metrics:
            _add_prefix(metric, "validation")

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """The metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """The metrics of validation."""
        return self._val_metrics

    # -- loops

    def evaluate(self, val_data: Any, batch_axis: int = 0, event_handlers: Any = None) -> None:
        """Compute ``val_metrics`` from batches of data and labels."""
        _check_data(val_data)
        handlers = _list_handlers(event_handlers)
        self._add_default(handlers, MetricHandler, lambda: MetricHandler(self.val_metrics))
        self._add_default(handlers, LoggingHandler, lambda: LoggingHandler(metrics=self.val_metrics))
        self._check_references(handlers)
        events = _by_event(handlers)
        self._notify(events["epoch_begin"], "epoch_begin")
        for batch in val_data:
            self._notify(events["batch_begin"], "batch_begin", batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            self._notify(events["batch_end"], "batch_end", batch=batch, pred=pred, label=label, loss=loss)
        self._notify(events["epoch_end"], "epoch_end")

    def fit(
        self,
        train_data: Any,
        val_data: Any = None,
        epochs: int | None = None,
        event_handlers: Any = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train the network.

        Parameters
        ----------
        train_data, val_data
            Iterables of batches of data and labels.
        epochs, batches
            The number of epochs or of batches; exactly one of them must be given.
        event_handlers
            Handlers in addition to the default ones, which stop, update parameters, measure, validate and log. A given
            handler replaces the default one of its class, except for the handler that stops.
        batch_axis
            The axis of samples in data and labels.
        """
        _check_data(train_data)
        if (epochs is None) == (batches is None):
            raise ValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or number of batches."
                "Please specify one and only one of: epochs or batches."
            )
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        events = _by_event(self._training_handlers(val_data, event_handlers))
        self._notify(events["train_begin"], "train_begin")
        stop = self.max_epoch == 0 or self.max_batch == 0
        while not stop:
            self._notify(events["epoch_begin"], "epoch_begin")
            is_empty = True
            for batch in train_data:
                is_empty = False
                self._notify(events["batch_begin"], "batch_begin", batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                stop = self._notify(events["batch_end"], "batch_end", batch=batch, pred=pred, label=label, loss=loss)
                if stop:
                    break
            if is_empty:
                raise ValueError("train_data has no batches: it must be an iterable that supports several passes")
            stop = self._notify(events["epoch_end"], "epoch_end") or stop
        self._notify(events["train_end"], "train_end")

    def _notify(self, handlers: list[Any], event: str, **facts: Any) -> bool:
        """Call handlers, and return whether one of them requests a stop."""
        stops = [getattr(handler, event)(self, **facts) for handler in handlers]
        return any([stop is True for stop in stops])

    def _training_handlers(self, val_data: Any, event_handlers: Any) -> list[EventHandler]:
        handlers = _list_handlers(event_handlers)
        handlers.append(StoppingHandler(self.max_epoch, self.max_batch))
        self._add_default(handlers, GradientUpdateHandler, GradientUpdateHandler)
        self._add_default(handlers, MetricHandler, lambda: MetricHandler(self.train_metrics))
        if val_data is not None:
            _check_data(val_data)
            self._add_default(handlers, ValidationHandler, lambda: ValidationHandler(val_data, self.evaluate))
        self._add_default(handlers, LoggingHandler, lambda: LoggingHandler(metrics=self.train_metrics))
        self._check_references(handlers)
        return handlers

    @staticmethod
    def _add_default(handlers: list[EventHandler], kind: type[EventHandler], make: Any) -> None:
        if not any([isinstance(handler, kind) for handler in handlers]):
            handlers.append(make())

    def _check_references(self, handlers: list[EventHandler]) -> None:
        known = [*self.train_metrics, *self.val_metrics]
        for handler in handlers:
            values = [value for value in vars(handler).values() if isinstance(value, (list, EvalMetric))]
            for value in values:
                for metric in list_metrics(value) if isinstance(value, EvalMetric) else value:
                    if isinstance(metric, EvalMetric) and not any([metric is other for other in known]):
                        raise ValueError(
                            f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of "
                            "the known training and validation metrics. Please use the metrics from "
                            "estimator.train_metrics and estimator.val_metrics instead."
                        )


def _add_prefix(metric: EvalMetric, stage: str) -> None:
    if stage not in str(metric.name):
        metric.name = f"{stage} {metric.name}"


def _check_loss(loss: Any) -> Loss:
    if not isinstance(loss, Loss):
        raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
    return loss


def _list_contexts(context: Any) -> list[Context]:
    found = [cpu()] if context is None else context if isinstance(context, list) else [context]
    if not all([isinstance(part, Context) for part in found]):
        raise ValueError(
            "context must be a Context or a list of Context, for example mx.cpu() or [mx.gpu(0), mx.gpu(1)], refer to "
            f"mxnet.Context:{context}"
        )
    for part in found:
        if not part.device_type.startswith("cpu"):
            raise AssertionError(f"{part} is not available, please make sure your context is in one of: mx.cpu(), ")
    return found


def _check_data(data: Any) -> None:
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        raise ValueError(
            "Estimator only support input as Gluon DataLoader, or another iterable of batches (data, label). "
            f"Refer to gluon.data.DataLoader; this is {type(data)}"
        )


def _list_handlers(handlers: Any) -> list[EventHandler]:
    found = [] if handlers is None else list(handlers) if isinstance(handlers, (list, tuple)) else [handlers]
    if not all([isinstance(handler, EventHandler) for handler in found]):
        raise ValueError(f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}")
    return found


def _by_event(handlers: list[EventHandler]) -> dict[str, list[Any]]:
    ordered = sorted(handlers, key=lambda handler: handler.priority)
    return {event: [handler for handler in ordered if isinstance(handler, kind)] for event, kind in _EVENTS.items()}


complete_classes(globals())
