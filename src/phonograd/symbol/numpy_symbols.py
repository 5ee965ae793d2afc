"""Symbols with NumPy semantics for blocks written for mx.np: operators broadcast, ``x[1:, 0]`` indexes.

``sym.np`` and ``sym.npx`` (:data:`namespace`, :data:`extension`) are ``F.np`` and ``F.npx`` if ``F`` is the namespace
of symbols. Results of such a symbol have NumPy semantics too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .. import numpy as functions
from .. import numpy_extension
from ..core.base.errors import nearest
from ..core.base.modules import CompleteModule
from ..core.graph.operator import NAMES, REGISTRY, Operator
from ..ndarray.namespaces import public_names
from ..numpy.declaration import FUNCTIONS
from ..numpy_extension.functions import EXPRESSIONS
from . import creation
from .build import build, function_of
from .graph import Symbol
from .methods import method_of
from .numpy_calls import call_function, find_function
from .operations import combine

__all__ = ["NumpySymbol", "as_np", "extension", "namespace"]


@functools.cache
def _name_in_np(word: str) -> str:
    """Return the name of the function of mx.np that one of Python's operators is: ``true_divide`` for divide."""
    return next(name for name, found in FUNCTIONS.items() if getattr(found, "with_scalars", None) == word)


class NumpySymbol(Symbol):
    """A symbol with NumPy semantics.

    >>> import phonograd as mx
    >>> x, y = mx.sym.var("x").as_np_ndarray(), mx.sym.var("y")
    >>> (x[:, 0] + y).infer_shape(x=(2, 3), y=(5, 2))[1]
    [(5, 2)]
    """

    __slots__ = ()

    def _combine(self, word: str, other: Any, reflected: bool = False) -> Symbol:
        if not isinstance(other, Symbol):
            return super()._combine(word, other, reflected)
        name = _name_in_np(word)
        operands = (other, self) if reflected else (self, other)
        return function_of(FUNCTIONS[name], name)(*operands)  # type: ignore[no-any-return]

    def __matmul__(self, other: Symbol) -> Any:
        return function_of(FUNCTIONS["matmul"], "matmul")(self, other)

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The symbol with its axes reversed."""
        return self.transpose()

    def __iter__(self) -> Iterator[Symbol]:
        return iter([type(self)([head]) for head in self._heads])

    def __getitem__(self, index: Any) -> Symbol:
        if len(self) > 1 or isinstance(index, str):
            return as_np(super().__getitem__(index))
        return _part(self, index if isinstance(index, tuple) else (index,))

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Return the symbol with another shape; -1 is inferred."""
        given = shape[0] if len(shape) == 1 else shape or kwargs.pop("newshape")
        return function_of(EXPRESSIONS["reshape"], "reshape")(self, newshape=given, **kwargs)

    def transpose(self, *axes: Any) -> Any:
        """Return the symbol with permuted axes; reversed by default."""
        given = axes[0] if len(axes) == 1 else axes or None
        return function_of(FUNCTIONS["transpose"], "transpose")(self, axes=given)

    def as_np_ndarray(self) -> Symbol:
        """Return the symbol itself."""
        return self

    def as_nd_ndarray(self) -> Symbol:
        """Return the symbol with the semantics of mx.sym."""
        return Symbol(self._heads)

    def __getattr__(self, name: str) -> Any:
        found = FUNCTIONS.get(name)
        if isinstance(found, Operator):
            return functools.partial(function_of(found, name), self)
        return method_of(self, name)


def as_np(symbol: Symbol) -> NumpySymbol:
    """Return a symbol with NumPy semantics."""
    return symbol if isinstance(symbol, NumpySymbol) else NumpySymbol(symbol._heads)


def _part(symbol: Symbol, keys: tuple[Any, ...]) -> Symbol:
    """Return an indexed symbol: an integer drops its axis, a slice selects part of it."""
    begin, end, step = [], [], []
    for key in keys:
        if isinstance(key, slice):
            begin.append(key.start)
            end.append(key.stop)
            step.append(key.step)
        elif isinstance(key, int):
            begin.append(key)
            end.append(key + 1 or None)
            step.append(1)
        else:
            raise TypeError(f"the index of a NumPy symbol must be integers and slices, not {key!r}")
    texts = {"begin": str(tuple(begin)), "end": str(tuple(end)), "step": str(tuple(step))}
    taken = build("slice", "slice", [symbol], texts)
    if not any([isinstance(key, int) for key in keys]):
        return taken
    codes = (*[-3 if isinstance(key, int) else -2 for key in keys], -4)
    return function_of(EXPRESSIONS["reshape"], "reshape")(taken, newshape=codes)  # type: ignore[no-any-return]


# -- functions of sym.np


def _of_two(word: str, declared: Operator, name: str) -> Callable[..., Any]:
    """Return a function of two operands, one of which may be a number."""
    between = function_of(declared, name)

    def function(x1: Any, x2: Any, **kwargs: Any) -> Symbol:
        if isinstance(x1, Symbol) and isinstance(x2, Symbol):
            return as_np(between(x1, x2, **kwargs))
        return as_np(combine(word, x1, x2))

    return function


def _joining_function(operator: str, name: str) -> Callable[..., Any]:
    def function(arrays: Any, axis: int = 0, **kwargs: Any) -> Symbol:
        return as_np(function_of(FUNCTIONS[operator], name)(*arrays, axis=axis, **kwargs))

    return function


