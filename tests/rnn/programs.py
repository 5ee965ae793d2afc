"""Programs with recurrent cells of symbols, run with MXNet 1.9.1 (by ``record.py``) and with this library (by the tests).

Each function takes the module ``mx`` and returns what JSON can hold. Weights and inputs are drawn by NumPy.
"""

import random

import numpy as np


def numbers(array):
    """Return an array as nested lists of numbers with as many digits as float32 has."""

    def rounded(value):
        return [rounded(part) for part in value] if isinstance(value, list) else float(f"{value:.9g}")

    return rounded(array.asnumpy().tolist())


def _stack(mx):
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.LSTMCell(3, prefix="a_"))
    stack.add(mx.rnn.DropoutCell(0.5))
    stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(3, prefix="b_")))
    stack.add(
        mx.rnn.BidirectionalCell(mx.rnn.RNNCell(2, prefix="c_"), mx.rnn.RNNCell(2, prefix="d_", activation="relu"))
    )
    return stack


def _fused(mx, mode, **options):
    return mx.rnn.FusedRNNCell(3, mode=mode, prefix="f_", **options)


CELLS = {
    "rnn": lambda mx: mx.rnn.RNNCell(3),
    "rnn relu": lambda mx: mx.rnn.RNNCell(3, activation="relu"),
    "lstm": lambda mx: mx.rnn.LSTMCell(3, prefix="x_"),
    "gru": lambda mx: mx.rnn.GRUCell(3),
    "zoneout": lambda mx: mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(3), 0.3, 0.2),
    "residual": lambda mx: mx.rnn.ResidualCell(mx.rnn.GRUCell(4)),
    "residual of both directions": lambda mx: mx.rnn.ResidualCell(
        mx.rnn.BidirectionalCell(mx.rnn.GRUCell(2, prefix="l_"), mx.rnn.RNNCell(2, prefix="r_"), output_prefix="o_")
    ),
    "bidirectional": lambda mx: mx.rnn.BidirectionalCell(
        mx.rnn.LSTMCell(2, prefix="l_"), mx.rnn.LSTMCell(2, prefix="r_")
    ),
    "stack": _stack,
    "fused lstm": lambda mx: _fused(mx, "lstm", num_layers=2, bidirectional=True, get_next_state=True, dropout=0.4),
    "fused gru": lambda mx: _fused(mx, "gru", num_layers=2, get_next_state=True),
    "fused rnn": lambda mx: _fused(mx, "rnn_tanh"),
    "unfused": lambda mx: _fused(mx, "lstm", num_layers=2, bidirectional=True).unfuse(),
}


CONVOLUTIONAL = {
    "rnn": lambda mx: mx.rnn.ConvRNNCell((2, 3, 6, 7), 2),
    "lstm": lambda mx: mx.rnn.ConvLSTMCell(
        (2, 3, 6, 7),
        2,
        h2h_kernel=(3, 5),
        h2h_dilate=(1, 2),
        i2h_kernel=(5, 5),
        i2h_stride=(2, 2),
        i2h_pad=(2, 2),
        prefix="q_",
    ),
    "gru": lambda mx: mx.rnn.ConvGRUCell((2, 3, 6, 7), 2, i2h_kernel=(1, 1), i2h_pad=(0, 0), activation="tanh"),
}


def convolutional(mx, name):
    """Return arguments with their shapes, outputs, sums of gradients and gates of a cell with convolutions."""
    made = CONVOLUTIONAL[name](mx)
    outputs, states = made.unroll(2, [mx.sym.var("first"), mx.sym.var("second")])
    together = mx.sym.Group([*outputs, *states[1:]])
    executor = together.simple_bind(mx.cpu(), first=(2, 3, 6, 7), second=(2, 3, 6, 7))
    rng = np.random.RandomState(5)
    for argument in sorted(executor.arg_dict):
        array = executor.arg_dict[argument]
        array[:] = mx.nd.array(rng.uniform(-1, 1, array.shape).astype(np.float32))
    values = [numbers(output) for output in executor.forward(is_train=True)]
    executor.backward([mx.nd.ones(output.shape) for output in executor.outputs])
    weights = {key: value for key, value in executor.arg_dict.items() if key not in ("first", "second")}
    return {
        "shapes": {key: list(value.shape) for key, value in sorted(executor.arg_dict.items())},
        "names": together.list_outputs(),
        "outputs": values,
        "gradients": {key: numbers(value.sum())[0] for key, value in sorted(executor.grad_dict.items())},
        "states": [list(info["shape"]) for info in made.state_info],
        "apart": sorted(made.unpack_weights(weights)),
    }


