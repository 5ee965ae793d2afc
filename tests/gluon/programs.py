"""Programs that are run with MXNet 1.9.1 (by ``recorded/make.py``) and with this library (by the tests).

Each function takes the module ``mx`` and returns a dictionary that JSON can hold. Weights and inputs are drawn by
NumPy, so both libraries compute with the same numbers.
"""

import numpy as np


def values(array):
    """Return an array as nested lists of numbers with as many digits as float32 has."""
    return _rounded(array.asnumpy().tolist())


def _rounded(value):
    return [_rounded(part) for part in value] if isinstance(value, list) else float(f"{value:.9g}")


def draw(rng, *shape):
    """Return float32 numbers between -1 and 1."""
    return rng.uniform(-1, 1, shape).astype(np.float32)


def fill(mx, block, seed=0):
    """Give all parameters of a block numbers that depend on their places only."""
    rng = np.random.RandomState(seed)
    for name, parameter in block.collect_params().items():
        shape = parameter.shape
        data = draw(rng, *shape) * np.float32(0.5)
        if name.endswith(("running_var", "gamma")):
            data = np.abs(data) + np.float32(0.5)
        parameter.set_data(mx.nd.array(data))


# -- names


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


# -- layers


def _layers(mx):
    nn, contrib = mx.gluon.nn, mx.gluon.contrib.nn
    image, batch = (2, 4, 5, 6), (3, 4)
    return {
        "Dense": (lambda: nn.Dense(3), batch),
        "Dense not flat": (lambda: nn.Dense(3, flatten=False, activation="tanh"), (2, 3, 4)),
        "Dense flat": (lambda: nn.Dense(3, activation="sigmoid", use_bias=False), (2, 3, 4)),
        "Activation relu": (lambda: nn.Activation("relu"), batch),
        "Activation softrelu": (lambda: nn.Activation("softrelu"), batch),
        "Activation softsign": (lambda: nn.Activation("softsign"), batch),
        "LeakyReLU": (lambda: nn.LeakyReLU(0.2), batch),
        "PReLU": (lambda: nn.PReLU(), batch),
        "PReLU channels": (lambda: nn.PReLU(in_channels=4), image),
        "ELU": (lambda: nn.ELU(0.7), batch),
        "SELU": (lambda: nn.SELU(), batch),
        "GELU": (lambda: nn.GELU(), batch),
        "Swish": (lambda: nn.Swish(1.5), batch),
        "BatchNorm": (lambda: nn.BatchNorm(), image),
        "BatchNorm last axis": (lambda: nn.BatchNorm(axis=-1, momentum=0.5, epsilon=1e-3), (4, 3, 5)),
        "BatchNorm fixed": (lambda: nn.BatchNorm(scale=False, center=False), image),
        "BatchNorm global": (lambda: nn.BatchNorm(use_global_stats=True), image),
        "LayerNorm": (lambda: nn.LayerNorm(), (2, 3, 4)),
        "LayerNorm axis": (lambda: nn.LayerNorm(axis=1, epsilon=1e-3), (2, 3, 4)),
        "GroupNorm": (lambda: nn.GroupNorm(2), image),
        "InstanceNorm": (lambda: nn.InstanceNorm(scale=True), image),
        "InstanceNorm axis": (lambda: nn.InstanceNorm(axis=2), (2, 3, 4)),
        "Flatten": (lambda: nn.Flatten(), image),
        "Dropout 0": (lambda: nn.Dropout(0), batch),
        "Conv1D": (lambda: nn.Conv1D(3, 2, 2, 1), (2, 4, 7)),
        "Conv2D": (lambda: nn.Conv2D(3, (3, 2), (1, 2), (1, 0), activation="relu"), image),
        "Conv2D groups": (lambda: nn.Conv2D(4, 2, groups=2, dilation=2, use_bias=False), image),
        "Conv3D": (lambda: nn.Conv3D(2, 2), (1, 2, 3, 4, 3)),
        "Conv1DTranspose": (lambda: nn.Conv1DTranspose(3, 2, 2), (2, 4, 5)),
        "Conv2DTranspose": (lambda: nn.Conv2DTranspose(3, 3, 2, 1, 1), image),
        "Conv3DTranspose": (lambda: nn.Conv3DTranspose(2, 2), (1, 2, 2, 3, 2)),
        "MaxPool1D": (lambda: nn.MaxPool1D(3, 2), (2, 3, 8)),
        "MaxPool2D": (lambda: nn.MaxPool2D(2, 2, ceil_mode=True), image),
        "MaxPool3D": (lambda: nn.MaxPool3D(2), (1, 2, 4, 4, 4)),
        "AvgPool1D": (lambda: nn.AvgPool1D(3, 2, 1), (2, 3, 8)),
        "AvgPool2D": (lambda: nn.AvgPool2D((2, 3), 1, 1, count_include_pad=False), image),
        "AvgPool3D": (lambda: nn.AvgPool3D(2), (1, 2, 4, 4, 4)),
        "GlobalMaxPool1D": (lambda: nn.GlobalMaxPool1D(), (2, 3, 8)),
        "GlobalMaxPool2D": (lambda: nn.GlobalMaxPool2D(), image),
        "GlobalMaxPool3D": (lambda: nn.GlobalMaxPool3D(), (1, 2, 2, 3, 2)),
        "GlobalAvgPool1D": (lambda: nn.GlobalAvgPool1D(), (2, 3, 8)),
        "GlobalAvgPool2D": (lambda: nn.GlobalAvgPool2D(), image),
        "GlobalAvgPool3D": (lambda: nn.GlobalAvgPool3D(), (1, 2, 2, 3, 2)),
        "ReflectionPad2D": (lambda: nn.ReflectionPad2D(2), image),
        "HybridLambda": (lambda: nn.HybridLambda(lambda F, x: F.square(x) + x), batch),
        "PixelShuffle1D": (lambda: contrib.PixelShuffle1D(2), (2, 4, 3)),
        "PixelShuffle2D": (lambda: contrib.PixelShuffle2D((2, 1)), image),
        "PixelShuffle3D": (lambda: contrib.PixelShuffle3D((1, 2, 2)), (1, 8, 2, 3, 2)),
        "SyncBatchNorm": (lambda: contrib.SyncBatchNorm(num_devices=1), image),
        "Identity": (lambda: contrib.Identity(), batch),
    }


