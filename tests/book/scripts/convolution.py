"""Convolutional networks: LeNet, batch normalisation from scratch, residual and dense blocks, transposed convolution."""

import numpy as onp
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(11)


def draw(*shape):
    """Return normal numbers."""
    return np.array(generator.normal(0, 1, shape), dtype="float32")


def fill(net, scale=0.1):
    """Give all parameters numbers that do not depend on the library."""
    numbers = onp.random.RandomState(7)
    for name, parameter in net.collect_params().items():
        data = numbers.normal(0, scale, parameter.shape)
        if name.endswith(("var", "gamma")):
            data = abs(data) + 0.5
        parameter.set_data(np.array(data, dtype="float32"))


def corr2d(X, K):
    """Return the cross-correlation of a picture and a kernel."""
    h, w = K.shape
    Y = np.zeros((X.shape[0] - h + 1, X.shape[1] - w + 1))
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = (X[i : i + h, j : j + w] * K).sum()
    return Y


X = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]])
results["corr2d"] = corr2d(X, np.array([[0.0, 1.0], [2.0, 3.0]])).tolist()
X = np.ones((6, 8))
X[:, 2:6] = 0
Y = corr2d(X, np.array([[1.0, -1.0]]))
conv2d = nn.Conv2D(1, kernel_size=(1, 2), use_bias=False)
conv2d.initialize()
X, Y = X.reshape(1, 1, 6, 8), Y.reshape(1, 1, 6, 7)
conv2d(X)
conv2d.weight.set_data(np.array([[[[0.3, 0.1]]]]))
history = []
for _ in range(10):
    with autograd.record():
        Y_hat = conv2d(X)
        loss = (Y_hat - Y) ** 2
    loss.backward()
    conv2d.weight.data()[:] -= 3e-2 * conv2d.weight.grad()
    history.append(float(loss.sum()))
results["edges"] = history
results["kernel"] = conv2d.weight.data().reshape((1, 2)).tolist()


def corr2d_multi_in_out(X, K):
    """Return one channel per kernel."""
    return np.stack([sum(corr2d(x, k) for x, k in zip(X, kernel)) for kernel in K], 0)


X = np.arange(18).reshape(2, 3, 3)
K = np.arange(8).reshape(2, 2, 2)
results["channels"] = corr2d_multi_in_out(X, np.stack((K, K + 1, K + 2), 0)).tolist()


