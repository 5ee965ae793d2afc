"""Define the models of :mod:`benchmarks.workloads_models_nd` in PyTorch."""

import functools

import torch
import torch.nn.functional as F
from torch import nn


def prepare(function):
    """Return a network or function as it is called; :mod:`benchmarks.workloads_models_compiled_torch` compiles it."""
    return function


def _trained(net, data, label):
    optimizer, loss_of = torch.optim.SGD(net.parameters(), 0.01), nn.CrossEntropyLoss()
    net = prepare(net)

    def step():
        optimizer.zero_grad()
        loss_of(net(data), label).backward()
        optimizer.step()

    return step


def resnet18(torch, batch=8, side=64):
    # a script of this directory imports this module
    from distributed_worker import network_of_torch

    net, _, _ = network_of_torch("resnet18")
    return _trained(net, torch.randn(batch, 3, side, side), torch.arange(batch) % 10)


def mobilenet2(torch, batch=8, side=64):
    net = MobileNetV2(10)
    return _trained(net, torch.randn(batch, 3, side, side), torch.arange(batch) % 10)


class _Bottleneck(nn.Module):
    """An inverted residual of MobileNet-v2."""

    def __init__(self, before, after, expansion, stride):
        super().__init__()
        wide = before * expansion
        self.adds = stride == 1 and before == after
        self.layers = nn.Sequential(
            *(_normalized(before, wide, 1) if expansion > 1 else []),
            *_normalized(wide, wide, 3, stride, 1, wide),
            *_normalized(wide, after, 1)[:2],
        )

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


def _normalized(before, after, kernel, stride=1, padding=0, groups=1):
    return [
        nn.Conv2d(before, after, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU6(True),
    ]


class MobileNetV2(nn.Sequential):
    """MobileNet-v2 of width 1."""

    def __init__(self, classes):
        layers, before = _normalized(3, 32, 3, 2, 1), 32
        for expansion, after, count, stride in (
            *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
            *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
        ):
            for number in range(count):
                layers.append(_Bottleneck(before, after, expansion, stride if not number else 1))
                before = after
        layers += _normalized(before, 1280, 1)
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes, bias=False))


class Encoder(nn.Sequential):
    """An encoder like BERT."""

    def __init__(self, words, width, heads, layers):
        each = [_EncoderLayer(width, heads) for _ in range(layers)]
        super().__init__(nn.Embedding(words, width), *each, nn.Linear(width, words), nn.Flatten(0, 1))


class _EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.heads
        mixed = self.mixed(x).reshape(batch, length, 3 * heads, width // heads).transpose(1, 2)
        q, k, v = [part.reshape(batch * heads, length, -1) for part in torch.chunk(mixed, 3, 1)]
        share = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * (width // heads) ** -0.5, -1)
        mixed = torch.bmm(share, v).reshape(batch, heads, length, -1).transpose(1, 2)
        x = self.first(x + self.out(mixed.reshape(batch, length, width)))
        return self.second(x + self.narrow(F.gelu(self.wide(x))))


def bert(torch, batch=8, length=64, words=5_000, width=256, heads=4, layers=4):
    data = torch.arange(batch * length).reshape(batch, length) * 7 % words
    return _trained(Encoder(words, width, heads, layers), data, (data + 1).reshape(-1) % words)


class LanguageModel(nn.Module):
    """A recurrent language model of words in columns."""

    def __init__(self, words, width, layers):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(words, width), nn.LSTM(width, width, layers)
        self.out = nn.Linear(width, words)

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x))[0]).flatten(0, 1)


def ptb_lstm(torch, batch=20, length=35, words=10_000, width=200):
    data = torch.arange(batch * length).reshape(length, batch) * 13 % words
    return _trained(LanguageModel(words, width, 2), data, (data + 1).reshape(-1) % words)


def dcgan(torch, batch=16, width=64):
    before, layers = 100, []
    for number, channels in enumerate((4 * width, 2 * width, width)):
        place = (1, 0) if not number else (2, 1)
        layers += [nn.ConvTranspose2d(before, channels, 4, *place, bias=False), nn.BatchNorm2d(channels), nn.ReLU(True)]
        before = channels
    generator = nn.Sequential(*layers, nn.ConvTranspose2d(before, 3, 4, 2, 1, bias=False), nn.Tanh())
    before, layers = 3, []
    for number, channels in enumerate((width, 2 * width, 4 * width)):
        layers.append(nn.Conv2d(before, channels, 4, 2, 1, bias=False))
        layers += [nn.BatchNorm2d(channels)] if number else []
        layers.append(nn.LeakyReLU(0.2, True))
        before = channels
    discriminator = nn.Sequential(*layers, nn.Conv2d(before, 1, 4, 1, 0, bias=False), nn.Flatten())
    optimizers = [torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999)) for net in (generator, discriminator)]
    loss_of = nn.BCEWithLogitsLoss()
    generator, discriminator = prepare(generator), prepare(discriminator)
    real, seed = torch.randn(batch, 3, 32, 32), torch.randn(batch, 100, 1, 1)
    yes, no = torch.ones(batch, 1), torch.zeros(batch, 1)

    def step():
        optimizers[1].zero_grad()
        made = generator(seed)
        (loss_of(discriminator(real), yes) + loss_of(discriminator(made.detach()), no)).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        loss_of(discriminator(generator(seed)), yes).backward()
        optimizers[0].step()

    return step


