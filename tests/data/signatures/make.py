"""Write ``signatures.json``: the parameters of the functions in MXNet 1.9.1's smaller modules.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1.
"""

import importlib
import inspect
import json
import os

MODULES = [
    "test_utils",
    "util",
    "attribute",
    "name",
    "runtime",
    "engine",
    "base",
    "libinfo",
    "contrib.autograd",
    "ndarray.utils",
]


def parameters(function):
    """Return [name, kind, default as text or None] of each parameter."""
    return [
        [item.name, item.kind.name, None if item.default is item.empty else repr(item.default)]
        for item in inspect.signature(function).parameters.values()
    ]


def main():
    """Write the signatures of every public function, class and method that stands in the modules."""
    import mxnet

    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    result = {}
    for name in MODULES:
        module = importlib.import_module("mxnet." + name)
        found = result[name] = {}
        for key, value in sorted(vars(module).items()):
            if key.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(value):
                found[key] = parameters(value)
            elif inspect.isclass(value):
                for method, function in sorted(vars(value).items()):
                    if inspect.isfunction(function) and (method == "__init__" or not method.startswith("_")):
                        found[f"{key}.{method}"] = parameters(function)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "signatures.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
