"""Small networks and how they are quantized: cases for this library and for MXNet 1.9.1.

``python tests/contrib/quantized_graphs.py`` with MXNet writes ``recorded/quantized_graphs.json``: the graph of each
case with its thresholds, its parameters, and its outputs where MXNet can run it. ``test_quantized_graphs.py`` compares.
Direct cases call ``quantize_graph``, run a monitored module, and call ``calib_graph``; others call ``quantize_model``.
MXNet's own fusion is turned off, because it hides the outputs of layers from calibration.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RECORDED = Path(__file__).parent / "recorded" / "quantized_graphs.json"
BATCH, BATCHES = 8, 3


class Case(NamedTuple):
    """A network, and arguments of ``quantize_model``, or of ``quantize_graph`` and ``calib_graph``."""

    network: str
    mode: str
    dtype: str
    calibration: str
    layers: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    direct: bool = False
    granularity: str = "tensor-wise"

    def __str__(self) -> str:
        more = ["direct"] * self.direct + ["channel-wise"] * (self.granularity != "tensor-wise")
        return "-".join([*self[:4], *self.layers, *self.operators, *more])


# -- networks


def _normalized(s: Any, data: Any, name: str) -> Any:
    return s.BatchNorm(data, name=name, fix_gamma=False, eps=1e-3)


def lenet(s: Any) -> Any:
    """Return two convolutions with both kinds of pooling, and two dense layers."""
    x = s.Convolution(s.var("data"), kernel=(3, 3), num_filter=8, pad=(1, 1), name="conv1")
    x = s.Activation(x, act_type="relu", name="relu1")
    x = s.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    x = s.Convolution(x, kernel=(3, 3), num_filter=8, name="conv2", no_bias=True)
    x = s.Activation(x, act_type="relu", name="relu2")
    x = s.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg", name="pool2")
    x = s.FullyConnected(s.Flatten(x, name="flat"), num_hidden=16, name="fc1")
    x = s.FullyConnected(s.Activation(x, act_type="relu", name="relu3"), num_hidden=5, name="fc2", no_bias=True)
    return s.SoftmaxOutput(x, name="softmax")


def residual(s: Any) -> Any:
    """Return a residual block."""
    x = _normalized(s, s.Convolution(s.var("data"), kernel=(3, 3), num_filter=8, name="c0", no_bias=True), "bn0")
    x = s.Activation(x, act_type="relu", name="r0")
    y = _normalized(s, s.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=8, name="c1", no_bias=True), "bn1")
    y = s.Convolution(s.Activation(y, act_type="relu", name="r1"), kernel=(1, 1), num_filter=8, name="c2")
    x = s.Activation(s.elemwise_add(x, y, name="add0"), act_type="relu", name="r2")
    x = s.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg", name="gap")
    return s.FullyConnected(s.Flatten(x, name="flat"), num_hidden=4, name="fc")


def joined(s: Any) -> Any:
    """Return two branches that are joined."""
    x = s.var("data")
    left = s.Convolution(x, kernel=(1, 1), num_filter=4, name="left")
    right = s.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=8, name="right")
    return s.Convolution(s.Concat(left, right, dim=1, name="joined"), kernel=(1, 1), num_filter=4, name="last")


def product(s: Any) -> Any:
    """Return the product of two dense layers."""
    data = s.var("data")
    first, second = [s.FullyConnected(data, num_hidden=8, name=name) for name in ("a", "b")]
    return s.FullyConnected(s.elemwise_mul(first, second, name="mul"), num_hidden=3, name="last")


def words(s: Any) -> Any:
    """Return a dense layer after an embedding."""
    return s.FullyConnected(
        s.Embedding(s.var("data"), input_dim=11, output_dim=6, name="embed"), num_hidden=4, name="fc"
    )


def norm(s: Any) -> Any:
    """Return batch normalizations, one of which has no convolution before it, and an operator that stays real."""
    x = s.Convolution(_normalized(s, s.var("data"), "bn0"), kernel=(3, 3), num_filter=4, name="conv")
    return s.FullyConnected(s.tanh(_normalized(s, x, "bn1"), name="tanh"), num_hidden=3, name="fc")


NETWORKS = {
    "lenet": (lenet, (1, 12, 12)),
    "residual": (residual, (4, 6, 6)),
    "joined": (joined, (4, 5, 5)),
    "product": (product, (10,)),
    "words": (words, (5,)),
    "norm": (norm, (4, 6, 6)),
}

CASES = [
    *[Case(name, mode, "int8", "none") for name in NETWORKS for mode in ("full", "smart")],
    *[Case(name, "full", dtype, "naive") for name in NETWORKS for dtype in ("int8", "uint8", "auto")],
    *[Case(name, "smart", "auto", "naive") for name in NETWORKS],
    *[Case(name, "full", "auto", "entropy") for name in ("lenet", "residual", "norm")],
    Case("lenet", "full", "auto", "naive", ("conv1",)),
    Case("lenet", "smart", "int8", "none", (), ("FullyConnected",)),
    Case("residual", "full", "auto", "naive", ("add0",)),
    Case("residual", "full", "int8", "naive", (), ("BatchNorm", "Pooling")),
    Case("joined", "full", "auto", "naive", ("right",)),
    *[Case(name, "full", "auto", "naive", direct=True) for name in NETWORKS],
    *[Case(name, "smart", "int8", "customize", direct=True) for name in NETWORKS],
    *[Case(name, "full", "uint8", "customize", direct=True) for name in ("lenet", "residual")],
    *[Case(name, "full", "auto", "entropy", direct=True) for name in ("lenet", "norm")],
    Case("lenet", "full", "int8", "none", direct=True),
    Case("residual", "full", "auto", "naive", ("c1",), ("elemwise_add",), direct=True),
    *[Case(name, "full", "auto", "naive", direct=True, granularity="channel-wise") for name in NETWORKS],
    Case("residual", "smart", "int8", "none", granularity="channel-wise"),
]


# -- outcomes


def _parameters(mx: Any, symbol: Any, shape: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return arguments and auxiliary states of a network, and data."""
    random = np.random.RandomState(7)
    known = {"data": (BATCH, *shape)}
    if "softmax_label" in symbol.list_arguments():
        known["softmax_label"] = (BATCH,)
    found, _, states = symbol.infer_shape(**known)

    def values(name: str, size: tuple[int, ...]) -> Any:
        if name.endswith(("gamma", "var")):
            return mx.nd.array(random.uniform(0.5, 1.5, size))
        numbers = random.uniform(-0.5, 0.5, size)
        if name.endswith("weight"):
            # others are less than half of the largest number: MXNet's sums of two products do not saturate at 16 bits
            numbers[0] = 0
            numbers.flat[0] = 1.1
        return mx.nd.array(numbers)

    arguments = {n: values(n, size) for n, size in zip(symbol.list_arguments(), found) if n not in known}
    auxiliary = {n: values(n, size) for n, size in zip(symbol.list_auxiliary_states(), states)}
    size = (BATCH * BATCHES, *shape)
    is_index = "embed_weight" in arguments
    data = random.randint(0, 11, size) if is_index else random.uniform(-1 if len(shape) < 3 else 0, 2, size)
    return arguments, auxiliary, data.astype(np.float32)


