"""Estimators: the same lines, metrics and files as MXNet's, and errors that say what to do."""

from __future__ import annotations

import io
import logging
import os
import re
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon
from phonograd.gluon.contrib import estimator as module
from phonograd.gluon.contrib.estimator import Estimator


def batches(count: int = 5) -> list[tuple[Any, Any]]:
    random = np.random.RandomState(0)
    data = random.randn(40, 5).astype("float32")
    labels = (data @ random.randn(5, 3)).argmax(1).astype("float32")
    return [(mx.nd.array(data[i : i + 8]), mx.nd.array(labels[i : i + 8])) for i in range(0, 8 * count, 8)]


def network() -> Any:
    net = gluon.nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(gluon.nn.Dense(8, activation="relu", in_units=5), gluon.nn.Dense(3, in_units=8))
    net.initialize()
    random = np.random.RandomState(3)
    for parameter in net.collect_params().values():
        parameter.set_data(mx.nd.array(random.randn(*parameter.shape) * 0.3))
    net.hybridize()
    return net


def make(**options: Any) -> tuple[Estimator, io.StringIO]:
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    made = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, **options)
    text = io.StringIO()
    made.logger.handlers = [logging.StreamHandler(text)]
    return made, text


def lines(text: io.StringIO) -> list[str]:
    """Return the lines of a log without times."""
    return re.sub(r"(in|interval:|total) [\d.]+s", r"\1 -", text.getvalue()).splitlines()


# what MXNet 1.9.1 writes for the same network and data
FIT = """\
Training begin: using optimizer SGD with current learning rate 0.5000 
Train for 2 epochs.
[Epoch 0] Begin, current learning rate: 0.5000
Validation Begin
[Epoch 0] Finished in -, validation accuracy: 0.7250, validation softmaxcrossentropyloss: 0.8893
[Epoch 0] Finished in -, training accuracy: 0.2750, training softmaxcrossentropyloss: 1.1594
[Epoch 1] Begin, current learning rate: 0.5000
Validation Begin
[Epoch 0] Finished in -, validation accuracy: 0.7500, validation softmaxcrossentropyloss: 0.7019
[Epoch 1] Finished in -, training accuracy: 0.6750, training softmaxcrossentropyloss: 0.8739
Train finished using total - with 2 epochs. training accuracy: 0.6750, training softmaxcrossentropyloss: 0.8739
"""  # noqa: W291 - it is written like this

INTERVAL = """\
Training begin: using optimizer SGD with current learning rate 0.5000 
Train for 2 epochs.
[Epoch 0] Begin, current learning rate: 0.5000
[Epoch 0][Batch 0][Samples 8] time/interval: - training accuracy: 0.0000, training softmaxcrossentropyloss: 1.3963
[Epoch 0][Batch 2][Samples 24] time/interval: - training accuracy: 0.1667, training softmaxcrossentropyloss: 1.2310
[Epoch 0][Batch 4][Samples 40] time/interval: - training accuracy: 0.2750, training softmaxcrossentropyloss: 1.1594
[Epoch 0] Finished in -, training accuracy: 0.2750, training softmaxcrossentropyloss: 1.1594
[Epoch 1] Begin, current learning rate: 0.5000
[Epoch 1][Batch 0][Samples 48] time/interval: - training accuracy: 0.8750, training softmaxcrossentropyloss: 0.7444
[Epoch 1][Batch 2][Samples 64] time/interval: - training accuracy: 0.6667, training softmaxcrossentropyloss: 0.8670
[Epoch 1][Batch 4][Samples 80] time/interval: - training accuracy: 0.6750, training softmaxcrossentropyloss: 0.8739
[Epoch 1] Finished in -, training accuracy: 0.6750, training softmaxcrossentropyloss: 0.8739
Train finished using total - with 2 epochs. training accuracy: 0.6750, training softmaxcrossentropyloss: 0.8739
"""  # noqa: W291 - it is written like this


def test_fit_writes_what_mxnet_writes() -> None:
    made, text = make()
    made.fit(batches(), batches(), epochs=2)
    assert lines(text) == FIT.splitlines()
    assert [metric.name for metric in made.val_metrics] == [
        "validation accuracy",
        "validation softmaxcrossentropyloss",
    ]


def test_lines_for_batches() -> None:
    made, text = make()
    made.fit(batches(), epochs=2, event_handlers=module.LoggingHandler(2, made.train_metrics))
    assert lines(text) == INTERVAL.splitlines()


def test_a_number_of_batches() -> None:
    made, text = make()
    made.fit(batches(), batches=7)
    assert lines(text)[1] == "Train for 7 batches."
    assert made.train_metrics[0].num_inst == 16


def test_early_stopping() -> None:
    made, text = make()
    handler = module.EarlyStoppingHandler(made.val_metrics[0], patience=2, min_delta=0.05)
    made.fit(batches(), batches(), epochs=50, event_handlers=[handler])
    assert handler.stopped_epoch == 2
    assert "early stopping due to validation accuracy not improving" in text.getvalue()
    made.fit(batches(), batches(), epochs=3, event_handlers=[module.EarlyStoppingHandler(made.val_metrics[1])])
    assert "with 3 epochs" in lines(text)[-1]


