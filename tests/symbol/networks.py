"""Whole networks, built with either library: what they are called, look like in files, and compute.

Each function takes the library and returns a symbol; ``SHAPES`` gives the shapes of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..oracle.case import bell, seeded


def perceptron(mx: Any) -> Any:
    """Return two layers and a softmax."""
    data = mx.sym.var("data")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=5, name="fc1"), act_type="relu", name="relu1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


def convolutional(mx: Any) -> Any:
    """Return convolutions with BatchNorm, a shortcut, pooling and dropout that is off."""
    data = mx.sym.Variable("data")
    body = mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True, name="conv0")
    body = mx.sym.BatchNorm(body, fix_gamma=False, eps=2e-5, momentum=0.9, name="bn0")
    body = mx.sym.LeakyReLU(body, act_type="prelu", name="prelu0")
    shortcut = mx.sym.Convolution(data, kernel=(1, 1), num_filter=4, name="conv1")
    body = mx.sym.Pooling(body + shortcut, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool0")
    body = mx.sym.Deconvolution(body, kernel=(2, 2), stride=(2, 2), num_filter=2, name="up0")
    body = mx.sym.Dropout(mx.sym.Flatten(body), p=0.0, name="drop0")
    return mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(body, num_hidden=2, name="fc"), name="out")


def unnamed(mx: Any) -> Any:
    """Return arithmetic whose names are made by the library."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    c = (a + b) * 2 - 1 / (b + 3) - a / 4
    d = mx.sym.maximum(c, 0.5) ** 2 + mx.sym.minimum(a, b) + 2 - (5 - b) % 3
    e = mx.sym.broadcast_mul(d, mx.sym.sum(a, axis=1, keepdims=True)) + mx.sym.concat(a, b, dim=0).slice_axis(
        axis=0, begin=0, end=2
    )
    return mx.sym.Group([e, -a, abs(b - 1), (a > b) + (a <= 0.5), e.reshape((3, 2)).transpose().exp() / 1e3])


def attributes(mx: Any) -> Any:
    """Return layers with attributes, prefixes and variables that say more of themselves."""
    with mx.AttrScope(ctx_group="stage1", __mood__="calm"), mx.name.Prefix("net_"):
        data = mx.sym.var("data", shape=(2, 0), dtype="float32")
        weight = mx.sym.var("weight", lr_mult=0.5, wd_mult=2, attr={"force_mirroring": "0"}, __kind__="matrix")
        hidden = mx.sym.FullyConnected(data, weight=weight, num_hidden=3, no_bias=True)
        normal = mx.sym.LayerNorm(hidden, name="norm")
    return mx.sym.tanh(normal, name="tanh")


def recurrent(mx: Any) -> Any:
    """Return a cell unrolled by hand whose first state has a batch of unknown size, and a fused layer."""
    data, state = mx.sym.var("data"), mx.sym.zeros((0, 4), name="begin")
    weights = {key: mx.sym.var(key) for key in ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")}
    steps = mx.sym.SliceChannel(data, num_outputs=2, axis=0, squeeze_axis=True, name="steps")
    for step in range(2):
        inputs = mx.sym.FullyConnected(
            steps[step], weights["i2h_weight"], weights["i2h_bias"], num_hidden=4, name=f"i2h{step}"
        )
        before = mx.sym.FullyConnected(
            state, weights["h2h_weight"], weights["h2h_bias"], num_hidden=4, name=f"h2h{step}"
        )
        state = mx.sym.tanh(inputs + before, name=f"state{step}")
    fused = mx.sym.RNN(data, state_size=3, num_layers=1, mode="gru", state_outputs=True, name="gru")
    return mx.sym.Group([state, fused[0], fused[1]])


def words(mx: Any) -> Any:
    """Return an embedding, its mean and a loss with a gradient of its own."""
    vectors = mx.sym.Embedding(mx.sym.var("data"), input_dim=6, output_dim=3, name="embed")
    mean = mx.sym.mean(vectors, axis=1, name="mean")
    scores = mx.sym.log_softmax(mx.sym.FullyConnected(mean, num_hidden=4, name="scores"), axis=-1, name="log")
    picked = mx.sym.pick(scores, mx.sym.var("label"), name="picked")
    return mx.sym.MakeLoss(-picked, name="loss")


def branches(mx: Any) -> Any:
    """Return two outputs of one operator, used several times, and a symbol put into another one."""
    data = mx.sym.var("data")
    parts = mx.sym.split(data, num_outputs=2, axis=1, name="parts")
    inner = mx.sym.FullyConnected(mx.sym.var("inside"), num_hidden=2, name="inner")
    left, right = inner(inside=parts[0], name="left"), mx.sym.sigmoid(parts[1], name="right")
    top = mx.sym.topk(left + right, k=1, ret_typ="both", name="top")
    return mx.sym.Group([left * right, top[0], top[1], mx.sym.add_n(parts[0], parts[1], name="both")])


def loops(mx: Any) -> Any:
    """Return a loop with a layer inside."""
    data, state, scale = mx.sym.var("data"), mx.sym.var("state"), mx.sym.var("scale")

    def step(element: Any, before: Any) -> Any:
        layer = mx.sym.FullyConnected(element, num_hidden=3, name="cell")
        after = mx.sym.tanh(layer + before[0] * scale)
        return [after, element], [after]

    outputs, states = mx.sym.contrib.foreach(step, data, [state])
    return mx.sym.Group([*outputs, *states])


def conditions(mx: Any) -> Any:
    """Return a loop with a condition, and a branch."""
    state, scale, total = mx.sym.var("state"), mx.sym.var("scale"), mx.sym.var("total")

    def step(i: Any, before: Any) -> Any:
        return [before * 2], [i + 1, before * scale + i]

    steps, final = mx.sym.contrib.while_loop(lambda i, before: i < 3, step, [mx.sym.var("i"), total], max_iterations=4)
    chosen = mx.sym.contrib.cond(mx.sym.var("test") < 2, lambda: state + 1, lambda: state * 2)
    return mx.sym.Group([*steps, *final, chosen])


NETWORKS: dict[str, Callable[[Any], Any]] = {
    function.__name__: function
    for function in (perceptron, convolutional, unnamed, attributes, recurrent, words, branches, loops, conditions)
}

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "perceptron": {"data": (4, 6)},
    "convolutional": {"data": (2, 3, 6, 6)},
    "unnamed": {"a": (2, 3), "b": (2, 3)},
    "attributes": {"data": (2, 4)},
    "recurrent": {"data": (2, 3, 5)},
    "words": {"data": (2, 4), "label": (2,)},
    "branches": {"data": (3, 4)},
    "loops": {"data": (2, 2, 3), "state": (2, 3), "scale": (2, 3), "cell_weight": (3, 3), "cell_bias": (3,)},
    "conditions": {"state": (2, 3), "scale": (1,), "total": (1,), "i": (1,), "test": (1,)},
}


