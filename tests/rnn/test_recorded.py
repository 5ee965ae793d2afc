"""Recurrent cells of symbols compute what MXNet's do; sentences come in the same batches."""

import json
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx

from . import programs

RECORDED = json.loads((Path(__file__).parent / "recorded" / "rnn.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["cells"])
def test_cells(case):
    name, _, layout = case.rpartition(" ")
    found, expected = programs.cell(mx, name, layout), RECORDED["cells"][case]
    assert found["shapes"] == expected["shapes"]
    assert found["states"] == expected["states"]
    assert len(found["outputs"]) == len(expected["outputs"])
    for ours, theirs in zip(found["outputs"], expected["outputs"], strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", programs.CONVOLUTIONAL)
def test_cells_with_convolutions(name):
    found, expected = programs.convolutional(mx, name), RECORDED["convolutional"][name]
    for exact in ("shapes", "names", "states", "apart"):
        assert found[exact] == expected[exact], exact
    for ours, theirs in zip(found["outputs"], expected["outputs"], strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-4, atol=1e-5)
    for key, value in expected["gradients"].items():
        assert found["gradients"][key] == pytest.approx(value, rel=1e-4, abs=1e-4), key


@pytest.mark.parametrize("name", programs.WEIGHTS)
def test_weights_of_gates(name):
    assert programs.weights(mx, name) == RECORDED["weights"][name]


@pytest.mark.parametrize("name", programs.BATCHES)
def test_batches(name):
    assert programs.batches(mx, name) == RECORDED["batches"][name]


def test_encoded_sentences():
    assert programs.encoded(mx) == RECORDED["encoded"]
