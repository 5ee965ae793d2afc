"""Recurrent networks from scratch and with Gluon, trained on characters, as the book does."""

import math

import numpy as onp
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn, rnn

npx.set_np()
results = {}
text = "the time machine by h g wells the time traveller for so it will be convenient to speak of him " * 3
characters = sorted(set(text))
corpus = [characters.index(c) for c in text]
vocab_size, num_hiddens, batch_size, num_steps = len(characters), 12, 4, 6


def seq_data_iter_sequential():
    """Yield minibatches of consecutive characters."""
    num_tokens = ((len(corpus) - 1) // batch_size) * batch_size
    Xs = np.array(corpus[:num_tokens])
    Ys = np.array(corpus[1 : 1 + num_tokens])
    Xs, Ys = Xs.reshape((batch_size, -1)), Ys.reshape((batch_size, -1))
    for i in range(0, num_steps * (Xs.shape[1] // num_steps), num_steps):
        yield Xs[:, i : i + num_steps], Ys[:, i : i + num_steps]


def normals(seed):
    """Return a function that draws matrices."""
    generator = onp.random.RandomState(seed)
    return lambda *shape: np.array(generator.normal(0, 0.3, shape), dtype="float32")


def get_params(gates):
    """Return the parameters of a network with so many gates."""
    draw = normals(1)
    params = []
    for _ in range(gates):
        params += [draw(vocab_size, num_hiddens), draw(num_hiddens, num_hiddens), np.zeros(num_hiddens)]
    params += [draw(num_hiddens, vocab_size), np.zeros(vocab_size)]
    for param in params:
        param.attach_grad()
    return params


def simple(inputs, state, params):
    """Return outputs and state of a plain network."""
    W_xh, W_hh, b_h, W_hq, b_q = params
    (H,) = state
    outputs = []
    for X in inputs:
        H = np.tanh(np.dot(X, W_xh) + np.dot(H, W_hh) + b_h)
        outputs.append(np.dot(H, W_hq) + b_q)
    return np.concatenate(outputs, axis=0), (H,)


def gru(inputs, state, params):
    """Return outputs and state of gated units."""
    W_xz, W_hz, b_z, W_xr, W_hr, b_r, W_xh, W_hh, b_h, W_hq, b_q = params
    (H,) = state
    outputs = []
    for X in inputs:
        Z = npx.sigmoid(np.dot(X, W_xz) + np.dot(H, W_hz) + b_z)
        R = npx.sigmoid(np.dot(X, W_xr) + np.dot(H, W_hr) + b_r)
        H_tilda = np.tanh(np.dot(X, W_xh) + np.dot(R * H, W_hh) + b_h)
        H = Z * H + (1 - Z) * H_tilda
        outputs.append(np.dot(H, W_hq) + b_q)
    return np.concatenate(outputs, axis=0), (H,)


def lstm(inputs, state, params):
    """Return outputs and state of a long short-term memory."""
    W_xi, W_hi, b_i, W_xf, W_hf, b_f, W_xo, W_ho, b_o, W_xc, W_hc, b_c, W_hq, b_q = params
    (H, C) = state
    outputs = []
    for X in inputs:
        i = npx.sigmoid(np.dot(X, W_xi) + np.dot(H, W_hi) + b_i)
        f = npx.sigmoid(np.dot(X, W_xf) + np.dot(H, W_hf) + b_f)
        o = npx.sigmoid(np.dot(X, W_xo) + np.dot(H, W_ho) + b_o)
        C = f * C + i * np.tanh(np.dot(X, W_xc) + np.dot(H, W_hc) + b_c)
        H = o * np.tanh(C)
        outputs.append(np.dot(H, W_hq) + b_q)
    return np.concatenate(outputs, axis=0), (H, C)


class Scratch:
    """A network written by hand."""

    def __init__(self, forward_fn, gates, states):
        self.params = get_params(gates)
        self.forward_fn, self.states = forward_fn, states

    def __call__(self, X, state):
        X = npx.one_hot(X.T, vocab_size)
        return self.forward_fn(X, state, self.params)

    def begin_state(self, batch_size, ctx):
        """Return zeros."""
        return tuple(np.zeros((batch_size, num_hiddens), ctx=ctx) for _ in range(self.states))


def grad_clipping(net, theta):
    """Scale gradients so that their norm is at most theta."""
    if isinstance(net, gluon.Block):
        params = [p.data() for p in net.collect_params().values()]
    else:
        params = net.params
    norm = math.sqrt(sum((p.grad**2).sum() for p in params))
    if norm > theta:
        for param in params:
            param.grad[:] *= theta / norm


def train_epoch(net, loss, updater, ctx):
    """Return the perplexity of an epoch."""
    state, total, count = None, 0.0, 0
    for X, Y in seq_data_iter_sequential():
        if state is None:
            state = net.begin_state(batch_size=X.shape[0], ctx=ctx)
        else:
            for s in state:
                s.detach()
        y = Y.T.reshape(-1)
        X, y = X.as_in_ctx(ctx), y.as_in_ctx(ctx)
        with autograd.record():
            y_hat, state = net(X, state)
            value = loss(y_hat, y).mean()
        value.backward()
        grad_clipping(net, 1)
        updater(1)
        total += float(value * y.size)
        count += y.size
    return math.exp(total / count)


class RNNModel(nn.Block):
    """A recurrent layer and a dense one."""

    def __init__(self, rnn_layer, vocab_size, **kwargs):
        super().__init__(**kwargs)
        self.rnn = rnn_layer
        self.vocab_size = vocab_size
        self.dense = nn.Dense(vocab_size)

    def forward(self, inputs, state):
        """Return scores of characters and the state."""
        X = npx.one_hot(inputs.T, self.vocab_size)
        Y, state = self.rnn(X, state)
        output = self.dense(Y.reshape(-1, Y.shape[-1]))
        return output, state

    def begin_state(self, *args, **kwargs):
        """Return zeros."""
        return self.rnn.begin_state(*args, **kwargs)


def predict(prefix, num_preds, net, ctx):
    """Return how a text goes on."""
    state = net.begin_state(batch_size=1, ctx=ctx)
    outputs = [characters.index(prefix[0])]
    for y in prefix[1:]:
        _, state = net(np.array([outputs[-1]], ctx=ctx).reshape((1, 1)), state)
        outputs.append(characters.index(y))
    for _ in range(num_preds):
        y, state = net(np.array([outputs[-1]], ctx=ctx).reshape((1, 1)), state)
        outputs.append(int(y.argmax(axis=1).reshape(1)))
    return "".join(characters[i] for i in outputs)


def sgd(params, lr):
    """Return a function that takes a step."""

    def step(batch_size):
        for param in params:
            param[:] = param - lr * param.grad / batch_size

    return step


ctx = npx.cpu()
loss = gluon.loss.SoftmaxCrossEntropyLoss()
for name, function, gates, states in (("rnn", simple, 1, 1), ("gru", gru, 3, 1), ("lstm", lstm, 4, 2)):
    net = Scratch(function, gates, states)
    updater = sgd(net.params, 0.5)
    results[f"{name} scratch"] = [train_epoch(net, loss, updater, ctx) for _ in range(2)]
    results[f"{name} text"] = predict("time ", 10, net, ctx)

for name, layer in (
    ("rnn", rnn.RNN(num_hiddens)),
    ("gru", rnn.GRU(num_hiddens)),
    ("lstm", rnn.LSTM(num_hiddens, num_layers=2)),
    ("both", rnn.LSTM(num_hiddens, bidirectional=True)),
):
    net = RNNModel(layer, vocab_size)
    net.initialize()
    state = net.begin_state(batch_size=batch_size)
    results[f"{name} state"] = [[list(s.shape), type(s).__name__] for s in state]
    X, _ = next(seq_data_iter_sequential())
    output, state = net(X, state)
    results[f"{name} shapes"] = [list(output.shape), [list(s.shape) for s in state]]
    draw = normals(2)
    for parameter in net.collect_params().values():
        parameter.set_data(draw(*parameter.shape))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    results[f"{name} concise"] = [train_epoch(net, loss, trainer.step, ctx) for _ in range(2)]
    results[f"{name} prediction"] = predict("time ", 10, net, ctx)
