"""int8 inference against float32 here, and PyTorch for the perceptron: ``python -m benchmarks.precision_int8``.

Prints milliseconds per batch, the best of several rounds. Peers that are not installed are left out, and named.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["main", "rows"]

_ROUNDS, _WARM_UP = 20, 8


def best_milliseconds(call: Callable[[], Any]) -> float:
    """Return the shortest time of a call."""
    for _ in range(_WARM_UP):
        call()
    time.sleep(0.5)
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def _networks() -> dict[str, tuple[Any, tuple[int, ...]]]:
    from phonograd import gluon

    mlp = gluon.nn.HybridSequential()
    mlp.add(*[gluon.nn.Dense(1024, activation="relu") for _ in range(3)], gluon.nn.Dense(10))
    resnet = gluon.model_zoo.vision.resnet18_v1(classes=1000)
    return {"MLP, batch 64": (mlp, (64, 784)), "ResNet-18, batch 4": (resnet, (4, 3, 224, 224))}


def own_rows() -> dict[str, dict[str, float]]:
    """Return the times of float32 and int8 networks here."""
    import phonograd as mx
    from phonograd.contrib import quantization

    found = {}
    for name, (net, shape) in _networks().items():
        net.initialize(mx.init.Xavier())
        net.hybridize()
        data = mx.nd.random.uniform(-1, 1, shape=shape)
        quantized = quantization.quantize_net_v2(net, calib_data=[data], calib_mode="naive")
        quantized.hybridize()
        found[name] = {
            "float32": best_milliseconds(lambda net=net, data=data: net(data).wait_to_read()),  # type: ignore[misc]
            "int8": best_milliseconds(lambda net=quantized, data=data: net(data).wait_to_read()),  # type: ignore[misc]
        }
    return found


def torch_rows() -> dict[str, dict[str, float]]:
    """Return the times of PyTorch's quantized MLP, if PyTorch is installed."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: its rows are missing", file=sys.stderr)
        return {}
    torch.backends.quantized.engine = "x86"
    layers: list[Any] = []
    for inputs, outputs in ((784, 1024), (1024, 1024), (1024, 1024)):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    network = torch.nn.Sequential(torch.ao.quantization.QuantStub(), *layers, torch.nn.Linear(1024, 10))
    network.append(torch.ao.quantization.DeQuantStub())
    network.eval()
    network.qconfig = torch.ao.quantization.get_default_qconfig("x86")
    pairs = [[str(at), str(at + 1)] for at in (1, 3, 5)]
    prepared = torch.ao.quantization.prepare(torch.ao.quantization.fuse_modules(network, pairs))
    data = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (64, 784)).astype(np.float32))
    with torch.inference_mode():
        prepared(data)
        quantized = torch.ao.quantization.convert(prepared)
        return {"MLP, batch 64": {"PyTorch int8": best_milliseconds(lambda: quantized(data))}}


def rows() -> dict[str, dict[str, float]]:
    """Return milliseconds by network and by library."""
    found = own_rows()
    for name, times in torch_rows().items():
        found[name].update(times)
    return found


def main() -> None:
    """Print the table."""
    for name, times in rows().items():
        print(f"{name:20} " + "  ".join([f"{kind} {value:.2f} ms" for kind, value in times.items()]))


if __name__ == "__main__":
    main()