def layer_names(mx):
    """Return the names of all layers that are computed."""
    return list(_layers(mx))


def layer(mx, name, hybridize=False):
    """Return what a layer computes in training and after it, and the gradients of its inputs and parameters."""
    make, shape = _layers(mx)[name]
    rng = np.random.RandomState(1)
    x = mx.nd.array(draw(rng, *shape))
    with mx.name.NameManager():
        block = make()
    block.initialize()
    block(x)
    fill(mx, block)
    if hybridize:
        block.hybridize()
    x.attach_grad()
    for _ in range(3 if hybridize else 1):
        fill(mx, block)
        with mx.autograd.record():
            y = block(x)
            loss = (y * mx.nd.array(draw(np.random.RandomState(2), *y.shape))).sum()
        loss.backward()
    grads = {n: values(p.grad()) for n, p in block.collect_params().items() if p.grad_req != "null"}
    trained = values(y)
    return {
        "shapes": {n: list(p.shape) for n, p in block.collect_params().items()},
        "trained": trained,
        "grad": values(x.grad),
        "grads": grads,
        "states": {n: values(p.data()) for n, p in block.collect_params().items() if p.grad_req == "null"},
        "predicted": values(block(x)),
    }


# -- recurrent networks


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


# -- losses


def losses(mx):
    """Return the values and gradients of all losses."""
    loss = mx.gluon.loss
    rng = np.random.RandomState(3)
    pred, label = draw(rng, 4, 5), draw(rng, 4, 5)
    classes = np.array([0, 3, 4, 2], np.float32)
    signs, bits = np.sign(draw(rng, 4, 5)), (draw(rng, 4, 5) > 0).astype(np.float32)
    weight = np.abs(draw(rng, 4, 1))
    probabilities = np.exp(label) / np.exp(label).sum(1, keepdims=True)
    counts = rng.poisson(3, (4, 5)).astype(np.float32)
    sequence = draw(rng, 2, 6, 4)
    words = np.array([[0, 1, 2], [2, 1, -1]], np.float32)
    cases = {
        "L2Loss": (loss.L2Loss(), pred, label),
        "L2Loss weighted": (loss.L2Loss(weight=0.3, batch_axis=1), pred, label, weight),
        "L1Loss": (loss.L1Loss(), pred, label),
        "L1Loss weighted": (loss.L1Loss(weight=2.0), pred, label, weight),
        "SigmoidBCELoss": (loss.SigmoidBCELoss(), pred, bits),
        "SigmoidBCELoss from sigmoid": (loss.SigmoidBCELoss(from_sigmoid=True), np.abs(pred), bits, weight),
        "SigmoidBCELoss positive": (loss.SigmoidBCELoss(), pred, bits, weight, np.abs(label[:1])),
        "SigmoidBCELoss positive from sigmoid": (
            loss.SigmoidBCELoss(from_sigmoid=True),
            np.abs(pred),
            bits,
            weight,
            np.abs(label[:1]),
        ),
        "SoftmaxCELoss": (loss.SoftmaxCELoss(), pred, classes),
        "SoftmaxCELoss dense": (loss.SoftmaxCELoss(sparse_label=False, weight=0.5), pred, probabilities),
        "SoftmaxCELoss from logits": (loss.SoftmaxCELoss(from_logits=True), pred, classes, weight),
        "SoftmaxCELoss axis": (loss.SoftmaxCELoss(axis=1), draw(rng, 2, 3, 4), np.array([[0, 1, 2, 1]] * 2)),
        "KLDivLoss": (loss.KLDivLoss(), pred, probabilities),
        "KLDivLoss softmax": (loss.KLDivLoss(from_logits=False), pred, probabilities, weight),
        "CTCLoss": (loss.CTCLoss(), sequence, words),
        "CTCLoss lengths": (
            loss.CTCLoss(layout="TNC", label_layout="TN"),
            sequence.swapaxes(0, 1).copy(),
            np.array([[0, 1, 2], [2, 1, 0]], np.float32).T.copy(),
            np.array([6, 5]),
            np.array([3, 2]),
        ),
        "HuberLoss": (loss.HuberLoss(rho=0.5), pred, label),
        "HingeLoss": (loss.HingeLoss(margin=0.4), pred, signs),
        "SquaredHingeLoss": (loss.SquaredHingeLoss(), pred, signs),
        "LogisticLoss": (loss.LogisticLoss(), pred, signs),
        "LogisticLoss binary": (loss.LogisticLoss(label_format="binary"), pred, bits, weight),
        "TripletLoss": (loss.TripletLoss(), pred, label, draw(rng, 4, 5)),
        "PoissonNLLLoss": (loss.PoissonNLLLoss(), pred, counts),
        "PoissonNLLLoss of means": (loss.PoissonNLLLoss(from_logits=False), np.abs(pred), counts, weight),
        "CosineEmbeddingLoss": (loss.CosineEmbeddingLoss(margin=0.1), pred, label, signs[:, 0].copy()),
        "SDMLLoss": (loss.SDMLLoss(), pred, label),
    }
    found = {}
    for name, (function, *arrays) in cases.items():
        given = [mx.nd.array(array) for array in arrays]
        given[0].attach_grad()
        with mx.autograd.record():
            value = function(*given)
        value.backward()
        found[name] = {"value": values(value), "grad": values(given[0].grad), "repr": repr(function)}
    full = loss.PoissonNLLLoss(from_logits=False, compute_full=True)  # MXNet cannot record it
    value = full(mx.nd.array(np.abs(pred)), mx.nd.array(counts + 1))
    found["PoissonNLLLoss full"] = {"value": values(value), "grad": None, "repr": repr(full)}
    return found