def graph_of(symbol: Any) -> list[Any]:
    """Return the entries of a graph: operator, name, inputs, and the parameters of quantization."""
    nodes = json.loads(symbol.tojson())["nodes"]
    kept = ("out_type", "min_calib_range", "max_calib_range")
    return [
        [
            node["op"],
            node["name"],
            [f"{nodes[source[0]]['name']}:{source[1]}" for source in node["inputs"]],
            {key: value for key, value in sorted(node.get("attrs", {}).items()) if key in kept},
        ]
        for node in nodes
    ]


class Percentiles:
    """Collects ranges without the outermost elements, for ``calib_mode="customize"``."""

    def __init__(self, mx: Any) -> None:
        self.mx = mx
        self.min_max_dict: dict[str, tuple[float, float]] = {}

    def collect(self, name: Any, arr: Any) -> None:
        """Add the numbers of one output; MXNet's monitors hand on handles, those of this library arrays."""
        name = self.mx.base.py_str(name)
        if not isinstance(arr, self.mx.nd.NDArray):
            arr = self.mx.nd.NDArray(ctypes.cast(arr, self.mx.base.NDArrayHandle), writable=False)
        low, high = np.percentile(arr.asnumpy().astype(np.float64), (2, 98))
        before = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = (min(before[0], float(low)), max(before[1], float(high)))


