# %% [markdown]
# # Autograd from zero
#
# A gradient tells how a result changes when its inputs change a little. This tutorial computes gradients of small
# functions, checks them, and differentiates them again. You need no knowledge of networks.

# %%
import numpy as np

import phonograd as mx
from phonograd import autograd, nd

# %% [markdown]
# ## The first gradient
#
# Three steps. `attach_grad` says which array you want a gradient for. `record` remembers the operations inside its
# block. `backward` plays the record backwards and puts the gradient into `x.grad`.

# %%
x = nd.array([1, 2, 3, 4])
x.attach_grad()
with autograd.record():
    y = (x * x).sum()
y.backward()
x.grad

# %% [markdown]
# The derivative of `x * x` is `2 * x`, and that is what we see. Check it the slow way: move one element a little, and
# look at how far the result moves.


# %%
def slope(function, at, index, step=1e-3):
    """Return a finite difference: how much the result changes, divided by how much one element changed."""
    moved = np.zeros(at.shape)
    moved[index] = step
    return (function(at + moved) - function(at - moved)) / (2 * step)


print(slope(lambda values: (values * values).sum(), x.asnumpy().astype("float64"), 2))

# %% [markdown]
# ## Any Python code
#
# The record follows the program as it runs, so loops and conditions need no special functions.

# %%
a = nd.array([3.0])
a.attach_grad()
with autograd.record():
    b = a
    while b < 100:
        b = b * 2
    c = b if b.sum() > 150 else b * 10
c.backward()
print(b.asscalar(), a.grad.asscalar())

# %% [markdown]
# Six doublings lead from 3 to 192, so the gradient is 2 to the power of 6.
#
# Arrays may also be changed in place. The backward pass uses the values that the forward pass used.

# %%
with autograd.record():
    y = x * x
    x[0] = 100  # too late to change y
y.backward()
x.grad

# %% [markdown]
# ## Results with several elements
#
# `backward` of an array adds the gradients of its elements. To weigh them, pass a *head gradient* of the same shape.

# %%
x = nd.array([1, 2, 3, 4])
x.attach_grad()
with autograd.record():
    y = nd.exp(x)
y.backward(nd.array([1, 0, 0, 10]))
x.grad

# %% [markdown]
# ## Adding gradients up
#
# A second `backward` replaces `x.grad`. With `grad_req="add"` it adds to it, which is how several small batches can be
# used as a large one.

# %%
x = nd.ones((3,))
x.attach_grad(grad_req="add")
for weight in (1, 10, 100):
    with autograd.record():
        y = weight * x
    y.backward()
x.grad

# %% [markdown]
# ## Leaving something out
#
# `detach` makes a copy that the record does not know. `autograd.pause` stops recording inside its block.

# %%
x = nd.array([2.0])
x.attach_grad()
with autograd.record():
    constant = (x * x).detach()
    y = constant * x
y.backward()
x.grad  # 4, and not 3 * x * x = 12

# %% [markdown]
# ## Derivatives of derivatives
#
# `autograd.grad` returns gradients as arrays. With `create_graph=True` they are recorded themselves, so they can be
# differentiated again, as often as you like. Every differentiable operator has derivatives of every order.

# %%
x = nd.array(np.linspace(-3, 3, 61))
x.attach_grad()
derivatives = []
with autograd.record():
    value = nd.tanh(x)
    for order in range(4):
        derivatives.append(value)
        value = autograd.grad(value, x, create_graph=True)[0]

curves = mx.curves.Curves()
for index in range(len(x)):
    curves.add(
        step=x[index],
        tanh=derivatives[0][index],
        first=derivatives[1][index],
        second=derivatives[2][index],
        third=derivatives[3][index],
    )
curves

# %% [markdown]
# ## What was recorded
#
# A recorded computation is a graph. `get_symbol` returns it, and a notebook shows it as a picture.

# %%
x = nd.ones((2, 3))
x.attach_grad()
with autograd.record():
    y = nd.sigmoid(x * 2 + 1).sum()
autograd.get_symbol(y)

# %% [markdown]
# ## A function with your own gradient
#
# An `autograd.Function` has a `forward` and a `backward` of your own. This one passes the gradient through `round`,
# whose true derivative is 0 almost everywhere.


# %%
class StraightThrough(autograd.Function):
    def forward(self, data):
        return nd.round(data)

    def backward(self, out_grad):
        return out_grad


x = nd.array([0.2, 0.7, 1.9])
x.attach_grad()
with autograd.record():
    y = (StraightThrough()(x) * nd.array([1, 2, 3])).sum()
y.backward()
x.grad

# %% [markdown]
# ## When something is wrong
#
# Errors name the operator and the shapes, and a notebook shows only your own lines.

# %% tags=["raises-exception"]
with autograd.record():
    y = nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))

# %% [markdown]
# `autograd.detect_anomaly()` finds the first operator that computes NaN.

# %% tags=["raises-exception"]
x = nd.array([4.0, -1.0])
x.attach_grad()
with autograd.detect_anomaly():
    with autograd.record():
        y = nd.log(nd.sqrt(x)).sum()
    y.backward()
    print(x.grad)

# %% [markdown]
# Next: [a network, from scratch and with Gluon](network.py).