# -- optimisers


OPTIMIZERS = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "wd": 0.1}),
    ("sgd", {"momentum": 0.9, "clip_gradient": 0.3, "wd": 0.01, "rescale_grad": 0.5}),
    ("ccsgd", {"momentum": 0.5}),
    ("nag", {"momentum": 0.9, "wd": 0.1}),
    ("nag", {"learning_rate": 0.05}),
    ("signum", {"wd": 0.1, "wd_lh": 0.05}),
    ("signum", {"momentum": 0.0, "wd": 0.1}),
    ("ftml", {"learning_rate": 0.05, "wd": 0.1}),
    ("ftml", {"clip_gradient": 0.3, "wd": 0.1}),
    ("lars", {"learning_rate": 0.5, "momentum": 0.9, "wd": 0.1}),
    ("lars", {"eta": 0.1}),
    ("lbsgd", {"momentum": 0.9, "batch_scale": 2, "updates_per_epoch": 2}),
    ("lbsgd", {"warmup_strategy": "lars", "wd": 0.1}),
    ("lbsgd", {"warmup_strategy": "sqrt", "batch_scale": 3, "updates_per_epoch": 4}),
    ("lamb", {"learning_rate": 0.05, "wd": 0.1}),
    ("lamb", {"bias_correction": False, "lower_bound": 0.5, "upper_bound": 1.5, "clip_gradient": 0.3}),
    ("dcasgd", {"wd": 0.1}),
    ("dcasgd", {"clip_gradient": 0.3, "lamda": 0.5}),
    ("adam", {}),
    ("adam", {"learning_rate": 0.05, "wd": 0.1, "clip_gradient": 0.3, "rescale_grad": 0.5}),
    ("adagrad", {"learning_rate": 0.1, "wd": 0.1}),
    ("rmsprop", {"wd": 0.1}),
    ("rmsprop", {"centered": True, "clip_weights": 0.5, "clip_gradient": 0.3}),
    ("adadelta", {"wd": 0.01, "clip_gradient": 0.3}),
    ("ftrl", {"wd": 0.1}),
    ("ftrl", {"learning_rate": 0.5, "lamda1": 0.1, "clip_gradient": 0.3}),
    ("adamax", {"wd": 0.1}),
    ("nadam", {"wd": 0.1, "clip_gradient": 0.3}),
    ("groupadagrad", {"learning_rate": 0.1, "clip_gradient": 0.3}),
    ("test", {"rescale_grad": 0.1}),
]


