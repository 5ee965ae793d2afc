"""Time workloads in one library, in a process of its own; prints one JSON line per round it is asked for.

Run by :mod:`benchmarks`, not by hand: ``python worker.py LIBRARY`` reads workload names from standard input, one a
line, and answers each with the best time in seconds. The library is phonograd or mxnet; both have the same interface.
"""

import importlib
import itertools
import json
import resource
import sys
import time

REPEATS = 40


def chain(mx, size, length=25):
    """Record, differentiate and read a chain of 2 * length operators on a small array."""
    nd, autograd = mx.nd, mx.autograd
    x = nd.ones((size,))
    w = nd.ones((size,)) * 0.5
    w.attach_grad()

    def step():
        with autograd.record():
            y = x
            for _ in range(length):
                y = nd.tanh(y * w)
        y.backward()
        w.grad.wait_to_read()

    return step


def regression(mx, rows=64, columns=32):
    """One step of linear regression with gradient descent."""
    nd, autograd = mx.nd, mx.autograd
    x, y = nd.ones((rows, columns)), nd.ones((rows, 1))
    w, b = nd.zeros((columns, 1)), nd.zeros((1,))
    w.attach_grad()
    b.attach_grad()

    def step():
        with autograd.record():
            loss = nd.mean(nd.square(nd.dot(x, w) + b - y))
        loss.backward()
        for parameter in (w, b):
            parameter -= 0.01 * parameter.grad
        w.wait_to_read()

    return step


def perceptron(mx, batch=64):
    """One step of a 784-256-128-10 network with softmax loss and gradient descent."""
    nd, autograd = mx.nd, mx.autograd
    data, label = nd.random.uniform(shape=(batch, 784)), nd.arange(batch) % 10
    sizes = (784, 256, 128, 10)
    parameters = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        parameters += [nd.random.normal(scale=0.05, shape=(fan_in, fan_out)), nd.zeros((fan_out,))]
    for parameter in parameters:
        parameter.attach_grad()

    def step():
        with autograd.record():
            h = data
            for layer in range(3):
                h = nd.dot(h, parameters[2 * layer]) + parameters[2 * layer + 1]
                if layer < 2:
                    h = nd.relu(h)
            loss = -nd.pick(nd.log_softmax(h), label)
        loss.backward()
        for parameter in parameters:
            parameter -= 0.01 / batch * parameter.grad
        parameters[0].wait_to_read()

    return step


WORKLOADS = {
    "chain of 50 operators on 10 floats, forward + backward": lambda mx: chain(mx, 10),
    "chain of 50 operators on 1000 floats, forward + backward": lambda mx: chain(mx, 1000),
    "linear regression 64x32, step": regression,
    "perceptron 784-256-128-10, batch 64, step": perceptron,
}


def flat_memory(mx):
    """Return how many KiB the process grows by over 10,000 iterations of a loop, after 1,000 to warm up."""
    step = chain(mx, 10, 5)
    for _ in range(1000):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def main() -> None:
    started = time.perf_counter()
    mx = importlib.import_module(sys.argv[1])
    imported = time.perf_counter() - started
    steps = {}
    for line in sys.stdin:
        name = line.strip()
        if name == "import":
            answer = imported
        elif name == "memory":
            answer = flat_memory(mx)
        else:
            if name not in steps:
                steps[name] = WORKLOADS[name](mx)
                for _ in range(5):
                    steps[name]()
            answer = float("inf")
            for _ in range(REPEATS):
                start = time.perf_counter()
                steps[name]()
                answer = min(answer, time.perf_counter() - start)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
