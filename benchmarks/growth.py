"""Measure the memory of a program that never repeats: ``python -m benchmarks.growth [turns] [node_limit=N]``.

Each turn makes another model of other sizes (a perceptron, convolutions, a recurrent cell, attention), trains it for
two steps and drops it. The resident size of the process shows what the library keeps for it: expressions, plans and
kernels. With arguments, the curve is printed; without, it is measured in a new process with an empty cache directory,
and stored.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TURNS = 1200
#: points of the curve
POINTS = 12


def resident() -> float:
    """Return the resident size of this process in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError("VmRSS")


def dense(mx: Any, draw: random.Random) -> Callable[[], Any]:
    """Return a step of a perceptron."""
    nd = mx.nd
    sizes = [draw.randrange(4, 64) for _ in range(draw.randrange(2, 9))]
    weights = [nd.ones((b, a)) * 0.1 for a, b in itertools.pairwise(sizes)]
    x = nd.ones((draw.randrange(2, 40), sizes[0]))

    def forward() -> Any:
        y = x
        for weight in weights:
            y = nd.tanh(nd.dot(y, weight.T))
        return nd.mean(y * y)

    return _trained(mx, weights, forward)


def convolutional(mx: Any, draw: random.Random) -> Callable[[], Any]:
    """Return a step of a small network on images."""
    nd = mx.nd
    channels, size = draw.randrange(1, 6), draw.randrange(10, 24)
    filters = [draw.randrange(2, 9) for _ in range(draw.randrange(1, 4))]
    weights = [nd.ones((b, a, 3, 3)) * 0.1 for a, b in zip([channels, *filters], filters, strict=False)]
    x = nd.ones((draw.randrange(1, 5), channels, size, size))

    def forward() -> Any:
        y = x
        for weight in weights:
            y = nd.Convolution(y, weight, kernel=(3, 3), num_filter=weight.shape[0], no_bias=True, pad=(1, 1))
            y = nd.relu(y)
        return nd.sum(nd.Pooling(y, kernel=(2, 2), stride=(2, 2), pool_type="max"))

    return _trained(mx, weights, forward)


def recurrent(mx: Any, draw: random.Random) -> Callable[[], Any]:
    """Return a step of a recurrent cell over some steps."""
    nd = mx.nd
    hidden, batch, steps = draw.randrange(4, 40), draw.randrange(1, 9), draw.randrange(3, 20)
    weights = [nd.ones((hidden, hidden)) * 0.1, nd.ones((hidden,))]
    x = nd.ones((steps, batch, hidden))

    def forward() -> Any:
        state, seen = nd.zeros((batch, hidden)), []
        for step in range(steps):
            state = nd.tanh(nd.dot(state, weights[0]) + x[step] * weights[1])
            seen.append(state)
        return nd.mean(nd.stack(*seen))

    return _trained(mx, weights, forward)


def attention(mx: Any, draw: random.Random) -> Callable[[], Any]:
    """Return a step of one head of attention."""
    nd = mx.nd
    length, width = draw.randrange(3, 30), draw.randrange(4, 40)
    weights = [nd.ones((width, width)) * 0.1 for _ in range(3)]
    x = nd.ones((length, width))

    def forward() -> Any:
        q, k, v = (nd.dot(x, weight) for weight in weights)
        return nd.sum(nd.dot(nd.softmax(nd.dot(q, k.T) / width**0.5), v) ** 2)

    return _trained(mx, weights, forward)


def _trained(mx: Any, weights: list[Any], forward: Callable[[], Any]) -> Callable[[], Any]:
    for weight in weights:
        weight.attach_grad()

    def step() -> Any:
        with mx.autograd.record():
            loss = forward()
        loss.backward()
        for weight in weights:
            weight -= 0.01 * weight.grad
        return loss.asscalar()

    return step


MODELS = (dense, convolutional, recurrent, attention)


def answer(turns: int, **limits: int) -> list[tuple[int, float]]:
    """Return the curve: turns so far, and the resident size in MiB."""
    import phonograd as mx

    if limits:
        mx.settings.update(**limits)
    draw = random.Random(0)
    curve = []
    for turn in range(turns + 1):
        if turn % max(turns // POINTS, 1) == 0:
            gc.collect()
            curve.append((turn, round(resident(), 1)))
            print(f"{turn:6d} {curve[-1][1]:8.1f} MiB {time.process_time():8.1f} s", file=sys.stderr, flush=True)
        step = draw.choice(MODELS)(mx, draw)
        for _ in range(2):
            step()
    return curve


def main() -> int:
    """Print the curve, or measure and store it, and return an exit status."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    limits = {name: int(value) for name, _, value in [word.partition("=") for word in sys.argv[1:]] if value}
    if len(sys.argv) > 1:
        print(json.dumps(answer(numbers[0] if numbers else TURNS, **limits)))
        return 0
    command = [sys.executable, str(HERE / "growth.py"), str(TURNS)]
    # the compiler takes memory, too
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": folder}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    (HERE / "results" / "growth.json").write_text(done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
