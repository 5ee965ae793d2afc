"""Attention with masks, multi-head attention, an encoder of a transformer, and losses of padded sequences."""

import math

import numpy as onp
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn, rnn

npx.set_np()
results = {}
generator = onp.random.RandomState(21)


def draw(*shape):
    """Return normal numbers."""
    return np.array(generator.normal(0, 1, shape), dtype="float32")


def fill(net):
    """Give all parameters numbers that do not depend on the library."""
    numbers = onp.random.RandomState(7)
    for parameter in net.collect_params().values():
        parameter.set_data(np.array(numbers.normal(0, 0.3, parameter.shape), dtype="float32"))


def masked_softmax(X, valid_lens):
    """Return softmax over the last axis, with what is not valid left out."""
    if valid_lens is None:
        return npx.softmax(X)
    shape = X.shape
    if valid_lens.ndim == 1:
        valid_lens = valid_lens.repeat(shape[1])
    else:
        valid_lens = valid_lens.reshape(-1)
    X = npx.sequence_mask(X.reshape(-1, shape[-1]), valid_lens, True, value=-1e6, axis=1)
    return npx.softmax(X).reshape(shape)


X = np.array(generator.uniform(size=(2, 2, 4)), dtype="float32")
results["masked"] = masked_softmax(X, np.array([2, 3])).tolist()
results["masked rows"] = masked_softmax(X, np.array([[1, 3], [2, 4]])).tolist()


class AdditiveAttention(nn.Block):
    """Scores by a small network."""

    def __init__(self, num_hiddens, dropout, **kwargs):
        super().__init__(**kwargs)
        self.W_k = nn.Dense(num_hiddens, use_bias=False, flatten=False)
        self.W_q = nn.Dense(num_hiddens, use_bias=False, flatten=False)
        self.w_v = nn.Dense(1, use_bias=False, flatten=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens):
        """Return values, weighted."""
        queries, keys = self.W_q(queries), self.W_k(keys)
        features = np.expand_dims(queries, axis=2) + np.expand_dims(keys, axis=1)
        features = np.tanh(features)
        scores = np.squeeze(self.w_v(features), axis=-1)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return npx.batch_dot(self.dropout(self.attention_weights), values)


