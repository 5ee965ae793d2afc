"""Training steps in float32, bfloat16 and float16: time and memory, beside PyTorch's autocast.

    python -m benchmarks.precision [--torch /path/to/python] [--threads N] [--write] [network ...]

Each row runs in processes of its own, which take turns. ``ms`` is the fastest of some steps, on one thread in processor
time (other programs disturb it least), else in wall time; it is measured after all kernels were compiled in full.
``peak`` is that of the resident memory in such steps, above that of the process with the library loaded: data,
parameters, gradients, activations and scratch memory. Kernels are compiled by an earlier process.

``activations`` are the values that the forward pass computes from the data and that the backward pass reads, without
the data themselves, in bytes. Here the plan of a step lists them; PyTorch's are the tensors that it saves for the
backward pass. ``saved`` is the share of them that float32 needs more. Parameters in 16 bits do not belong to them.

Everything is limited in time: a row measures as many steps as fit into SECONDS, at least one, and a process that takes
longer than MOST_SECONDS is stopped. PyTorch takes seconds for a step in 16 bits on processors without instructions for
it. ``steps`` is the number of steps that were measured. ``--write`` keeps the results and writes docs/precision.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine, report

HERE = Path(__file__).parent
#: precisions by library: float16 on a CPU is not PyTorch's
PRECISIONS = {"phonograd": ("float32", "bfloat16", "float16"), "torch": ("float32", "bfloat16")}
#: networks, and the most steps that are measured
ROWS = {"mlp": 20, "lstm": 16, "encoder": 16, "resnet18": 10}
#: steps before the measurement, if SECONDS suffice for them, and in any case
WARM_UP, LEAST_WARM_UP = 6, 2
#: time that the steps before the measurement may take, and those of it; a first step that takes longer is the only one
SECONDS = 2.5
#: time after which a process is stopped
MOST_SECONDS = 90

_WIDTH, _LENGTH = 256, 64
_SHAPES = {"mlp": (1024, 1024), "lstm": (64, 32, 128), "resnet18": (16, 3, 112, 112), "encoder": (32, _LENGTH, _WIDTH)}


def _status(name: str) -> float:
    """Return one of the system's figures about this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024


