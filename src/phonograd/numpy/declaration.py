"""Declare functions of mx.np as expressions of existing operators.

An :class:`Expression` is written like an operator, on nodes, with NumPy's rules for shapes and dtypes::

    @expression("ptp")
    def _ptp(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
        "Return the difference between the largest and the smallest element along axes."
        return largest(a, axis, keepdims) - smallest(a, axis, keepdims)

An expression adds nothing of its own to the tape: gradients and kernels are those of its operators. Its function is
generated like that of an operator, so a repeated call is one lookup. Results of mx.np arrays are mx.np arrays;
:mod:`phonograd.core.array.call` sees to that.

Functions that are not expressions (they take lists of arrays, or the shape of the result depends on values) are
registered with :func:`public`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..core.array.binary import call_binary, operate
from ..core.array.call import function_of, write
from ..core.array.handle import Handle, materialize_if_naive, new_result, record_or_detach
from ..core.base.errors import TooLarge
from ..core.graph.documentation import document
from ..core.graph.node import FORGOTTEN, Node
from ..core.graph.operator import Operator
from ..core.graph.signature import signature_of
from ..core.trace.trace import ready_trace

__all__ = ["FUNCTIONS", "METHODS", "Expression", "expression", "function", "method", "public"]

Public = TypeVar("Public", bound=Callable[..., Any])

#: the contents of mx.np by name: expressions, operators and functions
FUNCTIONS: dict[str, Any] = {}
#: the names of functions that are also methods; the array is their first argument
METHODS: set[str] = set()


class Expression(Operator):
    """A function on nodes, called and cached like an operator."""

    array_name = "ndarray"

    def __init__(self, function: Callable[..., Any], **facts: Any) -> None:
        super().__init__(function, composite=True, **facts)
        FORGOTTEN.connect(self._forget)

    def _forget(self) -> None:
        for remembered in (self.table, self.calls, self.several, self.consequences):
            remembered.clear()

    def __reduce__(self) -> Any:
        return FUNCTIONS.__getitem__, (self.name.removeprefix("_np_"),)

    def more_descriptions(self) -> Mapping[str, str]:
        # lazy import: programs that ask for no documentation do not need the table
        from .documentation import descriptions

        return descriptions(self.name.removeprefix("_np_").removeprefix("_npx_"))

    def _expand(self, inputs: tuple[Node | None, ...], attributes: tuple[Any, ...]) -> Any:
        try:
            return self.function(*inputs, **dict(zip(self.parameter_names, attributes, strict=True)))
        except TooLarge as error:
            raise error.inside(self.name.removeprefix("_np_")) from None


def expression(
    *names: str, on_numbers: Callable[..., Any] | None = None, method: str = "", **facts: Any
) -> Callable[[Callable[..., Any]], Expression]:
    """Return a decorator that turns a function on nodes into an expression and registers it under names.

    ``on_numbers`` handles calls without array arguments; ``method`` lists the names under which it is a method of
    arrays. In symbol files its name is ``_npi_<name>``, unless ``in_files`` gives another.
    """

    def decorate(body: Callable[..., Any]) -> Expression:
        made = Expression(body, name=f"_np_{names[0]}", **facts)
        made.on_numbers = on_numbers
        for name in names:
            FUNCTIONS[name] = made
        METHODS.update(method.split())
        return made

    return decorate


def public(*names: str, method: str = "") -> Callable[[Public], Public]:
    """Return a decorator that registers a function under names (by default its own), and as methods of arrays."""

    def decorate(offered: Public) -> Public:
        for name in names or (offered.__name__,):
            FUNCTIONS[name] = offered
        METHODS.update(method.split())
        offered.__module__ = "phonograd.numpy"
        return offered

    return decorate


def function(name: str) -> Callable[..., Any]:
    """Return the function of mx.np with a name."""
    found = FUNCTIONS[name]
    if not isinstance(found, Operator):
        from .documentation import complete

        complete(found, name)
        return found  # type: ignore[no-any-return]
    return function_of(found, name) if found.with_scalars is None else _of_two(found, name)


@functools.cache
def _of_two(declared: Operator, name: str) -> Callable[..., Any]:
    """Return the function of two operands, either or both of which may be numbers."""
    # lazy import: the array class uses functions of this module
    from .multiarray import ndarray

    whole = function_of(declared, name)
    method = f"_{name}" if f"_{name}" in vars(ndarray) else None

    def function(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None and not kwargs:
            if type(x1) is type(x2) is ndarray:
                # machine code, once it is compiled
                return function_of(declared, name)(x1, x2)
            if method is not None and type(x1) is ndarray:
                return getattr(x1, method)(x2)
            if isinstance(x1, Handle) or isinstance(x2, Handle):
                return call_binary(declared, x1, x2, ndarray)
        elif isinstance(x1, Handle) != isinstance(x2, Handle):
            for keyword, value in kwargs.items():
                if declared.tolerates is not None:
                    declared.tolerates(keyword, value)
            trace = ready_trace()
            node = operate(declared, x1, x2, trace)
            return (
                new_result(node, trace, ndarray)
                if out is None
                else materialize_if_naive(write(out, record_or_detach(node, trace), trace))
            )
        return whole(x1, x2, out=out, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = "phonograd.numpy", document(declared)
    function.__signature__ = signature_of(declared)  # type: ignore[attr-defined]
    return function


def method(name: str) -> Any:
    """Return the function of mx.np with a name, wrapped so that it can be a method."""
    found = FUNCTIONS[name]
    return function_of(found, name) if isinstance(found, Operator) else found
