"""Train on processes that may end at any time: ``phonograd launch -n 4 --elastic examples/elastic.py``.

Kill a process while it runs: the others go on, and a replacement joins them. Alone, the script is a group of one.
"""

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon
from phonograd.distributed import elastic
from phonograd.gluon import nn

BATCH, EPOCHS = 48, 5


def main() -> None:
    """Train a small network; the first process prints."""
    mx.random.seed(1)
    random = np.random.RandomState(0)
    points = random.randn(2400, 10).astype("float32")
    classes = (points[:, :5].sum(axis=1) > points[:, 5:].sum(axis=1)).astype("float32")
    dataset = gluon.data.ArrayDataset(points, classes)
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu", in_units=10), nn.Dense(2, in_units=32))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, kvstore="dist_sync")
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    def train(state: elastic.State) -> None:
        # called again after each change of the group, with the last committed state
        group = mx.distributed.world()
        while state.epoch < EPOCHS:
            sampler = gluon.data.SplitSampler(len(dataset), shuffle=True, seed=state.epoch, start=state.taken)
            loss = mx.nd.zeros((1,))
            for data, label in gluon.data.DataLoader(dataset, BATCH // group.size, sampler=sampler):
                with autograd.record():
                    loss = loss_of(net(data), label)
                loss.backward()
                count = len(data) * group.size
                trainer.step(count)
                state.taken += count
                state.commit()
            if group.rank == 0:
                print(f"epoch {state.epoch + 1}: loss {loss.mean().asscalar():.3f} on {group.size} processes")
            state.epoch, state.taken = state.epoch + 1, 0

    elastic.run(train, elastic.State(trainer, epoch=0, taken=0))
    if mx.distributed.rank() == 0:
        right = (net(mx.nd.array(points)).argmax(axis=1).asnumpy() == classes).mean()
        print(f"accuracy {right:.1%}")
        assert right > 0.9


if __name__ == "__main__":
    main()
