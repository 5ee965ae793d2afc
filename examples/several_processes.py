"""Train on several processes: ``phonograd launch -n 4 examples/several_processes.py``; alone, it is a group of one."""

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn

BATCH = 48


def spirals(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points on two spirals, and the spiral of each; the same in every process."""
    random = np.random.RandomState(0)
    classes = np.arange(count) % 2
    angle = 3 * np.sqrt(random.rand(count)) + np.pi * classes
    radius = angle - np.pi * classes
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return (points + 0.05 * random.randn(count, 2)).astype("float32"), classes.astype("float32")


def main() -> None:
    """Train a small network with the gradients of all processes; rank 0 prints."""
    mx.random.seed(1)
    store = mx.kv.create("dist_sync")
    dataset = gluon.data.ArrayDataset(*spirals(960))
    # each process reads its part, and the batch of all processes together stays the same
    sampler = gluon.data.SplitSampler(len(dataset), shuffle=True)
    loader = gluon.data.DataLoader(dataset, BATCH // store.num_workers, sampler=sampler)
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="tanh"), nn.Dense(32, activation="tanh"), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(nd.zeros((1, 2)))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02}, kvstore=store)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    accuracy = mx.metric.Accuracy()
    for epoch in range(15):
        accuracy.reset()
        for points, classes in loader:
            with autograd.record():
                scores = net(points)
                loss = loss_of(scores, classes)
            loss.backward()
            # gradients are sums over all processes
            trainer.step(len(points) * store.num_workers)
            accuracy.update(classes, scores)
        accuracy.allreduce()
        if store.rank == 0 and epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}: accuracy {accuracy.get()[1]:.1%} on {store.num_workers} processes")
    assert accuracy.get()[1] > 0.95
    if store.rank == 0:
        net.save_parameters("spirals.params")


if __name__ == "__main__":
    main()
