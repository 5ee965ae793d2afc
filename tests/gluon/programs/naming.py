"""Programs about the names of blocks and parameters."""

import numpy as np


def _scoped(mx):
    nn = mx.gluon.nn

    class Pair(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.first = nn.Dense(3, in_units=2, activation="relu")
                self.second = nn.HybridSequential(prefix="deep_")
                with self.second.name_scope():
                    self.second.add(nn.Dense(2, in_units=3), nn.BatchNorm(in_channels=2), nn.Dense(2, in_units=2))
                self.third = nn.HybridSequential(prefix="")
                with self.third.name_scope():
                    self.third.add(nn.Dense(2, in_units=2))
                self.scale = self.params.get("scale", shape=(1,), init="ones")
                self.fixed = self.params.get_constant("fixed", [1.0, 2.0])

    return Pair


def _unscoped(mx):
    nn = mx.gluon.nn

    class Loose(mx.gluon.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.first = nn.Dense(3, in_units=2)
            self.second = nn.Dense(2, in_units=3)

    return Loose


def _network(mx, prefix):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(
            nn.Conv2D(3, 3, in_channels=2, activation="relu"),
            nn.BatchNorm(in_channels=3),
            nn.MaxPool2D(),
            nn.Conv2DTranspose(2, 2, in_channels=3),
            nn.LeakyReLU(0.1),
            nn.PReLU(),
            nn.Activation("tanh"),
            nn.Flatten(),
            nn.Dense(4, in_units=6),
            nn.LayerNorm(in_channels=4),
            nn.GroupNorm(2),
            nn.InstanceNorm(in_channels=4),
            nn.Embedding(5, 4),
            nn.Dropout(0.5),
            nn.Conv1D(2, 3, in_channels=2, groups=2, use_bias=False),
            nn.Conv3D(2, (1, 2, 3), in_channels=2, padding=1, dilation=2, strides=2),
            nn.GlobalAvgPool2D(),
            nn.AvgPool3D(3, 2, 1),
            nn.HybridLambda("relu"),
            nn.Swish(),
            nn.SELU(),
        )
    return net


def names(mx):
    """Return the parameters and the representation of blocks, made in order from scratch."""
    gluon, nn, rnn = mx.gluon, mx.gluon.nn, mx.gluon.rnn
    made = {}

    def note(key, block):
        made[key] = {
            "name": block.name,
            "prefix": block.prefix,
            "repr": repr(block),
            "params": [
                [name, list(p.shape), np.dtype(p.dtype).name, p.grad_req] for name, p in block.collect_params().items()
            ],
            "paths": list(block._collect_params_with_prefix()),
        }
        return block

    with mx.name.NameManager():
        note("pair", _scoped(mx)())
        note("pair again", _scoped(mx)())
        note("pair with prefix", _scoped(mx)(prefix="mine_"))
        note("loose", _unscoped(mx)(prefix="loose_"))
        note("dense", nn.Dense(2, in_units=3))
        note("dense without bias", nn.Dense(2, in_units=3, use_bias=False, dtype="float64"))
        first = note("shared source", nn.Dense(2, in_units=3, prefix="source_"))
        note("shared", nn.Dense(2, in_units=3, params=first.params))
        note("network", _network(mx, None))
        note("network with prefix", _network(mx, "net_"))
        note("network without prefix", _network(mx, ""))
        note("sequential", nn.Sequential())
        note("loss", gluon.loss.SoftmaxCrossEntropyLoss())
        note("concurrent", gluon.contrib.nn.HybridConcurrent(axis=1))
        note("pixel shuffle", gluon.contrib.nn.PixelShuffle2D((2, 3)))
        note("deferred", nn.Dense(2))
        note("deferred convolution", nn.Conv2D(2, 3))
        note("deferred transpose", nn.Conv2DTranspose(2, 3))
        note("fixed batch norm", nn.BatchNorm(scale=False, center=False, in_channels=2))
        note("lstm", rnn.LSTM(3, 2, input_size=2, bidirectional=True))
        note("gru", rnn.GRU(3, layout="NTC", dropout=0.3, num_layers=2))
        note("rnn", rnn.RNN(3, activation="tanh", input_size=2))
        note("lstm with projection", rnn.LSTM(3, projection_size=2, input_size=2))
        for cell in (rnn.RNNCell, rnn.LSTMCell, rnn.GRUCell):
            note(cell.__name__, cell(3, input_size=2))
        stack = rnn.SequentialRNNCell(prefix="stack_")
        with stack.name_scope():
            stack.add(rnn.LSTMCell(3))
            stack.add(rnn.DropoutCell(0.5))
            stack.add(rnn.ZoneoutCell(rnn.RNNCell(4), 0.2, 0.1))
            stack.add(rnn.BidirectionalCell(rnn.GRUCell(3), rnn.GRUCell(2)))
            stack.add(rnn.ResidualCell(rnn.GRUCell(3, input_size=4)))
        note("stack", stack)
        note("convolutional cell", gluon.contrib.rnn.Conv2DLSTMCell((2, 4, 4), 3, 3, 3, i2h_pad=1))
        note("projected cell", gluon.contrib.rnn.LSTMPCell(4, 2, input_size=3))
        note("variational cell", gluon.contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(3), 0.1, 0.2, 0.3))
    return made
