"""Write ``surface.json``, the names and arguments of MXNet 1.9.1's array API, and pickles made by it.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1.
"""

import inspect
import json
import os
import pickle

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments(function):
    """Return the argument names of a function, or None where Python cannot tell."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def functions(namespace):
    """Return the public functions of a module with their argument names."""
    found = {}
    for name in dir(namespace):
        value = getattr(namespace, name)
        if not name.startswith("_") and inspect.isroutine(value):
            found[name] = arguments(value)
    return found


def main():
    """Write all files."""
    import mxnet as mx

    assert mx.__version__ == "1.9.1", mx.__version__
    nd = mx.nd
    surface = {
        "NDArray": [name for name in dir(nd.NDArray) if not name.startswith("_")],
        "nd": functions(nd),
        "contrib": functions(nd.contrib),
        "linalg": functions(nd.linalg),
        "random": functions(nd.random),
    }
    with open(os.path.join(HERE, "surface.json"), "w", encoding="utf-8") as file:
        json.dump(surface, file, indent=1, sort_keys=True)
        file.write("\n")
    pickled = {
        "float32": nd.array([[1.5, -2.0], [0.0, 3.25]]),
        "context": nd.array([7, 8], ctx=mx.cpu(1)),
        "shared": [nd.arange(3), {"lr": 0.1, "ctx": mx.cpu(2)}],
        "cpu_pinned": mx.cpu_pinned(1),
    }
    for name in ("float64", "float16", "uint8", "int32", "int8", "int64", "bool"):
        pickled[name] = nd.array(np.array([[0, 1, 2]]), dtype=name)
    for protocol in (0, 2, 4):
        with open(os.path.join(HERE, f"mxnet-protocol-{protocol}.pickle"), "wb") as file:
            pickle.dump(pickled, file, protocol)


if __name__ == "__main__":
    main()
