# %% [markdown]
# # Second derivatives: a physics-informed network
#
# A network can learn the solution of a differential equation without any example of it. The loss is the equation
# itself, so it contains derivatives of the network, and training differentiates that loss once more.
#
# The equation is a damped oscillator, `u'' + 2 d u' + w² u = 0`, that begins at `u(0) = 1` at rest. We know its
# solution, so we can check the result.

# %%
import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn

DAMPING, FREQUENCY, END = 0.3, 2.0, 4.0
STEPS = 1000


def solution(t):
    real = np.sqrt(FREQUENCY**2 - DAMPING**2)
    return np.exp(-DAMPING * t) * (np.cos(real * t) + DAMPING / real * np.sin(real * t))


# %% [markdown]
# ## The network and its derivatives
#
# The network takes times and returns positions. `tanh` has derivatives of every order; `relu` would not do, because its
# second derivative is 0.

# %%
mx.random.seed(1)
net = nn.HybridSequential()
net.add(nn.Dense(32, activation="tanh"), nn.Dense(32, activation="tanh"), nn.Dense(1))
net.initialize(mx.init.Xavier())

times = nd.array(np.linspace(0, END, 64)).reshape((-1, 1))
times.attach_grad()


def motion(times):
    """Return position, velocity and acceleration. They are recorded, so they can be differentiated again."""
    # this form fulfils both initial conditions, whatever the network returns
    position = 1 + nd.square(nd.tanh(times)) * net(times - END / 2)
    velocity = autograd.grad(position, times, create_graph=True)[0]
    acceleration = autograd.grad(velocity, times, create_graph=True)[0]
    return position, velocity, acceleration


with autograd.record():
    position, velocity, acceleration = motion(times)
print(position[0].asscalar(), velocity[0].asscalar())

# %% [markdown]
# `position[0]` is 1 and `velocity[0]` is 0, as the equation demands.
#
# ## Training
#
# The loss is the mean square of the left side of the equation. `loss.backward()` computes third derivatives along the
# way.

# %%
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
curves = mx.curves.Curves()
for step in mx.progress(range(STEPS), "training"):
    trainer.set_learning_rate(0.01 * (1 - step / STEPS))
    with autograd.record():
        position, velocity, acceleration = motion(times)
        residual = acceleration + 2 * DAMPING * velocity + FREQUENCY**2 * position
        loss = nd.square(residual).mean()
    loss.backward()
    trainer.step(1)
    if step % 100 == 99:
        curves.add(step=step, log_loss=np.log10(loss.asscalar()))
        curves.show()

# %% [markdown]
# ## Comparing with the known solution

# %%
exact = solution(times.asnumpy())
picture = mx.curves.Curves()
for t, learned, true in zip(times.asnumpy()[:, 0], position.asnumpy()[:, 0], exact[:, 0], strict=True):
    picture.add(step=float(t), network=float(learned), exact=float(true))
picture

# %%
error = np.abs(position.asnumpy() - exact).max()
print(f"largest error: {error:.4f}")
assert error < 0.05

# %% [markdown]
# ## What one step computes
#
# Three nested derivatives, and still few kernels: the explanation lists them.

# %%
with mx.explain.plans() as log, autograd.record():
    position, velocity, acceleration = motion(times)
    loss = nd.square(acceleration + 2 * DAMPING * velocity + FREQUENCY**2 * position).mean()
    loss.wait_to_read()
print(str(log)[:1500])

# %% [markdown]
# The same works for partial differential equations: take the input apart into coordinates, and call `autograd.grad` for
# each of them.
