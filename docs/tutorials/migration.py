# %% [markdown]
# # Migrating an MXNet project
#
# A program for MXNet 1.9.1 runs unchanged on the CPU. This tutorial takes an old training script, runs it as it is, and
# then moves it step by step. The [migration guide](../migrating.md) lists everything that may differ.

# %%
import subprocess
import sys
from pathlib import Path

# %% [markdown]
# ## The old script
#
# It was written for MXNet: symbols, a module, an iterator, a checkpoint, and a GPU if there is one.

# %%
SCRIPT = """
import mxnet as mx
import numpy as np

np.random.seed(0)
mx.random.seed(0)
ctx = mx.gpu() if mx.context.num_gpus() else mx.cpu()

points = np.random.randn(600, 2).astype("float32")
labels = (points[:, 0] * points[:, 1] > 0).astype("float32")
train = mx.io.NDArrayIter(points[:500], labels[:500], batch_size=50, shuffle=True)
test = mx.io.NDArrayIter(points[500:], labels[500:], batch_size=50)

data = mx.sym.Variable("data")
hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=32, name="fc1"), act_type="tanh")
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=2, name="fc2"), name="softmax")

module = mx.mod.Module(net, context=ctx)
module.fit(train, num_epoch=30, optimizer="adam", optimizer_params={"learning_rate": 0.02},
           initializer=mx.init.Xavier(), epoch_end_callback=mx.callback.do_checkpoint("quadrants", 30))
print("mxnet", mx.__version__, module.score(test, "acc"))
"""
Path("train.py").write_text(SCRIPT)

# %% [markdown]
# ## Step 1: run it as it is
#
# `python -m phonograd run` makes `import mxnet` mean phonograd. There is nothing to edit, and MXNet need not be
# installed.


# %%
def run(*command):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


print(run("-m", "phonograd", "run", "train.py"))

# %% [markdown]
# The script saved a checkpoint, in MXNet's own format:

# %%
print(*sorted(path.name for path in Path().glob("quadrants*")), sep="\n")

# %% [markdown]
# ## Step 2: use it from new code
#
# The import is all that changes. Files of MXNet load in both directions, so weights that MXNet wrote years ago work,
# too.

# %%
import phonograd as mx
from phonograd import autograd, gluon, nd

symbol, arguments, states = mx.model.load_checkpoint("quadrants", 30)
symbol

# %% [markdown]
# ## Step 3: from a module to Gluon
#
# `SymbolBlock` turns a symbol and its parameters into a block. A block can be called, recorded and trained further.

# %%
block = gluon.SymbolBlock.imports("quadrants-symbol.json", ["data", "softmax_label"], "quadrants-0030.params")
points = nd.array([[1, 1], [-1, 1], [-1, -1], [2, -0.5]])
block(points, nd.zeros((4,))).argmax(axis=1)

# %% [markdown]
# The label is only there because `SoftmaxOutput` wants one. `get_internals` cuts the network before it, and the result
# is a plain classifier.

# %%
scores = symbol.get_internals()["fc2_output"]
classifier = gluon.SymbolBlock(scores, mx.sym.var("data"))
classifier.load_parameters("quadrants-0030.params", ignore_extra=True)
trainer = gluon.Trainer(classifier.collect_params(), "adam", {"learning_rate": 0.01})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

mx.random.seed(0)
points = nd.random.normal(shape=(500, 2))
labels = points[:, 0] * points[:, 1] > 0
for _ in range(100):
    with autograd.record():
        loss = loss_of(classifier(points), labels)
    loss.backward()
    trainer.step(len(points))
accuracy = (classifier(points).argmax(axis=1) == labels).mean().asscalar()
assert accuracy > 0.95
f"{accuracy:.1%}"

# %% [markdown]
# ## Step 4: things to look for
#
# | in the old code | here |
# |---|---|
# | `mx.gpu(0)` | there is no GPU; `mx.gpu() if mx.num_gpus() else mx.cpu()` works everywhere |
# | `nd.waitall()` around timings | keep it: calls return before anything is computed |
# | errors from in-place changes while recording | they work now |
# | second derivatives that MXNet lacked | they exist for every differentiable operator |
# | `kvstore="dist_sync"` with servers | [several machines](machines.py), without servers |
#
# In a notebook, or if you cannot change how a script is started, call `install_as_mxnet` before the import:

# %%
mx.install_as_mxnet()
import mxnet

mxnet.__version__, mxnet.nd.ones((2,)).asnumpy().tolist()
