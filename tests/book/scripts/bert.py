"""BERT: its encoder, the masked language model and the prediction of the next sentence; sentence pairs with attention."""

import numpy as onp
from mxnet import autograd, gluon, init, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(71)


def fill(net):
    """Give all parameters numbers that do not depend on the library."""
    numbers = onp.random.RandomState(7)
    for parameter in net.collect_params().values():
        parameter.set_data(np.array(numbers.normal(0, 0.2, parameter.shape), dtype="float32"))


def masked_softmax(X, valid_lens):
    """Return softmax over the last axis, with what is not valid left out."""
    if valid_lens is None:
        return npx.softmax(X)
    shape = X.shape
    valid_lens = valid_lens.repeat(shape[1]) if valid_lens.ndim == 1 else valid_lens.reshape(-1)
    X = npx.sequence_mask(X.reshape(-1, shape[-1]), valid_lens, True, value=-1e6, axis=1)
    return npx.softmax(X).reshape(shape)


class Attention(nn.Block):
    """Attention with two heads."""

    def __init__(self, num_hiddens, **kwargs):
        super().__init__(**kwargs)
        self.W_q = nn.Dense(num_hiddens, flatten=False)
        self.W_k = nn.Dense(num_hiddens, flatten=False)
        self.W_v = nn.Dense(num_hiddens, flatten=False)
        self.W_o = nn.Dense(num_hiddens, flatten=False)

    def forward(self, X, valid_lens):
        """Return what each position learns of the others."""

        def heads(Z):
            return Z.reshape(Z.shape[0], Z.shape[1], 2, -1).transpose(0, 2, 1, 3).reshape(-1, Z.shape[1], 4)

        q, k, v = heads(self.W_q(X)), heads(self.W_k(X)), heads(self.W_v(X))
        weights = masked_softmax(npx.batch_dot(q, k, transpose_b=True) / 2, np.repeat(valid_lens, repeats=2, axis=0))
        out = npx.batch_dot(weights, v).reshape(-1, 2, X.shape[1], 4).transpose(0, 2, 1, 3)
        return self.W_o(out.reshape(X.shape[0], X.shape[1], -1))


class BERTEncoder(nn.Block):
    """Tokens, segments and positions, embedded and encoded."""

    def __init__(self, vocab_size, num_hiddens, max_len=20, **kwargs):
        super().__init__(**kwargs)
        self.token_embedding = nn.Embedding(vocab_size, num_hiddens)
        self.segment_embedding = nn.Embedding(2, num_hiddens)
        self.attention = Attention(num_hiddens)
        self.norm = nn.LayerNorm()
        self.pos_embedding = self.params.get("pos_embedding", shape=(1, max_len, num_hiddens))

    def forward(self, tokens, segments, valid_lens):
        """Return a vector per token."""
        X = self.token_embedding(tokens) + self.segment_embedding(segments)
        X = X + self.pos_embedding.data(ctx=X.ctx)[:, : X.shape[1], :]
        return self.norm(X + self.attention(X, valid_lens))


class MaskLM(nn.Block):
    """Predicts the tokens at some positions."""

    def __init__(self, vocab_size, num_hiddens, **kwargs):
        super().__init__(**kwargs)
        self.mlp = nn.Sequential()
        self.mlp.add(nn.Dense(num_hiddens, flatten=False, activation="relu"), nn.LayerNorm())
        self.mlp.add(nn.Dense(vocab_size, flatten=False))

    def forward(self, X, pred_positions):
        """Return scores of tokens."""
        num_pred_positions = pred_positions.shape[1]
        pred_positions = pred_positions.reshape(-1)
        batch_size = X.shape[0]
        batch_idx = np.repeat(np.arange(0, batch_size), num_pred_positions)
        masked_X = X[batch_idx, pred_positions]
        return self.mlp(masked_X.reshape((batch_size, num_pred_positions, -1)))


class BERTModel(nn.Block):
    """The whole model."""

    def __init__(self, vocab_size, num_hiddens):
        super().__init__()
        self.encoder = BERTEncoder(vocab_size, num_hiddens)
        self.hidden = nn.Dense(num_hiddens, activation="tanh")
        self.mlm = MaskLM(vocab_size, num_hiddens)
        self.nsp = nn.Dense(2)

    def forward(self, tokens, segments, valid_lens=None, pred_positions=None):
        """Return vectors, and scores for both tasks."""
        encoded = self.encoder(tokens, segments, valid_lens)
        mlm = self.mlm(encoded, pred_positions) if pred_positions is not None else None
        return encoded, mlm, self.nsp(self.hidden(encoded[:, 0, :]))


vocab_size = 11
tokens = np.array(generator.randint(0, vocab_size, (3, 6)))
segments = np.array([[0, 0, 0, 1, 1, 1]] * 3)
valid_lens = np.array([6, 5, 4])
positions = np.array([[1, 4], [2, 3], [1, 0]])
weights = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
targets, order = np.array([[3, 5], [1, 2], [7, 0]]), np.array([0, 1, 1])
net = BERTModel(vocab_size, 8)
net.initialize(init.Xavier())
encoded, mlm, nsp = net(tokens, segments, valid_lens, positions)
results["shapes"] = [list(part.shape) for part in (encoded, mlm, nsp)]
fill(net)
loss = gluon.loss.SoftmaxCELoss()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
history = []
for _ in range(4):
    with autograd.record():
        _, mlm, nsp = net(tokens, segments, valid_lens, positions)
        first = loss(mlm.reshape((-1, vocab_size)), targets.reshape(-1), weights.reshape((-1, 1)))
        first = first.sum() / (weights.sum() + 1e-8)
        second = loss(nsp, order).mean()
        total = first + second
    total.backward()
    trainer.step(1)
    history.append([float(first), float(second)])
