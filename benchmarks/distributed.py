"""Measure training on several processes: ``python -m benchmarks.distributed [--write] [--network]``.

*Models*: LeNet, ResNet-18 at 64x64 and an LSTM language model on 1 and 2 ranks with one thread each: examples per second
of all ranks, the speedup, and the share of communication that is hidden behind the backward pass. PyTorch's
DistributedDataParallel over gloo trains the same models on the same machine, if a Python has it
(:mod:`benchmarks.compare` describes how it is found). *Reductions*: bandwidth of ``all_reduce`` and of mpi4py's bare
``Allreduce``. *Model of larger groups*: the latency (alpha) and the time per byte (beta) of reductions, fitted to the
measured ones, give the step time of 8 to 1,000 ranks. ``--network`` puts the two ranks into network namespaces that are
joined by a link of 1 Gbit/s, with 1 ms of delay if the kernel has netem; it needs root.

Runs alternate, and the best of several counts. The load of the machine is recorded: on a busy machine, ranks wait for
cores, and only ratios of runs side by side mean anything. ``--write`` puts the table into docs/distributed.md.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "distributed.json"
PAGE = ROOT / "docs" / "distributed.md"
BEGIN, END = "<!-- figures of benchmarks.distributed -->", "<!-- end of figures -->"
MODELS = {"lenet": 64, "resnet18": 16, "lstm": 20}
SIZES = (1_000, 10_000, 100_000, 1_000_000, 6_000_000)
SECONDS = 4.0
#: the program with which mpiexec reaches other machines
_AGENT = "PRTE_MCA_plm_ssh_agent"


# -- in the ranks: phonograd


def network_of(mx: Any, name: str, batch: int) -> tuple[Any, Any, Any]:
    """Return a network and one batch of data and classes."""
    nn, random = mx.gluon.nn, np.random.RandomState(0)
    if name == "lstm":
        net = mx.gluon.nn.HybridSequential()
        net.add(nn.Embedding(1000, 200), mx.gluon.rnn.LSTM(200, layout="NTC"), nn.Dense(1000, flatten=False))
        words = random.randint(0, 1000, (batch, 36))
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


def train(name: str, compression: str = "none") -> None:
    """Train one model, and print the figures of this group as JSON."""
    import phonograd as mx

    batch = MODELS[name]
    net, data, classes = network_of(mx, name, batch)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    parameters = None if compression == "none" else {"type": compression, "threshold": 0.5}
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.01}, kvstore="dist_sync", compression_params=parameters
    )

    def step() -> None:
        with mx.autograd.record():
            loss = loss_of(net(data), classes)
        loss.backward()
        trainer.step(batch * mx.distributed.size())
        mx.nd.waitall()

    group = mx.distributed.world()
    seconds, steps = measure(step, lambda go_on: bool(group.all_reduce([np.array([go_on])], "min")[0][0]))
    before = mx.distributed.statistics()
    for _ in range(10):
        step()
    after = mx.distributed.statistics()
    transfer = after.transfer_seconds - before.transfer_seconds
    exposed = after.exposed_seconds - before.exposed_seconds
    waiting = after.waiting_seconds - before.waiting_seconds
    size = sum([value.data().size for value in net.collect_params().values()])
    if group.rank == 0:
        found = {
            "examples_per_second": steps * batch * group.size / seconds,
            "hidden": max(0.0, 1 - exposed / (transfer + waiting)) if transfer else None,
            "transfer_milliseconds": 100 * transfer,
            "parameters": size,
        }
        print(json.dumps(found), flush=True)


def measure(step: Callable[[], None], agree: Callable[[bool], bool]) -> tuple[float, int]:
    """Return the seconds of a number of steps; all ranks agree when to stop."""
    begin = time.perf_counter()
    for _ in range(5):
        step()
    while agree(time.perf_counter() - begin < SECONDS / 2):
        step()
    begin, steps = time.perf_counter(), 0
    while True:
        for _ in range(5):
            step()
        steps += 5
        if not agree(time.perf_counter() - begin < SECONDS):
            return time.perf_counter() - begin, steps


def reduce() -> None:
    """Time reductions of several sizes, ours and bare ones in turn, and print them as JSON."""
    import phonograd as mx

    group = mx.distributed.world()
    from mpi4py import MPI

    found = {}
    for size in SIZES:
        given, result = np.ones(size, "f"), np.empty(size, "f")
        times: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(max(5, 200_000_000 // (size * 200))):
            for name, call in (
                ("bare", lambda a=given, b=result: MPI.COMM_WORLD.Allreduce(a, b)),
                ("ours", lambda a=given: group.all_reduce([a])),
            ):
                MPI.COMM_WORLD.Barrier()
                begin = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - begin)
        found[size] = {name: sorted(each)[len(each) // 4] for name, each in times.items()}
    if group.rank == 0:
        print(json.dumps(found), flush=True)


# -- in the ranks: PyTorch


def train_torch(name: str, rank: int, size: int, port: int) -> None:
    """Train one model with DistributedDataParallel, and print the examples per second as JSON."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
    torch.manual_seed(0)
    batch = MODELS[name]
    if name == "lstm":
        words = torch.randint(0, 1000, (batch, 36))
        data, classes = words[:, :-1], words[:, 1:].reshape(-1)

        class Language(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding, self.lstm = nn.Embedding(1000, 200), nn.LSTM(200, 200, batch_first=True)
                self.out = nn.Linear(200, 1000)

            def forward(self, x: Any) -> Any:
                return self.out(self.lstm(self.embedding(x))[0]).reshape(-1, 1000)

        net: Any = Language()
    elif name == "lenet":
        net = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip
        data, classes = torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    else:
        from torchvision.models import resnet18

        net = resnet18(num_classes=10)
        data, classes = torch.randn(batch, 3, 64, 64), torch.randint(0, 10, (batch,))
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

    seconds, steps = measure(step, agree)
    if rank == 0:
        print(json.dumps({"examples_per_second": steps * batch * size / seconds}), flush=True)


# -- outside of the ranks


def launch(ranks: int, *arguments: str, hosts: tuple[str, ...] = (), around: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what rank 0 prints."""
    places = ["--hosts", ",".join([f"{host}:1" for host in hosts])] if hosts else ["-n", str(ranks)]
    options = ["--threads", "1", "--plain", *places]
    command = [*around, sys.executable, "-m", "phonograd", "launch", *options, "-m", "benchmarks.distributed", "rank"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} with {ranks} ranks failed:\n{done.stdout}{done.stderr}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def launch_torch(python: str, name: str, ranks: int) -> dict[str, Any] | None:
    """Return what rank 0 prints; None if this Python lacks a package."""
    port = 20_000 + os.getpid() % 20_000
    words = [python, str(HERE / "distributed.py"), "torch", name]
    started = [
        subprocess.Popen([*words, str(rank), str(ranks), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=300) for process in started]
    if any([process.returncode for process in started]):
        print(f"PyTorch cannot train {name}: {outputs[0][1].strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(outputs[0][0].splitlines()[-1])


@contextlib.contextmanager
def slow_network() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Join two network namespaces by a link of 1 Gbit/s; yield their addresses and the command that enters the first."""

    def run(*words: str) -> int:
        return subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode

    try:
        for number in (1, 2):
            run("ip", "netns", "add", f"phonograd{number}")
        run(
            "ip",
            "link",
            "add",
            "pg1",
            "netns",
            "phonograd1",
            "type",
            "veth",
            "peer",
            "name",
            "pg2",
            "netns",
            "phonograd2",
        )
        for number in (1, 2):
            inside = ("ip", "netns", "exec", f"phonograd{number}")
            run(*inside, "ip", "addr", "add", f"10.77.0.{number}/24", "dev", f"pg{number}")
            for device in (f"pg{number}", "lo"):
                run(*inside, "ip", "link", "set", device, "up")
            shaped = (*inside, "tc", "qdisc", "add", "dev", f"pg{number}", "root")
            if run(*shaped, "netem", "rate", "1gbit", "delay", "1ms"):
                print("this kernel has no netem: the link has 1 Gbit/s and no delay", file=sys.stderr)
                if run(*shaped, "tbf", "rate", "1gbit", "burst", "128k", "latency", "50ms"):
                    raise SystemExit("cannot make a slow link: this needs root, ip and tc")
        with tempfile.TemporaryDirectory() as folder:
            agent = Path(folder, "agent")
            enter = 'exec ip netns exec phonograd$n unshare -u sh -c "hostname h$n; $*"\n'
            agent.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nn=${1##*.}; shift\n' + enter)
            agent.chmod(0o755)
            os.environ[_AGENT] = str(agent)
            yield ("10.77.0.1", "10.77.0.2"), ("sh", str(agent), "10.77.0.1")
    finally:
        os.environ.pop(_AGENT, None)
        for number in (1, 2):
            run("ip", "netns", "del", f"phonograd{number}")


def fit(times: dict[str, dict[str, float]]) -> tuple[float, float]:
    """Return alpha (seconds) and beta (seconds per byte) of a message, from reductions with two ranks."""
    sizes = np.array([4.0 * int(size) for size in times])
    seconds = np.array([each["ours"] for each in times.values()])
    # two ranks: two messages of half of the bytes each
    weights = 1 / seconds
    matrix = np.stack([2 * np.ones_like(sizes), sizes], axis=1) * weights[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(matrix, seconds * weights, rcond=None)
    return max(float(alpha), 0.0), max(float(beta), 0.0)


def modeled_efficiency(ranks: int, step: float, size: int, alpha: float, beta: float, hidden: float) -> float:
    """Return the share of the time of a group that computes, if a ring reduces gradients of a size in bytes.

    A ring has 2 (N - 1) messages of 1/N of the bytes. A share of it is hidden behind the backward pass, which takes two
    thirds of a step.
    """
    reduction = 2 * (ranks - 1) * (alpha + beta * size / ranks)
    exposed = max(reduction * (1 - hidden), reduction - step * 2 / 3)
    return step / (step + exposed)


def run_all(network: bool) -> dict[str, Any]:
    """Return all figures."""
    from benchmarks import compare

    torch_python = compare.python_of("torch") if hasattr(compare, "python_of") else None
    found: dict[str, Any] = {"load": os.getloadavg()[0], "cores": os.cpu_count(), "models": {}}
    for name in MODELS:
        entry = found["models"][name] = {"one": launch(1, "train", name), "two": launch(2, "train", name)}
        if torch_python:
            entry["torch"] = launch_torch(torch_python, name, 2)
    found["reductions"] = launch(2, "reduce")
    if network:
        with slow_network() as (hosts, around):
            found["network"] = {
                name: {
                    kind: launch(2, "train", name, kind, hosts=hosts, around=around) for kind in ("none", "2bit")
                }
                for name in MODELS
            }  # fmt: skip
    found["alpha"], found["beta"] = fit(found["reductions"])
    found["load_after"] = os.getloadavg()[0]
    return found


def table(found: dict[str, Any]) -> str:
    """Return the figures as a part of the page."""
    lines = [
        "| model | 1 rank | 2 ranks | speedup | communication hidden | PyTorch DDP, 2 ranks |",
        "|---|---|---|---|---|---|",
    ]
    for name, entry in found["models"].items():
        one, two = (entry[key]["examples_per_second"] for key in ("one", "two"))
        other = entry.get("torch")
        hidden = entry["two"]["hidden"]
        lines.append(
            f"| {name} | {one:.0f} examples/s | {two:.0f} | {two / one:.2f} | {'-' if hidden is None else f'{hidden:.0%}'}"
            f" | {other['examples_per_second']:.0f} |" if other else
            f"| {name} | {one:.0f} examples/s | {two:.0f} | {two / one:.2f} | {'-' if hidden is None else f'{hidden:.0%}'}"
            " | - |"
        )  # fmt: skip
    lines += ["", "| bytes | all_reduce | bare Allreduce |", "|---|---|---|"]
    for size, each in found["reductions"].items():
        lines.append(f"| {4 * int(size):,} | {1e3 * each['ours']:.3f} ms | {1e3 * each['bare']:.3f} ms |")
    lines += ["", "| ranks | " + " | ".join(found["models"]) + " |", "|---|" + "---|" * len(found["models"])]
    for ranks in (8, 32, 128, 512, 1000):
        shares = []
        for name, entry in found["models"].items():
            step = MODELS[name] / entry["one"]["examples_per_second"]
            size = 4 * entry["two"]["parameters"]
            share = modeled_efficiency(ranks, step, size, found["alpha"], found["beta"], entry["two"]["hidden"] or 0)
            shares.append(f"{share:.0%}")
        lines.append(f"| {ranks} | {' | '.join(shares)} |")
    for name, entry in found.get("network", {}).items():
        rates = {kind: each["examples_per_second"] for kind, each in entry.items()}
        lines += [
            "",
            f"{name} over a link of 1 Gbit/s: {', '.join([f'{kind} {rate:.0f}' for kind, rate in rates.items()])}",
        ]
    lines += ["", f"Load of the machine before and after: {found['load']:.1f}, {found['load_after']:.1f}."]
    return "\n".join(lines)


def main() -> None:
    """Run everything, or one rank."""
    if sys.argv[1:2] == ["rank"]:
        reduce() if sys.argv[2] == "reduce" else train(*sys.argv[3:])
        return
    if sys.argv[1:2] == ["torch"]:
        train_torch(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into docs/distributed.md")
    parser.add_argument("--network", action="store_true", help="also over a slow link between network namespaces")
    arguments = parser.parse_args()
    if importlib.util.find_spec("mpi4py") is None:
        raise SystemExit("this benchmark needs pip install 'phonograd[mpi]'")
    found = run_all(arguments.network)
    print(table(found))
    if math.ceil(found["load"]) > 1:
        print("the machine was busy before the runs: these figures are not to be published", file=sys.stderr)
    if arguments.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
