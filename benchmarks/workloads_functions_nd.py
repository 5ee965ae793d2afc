"""Define transcendental functions of arrays in MXNet's interface: in a cache, and of 4 million numbers."""

import numpy

#: elements of an array
SIZES = {"16k": 1 << 14, "4M": 4_000_000}
NAMES = ("exp", "tanh", "sigmoid", "log", "erf", "power", "sin", "expm1", "log1p")


def data(name, size):
    """Return the arguments: positive ones for functions that need them."""
    generator = numpy.random.default_rng(0)
    arrays = [generator.standard_normal(size).astype("float32") for _ in range(1 + (name == "power"))]
    if name in ("log", "log1p", "power"):
        arrays[0] = numpy.abs(arrays[0]) + numpy.float32(0.001)
    return arrays


def _maker(name, size):
    def make(mx):
        arrays = [mx.nd.array(array) for array in data(name, size)]
        function = getattr(mx.nd, "broadcast_power" if name == "power" else name)

        def step():
            function(*arrays).wait_to_read()

        return step

    return make


WORKLOADS = {f"{name} {label}": _maker(name, size) for name in NAMES for label, size in SIZES.items()}
ONLY_PHONOGRAD = set()