results["bert"] = history
results["encoded"] = net(tokens, segments, valid_lens)[0][0, 0].tolist()


def mlp(num_hiddens, flatten):
    """Return two layers."""
    made = nn.Sequential()
    made.add(nn.Dropout(0.2), nn.Dense(num_hiddens, activation="relu", flatten=flatten))
    made.add(nn.Dropout(0.2), nn.Dense(num_hiddens, activation="relu", flatten=flatten))
    return made


class Attend(nn.Block):
    """Aligns the words of two sentences."""

    def __init__(self, num_hiddens, **kwargs):
        super().__init__(**kwargs)
        self.f = mlp(num_hiddens, flatten=False)

    def forward(self, A, B):
        """Return what each word is aligned with."""
        e = npx.batch_dot(self.f(A), self.f(B), transpose_b=True)
        beta = npx.batch_dot(npx.softmax(e), B)
        alpha = npx.batch_dot(npx.softmax(e.transpose(0, 2, 1)), A)
        return beta, alpha


class DecomposableAttention(nn.Block):
    """Attends, compares and aggregates."""

    def __init__(self, vocab_size, embed_size, num_hiddens):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.attend = Attend(num_hiddens)
        self.g = mlp(num_hiddens, flatten=False)
        self.h = mlp(num_hiddens, flatten=True)
        self.out = nn.Dense(3)

    def forward(self, X):
        """Return scores of relations."""
        premises, hypotheses = X
        A, B = self.embedding(premises), self.embedding(hypotheses)
        beta, alpha = self.attend(A, B)
        V_A = self.g(np.concatenate([A, beta], axis=2)).sum(axis=1)
        V_B = self.g(np.concatenate([B, alpha], axis=2)).sum(axis=1)
        return self.out(self.h(np.concatenate([V_A, V_B], axis=1)))


net = DecomposableAttention(vocab_size, 5, 6)
net.initialize()
pair = [tokens, tokens[:, ::-1]]
net(pair)
fill(net)
labels = np.array([0, 1, 2])
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
history = []
for _ in range(3):
    # outside of training mode, where dropout does nothing
    with autograd.record(train_mode=False):
        value = loss(net(pair), labels)
    value.backward()
    trainer.step(3)
    history.append(value.tolist())
results["pairs"] = history


class NeuMF(nn.Block):
    """Matrix factorisation beside a perceptron."""

    def __init__(self, num_factors, num_users, num_items, nums_hiddens, **kwargs):
        super().__init__(**kwargs)
        self.P, self.Q = nn.Embedding(num_users, num_factors), nn.Embedding(num_items, num_factors)
        self.U, self.V = nn.Embedding(num_users, num_factors), nn.Embedding(num_items, num_factors)
        self.mlp = nn.Sequential()
        for num_hiddens in nums_hiddens:
            self.mlp.add(nn.Dense(num_hiddens, activation="relu", use_bias=True))
        self.prediction_layer = nn.Dense(1, activation="sigmoid", use_bias=False)

    def forward(self, user_id, item_id):
        """Return how much users like items."""
        gmf = self.P(user_id) * self.Q(item_id)
        mlp = self.mlp(np.concatenate([self.U(user_id), self.V(item_id)], axis=1))
        return self.prediction_layer(np.concatenate([gmf, mlp], axis=1))


class BPRLoss(gluon.loss.Loss):
    """How often what was chosen is liked less than what was not."""

    def __init__(self, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight=None, batch_axis=0, **kwargs)

    def forward(self, positive, negative):
        """Return one number for all pairs."""
        distances = positive - negative
        return -np.sum(np.log(npx.sigmoid(distances)), 0, keepdims=True)


class HingeLossbRec(gluon.loss.Loss):
    """The same with a margin."""

    def __init__(self, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight=None, batch_axis=0, **kwargs)

    def forward(self, positive, negative, margin=1):
        """Return one number for all pairs."""
        return np.sum(np.maximum(-(positive - negative) + margin, 0))


net = NeuMF(4, 6, 7, [5, 5])
net.initialize()
user, item, other = (np.array(generator.randint(0, 6, 8)) for _ in range(3))
net(user, item)
fill(net)
for name, ranking in (("bpr", BPRLoss()), ("hinge", HingeLossbRec())):
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05, "wd": 1e-5})
    history = []
    for _ in range(3):
        with autograd.record():
            value = ranking(net(user, item), net(user, other))
        value.backward()
        trainer.step(8)
        history.append([float(value.reshape(-1)[0]), list(value.shape)])
    results[name] = history


class AutoRec(nn.Block):
    """Fills in ratings by an autoencoder."""

    def __init__(self, num_hidden, num_users, dropout=0.0):
        super().__init__()
        self.encoder = nn.Dense(num_hidden, activation="sigmoid", use_bias=True)
        self.decoder = nn.Dense(num_users, use_bias=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input):
        """Return ratings; in training only those that are known."""
        hidden = self.dropout(self.encoder(input))
        pred = self.decoder(hidden)
        if autograd.is_training():
            return pred * np.sign(input)
        return pred


net = AutoRec(4, 6)
net.initialize()
matrix = np.array(generator.randint(0, 4, (5, 6)), dtype="float32")
net(matrix)
fill(net)
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
history = []
for _ in range(3):
    with autograd.record():
        value = gluon.loss.L2Loss()(net(matrix), matrix)
    value.backward()
    trainer.step(5)
    history.append(float(value.mean()))
results["autoencoder"] = history
results["filled"] = net(matrix)[0].tolist()
