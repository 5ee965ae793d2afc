"""Train a convolutional network on handwritten digits with Gluon for three epochs, save it and load it again."""

import tempfile
from pathlib import Path

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn

BATCH = 64


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images of shape (count, 1, 8, 8) with values from 0 to 1, and the digit on each."""
    with np.load(Path(mx.__file__).parent / "data" / "digits.npz", allow_pickle=False) as archive:
        images, labels = archive["images"], archive["labels"]
    return images.reshape(-1, 1, 8, 8).astype(np.float32) / 16, labels.astype(np.float32)


def network() -> nn.HybridSequential:
    """Return a network with two convolutions."""
    net = nn.HybridSequential(prefix="digits_")
    with net.name_scope():
        net.add(
            nn.Conv2D(16, kernel_size=3, padding=1, activation="relu"),
            nn.BatchNorm(),
            nn.MaxPool2D(2),
            nn.Conv2D(32, kernel_size=3, padding=1, activation="relu"),
            nn.MaxPool2D(2),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Dense(10),
        )
    return net


def accuracy(net: nn.HybridSequential, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of images whose digit is recognized."""
    metric = mx.metric.Accuracy()
    metric.update([nd.array(labels)], [net(nd.array(images))])
    return float(metric.get()[1])


def main() -> None:
    """Train the network, and print its accuracy on unseen digits."""
    mx.random.seed(1)
    order = np.random.RandomState(1).permutation(len(digits()[1]))
    images, labels = (part[order] for part in digits())
    seen, unseen = slice(0, 1400), slice(1400, None)

    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    for epoch in range(1, 4):
        total = 0.0
        for start in range(0, seen.stop - BATCH + 1, BATCH):
            data, label = nd.array(images[start : start + BATCH]), nd.array(labels[start : start + BATCH])
            with autograd.record():
                loss = criterion(net(data), label)
            loss.backward()
            trainer.step(BATCH)
            total += loss.mean().asscalar()
        print(f"epoch {epoch}: loss {total / (seen.stop // BATCH):.3f}")

    found = accuracy(net, images[unseen], labels[unseen])
    print(f"accuracy on digits never seen: {found:.1%}")
    assert found > 0.93

    with tempfile.TemporaryDirectory() as folder:
        net.save_parameters(f"{folder}/digits.params")
        again = network()
        again.load_parameters(f"{folder}/digits.params")
    assert accuracy(again, images[unseen], labels[unseen]) == found


if __name__ == "__main__":
    main()