def train(net, X, y, steps=4, lr=0.1, name="sgd"):
    """Return the loss of some steps."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), name, {"learning_rate": lr})
    found = []
    for _ in range(steps):
        with autograd.record():
            value = loss(net(X), y)
        value.backward()
        trainer.step(X.shape[0])
        found.append(float(value.mean()))
    return found


X, y = draw(4, 1, 16, 16), np.array([0, 2, 1, 3], dtype="int32")
for hybridize in (False, True):
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=6, kernel_size=5, padding=2, activation="sigmoid"),
        nn.AvgPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=8, kernel_size=5, activation="sigmoid"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Dense(12, activation="sigmoid"),
        nn.Dense(4),
    )
    net.initialize()
    if hybridize:
        net.hybridize()
    net(X)
    fill(net, 0.3)
    results[f"lenet {hybridize}"] = train(net, X, y, lr=0.9)
shapes = []
value = X
for layer in net:
    value = layer(value)
    shapes.append(list(value.shape))
results["shapes"] = shapes


def batch_norm(X, gamma, beta, moving_mean, moving_var, eps, momentum):
    """Return X normalised, and what the moving statistics become."""
    if not autograd.is_training():
        X_hat = (X - moving_mean) / np.sqrt(moving_var + eps)
    else:
        assert len(X.shape) in (2, 4)
        if len(X.shape) == 2:
            mean = X.mean(axis=0)
            var = ((X - mean) ** 2).mean(axis=0)
        else:
            mean = X.mean(axis=(0, 2, 3), keepdims=True)
            var = ((X - mean) ** 2).mean(axis=(0, 2, 3), keepdims=True)
        X_hat = (X - mean) / np.sqrt(var + eps)
        moving_mean = momentum * moving_mean + (1.0 - momentum) * mean
        moving_var = momentum * moving_var + (1.0 - momentum) * var
    Y = gamma * X_hat + beta
    return Y, moving_mean, moving_var


class BatchNorm(nn.Block):
    """Batch normalisation, by hand."""

    def __init__(self, num_features, num_dims, **kwargs):
        super().__init__(**kwargs)
        shape = (1, num_features) if num_dims == 2 else (1, num_features, 1, 1)
        self.gamma = self.params.get("gamma", shape=shape, init="ones")
        self.beta = self.params.get("beta", shape=shape, init="zeros")
        self.moving_mean = np.zeros(shape)
        self.moving_var = np.ones(shape)

    def forward(self, X):
        """Return X normalised."""
        if self.moving_mean.ctx != X.ctx:
            self.moving_mean = self.moving_mean.copyto(X.ctx)
            self.moving_var = self.moving_var.copyto(X.ctx)
        Y, self.moving_mean, self.moving_var = batch_norm(
            X, self.gamma.data(), self.beta.data(), self.moving_mean, self.moving_var, eps=1e-5, momentum=0.9
        )
        return Y


for own in (True, False):
    net = nn.Sequential()
    net.add(
        nn.Conv2D(6, kernel_size=5),
        BatchNorm(6, num_dims=4) if own else nn.BatchNorm(),
        nn.Activation("sigmoid"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Dense(12),
        BatchNorm(12, num_dims=2) if own else nn.BatchNorm(),
        nn.Activation("sigmoid"),
        nn.Dense(4),
    )
    net.initialize()
    net(X)
    for number in (0, 4, 7):
        fill(net[number])
    results[f"batch norm {own}"] = train(net, X, y)
    results[f"gamma {own}"] = net[1].gamma.data().reshape(-1).tolist()
    results[f"predicted {own}"] = net(X)[0].tolist()


class Residual(nn.Block):
    """The residual block."""

    def __init__(self, num_channels, use_1x1conv=False, strides=1, **kwargs):
        super().__init__(**kwargs)
        self.conv1 = nn.Conv2D(num_channels, kernel_size=3, padding=1, strides=strides)
        self.conv2 = nn.Conv2D(num_channels, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2D(num_channels, kernel_size=1, strides=strides) if use_1x1conv else None
        self.bn1 = nn.BatchNorm()
        self.bn2 = nn.BatchNorm()

    def forward(self, X):
        """Return activations."""
        Y = npx.relu(self.bn1(self.conv1(X)))
        Y = self.bn2(self.conv2(Y))
        if self.conv3:
            X = self.conv3(X)
        return npx.relu(Y + X)


class Inception(nn.Block):
    """Paths beside each other."""

    def __init__(self, c1, c2, **kwargs):
        super().__init__(**kwargs)
        self.p1 = nn.Conv2D(c1, kernel_size=1, activation="relu")
        self.p2_1 = nn.MaxPool2D(pool_size=3, strides=1, padding=1)
        self.p2_2 = nn.Conv2D(c2, kernel_size=1, activation="relu")

    def forward(self, x):
        """Return the channels of both."""
        return np.concatenate((self.p1(x), self.p2_2(self.p2_1(x))), axis=1)


class DenseBlock(nn.Block):
    """Every layer sees all before it."""

    def __init__(self, num_convs, num_channels, **kwargs):
        super().__init__(**kwargs)
        self.net = nn.Sequential()
        for _ in range(num_convs):
            part = nn.Sequential()
            part.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(num_channels, kernel_size=3, padding=1))
            self.net.add(part)

    def forward(self, X):
        """Return all channels."""
        for part in self.net:
            X = np.concatenate((X, part(X)), axis=1)
        return X


for name, block in (
    ("residual", Residual(3)),
    ("strided", Residual(6, use_1x1conv=True, strides=2)),
    ("inception", Inception(2, 3)),
    ("dense", DenseBlock(2, 2)),
):
    net = nn.Sequential()
    net.add(block, nn.GlobalAvgPool2D(), nn.Dense(4))
    net.initialize()
    picture = np.array(onp.random.RandomState(3).uniform(size=(4, 3, 6, 6)), dtype="float32")
    net(picture)
    fill(net)
    results[name] = train(net, picture, y)
    results[f"{name} shape"] = list(block(picture).shape)


def bilinear_kernel(in_channels, out_channels, kernel_size):
    """Return a kernel that interpolates."""
    factor = (kernel_size + 1) // 2
    center = factor - 1 if kernel_size % 2 == 1 else factor - 0.5
    og = (np.arange(kernel_size).reshape(-1, 1), np.arange(kernel_size).reshape(1, -1))
    filt = (1 - np.abs(og[0] - center) / factor) * (1 - np.abs(og[1] - center) / factor)
    weight = np.zeros((in_channels, out_channels, kernel_size, kernel_size))
    weight[range(in_channels), range(out_channels), :, :] = filt
    return np.array(weight)


conv_trans = nn.Conv2DTranspose(2, kernel_size=4, padding=1, strides=2)
conv_trans.initialize()
picture = np.array(onp.random.RandomState(3).uniform(size=(1, 2, 3, 3)), dtype="float32")
conv_trans(picture)
conv_trans.weight.set_data(bilinear_kernel(2, 2, 4))
results["upsampled"] = conv_trans(picture).tolist()
pixels = gluon.loss.SoftmaxCrossEntropyLoss(axis=1)(draw(2, 3, 4, 4), np.array(generator.randint(0, 3, (2, 4, 4))))
results["pixels"] = pixels.tolist()


def gram(X):
    """Return how channels go together."""
    num_channels, n = X.shape[1], X.size // X.shape[1]
    X = X.reshape((num_channels, n))
    return np.dot(X, X.T) / (num_channels * n)


def tv_loss(Y_hat):
    """Return how rough a picture is."""
    return 0.5 * (
        np.abs(Y_hat[:, :, 1:, :] - Y_hat[:, :, :-1, :]).mean()
        + np.abs(Y_hat[:, :, :, 1:] - Y_hat[:, :, :, :-1]).mean()
    )


X = draw(1, 3, 5, 5)
X.attach_grad()
with autograd.record():
    style = np.square(gram(X) - 0.1).mean() + tv_loss(X)
style.backward()
results["style"] = [float(style), X.grad.tolist()]
