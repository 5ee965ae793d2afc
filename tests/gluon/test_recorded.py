"""Networks, layers, losses, optimisers and metrics do what MXNet 1.9.1 did with the same programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx

from . import programs

FOLDER = Path(__file__).parent / "recorded"
EPS = float(np.finfo(np.float32).eps)


def recorded(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def assert_near(actual: Any, expected: Any, multiple: float) -> None:
    """Check nested lists of numbers: errors are measured against the largest number."""
    found, wanted = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert found.shape == wanted.shape
    scale = max(float(np.nanmax(np.abs(wanted), initial=0.0)), 1e-3)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=multiple * EPS * scale)


NAMES = recorded("names")


@pytest.fixture(scope="module")
def made_names() -> Any:
    return programs.names(mx)


@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize("part", ["name", "prefix", "params", "paths", "repr"])
def test_names(made_names: Any, key: str, part: str) -> None:
    assert made_names[key][part] == NAMES[key][part]


LAYERS = recorded("layers")
#: what MXNet computes wrongly
MISTAKES = {("SELU", "grad"): "the derivative below 0 is lambda * (y + alpha) instead of y + lambda * alpha"}


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str, hybridize: bool) -> None:
    found, wanted = programs.layer(mx, name, hybridize), LAYERS[name]
    assert found["shapes"] == wanted["shapes"]
    for part in ("trained", "grad", "predicted"):
        if (name, part) not in MISTAKES:
            assert_near(found[part], wanted[part], 64)
    for part in ("grads", "states"):
        assert list(found[part]) == list(wanted[part])
        for parameter in wanted[part]:
            assert_near(found[part][parameter], wanted[part][parameter], 256)


RECURRENT = recorded("recurrent")


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent(name: str, hybridize: bool) -> None:
    base = name.removesuffix(" with lengths")
    found, wanted = programs.recurrent(mx, base, base != name, hybridize), RECURRENT[name]
    for part in ("outputs", "grad"):
        assert_near(found[part], wanted[part], 64)
    for actual, state in zip(found["states"], wanted["states"], strict=True):
        assert_near(actual, state, 64)
    assert list(found["grads"]) == list(wanted["grads"])
    for parameter in wanted["grads"]:
        assert_near(found["grads"][parameter], wanted["grads"][parameter], 256)


LOSSES = recorded("losses")


@pytest.fixture(scope="module")
def made_losses() -> Any:
    return programs.losses(mx)


@pytest.mark.parametrize("name", LOSSES)
def test_loss(made_losses: Any, name: str) -> None:
    found, wanted = made_losses[name], LOSSES[name]
    assert found["repr"] == wanted["repr"]
    # MXNet's softmax is off by up to 1e-5
    multiple = 256 if name in ("SoftmaxCELoss dense", "KLDivLoss softmax") else 32
    assert_near(found["value"], wanted["value"], multiple)
    if wanted["grad"] is not None:
        assert_near(found["grad"], wanted["grad"], multiple)


WAYS = recorded("optimizers")["ways"]


@pytest.fixture(scope="module")
def made_ways() -> Any:
    return programs.optimizers(mx)["ways"]


@pytest.mark.parametrize("number", range(len(WAYS)), ids=[f"{w['optimizer']}-{w['arguments']}" for w in WAYS])
def test_optimizer(made_ways: Any, number: int) -> None:
    found, wanted = made_ways[number], WAYS[number]
    for step, expected in enumerate(wanted["way"]):
        for actual, weight in zip(found["way"][step], expected, strict=True):
            assert_near(actual, weight, 64)


def test_schedulers() -> None:
    np.testing.assert_allclose(programs.schedulers(mx)["rates"], recorded("schedulers")["rates"], rtol=1e-14)


METRICS = recorded("metrics")


@pytest.fixture(scope="module")
def made_metrics() -> Any:
    return programs.metrics(mx)


@pytest.mark.parametrize("name", METRICS)
def test_metric(made_metrics: Any, name: str) -> None:
    for found, wanted in zip(made_metrics[name]["history"], METRICS[name]["history"], strict=True):
        assert found[0] == wanted[0]
        assert_near(found[1], wanted[1], 8)


def test_initializers() -> None:
    found, wanted = programs.initializers(mx), recorded("initializers")
    assert found["filled"] == wanted["filled"]
    for actual, expected in zip(found["cases"], wanted["cases"], strict=True):
        assert actual["text"] == expected["text"]
        if expected["exact"] is not None:
            assert_near(actual["exact"], expected["exact"], 1)
            continue
        # of ten thousand numbers and more, so 5 percent are five standard errors
        assert abs(actual["mean"] - expected["mean"]) < 0.05 * expected["spread"]
        assert actual["spread"] == pytest.approx(expected["spread"], rel=0.02)
        assert actual["largest"] == pytest.approx(expected["largest"], rel=0.3)


@pytest.mark.parametrize("optimizer", [name for name, _ in programs.TRAININGS])
def test_training(optimizer: str) -> None:
    wanted = recorded("trainings")[optimizer]
    found = programs.training(mx, optimizer, dict(programs.TRAININGS)[optimizer])
    # rounding errors grow from step to step
    np.testing.assert_allclose(found["curve"], wanted["curve"], rtol=2e-4, atol=2e-5)
    for name, total in wanted["sums"].items():
        assert found["sums"][name] == pytest.approx(total, rel=1e-3, abs=1e-3)