def chooses(network: str, name: str) -> bool:
    """Return whether an argument says what to choose, and has no gradient."""
    return name.endswith("label") or (network, name) == ("words", "data")


def value_of(network: str, name: str, shape: tuple[int, ...]) -> Any:
    """Return the value of an argument: small whole numbers where it says what to choose, else bell-shaped ones."""
    generator = seeded(f"{network}/{name}")
    if chooses(network, name) and network != "convolutional":
        return generator.randint(0, 3, shape).astype(np.float32)
    if name == "i":
        return np.zeros(shape, np.float32)
    if name.endswith("var"):
        return np.ones(shape, np.float32)
    return bell(generator, shape).astype(np.float32)


def computed(mx: Any, network: str, symbol: Any) -> dict[str, Any]:
    """Return outputs, gradients and auxiliary states of a network after one step of training, by name."""
    requests = {name: "null" if chooses(network, name) else "write" for name in symbol.list_arguments()}
    if network == "conditions":
        # MXNet cannot infer the shapes of what is computed only under a condition
        arrays = {name: mx.nd.zeros(SHAPES[network][name]) for name in requests}
        grads = {name: mx.nd.zeros(SHAPES[network][name]) for name in requests}
        executor = symbol.bind(mx.cpu(), arrays, grads, grad_req=requests)
    else:
        executor = symbol.simple_bind(mx.cpu(), grad_req=requests, **SHAPES[network])
    for name, array in (*executor.arg_dict.items(), *executor.aux_dict.items()):
        array[:] = mx.nd.array(value_of(network, name, array.shape))
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.array(value_of(network, f"head{i}", out.shape)) for i, out in enumerate(outputs)])
    found = {f"output/{i}": output.asnumpy() for i, output in enumerate(outputs)}
    found.update({f"gradient/{n}": grad.asnumpy() for n, grad in executor.grad_dict.items() if grad is not None})
    found.update({f"state/{n}": state.asnumpy() for n, state in executor.aux_dict.items()})
    executor.forward(is_train=False)
    found.update({f"prediction/{i}": output.asnumpy() for i, output in enumerate(executor.outputs)})
    return found


def facts(mx: Any, network: str) -> dict[str, Any]:
    """Return what a network says of itself, with names as in a fresh process."""
    with mx.name.NameManager():
        symbol = NETWORKS[network](mx)
    return {
        "json": symbol.tojson(),
        "arguments": symbol.list_arguments(),
        "states": symbol.list_auxiliary_states(),
        "outputs": symbol.list_outputs(),
        "internals": symbol.get_internals().list_outputs(),
        "attributes": symbol.attr_dict(),
        "shapes": [[list(shape) for shape in part or ()] for part in symbol.infer_shape(**SHAPES[network])],
        "types": [
            [np.dtype(kind).name for kind in part]
            for part in symbol.infer_type(**dict.fromkeys(SHAPES[network], "float32"))
        ],
        "name": symbol.name,
        "text": repr(symbol),
    }