def _flat(states):
    # MXNet nests the states of cells that go both ways
    return [part for state in states for part in (_flat(state) if isinstance(state, list) else [state])]


def cell(mx, name, layout):
    """Return arguments with their shapes, outputs and states of a cell that is unrolled over a sequence."""
    made = CELLS[name](mx)
    outputs, states = made.unroll(4, mx.sym.var("data"), layout=layout, merge_outputs=True)
    together = mx.sym.Group([outputs, *_flat(states)])
    shape = (2, 4, 4) if layout == "NTC" else (4, 2, 4)
    rng = np.random.RandomState(5)
    executor = together.simple_bind(mx.cpu(), data=shape, grad_req="null")
    shapes = {}
    for argument in sorted(executor.arg_dict):
        array = executor.arg_dict[argument]
        shapes[argument] = list(array.shape)
        array[:] = mx.nd.array(rng.uniform(-1, 1, array.shape).astype(np.float32))
    values = [numbers(output) for output in executor.forward(is_train=False)]
    return {"shapes": shapes, "outputs": values, "states": [list(info["shape"]) for info in made.state_info]}


def weights(mx, name):
    """Return the weights of each gate of a cell, taken apart."""
    made = CELLS[name](mx)
    outputs, _ = made.unroll(2, mx.sym.var("data"), merge_outputs=True)
    shapes, _, _ = outputs.infer_shape(data=(2, 2, 4))
    arrays, start = {}, 0
    for argument, shape in zip(outputs.list_arguments(), shapes):
        if argument != "data":
            size = int(np.prod(shape))
            arrays[argument] = mx.nd.arange(start, start + size).reshape(shape)
            start += size
    apart = made.unpack_weights(arrays)
    again = made.pack_weights(apart)
    same = {key: bool((again[key] == value).asnumpy().all()) for key, value in arrays.items()}
    return {"apart": {key: numbers(value) for key, value in apart.items()}, "same": same}


WEIGHTS = ("rnn", "lstm", "gru", "stack", "fused lstm", "fused gru")
WORDS = [["a", "b", "c"], ["b", "d"], ["a", "a", "e", "f"]]
SENTENCES = [[1, 2], [3, 4], [5, 6, 7], [8, 9, 10], [1, 2, 3, 4, 5], [2, 3], [4, 5, 6], [7]]
BATCHES = {
    "given": {"buckets": [2, 3], "invalid_label": 0},
    "found": {"layout": "TN", "data_name": "x", "label_name": "y", "dtype": "int32"},
}


def batches(mx, name):
    """Return the batches of two rounds over sentences."""
    random.seed(3)
    np.random.seed(3)
    iterator = mx.rnn.BucketSentenceIter(SENTENCES, 2, **BATCHES[name])
    found = []
    for _ in range(2):
        for batch in iterator:
            shown = [numbers(batch.data[0]), numbers(batch.label[0])]
            descriptions = [[d.name, list(d.shape), d.layout] for d in (*batch.provide_data, *batch.provide_label)]
            found.append([batch.bucket_key, shown, descriptions])
        iterator.reset()
    described = [[d.name, list(d.shape)] for d in (*iterator.provide_data, *iterator.provide_label)]
    return {"batches": found, "described": described, "key": iterator.default_bucket_key}


def encoded(mx):
    """Return sentences as numbers, in several ways."""
    return [
        list(mx.rnn.encode_sentences(WORDS)),
        list(mx.rnn.encode_sentences(WORDS, invalid_label=0)),
        list(mx.rnn.encode_sentences(WORDS, invalid_label=0, start_label=1, invalid_key="<pad>")),
        list(mx.rnn.encode_sentences(WORDS[:2], vocab={"\n": -1, "a": 5, "b": 6, "c": 7, "d": 8})),
    ]


def record(mx):
    """Return what all programs return."""
    return {
        "cells": {f"{name} {layout}": cell(mx, name, layout) for name in CELLS for layout in ("NTC", "TNC")},
        "convolutional": {name: convolutional(mx, name) for name in CONVOLUTIONAL},
        "weights": {name: weights(mx, name) for name in WEIGHTS},
        "batches": {name: batches(mx, name) for name in BATCHES},
        "encoded": encoded(mx),
    }
