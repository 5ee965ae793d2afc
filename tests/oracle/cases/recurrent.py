"""Cases of the fused RNN operator."""

from __future__ import annotations

from typing import Any

from ..case import Family, Spec, normal, values

family = Family("recurrent", tolerance="recurrent")

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "gru": 3, "lstm": 4}


def parameter_count(mode: str, inputs: int, hidden: int, layers: int, directions: int, projection: int = 0) -> int:
    """Return the length of the flat parameter vector."""
    count = 0
    output = projection or hidden
    for layer in range(layers):
        width = inputs if layer == 0 else output * directions
        count += directions * GATES[mode] * hidden * (width + output + 2)
        count += directions * projection * hidden
    return count


def network(
    mode: str, hidden: int = 3, layers: int = 1, directions: int = 1, dtype: str = "float32", steps: int = 3
) -> tuple[list[Spec], dict[str, Any]]:
    """Return the inputs of a network and the parameters that describe it."""
    batch, width = 2, 2
    count = parameter_count(mode, width, hidden, layers, directions)
    inputs = [
        normal(steps, batch, width, dtype=dtype),
        normal(count, dtype=dtype, scale=0.5),
        normal(layers * directions, batch, hidden, dtype=dtype),
    ]
    if mode == "lstm":
        inputs.append(normal(layers * directions, batch, hidden, dtype=dtype))
    described = {"mode": mode, "state_size": hidden, "num_layers": layers, "bidirectional": directions == 2}
    return inputs, described


for kind in GATES:
    for depth in (1, 2, 3):
        for ways in (1, 2):
            for outputs in (True, False):
                for train in (True, False):
                    tensors, description = network(kind, layers=depth, directions=ways)
                    family.call("nd.RNN", *tensors, state_outputs=outputs, train=train, **description)
    for ways in (1, 2):
        tensors, description = network(kind, layers=2, directions=ways, dtype="float64")
        double = "single" if kind == "rnn_relu" else "recurrent"
        family.call("nd.RNN", *tensors, state_outputs=True, train=True, tolerance=double, **description)
        tensors, description = network(kind, layers=2, directions=ways)
        family.call("nd.RNN", *tensors, state_outputs=True, p=0.5, **description)
        family.call("nd.RNN", *tensors, state_outputs=True, p=0.0, train=True, **description)
    tensors, description = network(kind, steps=1, hidden=1)
    family.call("nd.RNN", *tensors, state_outputs=True, train=True, **description)
    tensors, description = network(kind, steps=7, hidden=2)
    family.call("nd.RNN", *tensors, state_outputs=True, train=True, **description)
    tensors[1] = normal(5)
    family.call("nd.RNN", *tensors, **description, tag="short")
    tensors, description = network(kind)
    tensors[2] = normal(1, 3, 3)
    family.call("nd.RNN", *tensors, **description, tag="state")

tensors, description = network("lstm", layers=1)
family.call(
    "nd.RNN", *tensors, state_outputs=True, train=True, lstm_state_clip_min=-0.1, lstm_state_clip_max=0.1, **description
)
weights = normal(parameter_count("lstm", 2, 3, 1, 1, projection=2), scale=0.5)
inputs = normal(3, 2, 2), weights, normal(1, 2, 2), normal(1, 2, 3)
family.call(
    "nd.RNN", *inputs, mode="lstm", state_size=3, num_layers=1, projection_size=2, state_outputs=True, grad=False
)
tensors, description = network("gru")
family.expression(
    "nd.RNN(x, y, z, mode='gru', state_size=3, num_layers=1, use_sequence_length=True, sequence_length=w)",
    *tensors,
    values([1, 3], "int32"),
)
