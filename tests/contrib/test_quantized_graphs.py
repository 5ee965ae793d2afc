"""Quantized graphs, thresholds, parameters and outputs are those of MXNet 1.9.1."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

import phonograd as mx
from phonograd.contrib import quantization

from .quantized_graphs import CASES, RECORDED, outcome

MXNET = json.loads(RECORDED.read_text(encoding="utf-8"))
LIMITS = ("min_calib_range", "max_calib_range")
#: why outputs of a network are not compared although MXNet computes them
DIFFERENT = {
    "joined-full-uint8-naive": "MXNet's convolution of uint8 does not convert the bias to the units of the sums",
}


def renamed(text):
    """Return the name of a conversion here: MXNet numbers outputs of operators that do not name them."""
    return re.sub(r"^(tanh|embed)_0_quantize", r"\1_output_quantize", text)


def split(graph):
    """Return a graph without thresholds, and the thresholds."""
    entries, thresholds = [], {}
    for operator, name, inputs, attributes in graph:
        entries.append(
            [
                operator,
                renamed(name),
                [renamed(source) for source in inputs],
                {k: v for k, v in attributes.items() if k not in LIMITS},
            ]
        )
        if LIMITS[0] in attributes:
            thresholds[renamed(name)] = [float(attributes[limit]) for limit in LIMITS]
    return sorted(entries), thresholds


def cases():
    return [pytest.param(c, id=str(c), marks=[pytest.mark.slow] * (c.calibration == "entropy")) for c in CASES]


@pytest.mark.parametrize("case", cases())
def test_quantized_models_are_those_of_mxnet(case):
    expected = MXNET[str(case)]
    with warnings.catch_warnings():
        # layers that stay real
        warnings.simplefilter("ignore")
        found = outcome(mx, quantization, case)
    (own, own_thresholds), (graph, thresholds) = split(found["graph"]), split(expected["graph"])
    assert own == graph
    assert own_thresholds.keys() == thresholds.keys()
    for name, limits in thresholds.items():
        # MXNet writes six digits after the point
        assert np.allclose(own_thresholds[name], limits, rtol=2e-6, atol=6e-7), name
    is_whole = case.granularity == "tensor-wise"
    assert found["parameters"].keys() == expected["parameters"].keys()
    for name, value in expected["parameters"].items():
        # MXNet accepts channel-wise granularity here, and quantizes whole weights; those of embeddings have no filters
        if is_whole or "weight" not in name or name.startswith("embed"):
            assert found["parameters"][name] == value, name
        else:
            assert found["parameters"][name] != value, name
    if "outputs" in expected and str(case) not in DIFFERENT:
        if not is_whole:
            assert np.allclose(found["outputs"], expected["outputs"], atol=0.1 * np.abs(expected["outputs"]).max())
            return
        assert np.allclose(found["outputs"], expected["outputs"], rtol=1e-6, atol=2e-6)


def test_reasons_are_needed():
    assert all("outputs" in MXNET[name] for name in DIFFERENT)
    # MXNet multiplies int8 images on no processor without oneDNN's support, so only some networks have outputs
    assert sum("outputs" in recorded for recorded in MXNET.values()) > 10
