"""Define whole models in Gluon, for phonograd and for MXNet itself; :mod:`benchmarks.workloads_models_torch` has them,
too.

A training row is one step of descent. A row ``infer-NAME-BATCH`` is a prediction by a hybridized network.
"""

import functools


def _trained(mx, *arguments):
    # a script of this directory imports this module
    from workloads_nd import _trained

    return _trained(mx, *arguments)


def resnet18(mx, batch=8, side=64):
    """ResNet-18 on images of 64 x 64, batch 8: one step of descent"""
    net = mx.gluon.model_zoo.vision.resnet18_v1(classes=10)
    data = mx.nd.random.normal(shape=(batch, 3, side, side))
    return _trained(mx, net, data, mx.nd.arange(batch) % 10)


def mobilenet2(mx, batch=8, side=64):
    """MobileNet-v2 on images of 64 x 64, batch 8: one step of descent"""
    net = mx.gluon.model_zoo.vision.mobilenet_v2_1_0(classes=10)
    data = mx.nd.random.normal(shape=(batch, 3, side, side))
    return _trained(mx, net, data, mx.nd.arange(batch) % 10)


def encoder(mx, words, width, heads, layers):
    """Return an encoder like BERT."""
    nn, gluon = mx.gluon.nn, mx.gluon

    class Layer(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.mixed = nn.Dense(3 * width, flatten=False)
                self.out = nn.Dense(width, flatten=False)
                self.wide = nn.Dense(4 * width, flatten=False)
                self.narrow = nn.Dense(width, flatten=False)
                self.first, self.second = nn.LayerNorm(), nn.LayerNorm()
                self.gelu = nn.GELU()

        def hybrid_forward(self, F, x):
            mixed = F.reshape(self.mixed(x), (0, 0, -4, 3 * heads, -1))
            parts = F.split(F.transpose(mixed, (0, 2, 1, 3)), num_outputs=3, axis=1)
            q, k, v = [F.reshape(part, (-3, 0, 0)) for part in parts]
            share = F.softmax(F.batch_dot(q, k, transpose_b=True) * (width // heads) ** -0.5)
            mixed = F.reshape(F.batch_dot(share, v), (-4, -1, heads, 0, 0))
            x = self.first(x + self.out(F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (0, 0, -3))))
            return self.second(x + self.narrow(self.gelu(self.wide(x))))

    net = nn.HybridSequential()
    net.add(nn.Embedding(words, width), *[Layer() for _ in range(layers)])
    net.add(nn.Dense(words, flatten=False), nn.HybridLambda(lambda F, x: F.reshape(x, (-3, 0))))
    return net


def bert(mx, batch=8, length=64, words=5_000, width=256, heads=4, layers=4):
    """an encoder like BERT: 4 layers, 256 units, 4 heads, 64 words, batch 8: one step of descent"""
    data = mx.nd.arange(batch * length).reshape((batch, length)) * 7 % words
    return _trained(mx, encoder(mx, words, width, heads, layers), data, (data + 1).reshape((-1,)) % words)


def language_model(mx, words, width, layers):
    """Return a recurrent language model of words in columns."""
    nn, gluon = mx.gluon.nn, mx.gluon
    net = nn.HybridSequential()
    net.add(nn.Embedding(words, width), gluon.rnn.LSTM(width, layers, input_size=width))
    net.add(nn.Dense(words, flatten=False), nn.HybridLambda(lambda F, x: F.reshape(x, (-3, 0))))
    return net


def ptb_lstm(mx, batch=20, length=35, words=10_000, width=200):
    """a language model of 10,000 words: LSTM, 2 layers of 200 units, 35 steps, batch 20: one step of descent"""
    data = mx.nd.arange(batch * length).reshape((length, batch)) * 13 % words
    return _trained(mx, language_model(mx, words, width, 2), data, (data + 1).reshape((-1,)) % words)


def dcgan(mx, batch=16, width=64):
    """DCGAN on images of 32 x 32, batch 16: a step of the discriminator on real and made images, and one of the generator"""
    nn, gluon, autograd, nd = mx.gluon.nn, mx.gluon, mx.autograd, mx.nd
    generator, discriminator = nn.HybridSequential(), nn.HybridSequential()
    for number, channels in enumerate((4 * width, 2 * width, width)):
        generator.add(nn.Conv2DTranspose(channels, 4, *((1, 0) if not number else (2, 1)), use_bias=False))
        generator.add(nn.BatchNorm(), nn.Activation("relu"))
    generator.add(nn.Conv2DTranspose(3, 4, 2, 1, use_bias=False), nn.Activation("tanh"))
    for number, channels in enumerate((width, 2 * width, 4 * width)):
        discriminator.add(nn.Conv2D(channels, 4, 2, 1, use_bias=False))
        if number:
            discriminator.add(nn.BatchNorm())
        discriminator.add(nn.LeakyReLU(0.2))
    discriminator.add(nn.Conv2D(1, 4, 1, 0, use_bias=False), nn.Flatten())
    trainers = []
    for net in (generator, discriminator):
        net.initialize(mx.init.Normal(0.02))
        net.hybridize()
        trainers.append(gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 2e-4, "beta1": 0.5}))
    loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    real, seed = nd.random.normal(shape=(batch, 3, 32, 32)), nd.random.normal(shape=(batch, 100, 1, 1))
    yes, no = nd.ones((batch, 1)), nd.zeros((batch, 1))

    def step():
        with autograd.record():
            made = generator(seed)
            loss = loss_of(discriminator(real), yes) + loss_of(discriminator(made.detach()), no)
        loss.backward()
        trainers[1].step(batch)
        with autograd.record():
            loss = loss_of(discriminator(generator(seed)), yes)
        loss.backward()
        trainers[0].step(batch)
        nd.waitall()

    return step


