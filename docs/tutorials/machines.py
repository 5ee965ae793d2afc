# %% [markdown]
# # Several machines
#
# The same script trains in one process, in several processes of a machine, or on many machines. Each process (*rank*)
# computes the gradients of its part of a batch, and MPI adds them up. This tutorial starts two processes on one
# machine. It needs `pip install 'phonograd[mpi]'`.

# %%
import subprocess
import sys
from pathlib import Path

# %% [markdown]
# ## The script
#
# Three lines differ from a script for one process. They are marked.

# %%
SCRIPT = """
import numpy as np
import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn

mx.random.seed(1)
store = mx.kv.create("dist_sync")  # 1: the store

random = np.random.RandomState(0)
points = random.randn(960, 2).astype("float32")
classes = (points[:, 0] * points[:, 1] > 0).astype("float32")
dataset = gluon.data.ArrayDataset(points, classes)
sampler = gluon.data.SplitSampler(len(dataset))  # 2: each rank reads its part
loader = gluon.data.DataLoader(dataset, 48 // store.num_workers, sampler=sampler)

net = nn.HybridSequential()
net.add(nn.Dense(32, activation="tanh", in_units=2), nn.Dense(2, in_units=32))
net.initialize(mx.init.Xavier())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02}, kvstore=store)
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
accuracy = mx.metric.Accuracy()
for epoch in range(10):
    accuracy.reset()
    for data, label in loader:
        with autograd.record():
            scores = net(data)
            loss = loss_of(scores, label)
        loss.backward()
        trainer.step(len(data) * store.num_workers)  # 3: gradients are sums over all ranks
        accuracy.update(label, scores)
accuracy.allreduce()
print(f"rank {store.rank} of {store.num_workers}: accuracy {accuracy.get()[1]:.1%}", flush=True)
np.save(f"weight-{store.num_workers}-{store.rank}.npy", net[0].weight.data().asnumpy())
"""
Path("train.py").write_text(SCRIPT)


def run(*command):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# %% [markdown]
# ## One process
#
# A process that no launcher started is a group of one. It does not need MPI.

# %%
print(run("train.py"))

# %% [markdown]
# ## Two processes
#
# `phonograd launch` starts the processes. Each uses its share of the cores.

# %%
print(run("-m", "phonograd", "launch", "-n", "2", "train.py"))

# %% [markdown]
# Both ranks hold the same weights, to the last bit:

# %%
import numpy as np

first, second = np.load("weight-2-0.npy"), np.load("weight-2-1.npy")
assert (first == second).all()
print((first == second).all())

# %% [markdown]
# ## Many machines
#
# On several machines, name them. They need the same files and Python packages, and ssh without a password.
#
#     phonograd launch --hosts a:4,b:4 train.py
#
# Under SLURM or another scheduler with MPI, its own launcher works as well. [distributed.md](../distributed.md) has the
# table of launchers, Horovod's interface, gradient compression, and what happens when a rank fails.
#
# ## Talking to other ranks directly
#
# `mx.distributed.world()` is the group of all ranks. Its operations take lists of NumPy arrays. In a group of one, they
# return their input.

# %%
import phonograd as mx

world = mx.distributed.world()
world.rank, world.size, world.all_reduce([np.arange(3)])
