"""A training that survives the end of processes: run by test_elastic.py as a script.

Each process prints when it enters a group, and the first one prints each step. The batch of a step is the same for any
number of processes, so the losses are those of one process.
"""

import json
import os
import sys
import time

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.distributed import elastic
from phonograd.gluon import nn
from phonograd.gluon.contrib.estimator import Estimator

STEPS, PAUSE, OPTIONS = int(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3])
BATCH = 24
#: the step in which the last rank raises an error
FAULTY_STEP = OPTIONS.pop("faulty_step", -1)
#: "trainer", "module" or "estimator"
KIND = OPTIONS.pop("kind", "trainer")


def say(**values):
    """Print a line at once, and whole."""
    sys.stdout.write(json.dumps({"time": time.monotonic(), **values}) + "\n")
    sys.stdout.flush()


def main():
    """Train, and print the losses and the parameters."""
    mx.random.seed(1)
    random = np.random.RandomState(0)
    data, classes = random.randn(240, 8).astype("f"), random.randint(0, 3, 240).astype("f")
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=8), nn.Dense(3, in_units=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), kvstore="dist_sync", **OPTIONS)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    state = elastic.State(trainer, step=0, losses=[])

    def train(state):
        group = mx.distributed.world()
        say(process=os.getpid(), rank=group.rank, size=group.size, step=state.step)
        while state.step < STEPS:
            chosen = np.arange(state.step * BATCH, (state.step + 1) * BATCH) % len(data)
            own = chosen[group.rank :: group.size]
            with autograd.record():
                loss = loss_function(net(nd.array(data[own])), nd.array(classes[own]))
            loss.backward()
            if state.step == FAULTY_STEP and group.rank == group.size - 1:
                raise ValueError("this rank cannot go on")
            trainer.step(BATCH)
            total = group.all_reduce([loss.asnumpy().sum(keepdims=True, dtype="d")], label="loss")[0]
            state.losses.append(float(total[0]) / BATCH)
            state.step += 1
            time.sleep(PAUSE)
            if group.rank == 0:
                say(done=state.step, size=group.size)
            state.commit()

    elastic.run(train, state)
    weights = [float(each.data().sum().asscalar()) for each in net.collect_params().values()]
    if mx.distributed.rank() == 0:
        say(losses=state.losses, weights=weights, rate=trainer.learning_rate, updates=trainer.optimizer.num_update)


def examples():
    """Return the data of all steps."""
    random = np.random.RandomState(0)
    return random.randn(240, 8).astype("f"), random.randint(0, 3, 240).astype("f")


def batch_of(step, group):
    """Return the part of a step's batch that belongs to a rank."""
    data, classes = examples()
    own = (np.arange(step * BATCH, (step + 1) * BATCH) % len(data))[group.rank :: group.size]
    return nd.array(data[own]), nd.array(classes[own])


def follow(state, loss, group):
    """Note a completed step."""
    total = group.all_reduce([loss.asnumpy().sum(keepdims=True, dtype="d")], label="loss")[0]
    state.losses.append(float(total[0]) / BATCH)
    state.step += 1
    time.sleep(PAUSE)
    if group.rank == 0:
        say(done=state.step, size=group.size)
    state.commit()


def train_module():
    """Train a Module, step by step."""
    mx.random.seed(1)
    hidden = mx.sym.tanh(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=16))
    module = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3), name="softmax"))
    module.bind([("data", (BATCH, 8))], [("softmax_label", (BATCH,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer("dist_sync", "adam", {"learning_rate": 0.01, "rescale_grad": 1 / BATCH})
    state = elastic.State(module, step=0, losses=[])

    def train(state):
        group = mx.distributed.world()
        say(process=os.getpid(), rank=group.rank, size=group.size, step=state.step)
        while state.step < STEPS:
            data, classes = batch_of(state.step, group)
            module.forward(mx.io.DataBatch([data], [classes]), is_train=True)
            module.backward()
            loss = -nd.pick(module.get_outputs()[0], classes).log()
            module.update()
            follow(state, loss, group)

    elastic.run(train, state)
    weights = [float(each.sum().asscalar()) for each in module.get_params()[0].values()]
    if mx.distributed.rank() == 0:
        say(losses=state.losses, weights=weights, updates=module._optimizer.num_update)


def train_estimator():
    """Train by an Estimator, whose passes have one batch."""
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=8), nn.Dense(3, in_units=16))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9}, kvstore="dist_sync")
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    estimator = Estimator(net, loss_function, trainer=trainer)
    estimator.logger.disabled = True
    state = elastic.State(estimator, step=0, losses=[])

    def train(state):
        group = mx.distributed.world()
        say(process=os.getpid(), rank=group.rank, size=group.size, step=state.step)
        # an Estimator divides by the batch of its own rank
        trainer.set_learning_rate(0.1 / group.size)
        while state.step < STEPS:
            data, classes = batch_of(state.step, group)
            loss = loss_function(net(data), classes)
            loss.wait_to_read()
            estimator.fit([(data, classes)], epochs=1, event_handlers=[])
            follow(state, loss, group)

    elastic.run(train, state)
    weights = [float(each.data().sum().asscalar()) for each in net.collect_params().values()]
    if mx.distributed.rank() == 0:
        say(losses=state.losses, weights=weights, updates=trainer.optimizer.num_update)


if __name__ == "__main__":
    {"trainer": main, "module": train_module, "estimator": train_estimator}[KIND]()
