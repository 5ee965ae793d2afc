"""Programs of recurrent networks."""

import numpy as np

from .numbers import draw, fill, values


def _recurrent(mx):
    rnn, contrib = mx.gluon.rnn, mx.gluon.contrib.rnn

    def stack(kind):
        cells = kind()
        with cells.name_scope():
            cells.add(rnn.LSTMCell(3))
            cells.add(rnn.DropoutCell(0.0))
            cells.add(rnn.ResidualCell(rnn.GRUCell(3)))
        return cells

    return {
        "RNN": lambda: rnn.RNN(3),
        "RNN tanh": lambda: rnn.RNN(3, 2, activation="tanh", bidirectional=True),
        "LSTM": lambda: rnn.LSTM(3),
        "LSTM deep": lambda: rnn.LSTM(3, 2, bidirectional=True, layout="NTC"),
        "GRU": lambda: rnn.GRU(3, 2),
        "GRU both ways": lambda: rnn.GRU(3, bidirectional=True, layout="NTC"),
        "RNNCell": lambda: rnn.RNNCell(3),
        "RNNCell relu": lambda: rnn.RNNCell(3, activation="relu"),
        "LSTMCell": lambda: rnn.LSTMCell(3),
        "GRUCell": lambda: rnn.GRUCell(3),
        "LSTMPCell": lambda: contrib.LSTMPCell(4, 3),
        "ResidualCell": lambda: rnn.ResidualCell(rnn.GRUCell(2)),
        "ZoneoutCell": lambda: rnn.ZoneoutCell(rnn.RNNCell(3), 0.0, 0.0),
        "BidirectionalCell": lambda: rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.GRUCell(2)),
        "SequentialRNNCell": lambda: stack(rnn.SequentialRNNCell),
        "HybridSequentialRNNCell": lambda: stack(rnn.HybridSequentialRNNCell),
        "unfused": lambda: rnn.LSTM(3, 2, bidirectional=True, input_size=2)._unfuse(),
        "VariationalDropoutCell": lambda: contrib.VariationalDropoutCell(rnn.LSTMCell(3)),
    }


def recurrent_names(mx):
    """Return the names of all recurrent networks that are computed."""
    return list(_recurrent(mx))


def recurrent(mx, name, lengths=False, hybridize=False):
    """Return the outputs, last states and gradients of a recurrent network for a sequence of four steps."""
    with mx.name.NameManager():
        block = _recurrent(mx)[name]()
    rng = np.random.RandomState(7)
    is_layer = not hasattr(block, "unroll")
    x = mx.nd.array(draw(rng, *((4, 5, 2) if is_layer and block._layout == "TNC" else (5, 4, 2))))
    block.initialize()
    valid = mx.nd.array([4, 2, 1, 3, 4]) if lengths else None

    def run():
        if is_layer:
            return block(x, block.begin_state(5))
        return block.unroll(4, x, layout="NTC", merge_outputs=True, valid_length=valid)

    run()
    fill(mx, block)
    if hybridize:
        block.hybridize()
    x.attach_grad()
    for _ in range(3 if hybridize else 1):
        with mx.autograd.record():
            outputs, states = run()
            total = (outputs * outputs).sum()
            for state in states:
                total = total + state.sum()
        total.backward()
    return {
        "outputs": values(outputs),
        "states": [values(state) for state in states],
        "grad": values(x.grad),
        "grads": {n: values(p.grad()) for n, p in block.collect_params().items()},
    }