def optimizers(mx):
    """Return the weights after each of ten updates by every optimiser, and how they are decided."""
    found = []
    for name, arguments in OPTIMIZERS:
        rng = np.random.RandomState(4)
        weights = [mx.nd.array(draw(rng, 3, 4)), mx.nd.array(draw(rng, 2, 2))]
        updater = mx.optimizer.get_updater(mx.optimizer.create(name, **arguments))
        way = []
        for _ in range(10):
            for index, weight in enumerate(weights):
                updater(index, mx.nd.array(draw(rng, *weight.shape)), weight)
            way.append([values(weight) for weight in weights])
        found.append({"optimizer": name, "arguments": arguments, "way": way})
    return {"ways": found}


SCHEDULERS = [
    ("FactorScheduler", {"step": 3, "factor": 0.5, "base_lr": 1.0, "stop_factor_lr": 0.1}),
    ("FactorScheduler", {"step": 2, "factor": 0.9, "warmup_steps": 4, "warmup_begin_lr": 0.001}),
    ("MultiFactorScheduler", {"step": [2, 5, 11], "factor": 0.1, "base_lr": 0.5}),
    ("MultiFactorScheduler", {"step": [8], "factor": 0.1, "warmup_steps": 5, "warmup_mode": "constant"}),
    ("PolyScheduler", {"max_update": 12, "base_lr": 0.4, "final_lr": 0.1, "pwr": 2}),
    ("PolyScheduler", {"max_update": 15, "pwr": 1, "warmup_steps": 3}),
    ("CosineScheduler", {"max_update": 12, "base_lr": 0.4, "final_lr": 0.1}),
    ("CosineScheduler", {"max_update": 18, "warmup_steps": 3, "warmup_begin_lr": 0.002}),
]


