"""Measure whether a DataLoader keeps a training loop fed: ``python -m benchmarks.loader``.

LeNet trains on images that two worker processes prepare (uint8 images, ``ToTensor`` and ``Normalize``, batches of 64).
Three figures are measured by wall time, in one process per library: the images per second of training on one fixed
batch, the images per second of the loader alone, and the share of time that training waits for the loader when both run
together. The same code runs in phonograd and in MXNet, if a Python has it (:mod:`benchmarks.compare` describes how it
is found).
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
IMAGES, BATCH, WORKERS, PASSES = 12_800, 64, 2, 3
LIBRARIES = ("phonograd", "mxnet")


def loader_of(mx: Any, workers: int) -> Any:
    """Return a loader of MNIST-like images."""
    data, transforms = mx.gluon.data, mx.gluon.data.vision.transforms
    draw = np.random.RandomState(0)
    images = mx.nd.array(draw.randint(0, 256, (IMAGES, 28, 28, 1)), dtype="uint8")
    labels = draw.randint(0, 10, IMAGES).astype("int32")
    prepare = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.13, 0.31)])
    dataset = data.ArrayDataset(images, labels).transform_first(prepare)
    return data.DataLoader(dataset, BATCH, shuffle=True, num_workers=workers)


def trainer_of(mx: Any) -> Any:
    """Return a training step of LeNet as a function of a batch."""
    gluon, autograd = mx.gluon, mx.autograd
    net = importlib.import_module("workloads_nd").lenet_of_layers(mx)
    net.initialize(mx.init.Normal(0.05))
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

    def step(images: Any, labels: Any) -> None:
        # MXNet's workers leave their batches in shared memory
        images, labels = images.as_in_context(mx.cpu()), labels.as_in_context(mx.cpu())
        with autograd.record():
            loss = loss_of(net(images), labels)
        loss.backward()
        trainer.step(BATCH)
        mx.nd.waitall()

    return step


def answer(library: str) -> None:
    """Print the figures of a library as one line of JSON."""
    sys.path.insert(0, str(HERE))
    mx: Any = importlib.import_module(library)
    loader, step = loader_of(mx, WORKERS), trainer_of(mx)
    batches = list(loader)
    for images, labels in batches[:10]:
        step(images, labels)
    start = time.perf_counter()
    for _ in batches:
        step(*batches[0])
    training = time.perf_counter() - start
    alone, together, waited = [], [], []
    for _ in range(PASSES):
        start = time.perf_counter()
        for _ in loader:
            pass
        alone.append(time.perf_counter() - start)
        start, waiting = time.perf_counter(), 0.0
        before = start
        for images, labels in loader:
            waiting += time.perf_counter() - before
            step(images, labels)
            before = time.perf_counter()
        together.append(before - start)
        waited.append(waiting)
    best = min(range(PASSES), key=together.__getitem__)
    facts = {
        "training": IMAGES / training,
        "loading": IMAGES / min(alone),
        "both": IMAGES / together[best],
        "waiting": waited[best] / together[best],
    }
    print(json.dumps(facts))


def main() -> int:
    """Measure the installed libraries and return an exit status."""
    if sys.argv[1:2] == ["--here"]:
        answer(sys.argv[2])
        return 0
    from benchmarks.compare import python_of

    results: dict[str, dict[str, float]] = {}
    for library in LIBRARIES:
        python = sys.executable if library == "phonograd" else python_of(library)
        if python is None:
            continue
        command = [python, "-W", "ignore", str(HERE / "loader.py"), "--here", library]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        facts = results[library] = json.loads(found.stdout)
        rates = [f"{name} {facts[name]:,.0f} images/s" for name in ("training", "loading", "both")]
        print(f"{library:10s} {', '.join(rates)}, waiting {facts['waiting']:.1%}", flush=True)
    (HERE / "results" / "loader.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