def _direct(mx: Any, quantization: Any, case: Case, symbol: Any, arguments: Any, states: Any, data: Any) -> Any:
    """Quantize a network, calibrate it with a monitored module, and return symbol, arguments and states."""
    custom = Percentiles(mx) if case.calibration == "customize" else None
    quantized, params, states, collector = quantization.quantize_graph(
        *(symbol, arguments, states, mx.cpu(), list(case.layers) or None, list(case.operators) or None),
        *(case.calibration, case.dtype, case.mode, case.granularity, custom),
    )
    if collector is None:
        return quantized, params, states
    before = graph_of(quantized)
    label = mx.nd.zeros((len(data),)) if "softmax_label" in symbol.list_arguments() else None
    batches = mx.io.NDArrayIter(mx.nd.array(data), label, batch_size=BATCH)
    labels = None if label is None else ["softmax_label"]
    module = mx.mod.Module(symbol, data_names=["data"], label_names=labels, context=mx.cpu())
    module.bind(batches.provide_data, None if label is None else batches.provide_label, for_training=False)
    module.set_params(arguments, states)
    module._exec_group.execs[0].set_monitor_callback(collector.collect, monitor_all=True)
    for batch in batches:
        module.forward(batch, is_train=False)
    done = quantization.calib_graph(quantized, arguments, states, collector, case.calibration, case.dtype)
    # calibration adds only ranges
    assert [entry[:3] for entry in graph_of(done[0])] == [entry[:3] for entry in before]
    assert sorted(params) == sorted(done[1])
    return done


def outcome(mx: Any, quantization: Any, case: Case) -> dict[str, Any]:
    """Return the graph, the parameters and the outputs of a case; ``error`` takes the place of outputs."""
    build, shape = NETWORKS[case.network]
    symbol = build(mx.sym)
    arguments, states, data = _parameters(mx, symbol, shape)
    if case.direct:
        quantized, params, states = _direct(mx, quantization, case, symbol, arguments, states, data)
    else:
        batches = mx.io.NDArrayIter(mx.nd.array(data), batch_size=BATCH)
        quantized, params, states = quantization.quantize_model(
            *(symbol, arguments, states, ("data",), ("softmax_label",), mx.cpu()),
            *(list(case.layers) or None, list(case.operators) or None, case.calibration),
            None if case.calibration == "none" else batches,
            quantized_dtype=case.dtype,
            quantize_mode=case.mode,
            quantize_granularity=case.granularity,
        )
    arrays = {name: value.asnumpy() for name, value in params.items()}
    found = {
        "graph": graph_of(quantized),
        "parameters": {
            name: [str(value.dtype), hashlib.sha256(value.tobytes()).hexdigest()[:16]]
            for name, value in sorted(arrays.items())
        },
    }
    given = {**params, "data": mx.nd.array(data[:BATCH]), "softmax_label": mx.nd.zeros((BATCH,))}
    try:
        bound = quantized.bind(
            mx.cpu(),
            {name: given[name] for name in quantized.list_arguments()},
            grad_req="null",
            aux_states={name: states[name] for name in quantized.list_auxiliary_states()},
        )
        outputs = [output.asnumpy() for output in bound.forward(is_train=False)]
        return {**found, "outputs": [output.round(6).tolist() for output in outputs]}
    except Exception as error:
        message = str(error).strip().splitlines()
        return {**found, "error": message[-1] if message else type(error).__name__}


def record() -> None:
    """Write the outcomes of MXNet."""
    os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
    import mxnet
    from mxnet.contrib import quantization

    logging.disable(logging.CRITICAL)
    found = {str(case): outcome(mxnet, quantization, case) for case in CASES}
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
