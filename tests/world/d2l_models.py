"""Train the models of the package d2l on made-up data; print lines of JSON for each.

Run it with a Python that has d2l and ``mxnet``, real or not; arguments are those of ``gluoncv_models.py``. Functions that
download a dataset get a small one instead. Weights come from NumPy, so that the printed numbers can be compared.
"""

import matplotlib as mpl
import numpy
from gluoncv_models import number, run, set_initializers

mpl.use("agg")

from d2l import mxnet as d2l
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
WORDS = ["the", "time", "machine", "by", "wells", "was", "a", "traveller", "to", "speak"]
DEVICE = d2l.try_gpu()


def random(*shape, seed=0):
    """Return random numbers that do not depend on the library."""
    return np.array(numpy.random.RandomState(seed).rand(*shape).astype("float32"))


def summary(*arrays):
    """Return the shape, the mean and the deviation of arrays."""
    found = [numpy.asarray(each.asnumpy(), dtype="float64") for each in arrays]
    return {"outputs": [[list(each.shape), number(each.mean()), number(each.std())] for each in found]}


def initialize(net):
    """Give a network weights that do not depend on the library."""
    set_initializers(net)
    net.initialize(force_reinit=True)
    return net


def images(count=48, size=28):
    """Return an iterator over batches of images with classes, as that of Fashion-MNIST."""
    labels = np.array(numpy.arange(count) % 10)
    return gluon.data.DataLoader(gluon.data.ArrayDataset(random(count, 1, size, size), labels), batch_size=8)


def linear_regression():
    """Train a linear regression from scratch."""
    features, weight, bias = random(20, 2), random(2, 1, seed=1), np.zeros(1)
    labels = d2l.linreg(features, np.array([[2.0], [-3.4]]), 4.2)
    for array in (weight, bias):
        array.attach_grad()
    for _ in range(5):
        with autograd.record():
            loss = d2l.squared_loss(d2l.linreg(features, weight, bias), labels)
        loss.backward()
        d2l.sgd([weight, bias], 0.03, 20)
    return summary(loss, weight, bias)


def softmax_regression():
    """Train a classifier with the loop of chapter 3."""
    net = initialize(nn.Dense(10, in_units=28 * 28))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    found = d2l.train_epoch_ch3(net, images(), gluon.loss.SoftmaxCrossEntropyLoss(), lambda size: trainer.step(size))
    return summary(np.array(found), net.weight.data())


def lenet():
    """Train LeNet with the loop of chapter 6."""
    net = nn.Sequential()
    net.add(nn.Conv2D(6, 5, padding=2, activation="sigmoid"), nn.AvgPool2D(2, 2), nn.Dense(10))
    # the loop draws the weights
    d2l.train_ch6(net, images(), images(), 1, 0.1, DEVICE)
    assert numpy.isfinite(net(random(1, 1, 28, 28)).asnumpy()).all()
    return {}


def resnet18():
    """Compute with ResNet-18 of chapter 12, and train it with the loop of chapter 13."""
    net = initialize(d2l.resnet18(10))
    outputs = net(random(2, 1, 32, 32))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-4})
    labels = np.array([0, 1])
    loss, _ = d2l.train_batch_ch13(
        net, random(2, 1, 32, 32), labels, gluon.loss.SoftmaxCrossEntropyLoss(), trainer, [DEVICE], d2l.split_batch
    )
    return summary(outputs, np.array([float(loss)]))


def vocabulary():
    """Return a vocabulary and a text."""
    text = [WORDS[index % 7 : index % 7 + 4] for index in range(60)]
    return d2l.Vocab(text), text


def recurrent_network():
    """Train a language model with the loop of chapter 8."""
    vocab, text = vocabulary()
    corpus = [vocab[word] for line in text for word in line]
    net = d2l.RNNModel(gluon.rnn.GRU(16), len(vocab))
    initialize(net)
    batches = list(d2l.seq_data_iter_sequential(corpus, 2, 5))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    found = d2l.train_epoch_ch8(net, batches, loss, lambda batch_size: trainer.step(batch_size), DEVICE, False)
    assert d2l.predict_ch8("time ", 3, net, d2l.Vocab(list("time machine")), DEVICE)
    # the data begins at a random place
    assert numpy.isfinite(found[0])
    return {}


def sequence_to_sequence():
    """Train a translator of chapter 9 on two sentences."""
    source, target = vocabulary()[0], d2l.Vocab([WORDS], reserved_tokens=["<pad>", "<bos>", "<eos>"])
    encoder = d2l.Seq2SeqEncoder(len(source), 8, 16, 2)
    outputs, state = initialize(encoder)(np.array([[1, 2, 3], [2, 3, 0]]))
    values = d2l.MaskedSoftmaxCELoss()(random(2, 3, len(target)), np.ones((2, 3)), np.array([3, 1]))
    return summary(outputs, state[0], values)


def attention():
    """Compute with the attentions of chapter 10."""
    keys, values = random(2, 10, 2), random(2, 10, 4, seed=1)
    lengths = np.array([2, 6])
    additive = initialize(d2l.AdditiveAttention(num_hiddens=8, dropout=0.1))
    dot = initialize(d2l.DotProductAttention(dropout=0.5))
    heads = initialize(d2l.MultiHeadAttention(20, 5, 0.5))
    several = heads(random(2, 4, 20), random(2, 6, 20, seed=2), random(2, 6, 20, seed=3), lengths)
    return summary(
        additive(random(2, 1, 20), keys, values, lengths), dot(random(2, 1, 2), keys, values, lengths), several
    )


