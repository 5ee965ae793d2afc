"""Word vectors with negative sampling, matrix factorisation, factorisation machines and text convolution."""

import collections
import math
import random

import numpy as onp
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(41)
rng = random.Random(5)


def fill(net, scale=0.3):
    """Give all parameters numbers that do not depend on the library."""
    numbers = onp.random.RandomState(7)
    for parameter in net.collect_params().values():
        parameter.set_data(np.array(numbers.normal(0, scale, parameter.shape), dtype="float32"))


def subsample(sentences):
    """Return sentences without most of the frequent words."""
    counter = collections.Counter(token for line in sentences for token in line)
    num_tokens = sum(counter.values())

    def keep(token):
        return rng.uniform(0, 1) < math.sqrt(1e-1 / counter[token] * num_tokens)

    return [[token for token in line if keep(token)] for line in sentences], counter


sentences = [[int(word) for word in generator.zipf(1.6, 12) if word < 20] for _ in range(12)]
subsampled, counter = subsample(sentences)


def centers_and_contexts(corpus, window):
    """Return pairs of words and what is around them."""
    centers, contexts = [], []
    for line in corpus:
        if len(line) < 2:
            continue
        centers += line
        for i in range(len(line)):
            size = rng.randint(1, window)
            indices = [j for j in range(max(0, i - size), min(len(line), i + 1 + size)) if j != i]
            contexts.append([line[j] for j in indices])
    return centers, contexts


def batchify(data):
    """Return a minibatch with padding, masks and labels."""
    max_len = max(len(c) + len(n) for _, c, n in data)
    centers, contexts_negatives, masks, labels = [], [], [], []
    for center, context, negative in data:
        cur_len = len(context) + len(negative)
        centers += [center]
        contexts_negatives += [context + negative + [0] * (max_len - cur_len)]
        masks += [[1] * cur_len + [0] * (max_len - cur_len)]
        labels += [[1] * len(context) + [0] * (max_len - len(context))]
    return (np.array(centers).reshape((-1, 1)), np.array(contexts_negatives), np.array(masks), np.array(labels))


centers, contexts = centers_and_contexts(subsampled, 3)
negatives = [[rng.randint(0, 19) for _ in range(2 * len(context))] for context in contexts]
examples = list(zip(centers, contexts, negatives))
results["examples"] = len(examples)
loader = gluon.data.DataLoader(examples, 8, shuffle=False, batchify_fn=batchify, num_workers=0)
batch = next(iter(loader))
results["batch"] = [[list(part.shape), type(part).__name__, str(part.dtype)] for part in batch]


def skip_gram(center, contexts_and_negatives, embed_v, embed_u):
    """Return scores of pairs."""
    v = embed_v(center)
    u = embed_u(contexts_and_negatives)
    return npx.batch_dot(v, u.swapaxes(1, 2))


loss = gluon.loss.SigmoidBCELoss()
pred = np.array([[1.1, -2.2, 3.3, -4.4]] * 2)
label = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
results["loss"] = (loss(pred, label, mask) * mask.shape[1] / mask.sum(axis=1)).tolist()
net = nn.Sequential()
net.add(nn.Embedding(input_dim=20, output_dim=6), nn.Embedding(input_dim=20, output_dim=6))
net.initialize()
fill(net)
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
history = []
for _ in range(2):
    total, count = 0.0, 0
    for batch in loader:
        center, context_negative, mask, label = batch
        with autograd.record():
            pred = skip_gram(center, context_negative, net[0], net[1])
            value = loss(pred.reshape(label.shape), label, mask) * mask.shape[1] / mask.sum(axis=1)
        value.backward()
        trainer.step(center.shape[0])
        total += float(value.sum())
        count += value.size
    history.append(total / count)
results["word vectors"] = history
W = net[0].weight.data()
x = W[3]
cos = np.dot(W, x) / np.sqrt(np.sum(W * W, axis=1) * np.sum(x * x) + 1e-9)
topk = npx.topk(cos, k=4, ret_typ="indices").asnumpy().astype("int32")
results["near"] = [int(i) for i in topk]
results["cosine"] = [float(cos[int(i)]) for i in topk]


