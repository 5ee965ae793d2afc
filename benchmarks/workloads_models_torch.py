"""Define the models of :mod:`benchmarks.workloads_models_nd` in PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn

from distributed_worker import network_of_torch


def _trained(net, data, label):
    optimizer, loss_of = torch.optim.SGD(net.parameters(), 0.01), nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss_of(net(data), label).backward()
        optimizer.step()

    return step


def resnet18(torch, batch=8, side=64):
    net, _, _ = network_of_torch("resnet18")
    return _trained(net, torch.randn(batch, 3, side, side), torch.arange(batch) % 10)


def bert(torch, batch=8, length=64, words=5_000, width=256, heads=4, layers=4):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x):
            mixed = self.mixed(x).reshape(batch, length, 3 * heads, width // heads).transpose(1, 2)
            q, k, v = [part.reshape(batch * heads, length, -1) for part in torch.chunk(mixed, 3, 1)]
            share = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * (width // heads) ** -0.5, -1)
            mixed = torch.bmm(share, v).reshape(batch, heads, length, -1).transpose(1, 2)
            x = self.first(x + self.out(mixed.reshape(batch, length, width)))
            return self.second(x + self.narrow(F.gelu(self.wide(x))))

    net = nn.Sequential(
        nn.Embedding(words, width), *[Layer() for _ in range(layers)], nn.Linear(width, words), nn.Flatten(0, 1)
    )
    data = torch.arange(batch * length).reshape(batch, length) * 7 % words
    return _trained(net, data, (data + 1).reshape(-1) % words)


WORKLOADS = {"resnet18": resnet18, "bert": bert}
