# %% [markdown]
# # A network, from scratch and with Gluon
#
# We train the same network twice on images of handwritten digits: first with nothing but arrays and gradients, then
# with Gluon's layers. The images come with the package.

# %%
import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn

mx.random.seed(3)
digits = mx.demo.load_digits()
train_images = digits.train_images.reshape((-1, 64))
test_images = digits.validation_images.reshape((-1, 64))
train_images.shape, test_images.shape

# %% [markdown]
# An image has 8 × 8 numbers between 0 and 1. An array shows itself as a table:

# %%
print("the label is", int(digits.train_labels[3].asscalar()))
digits.train_images[3]

# %% [markdown]
# ## From scratch
#
# Two layers: 64 numbers in, 64 hidden ones, 10 scores out. The parameters are arrays with gradients.

# %%
hidden_weight = nd.random.normal(scale=0.1, shape=(64, 64))
hidden_bias = nd.zeros((64,))
output_weight = nd.random.normal(scale=0.1, shape=(64, 10))
output_bias = nd.zeros((10,))
parameters = [hidden_weight, hidden_bias, output_weight, output_bias]
for parameter in parameters:
    parameter.attach_grad()


def scores_of(images):
    hidden = nd.relu(nd.dot(images, hidden_weight) + hidden_bias)
    return nd.dot(hidden, output_weight) + output_bias


# %% [markdown]
# The loss is the negative logarithm of the probability that the network gives to the right digit. Training repeats
# four steps: compute the loss, compute the gradients, move the parameters against them, take the next batch.
#
# `mx.progress` shows how far the loop is, and `curves.show()` draws the curves again in place after each epoch.


# %%
def loss_of(scores, labels):
    return -nd.pick(nd.log_softmax(scores), labels).mean()


def accuracy(predict):
    return (predict(test_images).argmax(axis=1) == digits.validation_labels).mean()


data = gluon.data.ArrayDataset(train_images, digits.train_labels)
loader = gluon.data.DataLoader(data, batch_size=32, shuffle=True)
curves = mx.curves.Curves()
for epoch in mx.progress(range(15), "from scratch"):
    for images, labels in loader:
        with autograd.record():
            loss = loss_of(scores_of(images), labels)
        loss.backward()
        for parameter in parameters:
            parameter -= 0.3 * parameter.grad
    curves.add(loss=loss, accuracy=accuracy(scores_of))
    curves.show()

# %%
from_scratch = accuracy(scores_of).asscalar()
assert from_scratch > 0.9
print(f"{from_scratch:.1%} of the images that were not used for training")

# %% [markdown]
# ## With Gluon
#
# Gluon's layers keep their parameters, find out their shapes, and initialize them. A trainer updates them.

# %%
net = nn.HybridSequential()
net.add(nn.Dense(64, activation="relu"), nn.Dense(10))
net.initialize(mx.init.Xavier())
net.summary(train_images[:32])

# %% [markdown]
# `hybridize` makes later calls faster: the network is recorded once and then replayed.

# %%
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.005})
gluon_loss = gluon.loss.SoftmaxCrossEntropyLoss()
curves = mx.curves.Curves()
for epoch in mx.progress(range(15), "Gluon"):
    for images, labels in loader:
        with autograd.record():
            loss = gluon_loss(net(images), labels)
        loss.backward()
        trainer.step(len(images))
    curves.add(loss=loss.mean(), accuracy=accuracy(net))
    curves.show()

# %%
with_gluon = accuracy(net).asscalar()
assert with_gluon > 0.9
print(f"{with_gluon:.1%} of the images that were not used for training")

# %% [markdown]
# ## Looking at the network
#
# A network called with a symbol returns the graph of its operators.

# %%
mx.viz.plot_network(net(mx.sym.var("data")), shape={"data": (32, 64)})

# %% [markdown]
# ## Keeping it
#
# `save_parameters` writes MXNet's format, and `load_parameters` reads it.

# %%
net.save_parameters("digits.params")
again = nn.HybridSequential()
again.add(nn.Dense(64, activation="relu"), nn.Dense(10))
again.load_parameters("digits.params")
assert accuracy(again).asscalar() == with_gluon

# %% [markdown]
# `make demo` trains a convolutional network on the same images and reaches 98 percent.
#
# Next: [where does the time go?](profiling.py)