def test_checkpoints_are_kept_and_resumed(tmp_path: Any) -> None:
    made, text = make()
    handler = module.CheckpointHandler(
        str(tmp_path), "m", made.val_metrics[1], verbose=1, save_best=True, max_checkpoints=2
    )
    made.fit(batches(), batches(), epochs=4, event_handlers=[handler])
    both = [
        f"m-{name}.{suffix}" for name in ("best", "epoch2batch15", "epoch3batch20") for suffix in ("params", "states")
    ]
    assert sorted(os.listdir(tmp_path)) == [*both, "m-symbol.json"]
    assert text.getvalue().count("updating the best model") == 4

    resumed, text = make()
    handler = module.CheckpointHandler(str(tmp_path), "m", resume_from_checkpoint=True)
    resumed.fit(batches(), batches(), epochs=6, event_handlers=[handler])
    assert lines(text)[0] == (
        "CheckpointHandler: Checkpoint resumed from epoch 3 batch 20, continue to train for 2 epochs "
    )
    assert os.path.exists(tmp_path / "m-epoch5batch30.params")
    assert f"{resumed.val_metrics[1].get()[1]:.4f}" == "0.2176"

    straight, _ = make()
    straight.fit(batches(), epochs=6)
    for name, parameter in straight.net.collect_params().items():
        found = resumed.net.collect_params()[name].data().asnumpy()
        np.testing.assert_array_equal(found, parameter.data().asnumpy())
    with pytest.raises(ValueError, match="already trained for 6 epochs"):
        resumed.fit(batches(), epochs=6, event_handlers=[handler])


def test_checkpoints_of_batches_have_their_numbers(tmp_path: Any) -> None:
    handler = module.event_handler.CheckpointHandler(str(tmp_path), "m", epoch_period=None, batch_period=3)
    assert type(handler) is module.CheckpointHandler
    made, _ = make()
    made.fit(batches(), batches=7, event_handlers=[handler])
    assert sorted([name for name in os.listdir(tmp_path) if name.endswith(".params")]) == [
        "m-epoch0batch2.params",
        "m-epoch1batch5.params",
    ]
    resumed, text = make()
    handler = module.CheckpointHandler(
        str(tmp_path), "m", epoch_period=None, batch_period=3, resume_from_checkpoint=True
    )
    resumed.fit(batches(), batches=9, event_handlers=[handler])
    assert "Checkpoint resumed from epoch 1 batch 5, continue to train for 3 batches " in text.getvalue()
    assert os.path.exists(tmp_path / "m-epoch2batch8.params")


def test_validation_by_batches_and_clipping() -> None:
    made, _ = make()
    seen: list[Any] = []
    handler = module.ValidationHandler([], lambda **facts: seen.append(facts), epoch_period=None, batch_period=2)
    before = network().collect_params()
    made.fit(batches(), epochs=1, event_handlers=[handler, module.GradientUpdateHandler(max_norm=0.01)])
    assert seen == [{"val_data": [], "batch_axis": 0, "event_handlers": None}] * 2
    moved = sum(
        [
            float(((parameter.data() - before[name].data()) ** 2).sum().asscalar())
            for name, parameter in made.net.collect_params().items()
        ]
    )
    assert 0 < moved**0.5 <= 5 * 0.5 * 0.01 * 1.001


def test_handlers_run_by_priority_and_can_stop() -> None:
    made, _ = make()
    order: list[str] = []

    class Note(module.BatchEnd, module.EpochEnd):
        def __init__(self, name: str, priority: float) -> None:
            self.name, self.priority = name, priority

        def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
            order.append(self.name)
            return len(order) >= 4

    made.fit(batches(), epochs=5, event_handlers=[Note("late", 5), Note("early", -5)])
    assert order == ["early", "late"] * 2


def test_defaults() -> None:
    with pytest.warns(UserWarning, match="No trainer specified"):
        made = Estimator(network(), gluon.loss.L2Loss())
    assert [metric.name for metric in made.train_metrics + made.val_metrics] == ["training l2loss", "validation l2loss"]
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.warns(UserWarning, match="already fully initialized"):
        Estimator(net, gluon.loss.L2Loss(), initializer=mx.init.Xavier(), trainer=trainer)
    dense = gluon.nn.Dense(2, in_units=3)
    with pytest.warns(UserWarning, match="No trainer specified"):
        Estimator(dense, gluon.loss.L2Loss(), initializer=mx.init.One())
    assert float(dense.weight.data().mean()) == 1.0


def test_contexts_must_be_available() -> None:
    with pytest.raises(AssertionError, match=r"gpu\(1\) is not available"):
        make(context=[mx.cpu(), mx.gpu(1)])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: make()[0].fit(batches()), "exactly one type of iteration"),
        (lambda: make()[0].fit(batches(), epochs=1, batches=1), "exactly one type of iteration"),
        (lambda: make()[0].fit(3, epochs=1), "Gluon DataLoader"),
        (lambda: make()[0].fit([1], epochs=1), "pair of data and labels"),
        (lambda: make()[0].fit(iter(batches()), epochs=2), "supports several passes"),
        (lambda: Estimator(network(), 3), "loss must be a Loss"),  # type: ignore[arg-type]
        (lambda: make(train_metrics=3), "metrics must be a Metric"),
        (lambda: make(context=3), "context must be a Context"),
        (lambda: make(batch_processor=3), "must contain fit_batch"),
        (lambda: make()[0].fit(batches(), epochs=1, event_handlers=[3]), "must be an EventHandler"),
        (
            lambda: make()[0].fit(batches(), epochs=1, event_handlers=[module.MetricHandler([mx.metric.MSE()])]),
            "outside of the known",
        ),
        (lambda: module.EarlyStoppingHandler(3), "as monitor"),  # type: ignore[arg-type]
        (lambda: module.CheckpointHandler("nowhere", save_best=True), "To save best model only"),
        (lambda: module.LoggingHandler("often"), "integer or string"),
    ],
)
def test_errors(action: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        action()