class MF(nn.Block):
    """Users times items, plus biases."""

    def __init__(self, num_factors, num_users, num_items, **kwargs):
        super().__init__(**kwargs)
        self.P = nn.Embedding(input_dim=num_users, output_dim=num_factors)
        self.Q = nn.Embedding(input_dim=num_items, output_dim=num_factors)
        self.user_bias = nn.Embedding(num_users, 1)
        self.item_bias = nn.Embedding(num_items, 1)

    def forward(self, user_id, item_id):
        """Return ratings."""
        P_u = self.P(user_id)
        Q_i = self.Q(item_id)
        b_u = self.user_bias(user_id)
        b_i = self.item_bias(item_id)
        outputs = (P_u * Q_i).sum(axis=1) + np.squeeze(b_u) + np.squeeze(b_i)
        return outputs.flatten()


users, items = generator.randint(0, 10, 60), generator.randint(0, 15, 60)
ratings = generator.randint(1, 6, 60).astype("float32")
train_iter = gluon.data.DataLoader(
    gluon.data.ArrayDataset(np.array(users), np.array(items), np.array(ratings)), batch_size=20, last_batch="rollover"
)
net = MF(4, 10, 15)
net.initialize()
fill(net, 0.1)
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05, "wd": 1e-5})
l2 = gluon.loss.L2Loss()
history = []
for _ in range(3):
    total = 0.0
    for user, item, rating in train_iter:
        with autograd.record():
            value = l2(net(user, item), rating)
        value.backward()
        trainer.step(user.shape[0])
        total += float(value.sum())
    history.append(total / 60)
results["factors"] = history
results["prediction"] = float(net(np.array([3], dtype="int"), np.array([5], dtype="int"))[0])


class FM(nn.Block):
    """A factorisation machine."""

    def __init__(self, num_inputs, num_factors):
        super().__init__()
        self.embedding = nn.Embedding(num_inputs, num_factors)
        self.fc = nn.Embedding(num_inputs, 1)
        self.linear_layer = nn.Dense(1, use_bias=True)

    def forward(self, x):
        """Return probabilities."""
        square_of_sum = np.sum(self.embedding(x), axis=1) ** 2
        sum_of_square = np.sum(self.embedding(x) ** 2, axis=1)
        x = self.linear_layer(self.fc(x).sum(1)) + 0.5 * (square_of_sum - sum_of_square).sum(1, keepdims=True)
        return npx.sigmoid(x)


net = FM(12, 3)
net.initialize()
x, y = np.array(generator.randint(0, 12, (6, 4))), np.array([1, 0, 1, 1, 0, 0])
net(x)
fill(net)
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
bce = gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)
history = []
for _ in range(3):
    with autograd.record():
        value = bce(net(x), y)
    value.backward()
    trainer.step(6)
    history.append(value.tolist())
results["machine"] = history


class TextCNN(nn.Block):
    """Convolutions over words."""

    def __init__(self, vocab_size, embed_size, kernel_sizes, num_channels):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.constant_embedding = nn.Embedding(vocab_size, embed_size)
        self.dropout = nn.Dropout(0.0)
        self.decoder = nn.Dense(2)
        self.pool = nn.GlobalMaxPool1D()
        self.convs = nn.Sequential()
        for c, k in zip(num_channels, kernel_sizes):
            self.convs.add(nn.Conv1D(c, k, activation="relu"))

    def forward(self, inputs):
        """Return scores of classes."""
        embeddings = np.concatenate((self.embedding(inputs), self.constant_embedding(inputs)), axis=2)
        embeddings = embeddings.transpose(0, 2, 1)
        encoding = np.concatenate([np.squeeze(self.pool(conv(embeddings)), axis=-1) for conv in self.convs], axis=1)
        return self.decoder(self.dropout(encoding))


net = TextCNN(12, 3, [2, 3], [4, 4])
net.initialize()
x, y = np.array(generator.randint(0, 12, (5, 7))), np.array([0, 1, 1, 0, 1])
net(x)
fill(net)
net.constant_embedding.collect_params().setattr("grad_req", "null")
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
ce = gluon.loss.SoftmaxCrossEntropyLoss()
history = []
for _ in range(3):
    with autograd.record():
        value = ce(net(x), y)
    value.backward()
    trainer.step(5)
    history.append(float(value.mean()))
results["text"] = history
