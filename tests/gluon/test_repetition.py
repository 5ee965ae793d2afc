"""Updates of many weights at once are repeated, and are those of single weights to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn

from . import programs

pytestmark = pytest.mark.usefixtures("nothing_is_forgotten")

SHAPES = [(3, 4), (2, 2), (4, 1), (3, 4)]


class Run:
    """An updater with weights and gradients, used for all at once or for each alone."""

    def __init__(self, name: str, arguments: dict[str, Any], together: bool, dtype: str = "float32") -> None:
        rng = np.random.RandomState(0)
        self.weights = [nd.array(programs.draw(rng, *shape), dtype=dtype) for shape in SHAPES]
        self.grads = [nd.zeros(shape, dtype=dtype) for shape in SHAPES]
        self.rng = rng
        self.updater = mx.optimizer.get_updater(mx.optimizer.create(name, **arguments))
        self.together = together

    def step(self) -> None:
        for grad in self.grads:
            grad[:] = nd.array(programs.draw(self.rng, *grad.shape))
        indices = list(range(len(SHAPES)))
        if self.together:
            self.updater(indices, self.grads, self.weights)
        else:
            for index in indices:
                self.updater(index, self.grads[index], self.weights[index])

    def values(self) -> list[bytes]:
        return [weight.asnumpy().tobytes() for weight in self.weights]

    @property
    def captured(self) -> Any:
        return self.updater._repetition._captured


def pair(name: str, arguments: dict[str, Any], dtype: str = "float32") -> tuple[Run, Run]:
    return Run(name, arguments, True, dtype), Run(name, arguments, False, dtype)


CASES = [(*case, "float32") for case in programs.OPTIMIZERS] + [
    ("sgd", {"momentum": 0.9, "wd": 0.1}, "float64"),
    ("adam", {}, "float64"),
]


@pytest.mark.parametrize(("name", "arguments", "dtype"), CASES, ids=lambda value: str(value))
def test_same_bits(name: str, arguments: dict[str, Any], dtype: str) -> None:
    together, alone = pair(name, arguments, dtype)
    for _ in range(5):
        together.step()
        alone.step()
        assert together.values() == alone.values()
    if name not in ("lars", "lbsgd"):
        assert (together.captured.captured, together.captured.repeated) == (1, 3)


def test_changed_numbers_are_seen() -> None:
    together, alone = pair("sgd", {"momentum": 0.9, "wd": 0.1})

    def both(change: Any) -> None:
        for run in (together, alone):
            change(run.updater.optimizer)
        for _ in range(3):
            together.step()
            alone.step()
            assert together.values() == alone.values()

    both(lambda optimizer: None)
    both(lambda optimizer: optimizer.set_learning_rate(0.5))
    both(lambda optimizer: setattr(optimizer, "momentum", 0.5))
    both(lambda optimizer: setattr(optimizer, "rescale_grad", 0.25))
    both(lambda optimizer: setattr(optimizer, "wd", 0.0))
    both(lambda optimizer: setattr(optimizer, "clip_gradient", 0.1))
    both(lambda optimizer: optimizer.set_lr_mult({0: 0.0, 2: 3.0}))


def test_learning_rates_capture_nothing_new() -> None:
    together, _ = pair("adam", {"wd": 0.1})
    for number in range(10):
        together.updater.optimizer.set_learning_rate(0.1 / (number + 1))
        together.step()
    assert (together.captured.captured, together.captured.repeated) == (1, 8)


def test_other_lists_of_weights() -> None:
    together, alone = pair("adam", {})
    for count in (4, 4, 4, 2, 2, 2, 4, 4, 4):
        for run in (together, alone):
            for grad in run.grads:
                grad[:] = 1
        together.updater(list(range(count)), together.grads[:count], together.weights[:count])
        for index in range(count):
            alone.updater(index, alone.grads[index], alone.weights[index])
        assert together.values() == alone.values()


def test_views_and_replaced_arrays() -> None:
    together, alone = pair("sgd", {"momentum": 0.9})
    view = together.weights[0][1:2]
    for number in range(8):
        if number == 4:
            for run in (together, alone):
                run.weights[1] = run.weights[1].copy()
        together.step()
        alone.step()
        assert together.values() == alone.values()
        assert view.asnumpy().tolist() == together.weights[0].asnumpy()[1:2].tolist()


@pytest.mark.parametrize("name", ["sgd", "adam", "ftrl"])
def test_rows_of_each_step(name: str) -> None:
    rows = np.array([[0, 1], [2, 3], [4, 5], [2, 3], [1, 2]])

    def trained(count: int) -> list[bytes]:
        """Return a weight after each step of a trainer of so many of the same kind."""
        layers = [nn.Embedding(6, 2, sparse_grad=True) for _ in range(count)]
        parameters = gluon.ParameterDict()
        for layer in layers:
            layer.initialize(mx.init.One())
            parameters.update(layer.collect_params())
        trainer = gluon.Trainer(parameters, name, {"learning_rate": 0.1})
        seen = []
        for numbers in rows:
            with autograd.record():
                losses = [layer(nd.array(numbers)) ** 2 for layer in layers]
            autograd.backward(losses)
            trainer.step(1)
            seen.append(layers[-1].weight.data().asnumpy().tobytes())
        return seen

    assert trained(3) == trained(1)


def test_inside_of_a_compiled_function() -> None:
    together, alone = pair("sgd", {"momentum": 0.9})
    for run in (together, alone):
        run.step()
    step = mx.compile(lambda grads: together.updater([0, 1, 2, 3], grads, together.weights))
    for _ in range(4):
        for run in (together, alone):
            for grad in run.grads:
                grad[:] = nd.array(programs.draw(run.rng, *grad.shape))
        step(together.grads)
        for index in range(4):
            alone.updater(index, alone.grads[index], alone.weights[index])
        assert together.values() == alone.values()


def test_training_with_a_printed_loss_and_without() -> None:
    curves = []
    for look in (False, True):
        mx.random.seed(3)
        net = nn.HybridSequential()
        net.add(nn.Dense(5, in_units=4, activation="tanh"), nn.Dense(1, in_units=5))
        net.initialize()
        programs.fill(mx, net)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        x = nd.array(programs.draw(np.random.RandomState(1), 6, 4))
        for _ in range(6):
            with autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            if look:
                loss.asscalar()
                net[0].weight.grad().asnumpy()
            trainer.step(6)
        curves.append([parameter.data().asnumpy().tobytes() for parameter in net.collect_params().values()])
    assert curves[0] == curves[1]