class DotProductAttention(nn.Block):
    """Scores by products."""

    def __init__(self, dropout, **kwargs):
        super().__init__(**kwargs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        """Return values, weighted."""
        d = queries.shape[-1]
        scores = npx.batch_dot(queries, keys, transpose_b=True) / math.sqrt(d)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return npx.batch_dot(self.dropout(self.attention_weights), values)


keys, values = np.ones((2, 10, 2)), np.arange(40).reshape(1, 10, 4).repeat(2, axis=0)
valid_lens = np.array([2, 6])
attention = AdditiveAttention(num_hiddens=8, dropout=0.1)
attention.initialize()
results["additive"] = attention(draw(2, 1, 20), keys, values, valid_lens).tolist()
attention = DotProductAttention(dropout=0.5)
attention.initialize()
results["product"] = attention(draw(2, 1, 2), keys, values, valid_lens).tolist()
results["weights"] = attention.attention_weights.tolist()


def transpose_qkv(X, num_heads):
    """Return one batch entry per head."""
    X = X.reshape(X.shape[0], X.shape[1], num_heads, -1)
    X = X.transpose(0, 2, 1, 3)
    return X.reshape(-1, X.shape[2], X.shape[3])


def transpose_output(X, num_heads):
    """Undo transpose_qkv."""
    X = X.reshape(-1, num_heads, X.shape[1], X.shape[2])
    X = X.transpose(0, 2, 1, 3)
    return X.reshape(X.shape[0], X.shape[1], -1)


class MultiHeadAttention(nn.Block):
    """Several attentions beside each other."""

    def __init__(self, num_hiddens, num_heads, dropout, use_bias=False, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention = DotProductAttention(dropout)
        self.W_q = nn.Dense(num_hiddens, use_bias=use_bias, flatten=False)
        self.W_k = nn.Dense(num_hiddens, use_bias=use_bias, flatten=False)
        self.W_v = nn.Dense(num_hiddens, use_bias=use_bias, flatten=False)
        self.W_o = nn.Dense(num_hiddens, use_bias=use_bias, flatten=False)

    def forward(self, queries, keys, values, valid_lens):
        """Return all heads together."""
        queries = transpose_qkv(self.W_q(queries), self.num_heads)
        keys = transpose_qkv(self.W_k(keys), self.num_heads)
        values = transpose_qkv(self.W_v(values), self.num_heads)
        if valid_lens is not None:
            valid_lens = valid_lens.repeat(self.num_heads, axis=0)
        output = self.attention(queries, keys, values, valid_lens)
        return self.W_o(transpose_output(output, self.num_heads))


class PositionalEncoding(nn.Block):
    """Adds waves that tell positions."""

    def __init__(self, num_hiddens, dropout, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.P = np.zeros((1, max_len, num_hiddens))
        X = np.arange(max_len).reshape(-1, 1) / np.power(10000, np.arange(0, num_hiddens, 2) / num_hiddens)
        self.P[:, :, 0::2] = np.sin(X)
        self.P[:, :, 1::2] = np.cos(X)

    def forward(self, X):
        """Return X with positions."""
        X = X + self.P[:, : X.shape[1], :].as_in_ctx(X.ctx)
        return self.dropout(X)


class AddNorm(nn.Block):
    """A residual connection and layer normalisation."""

    def __init__(self, dropout, **kwargs):
        super().__init__(**kwargs)
        self.dropout = nn.Dropout(dropout)
        self.ln = nn.LayerNorm()

    def forward(self, X, Y):
        """Return the sum, normalised."""
        return self.ln(self.dropout(Y) + X)


class EncoderBlock(nn.Block):
    """A block of the encoder."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, **kwargs):
        super().__init__(**kwargs)
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout)
        self.addnorm1 = AddNorm(dropout)
        self.dense1 = nn.Dense(ffn_num_hiddens, flatten=False, activation="relu")
        self.dense2 = nn.Dense(num_hiddens, flatten=False)
        self.addnorm2 = AddNorm(dropout)

    def forward(self, X, valid_lens):
        """Return what the block makes of X."""
        Y = self.addnorm1(X, self.attention(X, X, X, valid_lens))
        return self.addnorm2(Y, self.dense2(self.dense1(Y)))


class Encoder(nn.Block):
    """Embedding, positions and blocks."""

    def __init__(self, vocab_size, num_hiddens, num_layers):
        super().__init__()
        self.num_hiddens = num_hiddens
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, 0.0)
        self.blks = nn.Sequential()
        for _ in range(num_layers):
            self.blks.add(EncoderBlock(num_hiddens, 2 * num_hiddens, 2, 0.0))
        self.dense = nn.Dense(vocab_size, flatten=False)

    def forward(self, X, valid_lens):
        """Return scores of words."""
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens))
        for blk in self.blks:
            X = blk(X, valid_lens)
        return self.dense(X)


class MaskedSoftmaxCELoss(gluon.loss.SoftmaxCELoss):
    """The cross entropy without padding."""

    def forward(self, pred, label, valid_len):
        """Return the loss of each sequence."""
        weights = np.expand_dims(np.ones_like(label), axis=-1)
        weights = npx.sequence_mask(weights, valid_len, True, axis=1)
        return super().forward(pred, label, weights)


results["masked loss"] = MaskedSoftmaxCELoss()(np.ones((3, 4, 10)), np.ones((3, 4)), np.array([4, 2, 0])).tolist()
encoder = Encoder(9, 8, 2)
encoder.initialize()
tokens, lengths = np.array(generator.randint(0, 9, (3, 5))), np.array([5, 3, 2])
encoder(tokens, lengths)
fill(encoder)
trainer = gluon.Trainer(encoder.collect_params(), "adam", {"learning_rate": 0.01})
loss, history = MaskedSoftmaxCELoss(), []
for _ in range(4):
    with autograd.record():
        value = loss(encoder(tokens, lengths), tokens, lengths)
    value.backward()
    trainer.step(int(lengths.sum()))
    history.append(float(value.sum()))
results["encoder"] = history
results["heads"] = encoder.blks[0].attention.attention.attention_weights[0].tolist()


class Seq2SeqEncoder(nn.Block):
    """Embedding and gated units."""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = rnn.GRU(num_hiddens, num_layers)

    def forward(self, X):
        """Return outputs and state."""
        X = self.embedding(X).swapaxes(0, 1)
        state = self.rnn.begin_state(batch_size=X.shape[1], ctx=X.ctx)
        return self.rnn(X, state)


class Seq2SeqDecoder(nn.Block):
    """Gated units that see the context at each step."""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = rnn.GRU(num_hiddens, num_layers)
        self.dense = nn.Dense(vocab_size, flatten=False)

    def forward(self, X, state):
        """Return scores and state."""
        X = self.embedding(X).swapaxes(0, 1)
        context = np.broadcast_to(state[0][-1], (X.shape[0], state[0][-1].shape[0], state[0][-1].shape[1]))
        output, state = self.rnn(np.concatenate((X, context), 2), state)
        return self.dense(output).swapaxes(0, 1), state


first, second = Seq2SeqEncoder(9, 4, 6, 2), Seq2SeqDecoder(9, 4, 6, 2)
for block in (first, second):
    block.initialize()
output, state = first(tokens)
second(tokens, state)
fill(first)
fill(second)
trainers = [gluon.Trainer(block.collect_params(), "adam", {"learning_rate": 0.01}) for block in (first, second)]
history = []
for _ in range(3):
    with autograd.record():
        _, state = first(tokens)
        scores, _ = second(tokens, state)
        value = loss(scores, tokens, lengths)
    value.backward()
    for trainer in trainers:
        trainer.step(1)
    history.append(value.tolist())
results["seq2seq"] = history
results["types"] = [type(scores).__name__, list(scores.shape), list(output.shape), list(state[0].shape)]