def gaussian_process(mx, points=300):
    """the likelihood of a Gaussian process with 300 points by a Cholesky factor, and its gradients"""
    nd, autograd = mx.nd, mx.autograd
    x = nd.arange(points).reshape((-1, 1)) / points * 10
    y = nd.sin(x)
    distance = nd.broadcast_sub(x, x.T) ** 2
    noise = nd.eye(points) * 0.1
    scale, length = nd.array([0.1]), nd.array([0.2])
    for parameter in (scale, length):
        parameter.attach_grad()

    def step():
        with autograd.record():
            covariance = nd.exp(scale) * nd.exp(-0.5 * distance * nd.exp(-2 * length)) + noise
            factor = nd.linalg.potrf(covariance)
            solved = nd.linalg.trsm(factor, y)
            loss = 0.5 * (solved * solved).sum() + nd.linalg.sumlogdiag(factor)
        loss.backward()
        nd.waitall()

    return step


def physics(mx, points=256, width=32):
    """a physics-informed network: second derivatives of 2-32-32-1 units at 256 points, and the gradient of their error"""
    nd, autograd = mx.nd, mx.autograd
    nn = mx.gluon.nn
    net = nn.Sequential()
    net.add(nn.Dense(width, activation="tanh"), nn.Dense(width, activation="tanh"), nn.Dense(1))
    net.initialize(mx.init.Normal(0.3))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    x = nd.random.uniform(shape=(points, 1))
    t = nd.random.uniform(shape=(points, 1))
    for variable in (x, t):
        variable.attach_grad()

    def step():
        with autograd.record():
            u = net(nd.concat(x, t, dim=1))
            by_x, by_t = autograd.grad(u, [x, t], create_graph=True, retain_graph=True)
            (by_xx,) = autograd.grad(by_x, [x], create_graph=True, retain_graph=True)
            loss = ((by_t - 0.1 * by_xx) ** 2).mean()
        loss.backward()
        # derivatives do not depend on the last bias
        trainer.step(1, ignore_stale_grad=True)
        nd.waitall()

    return step


# -- inference


def _zoo(name):
    return lambda mx: mx.gluon.model_zoo.vision.get_model(name, classes=1000)


def _perceptron(mx):
    net = mx.gluon.nn.HybridSequential()
    net.add(*[mx.gluon.nn.Dense(units, activation=kind) for units, kind in ((256, "relu"), (128, "relu"), (10, None))])
    return net


#: networks for inference: how to make one, and the shape of an input without the batch for small and large batches
NETWORKS = {
    "resnet18": (_zoo("resnet18_v1"), (3, 224, 224), (3, 112, 112)),
    "resnet50": (_zoo("resnet50_v1"), (3, 224, 224), (3, 112, 112)),
    "mobilenet2": (_zoo("mobilenetv2_1.0"), (3, 224, 224), (3, 112, 112)),
    "bert": (lambda mx: encoder(mx, 5_000, 256, 4, 4), (64,), (64,)),
    "lstm": (lambda mx: language_model(mx, 10_000, 200, 2), (35,), (35,)),
    "mlp": (_perceptron, (784,), (784,)),
}
BATCHES = (1, 32)


def predicting(mx, name, batch):
    """Return a network, initialized and hybridized, and its input."""
    make, small, large = NETWORKS[name]
    net = make(mx)
    shape = small if batch == 1 else large
    if name == "lstm":
        data = mx.nd.arange(batch * shape[0]).reshape((shape[0], batch)) * 13 % 10_000
    elif name == "bert":
        data = mx.nd.arange(batch * shape[0]).reshape((batch, shape[0])) * 7 % 5_000
    else:
        data = mx.nd.random.normal(shape=(batch, *shape))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    net(data).wait_to_read()
    return net, data


def _infer(name, batch, mx):
    net, data = predicting(mx, name, batch)

    def step():
        net(data).asnumpy()

    return step


WORKLOADS = {
    "resnet18": resnet18,
    "mobilenet2": mobilenet2,
    "bert": bert,
    "ptb-lstm": ptb_lstm,
    "dcgan": dcgan,
    "gp": gaussian_process,
    "pinn": physics,
    **{f"infer-{name}-{batch}": functools.partial(_infer, name, batch) for name in NETWORKS for batch in BATCHES},
}
#: MXNet has no second derivative of FullyConnected
ONLY_PHONOGRAD = {"pinn"}
