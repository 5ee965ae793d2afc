"""Programs of layers."""

import numpy as np

from .numbers import draw, fill, values


def _layers(mx):
    nn, contrib = mx.gluon.nn, mx.gluon.contrib.nn
    image, batch = (2, 4, 5, 6), (3, 4)
    return {
        "Dense": (lambda: nn.Dense(3), batch),
        "Dense not flat": (lambda: nn.Dense(3, flatten=False, activation="tanh"), (2, 3, 4)),
        "Dense flat": (lambda: nn.Dense(3, activation="sigmoid", use_bias=False), (2, 3, 4)),
        "Activation relu": (lambda: nn.Activation("relu"), batch),
        "Activation softrelu": (lambda: nn.Activation("softrelu"), batch),
        "Activation softsign": (lambda: nn.Activation("softsign"), batch),
        "LeakyReLU": (lambda: nn.LeakyReLU(0.2), batch),
        "PReLU": (lambda: nn.PReLU(), batch),
        "PReLU channels": (lambda: nn.PReLU(in_channels=4), image),
        "ELU": (lambda: nn.ELU(0.7), batch),
        "SELU": (lambda: nn.SELU(), batch),
        "GELU": (lambda: nn.GELU(), batch),
        "Swish": (lambda: nn.Swish(1.5), batch),
        "BatchNorm": (lambda: nn.BatchNorm(), image),
        "BatchNorm last axis": (lambda: nn.BatchNorm(axis=-1, momentum=0.5, epsilon=1e-3), (4, 3, 5)),
        "BatchNorm fixed": (lambda: nn.BatchNorm(scale=False, center=False), image),
        "BatchNorm global": (lambda: nn.BatchNorm(use_global_stats=True), image),
        "LayerNorm": (lambda: nn.LayerNorm(), (2, 3, 4)),
        "LayerNorm axis": (lambda: nn.LayerNorm(axis=1, epsilon=1e-3), (2, 3, 4)),
        "GroupNorm": (lambda: nn.GroupNorm(2), image),
        "InstanceNorm": (lambda: nn.InstanceNorm(scale=True), image),
        "InstanceNorm axis": (lambda: nn.InstanceNorm(axis=2), (2, 3, 4)),
        "Flatten": (lambda: nn.Flatten(), image),
        "Dropout 0": (lambda: nn.Dropout(0), batch),
        "Conv1D": (lambda: nn.Conv1D(3, 2, 2, 1), (2, 4, 7)),
        "Conv2D": (lambda: nn.Conv2D(3, (3, 2), (1, 2), (1, 0), activation="relu"), image),
        "Conv2D groups": (lambda: nn.Conv2D(4, 2, groups=2, dilation=2, use_bias=False), image),
        "Conv3D": (lambda: nn.Conv3D(2, 2), (1, 2, 3, 4, 3)),
        "Conv1DTranspose": (lambda: nn.Conv1DTranspose(3, 2, 2), (2, 4, 5)),
        "Conv2DTranspose": (lambda: nn.Conv2DTranspose(3, 3, 2, 1, 1), image),
        "Conv3DTranspose": (lambda: nn.Conv3DTranspose(2, 2), (1, 2, 2, 3, 2)),
        "MaxPool1D": (lambda: nn.MaxPool1D(3, 2), (2, 3, 8)),
        "MaxPool2D": (lambda: nn.MaxPool2D(2, 2, ceil_mode=True), image),
        "MaxPool3D": (lambda: nn.MaxPool3D(2), (1, 2, 4, 4, 4)),
        "AvgPool1D": (lambda: nn.AvgPool1D(3, 2, 1), (2, 3, 8)),
        "AvgPool2D": (lambda: nn.AvgPool2D((2, 3), 1, 1, count_include_pad=False), image),
        "AvgPool3D": (lambda: nn.AvgPool3D(2), (1, 2, 4, 4, 4)),
        "GlobalMaxPool1D": (lambda: nn.GlobalMaxPool1D(), (2, 3, 8)),
        "GlobalMaxPool2D": (lambda: nn.GlobalMaxPool2D(), image),
        "GlobalMaxPool3D": (lambda: nn.GlobalMaxPool3D(), (1, 2, 2, 3, 2)),
        "GlobalAvgPool1D": (lambda: nn.GlobalAvgPool1D(), (2, 3, 8)),
        "GlobalAvgPool2D": (lambda: nn.GlobalAvgPool2D(), image),
        "GlobalAvgPool3D": (lambda: nn.GlobalAvgPool3D(), (1, 2, 2, 3, 2)),
        "ReflectionPad2D": (lambda: nn.ReflectionPad2D(2), image),
        "HybridLambda": (lambda: nn.HybridLambda(lambda F, x: F.square(x) + x), batch),
        "PixelShuffle1D": (lambda: contrib.PixelShuffle1D(2), (2, 4, 3)),
        "PixelShuffle2D": (lambda: contrib.PixelShuffle2D((2, 1)), image),
        "PixelShuffle3D": (lambda: contrib.PixelShuffle3D((1, 2, 2)), (1, 8, 2, 3, 2)),
        "SyncBatchNorm": (lambda: contrib.SyncBatchNorm(num_devices=1), image),
        "Identity": (lambda: contrib.Identity(), batch),
    }


def layer_names(mx):
    """Return the names of all layers that are computed."""
    return list(_layers(mx))


def layer(mx, name, hybridize=False):
    """Return what a layer computes in training and after it, and the gradients of its inputs and parameters."""
    make, shape = _layers(mx)[name]
    rng = np.random.RandomState(1)
    x = mx.nd.array(draw(rng, *shape))
    with mx.name.NameManager():
        block = make()
    block.initialize()
    block(x)
    fill(mx, block)
    if hybridize:
        block.hybridize()
    x.attach_grad()
    for _ in range(3 if hybridize else 1):
        fill(mx, block)
        with mx.autograd.record():
            y = block(x)
            loss = (y * mx.nd.array(draw(np.random.RandomState(2), *y.shape))).sum()
        loss.backward()
    grads = {n: values(p.grad()) for n, p in block.collect_params().items() if p.grad_req != "null"}
    trained = values(y)
    return {
        "shapes": {n: list(p.shape) for n, p in block.collect_params().items()},
        "trained": trained,
        "grad": values(x.grad),
        "grads": grads,
        "states": {n: values(p.data()) for n, p in block.collect_params().items() if p.grad_req == "null"},
        "predicted": values(block(x)),
    }
