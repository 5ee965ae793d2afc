"""Functions of mx.np in symbols that are no single operator: ``sym.np.linalg.norm(x)``, ``sym.np.pad(x, 1)``.

An entry ``_np_function`` has the name of the function and its arguments as text, in which ``"<0>"`` stands for the
first input. It is computed by a call of the function, so gradients are recorded as for arrays. MXNet does not read
files with such entries. :mod:`.numpy_symbols` makes them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import numpy as functions
from .. import numpy_extension
from ..core.array.handle import as_class, make, node_in
from ..core.base.dtypes import as_array_dtype, name_of
from ..core.base.errors import MXNetError
from ..core.graph.interface import is_known
from ..core.graph.node import Node
from ..ndarray.array import NDArray
from ..util import np_array, np_shape
from .build import build
from .calls import Call, Environment, Outcome, Spec, default_output_names, special
from .entry import Head
from .graph import Symbol

__all__ = ["call_function", "find_function"]

#: functions with several results
_RESULTS = {
    "linalg.svd": 3,
    "linalg.eig": 2,
    "linalg.eigh": 2,
    "linalg.qr": 2,
    "linalg.slogdet": 2,
    "modf": 2,
    "frexp": 2,
    "divmod": 2,
    "histogram": 2,
}
_PLACE = re.compile(r"<(\d+)>")


def find_function(name: str) -> Callable[..., Any] | None:
    """Return a function of mx.np by its name, for example ``linalg.norm``; None if there is none.

    Names of mx.npx begin with ``npx.``: ``npx.random.bernoulli``.
    """
    *packages, own = name.split(".")
    place: Any = functions
    for package in packages:
        place = numpy_extension if package == "npx" else getattr(place, package)
    found = None if own.startswith("_") else getattr(place, own, None)
    return found if callable(found) and not isinstance(found, type) else None


def _count(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the number of results of a call."""
    if name == "meshgrid":
        return len(args)
    if name in ("array_split", "hsplit", "vsplit", "dsplit"):
        parts = args[1] if len(args) > 1 else kwargs["indices_or_sections"]
        return parts if isinstance(parts, int) else len(parts) + 1
    return _RESULTS.get(name, 1)


def call_function(kind: type[Symbol], function: str, /, *args: Any, **kwargs: Any) -> Any:
    """Return the symbol of a call, or a list of symbols if the call has several results."""
    inputs: list[Symbol] = []
    name = kwargs.pop("name", None)
    kwargs.pop("ctx", None)

    def described(value: Any) -> Any:
        if isinstance(value, Symbol):
            inputs.append(value)
            return f"<{len(inputs) - 1}>"
        if isinstance(value, (list, tuple)):
            return type(value)([described(each) for each in value])
        if isinstance(value, (np.dtype, type)):
            return name_of(value)
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError(f"sym.np.{function} takes symbols, numbers, texts and lists of them, not {type(value)}")

    given = tuple([described(each) for each in args])
    named = {key: described(value) for key, value in kwargs.items()}
    count = _count(function, given, named)
    parameters = {"function": function, "args": repr(given), "kwargs": repr(named), "num_outputs": str(count)}
    made = build("_np_function", function.rpartition(".")[2], inputs, parameters, name)
    heads = [kind([head]) for head in made._heads]
    return heads if count > 1 else heads[0]


class NumpyCall(Call):
    """A call of a function of mx.np."""

    looks_at_values = True

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        name = attributes.get("function", "")
        found = find_function(name) if re.fullmatch(r"(npx\.)?(linalg\.|random\.)?[a-z][a-z0-9_]*", name) else None
        if found is None:
            raise MXNetError(f"mx.np has no function {name!r}, which the operator _np_function names")
        self.function = found
        try:
            self.args = ast.literal_eval(attributes["args"])
            self.kwargs = ast.literal_eval(attributes["kwargs"])
            count = int(attributes["num_outputs"])
        except (KeyError, ValueError, SyntaxError) as error:
            raise MXNetError(f"the arguments of the operator _np_function ({name}) are damaged: {error}") from None
        self.is_random = "random." in name
        self.argument_names = tuple([f"data{number}" for number in range(inputs)])
        self.output_names = default_output_names(count)
        self.visible = count

    def _run(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        def value_of(each: Any) -> Any:
            if isinstance(each, str) and (place := _PLACE.fullmatch(each)):
                return arrays[int(place[1])]
            return type(each)([value_of(part) for part in each]) if isinstance(each, (list, tuple)) else each

        with np_shape(True), np_array(True):
            found = self.function(
                *[value_of(each) for each in self.args], **{key: value_of(each) for key, each in self.kwargs.items()}
            )
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        return [each if isinstance(each, NDArray) else functions.array(each) for each in results]

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Call the function, and return the nodes of its results."""
        arrays = [as_class(make(node, environment.trace), functions.ndarray) for node in inputs]
        return tuple([node_in(each, environment.trace) for each in self._run(arrays)]), {}

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the shapes and dtypes of the results for ones, as soon as all inputs are known."""
        if self.is_random or not all([is_known(shape) for shape, _ in inputs]):
            return inputs, self._drawn(outputs)
        return inputs, list(self._inferred(tuple(inputs)))

    def _drawn(self, outputs: list[Spec]) -> list[Spec]:
        """Return the description of a sample: its size is an argument."""
        if not self.is_random or len(outputs) != 1:
            return outputs
        given = inspect.signature(self.function).bind(*self.args, **self.kwargs).arguments
        if given.get("size") is None:
            return outputs
        extents = (given["size"],) if isinstance(given["size"], int) else tuple(given["size"])
        default = "int64" if self.function.__name__ == "randint" else "float32"
        return [(extents, as_array_dtype(given.get("dtype") or default))]

    @functools.lru_cache(maxsize=16)  # noqa: B019 - calls live as long as their entries, and few are kept
    def _inferred(self, inputs: tuple[Spec, ...]) -> tuple[Spec, ...]:
        with np_shape(True), np_array(True):
            arrays = [functions.ones(shape or (), dtype=dtype or np.float32) for shape, dtype in inputs]
        return tuple([(each.shape, each._dtype) for each in self._run(arrays)])


special["_np_function"] = NumpyCall