def transformer():
    """Train the encoder of a transformer."""
    net = initialize(d2l.TransformerEncoder(50, 24, 48, 4, 2, 0.0))
    tokens, lengths = np.array(numpy.arange(20).reshape(2, 10)), np.array([3, 10])
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-4})
    for _ in range(2):
        with autograd.record():
            loss = (net(tokens, lengths) ** 2).mean()
        loss.backward()
        trainer.step(1)
    return summary(net(tokens, lengths), loss)


def bert():
    """Train BERT for a step with the loss of chapter 14."""
    size = 40
    net = initialize(d2l.BERTModel(size, 16, 32, 2, 2, 0.0, max_len=20))
    loss = gluon.loss.SoftmaxCELoss()
    tokens, segments = np.array(numpy.arange(16).reshape(2, 8)), np.zeros((2, 8))
    masked = [np.array([[1, 2], [3, 4]]), np.ones((2, 2)), np.array([[5, 6], [7, 8]])]
    with autograd.record():
        found = d2l._get_batch_loss_bert(
            net, loss, size, [tokens], [segments], [np.array([8.0, 6.0])], *[[each] for each in masked], [np.array([0, 1])]
        )  # fmt: skip
        total = found[2][0]
    total.backward()
    gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3}).step(1)
    return summary(found[0][0], found[1][0], net(tokens, segments)[0])


def boxes():
    """Compute anchors, targets and detections of chapter 13."""
    anchors = d2l.multibox_prior(random(1, 3, 8, 8), sizes=[0.75, 0.5], ratios=[1, 2])
    truth = np.array([[[0, 0.1, 0.08, 0.52, 0.92], [1, 0.55, 0.2, 0.9, 0.88]]])
    offsets, mask, classes = d2l.multibox_target(anchors, truth)
    scores = npx.softmax(random(1, 3, anchors.shape[1]) * 4, axis=1)
    found = d2l.multibox_detection(scores, offsets * 0.1, anchors, nms_threshold=0.5)
    return summary(anchors, offsets, mask, classes, found, d2l.box_iou(anchors[0, :5], anchors[0, 5:9]))


def optimizers():
    """Train with the loops of chapter 11 on random numbers."""
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(random(100, 5), random(100, seed=1)), batch_size=10)
    for name in ("sgd", "adam", "adagrad", "rmsprop", "adadelta"):
        d2l.train_concise_ch11(name, {"learning_rate": 0.01}, data)
    return {}


def recommender():
    """Train a factorization of ratings with the loop of chapter 16."""

    class Factors(nn.Block):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(6, 4), nn.Embedding(8, 4)

        def forward(self, users, items):
            return (self.users(users) * self.items(items)).sum(axis=1)

    net = initialize(Factors())
    users, items = np.array(numpy.arange(24) % 6), np.array(numpy.arange(24) % 8)
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(users, items, random(24) * 5), batch_size=8)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    d2l.train_recsys_rating(net, data, data, gluon.loss.L2Loss(), trainer, 1, [DEVICE], lambda *_: 0.0)
    pair = d2l.BPRLoss()(random(4), random(4, seed=1)), d2l.HingeLossbRec()(random(4), random(4, seed=1))
    return summary(net.users.weight.data(), *pair)


def adversarial():
    """Update a generator and a discriminator with the functions of chapter 17."""
    generator, discriminator = initialize(nn.Dense(2, in_units=2)), initialize(nn.Dense(1, in_units=2))
    loss = gluon.loss.SigmoidBCELoss()
    trainers = [
        gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}) for net in (discriminator, generator)
    ]
    noise = random(8, 2, seed=2)
    first = d2l.update_D(random(8, 2), noise, discriminator, generator, loss, trainers[0])
    second = d2l.update_G(noise, discriminator, generator, loss, trainers[1])
    return summary(np.array([float(first), float(second)]), generator.weight.data(), discriminator.weight.data())


def pictures():
    """Draw curves, images, boxes and maps."""
    d2l.plot([random(4).asnumpy()], [random(4).asnumpy()], "x", "y", legend=["a"])
    d2l.show_images(random(2, 8, 8), 1, 2)
    d2l.show_heatmaps(random(1, 1, 4, 4), "keys", "queries")
    d2l.show_bboxes(d2l.plt.gca(), random(2, 4), ["a", "b"])
    d2l.show_trace_2d(lambda x, y: x**2 + y**2, d2l.train_2d(lambda x, y, a, b: (x * 0.9, y * 0.9, 0, 0)))
    return {}


ALL = [linear_regression, softmax_regression, lenet, resnet18, recurrent_network, sequence_to_sequence, attention]
ALL += [transformer, bert, boxes, optimizers, recommender, adversarial, pictures]
MODELS = {each.__name__: each for each in ALL}


def attempt(name):
    """Run one of the models."""
    return MODELS[name]()


if __name__ == "__main__":
    run(attempt, lambda: list(MODELS))