def _like(value: Any, symbol: Symbol) -> Symbol:
    """Return a number as a symbol with the shape of another one."""
    return value if isinstance(value, Symbol) else function_of(REGISTRY["zeros_like"], "zeros_like")(symbol) + value


def _where(condition: Symbol, x: Any, y: Any) -> Symbol:
    pattern = next((each for each in (x, y) if isinstance(each, Symbol)), condition)
    function = function_of(FUNCTIONS["_where"], "where")
    return as_np(function(condition, _like(x, pattern), _like(y, pattern)))


def _split(ary: Symbol, indices_or_sections: int, axis: int = 0) -> list[Symbol]:
    parts = function_of(REGISTRY["SliceChannel"], "split")(ary, num_outputs=indices_or_sections, axis=axis)
    return [as_np(part) for part in parts]


def _with_np_result(function: Callable[..., Symbol]) -> Callable[..., Any]:
    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Symbol:
        return as_np(function(*args, **kwargs))

    return make


_OWN: dict[str, Callable[..., Any]] = {
    "arange": _with_np_result(creation.arange),
    "concatenate": _joining_function("_concatenate", "concatenate"),
    "full": _with_np_result(creation.full),
    "ones": _with_np_result(creation.ones),
    "ones_like": _with_np_result(function_of(REGISTRY["ones_like"], "ones_like")),
    "reshape": lambda a, newshape, **kwargs: as_np(a).reshape(newshape, **kwargs),
    "split": _split,
    "stack": _joining_function("_stack", "stack"),
    "take": lambda a, indices, **kwargs: as_np(function_of(FUNCTIONS["_take"], "take")(a, indices, **kwargs)),
    "where": _where,
    "zeros": _with_np_result(creation.zeros),
    "zeros_like": _with_np_result(function_of(REGISTRY["zeros_like"], "zeros_like")),
}


def _function_of_np(name: str) -> Callable[..., Any] | None:
    if name in _OWN:
        return _OWN[name]
    found = FUNCTIONS.get(name)
    if not isinstance(found, Operator):
        return _function_by_call(name)
    return (
        _with_np_result(function_of(found, name))
        if found.with_scalars is None
        else _of_two(found.with_scalars, found, name)
    )


def _function_by_call(name: str) -> Callable[..., Any] | None:
    """Return a function that symbols compute by a call of the function of mx.np."""
    return None if find_function(name) is None else functools.partial(call_function, NumpySymbol, name)


def _part_of_np(name: str, package: Any = functions, prefix: str = "") -> _Namespace:
    """Return the namespace ``sym.np.linalg``, ``sym.np.random`` or, with the prefix ``npx.``, ``sym.npx.random``."""
    own = getattr(package, name)
    place = "numpy_extension" if prefix else "numpy"
    return _Namespace(
        f"phonograd.symbol.{place}.{name}",
        f"Functions of mx.{prefix or 'np.'}{name} for symbols.",
        lambda each: _function_by_call(f"{prefix}{name}.{each}") if each in own.__all__ else None,
        lambda: sorted(own.__all__),
    )


#: functions of mx.npx that are no operators, and that symbols compute by a call
_CALLED = ("constraint_check", "nonzero")


def _function_of_npx(name: str) -> Callable[..., Any] | None:
    if name in _CALLED:
        return _function_by_call(f"npx.{name}")
    declared = EXPRESSIONS.get(name) or NAMES["npx"].get(name)
    return None if declared is None else _with_np_result(function_of(declared, name))


def _function_of_image(name: str) -> Callable[..., Any] | None:
    return _with_np_result(function_of(REGISTRY["_image_" + name], name)) if "_image_" + name in REGISTRY else None


class _Namespace(CompleteModule):
    """A module whose functions make symbols with NumPy semantics."""

    def __init__(self, name: str, doc: str, find: Callable[[str], Any], names: Callable[[], list[str]]) -> None:
        super().__init__(name, doc)
        self._find = find
        self._names = names

    def __getattr__(self, name: str) -> Any:
        function = None if name.startswith("_") else self._find(name)
        if function is None:
            raise AttributeError(f"{self.__name__} has no function {name!r}{nearest(name, self._names())}")
        return function

    def __dir__(self) -> list[str]:
        return self._names()


def _names_of_np() -> list[str]:
    found = [name for name, declared in FUNCTIONS.items() if isinstance(declared, Operator)]
    return sorted({*[name for name in found if not name.startswith("_")], *_OWN})


namespace = _Namespace("phonograd.symbol.numpy", "Functions of mx.np for symbols.", _function_of_np, _names_of_np)
for _name in ("linalg", "random"):
    setattr(namespace, _name, _part_of_np(_name))
extension = _Namespace(
    "phonograd.symbol.numpy_extension",
    "Functions of mx.npx for symbols.",
    _function_of_npx,
    lambda: sorted({*NAMES["npx"], *EXPRESSIONS, *_CALLED, "image", "random"}),
)
extension.random = _part_of_np("random", numpy_extension, "npx.")  # type: ignore[attr-defined]
extension.image = _Namespace(  # type: ignore[attr-defined]
    "phonograd.symbol.numpy_extension.image",
    "Operators on images for symbols.",
    _function_of_image,
    lambda: public_names("_image_"),
)