def _measure(
    step: Callable[[], None], steps: int, before: float, threads: int, tidy: Callable[[], None] | None = None
) -> dict[str, float]:
    """Return the figures of steps; ``tidy`` compiles all kernels, and returns memory that is not used."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[float] = []

    def timed() -> None:
        start = clock()
        step()
        times.append(clock() - start)

    timed()
    if times[0] < SECONDS:
        begin = time.perf_counter()
        # graphs that return are planned in the background
        for number in range(WARM_UP):
            step()
            if number >= LEAST_WARM_UP and time.perf_counter() - begin > SECONDS:
                break
        if tidy is not None:
            for _ in range(3):
                tidy()
                step()
            tidy()
        # resets the peak of resident memory
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        times.clear()
        begin = time.perf_counter()
        while len(times) < steps and (not times or time.perf_counter() - begin < SECONDS):
            timed()
    return {"milliseconds": 1e3 * min(times), "steps": len(times), "megabytes": _status("VmHWM") - before}


def _network(name: str) -> Any:
    from phonograd import gluon

    nn = gluon.nn
    if name == "resnet18":
        return gluon.model_zoo.vision.resnet18_v1(classes=10)
    net = nn.HybridSequential()
    if name == "mlp":
        for _ in range(3):
            net.add(nn.Dense(1024, activation="relu"))
    elif name == "lstm":
        net.add(gluon.rnn.LSTM(256, 2, layout="NTC"))
    else:
        for _ in range(2):
            net.add(_layer())
    net.add(nn.Dense(10))
    return net


def _layer() -> Any:
    """Return a layer of an encoder: attention and a feed-forward network, each with a residual connection."""
    from phonograd import gluon

    class Layer(gluon.HybridBlock):
        heads = 4

        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.parts = gluon.nn.Dense(3 * _WIDTH, flatten=False)
                self.joined = gluon.nn.Dense(_WIDTH, flatten=False)
                self.inner = gluon.nn.Dense(4 * _WIDTH, flatten=False, activation="relu")
                self.outer = gluon.nn.Dense(_WIDTH, flatten=False)
                self.first, self.second = gluon.nn.LayerNorm(), gluon.nn.LayerNorm()

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            parts = F.transpose(self.parts(x), axes=(1, 0, 2))
            scores = F.softmax(F.contrib.interleaved_matmul_selfatt_qk(parts, heads=self.heads))
            mixed = F.contrib.interleaved_matmul_selfatt_valatt(parts, scores, heads=self.heads)
            x = self.first(F.broadcast_add(x, self.joined(F.transpose(mixed, axes=(1, 0, 2)))))
            return self.second(F.broadcast_add(x, self.outer(self.inner(x))))

    return Layer()


def run_phonograd(name: str, precision: str, threads: int) -> dict[str, float]:
    """Return the figures of training steps with this library."""
    import phonograd as mx
    from phonograd import autograd, gluon, nd
    from phonograd.contrib import amp
    from phonograd.core.run import kernel_cache

    mx.settings.update(num_threads=threads)
    (nd.ones((8, 8)) * 2).asnumpy()
    before = _status("VmRSS")
    is_mixed = precision != "float32"
    if is_mixed:
        amp.init(precision)
    mx.random.seed(0)
    net = _network(name)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    data = nd.random.normal(shape=_SHAPES[name])
    label = nd.array(np.random.default_rng(0).integers(0, 10, data.shape[0]))
    net(data)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    if is_mixed:
        amp.init_trainer(trainer)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    head = nd.ones((data.shape[0],))

    def forward_and_backward() -> Any:
        with autograd.record():
            loss = loss_of(net(data), label)
            if is_mixed:
                with amp.scale_loss(loss, trainer) as scaled:
                    autograd.backward(scaled, head)
        if not is_mixed:
            loss.backward(head)
        return loss

    def step() -> None:
        forward_and_backward()
        trainer.step(data.shape[0])
        nd.waitall()

    def tidy() -> None:
        kernel_cache.wait_for_tier_up()
        mx.cpu().empty_cache()

    figures = _measure(step, ROWS[name], before, threads, tidy)
    counts = kernel_cache.statistics
    compiled = counts.kernels_compiled + counts.kernels_improved
    loss = forward_and_backward()
    gradients = [each.grad() for each in net.collect_params().values() if each.grad_req != "null"]
    kept = activation_bytes(loss, gradients, data, head) / 2**20
    return {**figures, "activations": kept, "compiled": compiled}


def activation_bytes(loss: Any, gradients: list[Any], data: Any, head: Any) -> int:
    """Return the bytes of activations in the plan that computes a loss and its gradients, which are not known yet.

    ``head`` is the gradient of the loss: the backward pass is all that depends on both it and the data.
    """
    from phonograd.core.array.handle import place_of
    from phonograd.core.plan.native_program import NativeProgram

    trace = place_of(loss)[0]
    targets = [place_of(array)[1] for array in (loss, *gradients)]
    program = NativeProgram([node for node in targets if node is not None], lambda node: node in trace.values)
    leaves = {id(array): place_of(array)[1] for array in (data, head)}
    known: dict[Any, tuple[bool, bool]] = {}

    def depends(node: Any) -> tuple[bool, bool]:
        """Return whether a value depends on the data, and on the gradient of the loss."""
        stack = [node]
        while stack:
            missing = [each for each in stack[-1].inputs if each not in known]
            if missing:
                stack += missing
                continue
            here = stack.pop()
            own = here is leaves[id(data)], here is leaves[id(head)]
            found = [own, *[known[each] for each in here.inputs]]
            known[here] = any([first for first, _ in found]), any([second for _, second in found])
        return known[node]

    parts = program.parts
    turn = next(number for number, part in enumerate(parts) if any([all(depends(node)) for node in part.nodes]))
    read = {node for part in parts[turn:] for node in part.memory}
    made = {node for part in parts[:turn] for node in part.written}
    kept = [node for node in made & read if depends(node)[0] and node not in program.inputs]
    return sum([node.size * node.dtype.itemsize for node in kept])


def run_torch(name: str, precision: str, threads: int) -> dict[str, float]:
    """Return the figures of training steps with PyTorch and autocast."""
    import torch
    from torch import nn

    class Last(nn.Module):  # type: ignore[misc, unused-ignore]
        def forward(self, x: Any) -> Any:
            return (x[0] if isinstance(x, tuple) else x).flatten(1)

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    torch.mm(torch.randn(64, 64), torch.randn(64, 64))
    before, shape = _status("VmRSS"), _SHAPES[name]
    if name == "mlp":
        layers = [layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
        net = nn.Sequential(*layers, nn.Linear(1024, 10))
    elif name == "lstm":
        net = nn.Sequential(nn.LSTM(128, 256, 2, batch_first=True), Last(), nn.Linear(32 * 256, 10))
    elif name == "encoder":
        one = nn.TransformerEncoderLayer(_WIDTH, 4, 4 * _WIDTH, dropout=0.0, batch_first=True)
        net = nn.Sequential(nn.TransformerEncoder(one, 2), Last(), nn.Linear(_LENGTH * _WIDTH, 10))
    else:
        from benchmarks.distributed_worker import network_of_torch

        net = network_of_torch("resnet18")[0]
    data = torch.randn(*shape)
    label = torch.randint(0, 10, (shape[0],))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    dtype = torch.float16 if precision == "float16" else torch.bfloat16

    def loss_of(some: Any, labels: Any) -> Any:
        with torch.autocast("cpu", dtype, enabled=precision != "float32"):
            return nn.functional.cross_entropy(net(some), labels)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(data, label).backward()
        optimizer.step()

    def saved_bytes(batches: int) -> int:
        """Return the bytes of all tensors that are saved for a backward pass, each memory once."""
        sizes: dict[int, int] = {}

        def note(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        some, labels = torch.cat([data] * batches), torch.cat([label] * batches)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            loss = loss_of(some, labels)
        sizes.pop(some.data_ptr(), None)
        del loss
        return sum(sizes.values())

    figures = _measure(step, ROWS[name], before, threads)
    # parameters are saved, too: activations are those of one batch more
    return {**figures, "activations": (saved_bytes(2) - saved_bytes(1)) / 2**20}


_LIBRARIES = {"phonograd": run_phonograd, "torch": run_torch}


def _row(python: str, *row: str) -> dict[str, float] | str:
    """Return the figures of a process, or its error."""
    command = [python, "-W", "ignore", "-m", "benchmarks.precision", "--row", *row]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return f"stopped after {MOST_SECONDS} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _figures(python: str, *row: str) -> dict[str, float] | str:
    """Return the figures of a row."""
    found = _row(python, *row)
    for _ in range(2):
        # the memory of the compiler is not counted: kernels are compiled by earlier processes
        if isinstance(found, dict) and found.get("compiled"):
            found = _row(python, *row)
    if isinstance(found, dict) and found.pop("compiled", 0):
        return "kernels were still compiled in the third process: run it again"
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(ROWS), help="networks to measure")
    parser.add_argument("--torch", help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the results of all networks and write the page")
    parser.add_argument("--row", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.row:
        name, library, precision, threads = given.row
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
        print(json.dumps(_LIBRARIES[library](name, precision, int(threads))))
        return
    unknown = set(given.networks) - set(ROWS)
    if unknown or (given.write and list(given.networks) != list(ROWS)):
        parser.error(f"networks are {', '.join(ROWS)}, and --write keeps the results of all of them")
    pythons = {"phonograd": sys.executable, **({"torch": given.torch} if given.torch else {})}
    rows = []
    for name in given.networks:
        for library, python in pythons.items():
            for precision in PRECISIONS[library]:
                found = _figures(python, name, library, precision, str(given.threads))
                facts = {"error": found} if isinstance(found, str) else found
                rows.append({"network": name, "library": library, "precision": precision, **facts})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    results = {"machine": machine.description(), "threads": given.threads, "rows": rows}
    print("\n".join(report.precision({"precision": results})))
    if given.write:
        (HERE / "results" / "precision.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        report.write_pages()


if __name__ == "__main__":
    main()