def schedulers(mx):
    """Return learning rates of the first updates."""
    rates = []
    for name, arguments in SCHEDULERS:
        schedule = getattr(mx.lr_scheduler, name)(**arguments)
        rates.append([schedule(update) for update in range(1, 21)])
    return {"rates": rates}


# -- metrics


def metrics(mx):
    """Return names and values of all metrics after three batches."""
    rng = np.random.RandomState(5)
    many = [(rng.randint(0, 4, 6), np.abs(draw(rng, 6, 4)) + np.float32(0.01)) for _ in range(3)]
    many = [(label, pred / pred.sum(1, keepdims=True)) for label, pred in many]
    two = [(rng.randint(0, 2, 8), np.abs(draw(rng, 8, 2))) for _ in range(3)]
    numbers = [(draw(rng, 5), draw(rng, 5)) for _ in range(3)]
    metric = mx.metric
    cases = {
        "accuracy": (metric.Accuracy(), many),
        "accuracy of classes": (metric.Accuracy(), [(label, pred.argmax(1)) for label, pred in many]),
        "top k": (metric.TopKAccuracy(top_k=2), many),
        "f1": (metric.F1(), two),
        "f1 micro": (metric.F1(average="micro"), two),
        "mcc": (metric.MCC(), two),
        "mcc micro": (metric.MCC(average="micro"), two),
        "pcc": (metric.PCC(), many),
        "perplexity": (metric.Perplexity(ignore_label=None), many),
        "perplexity ignoring": (metric.Perplexity(ignore_label=1), many),
        "mae": (metric.MAE(), numbers),
        "mse": (metric.MSE(), numbers),
        "rmse": (metric.RMSE(), numbers),
        "pearson": (metric.PearsonCorrelation(), numbers),
        "cross entropy": (metric.CrossEntropy(), many),
        "nll": (metric.NegativeLogLikelihood(), many),
        "loss": (metric.Loss(), numbers),
        "torch": (metric.Torch(), numbers),
        "custom": (metric.CustomMetric(lambda label, pred: float(np.abs(label - pred).max())), numbers),
        "custom pair": (metric.np(lambda label, pred: (float(pred.sum()), 2), name="mine"), numbers),
        "composite": (metric.create(["acc", "ce", metric.TopKAccuracy(3)]), many),
    }
    found = {}
    for name, (function, batches) in cases.items():
        history = []
        for label, pred in batches:
            function.update([mx.nd.array(label)], [mx.nd.array(pred)])
            history.append(function.get())
        if name != "composite":
            function.reset_local()
        history.append(function.get_global())
        found[name] = {"history": [[a, np.asarray(b, dtype=np.float64).tolist()] for a, b in history]}
    return found


# -- initialisers


def initializers(mx):
    """Return what initialisers are as text, and the mean and spread of what they draw."""
    init = mx.init
    mx.random.seed(0)
    cases = [
        (init.Zero(), (3, 4)),
        (init.One(), (3, 4)),
        (init.Constant(2.5), (3, 4)),
        (init.Uniform(), (300, 400)),
        (init.Uniform(0.5), (300, 400)),
        (init.Normal(), (300, 400)),
        (init.Normal(0.2), (300, 400)),
        (init.Orthogonal(), (100, 200)),
        (init.Orthogonal(scale=1.0, rand_type="normal"), (100, 2, 50)),
        (init.Xavier(), (300, 400)),
        (init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2), (64, 32, 3, 3)),
        (init.Xavier(factor_type="out"), (64, 32, 3, 3)),
        (init.MSRAPrelu(), (64, 32, 3, 3)),
        (init.MSRAPrelu("in", 0), (64, 32, 3, 3)),
        (init.Bilinear(), (2, 1, 4, 4)),
        (init.LSTMBias(2.0), (8,)),
    ]
    found = []
    for function, shape in cases:
        array = mx.nd.zeros(shape)
        function(init.InitDesc("a_weight"), array)
        data = array.asnumpy().astype(np.float64)
        exact = data.tolist() if data.size < 100 else None
        found.append(
            {
                "text": function.dumps(),
                "shape": list(shape),
                "mean": float(data.mean()),
                "spread": float(data.std()),
                "largest": float(np.abs(data).max()),
                "exact": exact,
            }
        )
    filled = {}
    for name in ("a_weight", "a_bias", "a_gamma", "a_beta", "a_min", "a_max"):
        array = mx.nd.full((2,), 7)
        init.Constant(3)(init.InitDesc(name), array)
        filled[name] = values(array)
    return {"cases": found, "filled": filled}


