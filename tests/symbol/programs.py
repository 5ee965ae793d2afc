"""Programs whose record becomes a file: written here, read and computed by MXNet."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ..oracle.case import bell, seeded

#: shape of the variable, and function of the library and the variable
PROGRAMS: dict[str, tuple[tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "arithmetic": ((2, 3), lambda nd, x: (x * x + 2 * x - 1) / (3 - x) + x % 2 - 2 / (x + 9)),
    "powers": ((2, 3), lambda nd, x: x**2 + 2**x + nd.maximum(x, 0.3) - nd.minimum(0.1, x)),
    "comparisons": ((2, 3), lambda nd, x: (x > 0.5) + (x <= 1) * x),
    "indexing": ((4, 3), lambda nd, x: x[1:3] + x[0].reshape((1, 3)) + x[:, 1:2][2:4]),
    "shapes": ((2, 6), lambda nd, x: nd.concat(x.T, x.reshape((6, 2)), dim=1).swapaxes(0, 1).expand_dims(axis=0)),
    "parts": ((2, 6), lambda nd, x: sum(nd.split(x, num_outputs=3, axis=1)[1:], x[:, 0:2])),
    "reductions": ((2, 6), lambda nd, x: x.sum(axis=1) + x.max(axis=1) * x.mean() - x.norm(axis=1)),
    "activations": ((2, 6), lambda nd, x: nd.Activation(x, act_type="tanh") + nd.LeakyReLU(x, slope=0.1)),
    "softmax": ((2, 6), lambda nd, x: nd.softmax(x, axis=0) - nd.log_softmax(x, temperature=2.0)),
    "pooling": (
        (1, 2, 6, 6),
        lambda nd, x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg"),
    ),
    "layers": (
        (1, 2, 4, 4),
        lambda nd, x: nd.FullyConnected(
            nd.Convolution(x, nd.ones((3, 2, 3, 3)), kernel=(3, 3), num_filter=3, no_bias=True),
            nd.ones((2, 12)),
            nd.ones((2,)),
            num_hidden=2,
        ),
    ),
    "clipped": ((2, 6), lambda nd, x: nd.where(x > 0, x.clip(-0.5, 0.5), -x).astype("float16").astype("float32") + x),
}


#: functions of the library and two matrices, of whose sum the gradient by the first one is recorded, so many times
GRADIENTS: dict[str, tuple[int, Callable[[Any, Any, Any], Any]]] = {
    "gradient-of-arithmetic": (1, lambda nd, x, w: (x**3 * nd.exp(w) / (2 + x * x) - nd.sqrt(x * x + 1)) * w),
    "gradient-of-a-layer": (1, lambda nd, x, w: nd.tanh(nd.FullyConnected(x, w, no_bias=True, num_hidden=3)) * x),
    "gradient-of-softmax": (1, lambda nd, x, w: nd.log_softmax(nd.dot(x, w)) * nd.softmax(w, axis=0)),
    "gradient-of-sums": (1, lambda nd, x, w: x.sum(axis=1) * nd.dot(x, w.T).mean(axis=0)),
    "gradient-of-shapes": (1, lambda nd, x, w: nd.broadcast_mul(x.reshape((9, 1)), w.reshape((1, 9)).swapaxes(0, 1))),
    "gradient-of-batches": (1, lambda nd, x, w: nd.batch_dot(x.expand_dims(0), w.expand_dims(0)) ** 2),
    "second-gradient-of-a-layer": (2, lambda nd, x, w: nd.sigmoid(nd.FullyConnected(x, w, no_bias=True, num_hidden=3))),
    "third-gradient-of-arithmetic": (3, lambda nd, x, w: x**4 * nd.exp(w * x)),
}


def gradient(mx: Any, program: str) -> Any:
    """Return a recorded gradient."""
    order, function = GRADIENTS[program]
    x, w = [mx.nd.array(bell(seeded(f"{program} {name}"), (3, 3))) for name in "xw"]
    x.attach_grad()
    w.attach_grad()
    with mx.autograd.record():
        y = function(mx.nd, x, w)
        for _ in range(order):
            (y,) = mx.autograd.grad(y.sum(), [x], create_graph=True)
    return y


def record_of(mx: Any, program: str) -> list[Any]:
    """Return the nodes of a program's record: kind of name, operator, attributes and inputs."""
    shape, function = PROGRAMS[program]
    x = mx.nd.ones(shape)
    x.attach_grad()
    with mx.autograd.record():
        y = function(mx.nd, x)
    nodes = json.loads(mx.autograd.get_symbol(y).tojson())["nodes"]
    return [
        [
            node["name"].rstrip("0123456789"),
            node["op"],
            node.get("attrs", {}),
            [source[:2] for source in node["inputs"]],
        ]
        for node in nodes
    ]


def feed(mx: Any, names: Sequence[str], program: str) -> dict[str, Any]:
    """Return a value for each argument of a program's symbol: the variable, then ones of the shapes it used."""
    if program in GRADIENTS:
        return {name: mx.nd.array(bell(seeded(f"{program} {name}"), (3, 3))) for name in names}
    shapes = [PROGRAMS[program][0], (3, 2, 3, 3), (2, 12), (2,)]
    values = [bell(seeded(program), shapes[0]).astype("float32")]
    found = {name: mx.nd.ones(shape) for name, shape in zip(names, shapes)}
    found[names[0]] = mx.nd.array(values[0])
    return found
