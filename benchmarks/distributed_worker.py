"""One rank of :mod:`benchmarks.distributed`: train a model, or time reductions, and print the figures as JSON.

``phonograd launch`` starts ranks of phonograd; those of PyTorch are started one by one, by a Python that has it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: examples in the batch of one rank
MODELS = {"lenet": 64, "resnet18": 32, "lstm": 20}
#: elements in reductions
SIZES = (1_000, 10_000, 100_000, 1_000_000, 6_000_000)
WORDS, LENGTH, UNITS = 1000, 35, 200


def main() -> None:
    """Do what the arguments say: ``train model manner bucket_bytes seconds``, ``reduce seconds``, or ``torch model rank
    size address seconds``. A manner is "none", a kind of compression, or "apart" for ranks that do not communicate."""
    what, *rest = sys.argv[1:]
    if what == "train":
        train(rest[0], rest[1], int(rest[2]), float(rest[3]))
    elif what == "reduce":
        reduce(float(rest[0]))
    else:
        train_torch(rest[0], int(rest[1]), int(rest[2]), rest[3], float(rest[4]))


def measure(step: Callable[[], None], agree: Callable[[bool], bool], seconds: float) -> float:
    """Return the seconds of a step: the best of several stretches. All ranks agree when to stop."""
    begin = time.perf_counter()
    while True:
        step()
        # plans and compiled kernels take over in the first seconds
        if not agree(time.perf_counter() - begin < seconds / 2):
            break
    best, begin = float("inf"), time.perf_counter()
    while True:
        start = time.perf_counter()
        for _ in range(5):
            step()
        best = min(best, (time.perf_counter() - start) / 5)
        if not agree(time.perf_counter() - begin < seconds):
            return best


# -- phonograd


def network_of(mx: Any, name: str) -> tuple[Any, Any, Any]:
    """Return a network and one batch of data and classes."""
    nn, random, batch = mx.gluon.nn, np.random.RandomState(0), MODELS[name]
    if name == "lstm":
        net = nn.HybridSequential()
        net.add(nn.Embedding(WORDS, UNITS), mx.gluon.rnn.LSTM(UNITS, layout="NTC"), nn.Dense(WORDS, flatten=False))
        words = random.randint(0, WORDS, (batch, LENGTH + 1))
        return net, mx.nd.array(words[:, :-1]), mx.nd.array(words[:, 1:])
    if name == "resnet18":
        net, side, channels = mx.gluon.model_zoo.vision.resnet18_v1(classes=10), 64, 3
    else:
        side, channels = 28, 1
        net = nn.HybridSequential()
        net.add(
            nn.Conv2D(6, 5, padding=2, activation="relu"),
            nn.MaxPool2D(2),
            nn.Conv2D(16, 5, activation="relu"),
            nn.MaxPool2D(2),
            nn.Dense(120, activation="relu"),
            nn.Dense(84, activation="relu"),
            nn.Dense(10),
        )
    images = random.randn(batch, channels, side, side).astype("f")
    return net, mx.nd.array(images), mx.nd.array(random.randint(0, 10, batch))


def train(name: str, manner: str, bucket_bytes: int, seconds: float) -> None:
    """Train one model; rank 0 prints the figures of the group."""
    import phonograd as mx

    group = mx.distributed.world()
    if manner == "apart":
        mx.distributed.use(mx.distributed.LocalCommunicator())
    if bucket_bytes:
        # overlap with the backward pass, also where there is no free core
        mx.settings.update(bucket_bytes=bucket_bytes)
        group.hides_transfers = True
    batch = MODELS[name]
    net, data, classes = network_of(mx, name)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    parameters = None if manner in ("none", "apart") else {"type": manner, "threshold": 0.5}
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.01}, kvstore="dist_sync", compression_params=parameters
    )

    def step() -> None:
        with mx.autograd.record():
            loss = loss_of(net(data), classes)
        loss.backward()
        trainer.step(batch * mx.distributed.size())
        mx.nd.waitall()

    best = measure(step, lambda go_on: bool(group.all_reduce([np.array([go_on])], "min")[0][0]), seconds)
    before, cpu, count = mx.distributed.statistics(), time.process_time(), 10
    for _ in range(count):
        step()
    after, cpu = mx.distributed.statistics(), time.process_time() - cpu
    if group.rank == 0:
        found = {
            "examples_per_second": batch * group.size / best,
            "step_seconds": best,
            "cpu_seconds": cpu / count,
            "transfer_seconds": (after.transfer_seconds - before.transfer_seconds) / count,
            "exposed_seconds": (after.exposed_seconds - before.exposed_seconds) / count,
            "operations": (after.operations - before.operations) / count,
            "gradient_bytes": sum(
                [4 * value.data().size for value in net.collect_params().values() if value.grad_req != "null"]
            ),
        }
        print(json.dumps(found), flush=True)


def reduce(seconds: float) -> None:
    """Time reductions of several sizes, ours and bare ones of MPI in turn; rank 0 prints the times."""
    from mpi4py import MPI

    import phonograd as mx

    group, found = mx.distributed.world(), {}
    for size in SIZES:
        given, result = np.ones(size, "f"), np.empty(size, "f")
        calls: dict[str, Callable[[], Any]] = {
            "bare": lambda a=given, b=result: MPI.COMM_WORLD.Allreduce(a, b),  # type: ignore[misc]
            "ours": lambda a=given: group.all_reduce([a]),  # type: ignore[misc]
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        begin = time.perf_counter()
        while group.all_reduce([np.array([time.perf_counter() - begin])], "min")[0][0] < seconds:
            for name, call in calls.items():
                for _ in range(5):
                    MPI.COMM_WORLD.Barrier()
                    start = time.perf_counter()
                    call()
                    times[name].append(time.perf_counter() - start)
        found[size] = {name: sorted(each)[len(each) // 4] for name, each in times.items()}
    if group.rank == 0:
        print(json.dumps(found), flush=True)


# -- PyTorch


def network_of_torch(name: str) -> tuple[Any, Any, Any]:
    """Return the same network and a batch."""
    import torch
    from torch import nn

    batch = MODELS[name]
    if name == "lstm":
        words = torch.randint(0, WORDS, (batch, LENGTH + 1))

        class Language(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.embedding, self.lstm = nn.Embedding(WORDS, UNITS), nn.LSTM(UNITS, UNITS, batch_first=True)
                self.out = nn.Linear(UNITS, WORDS)

            def forward(self, x: Any) -> Any:
                return self.out(self.lstm(self.embedding(x))[0]).reshape(-1, WORDS)

        return Language(), words[:, :-1], words[:, 1:].reshape(-1)
    if name == "lenet":
        net = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip
        return net, torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
            )  # fmt: skip
            changes = stride != 1 or before != after
            shortcut = (nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)) if changes else ()
            self.shortcut = nn.Sequential(*shortcut)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.main(x) + self.shortcut(x))

    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    widths += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    net = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *[Block(*each) for each in widths], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    return net, torch.randn(batch, 3, 64, 64), torch.randint(0, 10, (batch,))


def train_torch(name: str, rank: int, size: int, address: str, seconds: float) -> None:
    """Train one model with DistributedDataParallel over gloo; rank 0 prints the examples per second."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    host, port = address.split(":")
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
    torch.manual_seed(0)
    net, data, classes = network_of_torch(name)
    wrapped = nn.parallel.DistributedDataParallel(net) if size > 1 else net
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.01)
    loss_of = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss_of(wrapped(data), classes).backward()
        optimizer.step()

    def agree(go_on: bool) -> bool:
        flag = torch.tensor([float(go_on)])
        torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MIN)
        return bool(flag.item())

    best = measure(step, agree, seconds)
    if rank == 0:
        print(json.dumps({"examples_per_second": MODELS[name] * size / best}), flush=True)


if __name__ == "__main__":
    main()
