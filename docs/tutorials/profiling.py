# %% [markdown]
# # Profiling a slow model
#
# A profile tells where the time of a program goes: which operators, which layers, which lines. We profile a training
# step that is slow for two common reasons, find them, and remove them.

# %%
import time

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn
from phonograd.profiler import profile, record_function

mx.random.seed(0)


# %% [markdown]
# ## A slow model
#
# The model normalizes its input row by row in a Python loop, and checks every row for large values. Both look harmless.


# %%
class Normalize(nn.Block):
    def forward(self, x):
        rows = []
        for row in x:
            if row.abs().max().asscalar() > 100:  # reads a value: everything before it must be computed now
                row = row.clip(-100, 100)
            rows.append((row - row.mean()) / nd.sqrt(nd.square(row - row.mean()).mean() + 1e-5))
        return nd.stack(*rows)


net = nn.Sequential()
net.add(Normalize(), nn.Dense(256, activation="relu"), nn.Dense(10))
net.initialize(mx.init.Xavier())
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
images, labels = nd.random.normal(shape=(64, 128)), nd.arange(64) % 10


def step(net, trainer):
    with record_function("forward"), autograd.record():
        loss = loss_of(net(images), labels)
    with record_function("backward"):
        loss.backward()
    with record_function("update"):
        trainer.step(len(images))
    return loss.mean()


def milliseconds(net, trainer, steps=10):
    for _ in range(20):  # the first steps compile kernels, in the background
        step(net, trainer)
    nd.waitall()
    begin = time.perf_counter()
    for _ in range(steps):
        step(net, trainer)
    nd.waitall()  # calls return before anything is computed
    return 1000 * (time.perf_counter() - begin) / steps


slow = milliseconds(net, trainer)
print(f"{slow:.1f} ms per step")

# %% [markdown]
# ## The profile
#
# `record_function` named the parts of the step. `with_modules` also records layers. A notebook shows a profile as a
# report: a timeline, a flame graph, tables, and hints. It is the page that `export_html` writes.

# %%
with profile(with_modules=True, record_shapes=True) as prof:
    for _ in range(3):
        step(net, trainer)
    nd.waitall()
prof

# %% [markdown]
# The same as a table, by layer. *Tracing* is the time in Python, *Kernels* the time of the compiled code that the layer
# caused.

# %%
prof.by_module()

# %% [markdown]
# `Normalize` takes nearly all the time, and it is time in Python. The hints of the report name patterns that often
# waste time:

# %%
for hint in prof.hints():
    print("-", hint)

# %% [markdown]
# ## The fix
#
# Whole-array operations replace the loop, and `clip` needs no check. Nothing reads a value inside the step any more.


# %%
class FastNormalize(nn.HybridBlock):
    def hybrid_forward(self, F, x):
        x = F.clip(x, -100, 100)
        centered = F.broadcast_sub(x, F.mean(x, axis=1, keepdims=True))
        variance = F.mean(F.square(centered), axis=1, keepdims=True)
        return F.broadcast_div(centered, F.sqrt(variance + 1e-5))


fast_net = nn.HybridSequential()
fast_net.add(FastNormalize(), nn.Dense(256, activation="relu"), nn.Dense(10))
fast_net.initialize(mx.init.Xavier())
fast_net.hybridize()
fast_trainer = gluon.Trainer(fast_net.collect_params(), "sgd", {"learning_rate": 0.1})
difference = (net[0](images) - fast_net[0](images)).abs().max().asscalar()
assert difference < 1e-4

fast = milliseconds(fast_net, fast_trainer)
print(f"{fast:.2f} ms per step, {slow / fast:.0f} times as fast")

# %% [markdown]
# ## Comparing two profiles
#
# `diff` compares profiles name by name.

# %%
with profile() as after:
    for _ in range(3):
        step(fast_net, fast_trainer)
    nd.waitall()
print(prof.diff(after).table(row_limit=8))

# %% [markdown]
# ## Memory
#
# With `profile_memory=True` a profile also records who allocates.

# %%
with profile(profile_memory=True) as memory:
    step(fast_net, fast_trainer).wait_to_read()
memory.memory_timeline()

# %% [markdown]
# `mx.explain.plan(x)` goes further and shows which operators share a kernel. It does not compute anything.

# %%
mx.explain.plan(nd.sqrt(nd.square(images).sum(axis=1) + 1))

# %% [markdown]
# From the command line, `python -m phonograd profile train.py` profiles a whole script without a change. The guide is
# [profiler.md](../profiler.md).