# -- training


def _picture_net(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(
            nn.Conv2D(4, 3, padding=1, activation="relu"),
            nn.BatchNorm(),
            nn.MaxPool2D(2),
            nn.Flatten(),
            nn.Dense(8, activation="tanh"),
            nn.Dense(3),
        )
    return net


def training(mx, optimizer, arguments, steps=100, hybridize=True):
    """Return the losses of a small network in each step, and the sum of each parameter at the end."""
    rng = np.random.RandomState(6)
    data, labels = draw(rng, 8, 2, 6, 6), rng.randint(0, 3, 8)
    net = _picture_net(mx)
    net.initialize()
    net(mx.nd.array(data))
    fill(mx, net)
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, arguments)
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    curve = []
    for _ in range(steps):
        with mx.autograd.record():
            loss = criterion(net(mx.nd.array(data)), mx.nd.array(labels))
        loss.backward()
        trainer.step(len(data))
        curve.append(float(loss.mean().asscalar()))
    return {"curve": curve, "sums": {n: float(p.data().asnumpy().sum()) for n, p in net.collect_params().items()}}


TRAININGS = [
    ("sgd", {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.001}),
    ("adam", {"learning_rate": 0.01}),
]


def trainings(mx):
    """Return the curves of all trainings."""
    return {name: training(mx, name, arguments) for name, arguments in TRAININGS}


# -- files


def saved_net(mx):
    """Return a network with parameters of several kinds, and shared ones."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="saved_")
    with net.name_scope():
        net.add(nn.Conv2D(2, 3, in_channels=1), nn.BatchNorm(in_channels=2), nn.Dense(3, in_units=8))
        net.add(nn.Dense(3, in_units=8, params=net[2].params))
    net.initialize()
    fill(mx, net)
    return net


def saved_trainer(mx, optimizer, arguments, steps=3):
    """Return a trainer, and its parameter, after some steps."""
    parameter = mx.gluon.Parameter("a_weight", shape=(2, 3))
    parameter.initialize()
    rng = np.random.RandomState(8)
    parameter.set_data(mx.nd.array(draw(rng, 2, 3)))
    trainer = mx.gluon.Trainer([parameter], optimizer, dict(arguments))
    train(mx, trainer, parameter, rng, steps)
    return trainer, parameter


def train(mx, trainer, parameter, rng, steps):
    """Make some steps by gradients that are drawn."""
    for _ in range(steps):
        with mx.autograd.record():
            loss = (parameter.data() * mx.nd.array(draw(rng, 2, 3))).sum()
        loss.backward()
        trainer.step(2)


STATES = [("sgd", {"momentum": 0.9, "learning_rate": 0.5}), ("adam", {"wd": 0.1})]


def save_files(mx, folder):
    """Write files of parameters and of trainers, and return the numbers in them and after two more steps."""
    net = saved_net(mx)
    net.save_parameters(f"{folder}/paths.params")
    net.save_parameters(f"{folder}/once.params", deduplicate=True)
    net.collect_params().save(f"{folder}/names.params")
    net.collect_params().save(f"{folder}/stripped.params", strip_prefix="saved_")
    later = {}
    for name, arguments in STATES:
        trainer, parameter = saved_trainer(mx, name, arguments)
        trainer.save_states(f"{folder}/{name}.states")
        before = values(parameter.data())
        train(mx, trainer, parameter, np.random.RandomState(9), 2)
        later[name] = [before, values(parameter.data())]
    return {"params": {n: values(p.data()) for n, p in net.collect_params().items()}, "later": later}
