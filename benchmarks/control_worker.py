"""Measure small operations that end with a value, in one library: run by ``python -m benchmarks.control``.

``python control_worker.py LIBRARY`` prints microseconds of processor time by operation as one line of JSON.
"""

import contextlib
import importlib
import json
import sys
import time

CALLS = 100
ROUNDS = 15
#: the processor time after which no further round begins
SECONDS = 0.5


class Mxnet:
    """MXNet's interface, in phonograd and in MXNet itself."""

    def __init__(self, module):
        self._nd, self.record = module.nd, module.autograd.record

    def ones(self, *shape):
        """Return an array of ones in memory."""
        made = self._nd.ones(shape)
        made.wait_to_read()
        return made

    def variable(self, *shape):
        """Return a variable."""
        made = self.ones(*shape)
        made.attach_grad()
        return made

    def number(self, array):
        """Return the only element of an array."""
        return array.asscalar()

    def numpy(self, array):
        """Return the values of an array."""
        return array.asnumpy()


class Torch:
    """PyTorch's interface, which always records operations on variables."""

    def __init__(self, module):
        module.set_num_threads(1)
        self._torch, self.record = module, contextlib.nullcontext

    def ones(self, *shape):
        """Return an array of ones."""
        return self._torch.ones(shape)

    def variable(self, *shape):
        """Return a variable."""
        return self.ones(*shape).requires_grad_(True)

    def number(self, array):
        """Return the only element of an array."""
        return array.item()

    def numpy(self, array):
        """Return the values of an array."""
        return array.detach().numpy().copy()


def operations(library):
    """Return the operations by name."""
    number, numpy, record = library.number, library.numpy, library.record
    one, x, table, v = library.ones(1), library.ones(5), library.ones(5, 4), library.variable(5)
    known = iter(range(1, 1 << 30))

    def recorded(function):
        def run():
            with record():
                return function()

        return run

    return {
        "number of a known array": lambda: number(one),
        "x[i]": lambda: x[2],
        "number of x[i]": lambda: number(x[2]),
        "if x < 2": lambda: bool(one < 2),
        "x * 0.5, then its values": lambda: numpy(table * 0.5),
        "x * another number, then its number": lambda: number(one * next(known)),
        "print(x), known": lambda: repr(table),
        "print(x * 0.5)": lambda: repr(table * 0.5),
        "recorded: (v * 0.5).sum(), then its number": recorded(lambda: number((v * 0.5).sum())),
        "recorded: if (v * 0.5).sum() < 2": recorded(lambda: bool((v * 0.5).sum() < 2)),
        "recorded: v[i] * 2, then its number": recorded(lambda: number(v[2] * 2)),
    }


def best(function):
    """Return microseconds of a call, the best of some rounds; calls that become machine code do so before."""
    end = time.process_time() + SECONDS
    times = []
    for count in range(2 * ROUNDS):
        start = time.process_time()
        for _ in range(CALLS):
            function()
        times.append((time.process_time() - start) / CALLS * 1e6)
        if time.process_time() > end:
            break
        if count < ROUNDS:
            time.sleep(0.01)
    return min(times)


def main():
    """Measure all operations and print the times."""
    module = importlib.import_module(sys.argv[1])
    library = (Torch if sys.argv[1] == "torch" else Mxnet)(module)
    print(json.dumps({name: best(function) for name, function in operations(library).items()}))


if __name__ == "__main__":
    main()