def gaussian_process(torch, points=300):
    x = torch.arange(points).reshape(-1, 1) / points * 10
    y = torch.sin(x)
    distance = (x - x.T) ** 2
    noise = torch.eye(points) * 0.1
    scale, length = [torch.tensor([start], requires_grad=True) for start in (0.1, 0.2)]

    def likelihood(scale, length):
        covariance = torch.exp(scale) * torch.exp(-0.5 * distance * torch.exp(-2 * length)) + noise
        factor = torch.linalg.cholesky(covariance)
        solved = torch.linalg.solve_triangular(factor, y, upper=False)
        return 0.5 * (solved * solved).sum() + torch.log(torch.diagonal(factor)).sum()

    likelihood = prepare(likelihood)

    def step():
        scale.grad = length.grad = None
        likelihood(scale, length).backward()

    return step


def physics(torch, points=256, width=32):
    net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    net = prepare(net)
    x, t = [torch.rand(points, 1, requires_grad=True) for _ in range(2)]

    def step():
        optimizer.zero_grad()
        u = net(torch.cat((x, t), 1))
        by_x, by_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (by_xx,) = torch.autograd.grad(by_x.sum(), x, create_graph=True)
        ((by_t - 0.1 * by_xx) ** 2).mean().backward()
        optimizer.step()

    return step


# -- inference


class _Residual(nn.Module):
    """A block of ResNet: two kernels of 3 x 3, or a bottleneck."""

    def __init__(self, before, after, stride, bottleneck):
        super().__init__()
        if bottleneck:
            inner = after // 4
            layers = [*_plain(before, inner, 1, stride), nn.ReLU(True), *_plain(inner, inner, 3, 1, 1), nn.ReLU(True)]
            layers += _plain(inner, after, 1)
        else:
            layers = [*_plain(before, after, 3, stride, 1), nn.ReLU(True), *_plain(after, after, 3, 1, 1)]
        self.layers = nn.Sequential(*layers)
        self.shortcut = nn.Sequential(*_plain(before, after, 1, stride)) if stride > 1 or before != after else None

    def forward(self, x):
        return F.relu(self.layers(x) + (x if self.shortcut is None else self.shortcut(x)))


def _plain(before, after, kernel, stride=1, padding=0):
    return _normalized(before, after, kernel, stride, padding)[:2]


class ResNet(nn.Sequential):
    """ResNet-18 or ResNet-50, as version 1 of the model zoo."""

    def __init__(self, counts, bottleneck, classes=1000):
        layers = [*_plain(3, 64, 7, 2, 3), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
        before = 64
        for level, count in enumerate(counts):
            after = (256 if bottleneck else 64) << level
            for number in range(count):
                layers.append(_Residual(before, after, 2 if level and not number else 1, bottleneck))
                before = after
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def _perceptron():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(True), nn.Linear(256, 128), nn.ReLU(True), nn.Linear(128, 10))


NETWORKS = {
    "resnet18": lambda: ResNet((2, 2, 2, 2), False),
    "resnet50": lambda: ResNet((3, 4, 6, 3), True),
    "mobilenet2": lambda: MobileNetV2(1000),
    "bert": lambda: Encoder(5_000, 256, 4, 4),
    "lstm": lambda: LanguageModel(10_000, 200, 2),
    "mlp": _perceptron,
}


def _infer(name, batch, torch):
    from workloads_models_nd import NETWORKS as SHAPES

    net, shape = NETWORKS[name]().eval(), SHAPES[name][1 if batch == 1 else 2]
    if name == "lstm":
        data = torch.arange(batch * shape[0]).reshape(shape[0], batch) * 13 % 10_000
    elif name == "bert":
        data = torch.arange(batch * shape[0]).reshape(batch, shape[0]) * 7 % 5_000
    else:
        data = torch.randn(batch, *shape)
    net = prepare(net)

    def step():
        with torch.inference_mode():
            net(data).numpy()

    return step


WORKLOADS = {
    "resnet18": resnet18,
    "mobilenet2": mobilenet2,
    "bert": bert,
    "ptb-lstm": ptb_lstm,
    "dcgan": dcgan,
    "gp": gaussian_process,
    "pinn": physics,
    **{f"infer-{name}-{batch}": functools.partial(_infer, name, batch) for name in NETWORKS for batch in (1, 32)},
}
