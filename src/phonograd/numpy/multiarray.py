"""ndarray: the array of mx.np, an NDArray with NumPy's rules for 0-d shapes, booleans and type promotion.

Nodes, views, in-place writes and gradients come from :class:`~phonograd.ndarray.array.NDArray`. Methods such as
``x.sum()`` are the functions of the namespace.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.binary import binary, inplace
from ..core.array.handle import as_class, make_view, read, share_variable
from ..core.base.devices import CPU
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import BOOL, FLOAT32, name_of, widen
from ..ndarray.array import NDArray
from . import arithmetic, indexing, protocols

if TYPE_CHECKING:
    # the methods that are functions of mx.np, for type checkers
    from .array_methods import NumpyMethods as _Base
else:
    _Base = NDArray

__all__ = ["as_nd", "as_np", "ndarray"]


def _space() -> Any:
    """Return the module mx.np, whose functions serve as methods."""
    return sys.modules["phonograd.numpy"]


def _only_c(order: str) -> None:
    if order not in ("C", "A", "K"):
        raise NotImplementedError(f"only supports C-order, while received {order}")


class ndarray(_Base, dense=True):  # noqa: N801 - MXNet's name
    """An array with NumPy's interface: operators broadcast and promote, and indexing may return 0-d arrays.

    Create it with ``np.array``, ``np.zeros`` etc., never directly. Like any NDArray, it is mutable and
    differentiable.

    >>> from phonograd import np
    >>> np.array([[1, 2], [3, 4]]) * 2
    array([[2., 4.],
           [6., 8.]])
    """

    __slots__ = ()

    # -- facts

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the elements."""
        return self._dtype

    @property
    def T(self) -> ndarray:  # noqa: N802
        """The array with its axes reversed."""
        return self if self.ndim < 2 else self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __bool__(self) -> bool:
        size = self.size
        if size > 1:
            raise ValueError("The truth value of an ndarray with multiple elements is ambiguous.")
        return bool(size) and bool(self._only())

    def _only(self) -> Any:
        if self.size != 1:
            raise TypeError("only size-1 arrays can be converted to Python scalars")
        return widen(read(self)).reshape(-1)[0]

    __hash__ = NDArray.__hash__

    def __repr__(self) -> str:
        text = np.array2string(widen(read(self)), separator=", ", prefix="array(")
        if not self.size and self.ndim != 1:
            text += f", shape={self.shape}"
        if self._dtype not in (FLOAT32, BOOL):
            text += f", dtype={name_of(self._dtype)}"
        if self.context != CPU:
            text += f", ctx={self.context}"
        return f"array({text})"

    def __str__(self) -> str:
        text = str(widen(read(self)))
        return text if self.context == CPU else f"{text} @{self.context}"

    # -- operators

    if not TYPE_CHECKING:
        __add__ = binary(arithmetic.add)
        __radd__ = binary(arithmetic.add, reflected=True)
        __sub__ = binary(arithmetic.subtract)
        __rsub__ = binary(arithmetic.subtract, reflected=True)
        __mul__ = binary(arithmetic.multiply)
        __rmul__ = binary(arithmetic.multiply, reflected=True)
        __truediv__ = binary(arithmetic.true_divide)
        __rtruediv__ = binary(arithmetic.true_divide, reflected=True)
        __mod__ = binary(arithmetic.mod)
        __rmod__ = binary(arithmetic.mod, reflected=True)
        __rpow__ = binary(arithmetic.power, reflected=True)
        __eq__ = binary(arithmetic.equal)
        __ne__ = binary(arithmetic.not_equal)
        __gt__ = binary(arithmetic.greater)
        __ge__ = binary(arithmetic.greater_equal)
        __lt__ = binary(arithmetic.less)
        __le__ = binary(arithmetic.less_equal)
        __iadd__ = inplace(arithmetic.add)
        __isub__ = inplace(arithmetic.subtract)
        __imul__ = inplace(arithmetic.multiply)
        __itruediv__ = inplace(arithmetic.true_divide)
        __imod__ = inplace(arithmetic.mod)
        __floordiv__ = binary(arithmetic.floor_divide)
        __rfloordiv__ = binary(arithmetic.floor_divide, reflected=True)
        __ifloordiv__ = inplace(arithmetic.floor_divide)
        __and__ = binary(arithmetic.bitwise_and)
        __rand__ = binary(arithmetic.bitwise_and, reflected=True)
        __iand__ = inplace(arithmetic.bitwise_and)
        __or__ = binary(arithmetic.bitwise_or)
        __ror__ = binary(arithmetic.bitwise_or, reflected=True)
        __ior__ = inplace(arithmetic.bitwise_or)
        __xor__ = binary(arithmetic.bitwise_xor)
        __rxor__ = binary(arithmetic.bitwise_xor, reflected=True)
        __ixor__ = inplace(arithmetic.bitwise_xor)
        _power = binary(arithmetic.power)
        _maximum = binary(arithmetic.maximum)
        _minimum = binary(arithmetic.minimum)

    def __invert__(self) -> ndarray:
        return self._call_operator("_npi_bitwise_not")  # type: ignore[return-value]

    def __matmul__(self, other: Any) -> ndarray:
        return _space().matmul(self, other)  # type: ignore[no-any-return]

    def __rmatmul__(self, other: Any) -> ndarray:
        return _space().matmul(other, self)  # type: ignore[no-any-return]

    def __divmod__(self, other: Any) -> tuple[ndarray, ndarray]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[ndarray, ndarray]:
        return other // self, other % self

    # -- reading and writing

    if not TYPE_CHECKING:
        __getitem__ = indexing.get
        __setitem__ = indexing.set_

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """Return the values as a new NumPy array."""
        return np.array(read(self), order="C")

    def __round__(self, digits: int = 0) -> Any:
        return self.round(digits)

    def item(self, *args: Any) -> Any:
        """Return one element as a Python number: the only one, or the one at a flat index or at indices."""
        if not args and self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return read(self).item(*args)

    def copy(self, order: str = "C") -> ndarray:
        """Return a copy. The copy is recorded, so gradients pass through it."""
        _only_c(order)
        return self.identity()

    def astype(  # type: ignore[override]
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> ndarray:
        """Convert to another dtype; always a new array unless ``copy`` is false and the dtype is the same."""
        if order not in ("K", "C") or casting != "unsafe" or not subok:
            raise ValueError("astype supports only order='K', casting='unsafe' and subok=True")
        return NDArray.astype(self, dtype, copy)  # type: ignore[return-value]

    # -- shapes

    def reshape(self, *args: Any, **kwargs: Any) -> ndarray:
        """Return a view in another shape; one extent may be -1 and is then inferred."""
        _only_c(kwargs.pop("order", "C"))
        given = kwargs.pop("newshape", None)
        if kwargs:
            raise TypeError(f"reshape() got an unexpected keyword argument {next(iter(kwargs))!r}")
        if not args and given is None:
            raise TypeError("reshape() takes exactly 1 argument (0 given)")
        shape = args if given is None else (given,)
        return _space().reshape(self, shape[0] if len(shape) == 1 else shape)  # type: ignore[no-any-return]

    reshape_view = reshape

    def transpose(self, *axes: Any) -> ndarray:
        """Return the array with its axes in another order; reversed if no axes are given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return _space().transpose(self, axes=None if order is None or not len(order) else tuple(order))  # type: ignore[no-any-return]

    def flatten(self, order: str = "C") -> ndarray:  # type: ignore[override]
        """Return a copy with all axes merged."""
        _only_c(order)
        return self.copy().reshape(-1)

    def ravel(self, order: str = "C") -> ndarray:
        """Return a view with all axes merged."""
        return _space().ravel(self, order)  # type: ignore[no-any-return]

    def broadcast_to(self, shape: Any) -> ndarray:
        """Repeat the array along axes of extent 1, and along new leading axes, to the given shape."""
        return _space().broadcast_to(self, shape=shape)  # type: ignore[no-any-return]

    def clip(  # type: ignore[override]
        self,
        min: Any = None,  # noqa: A002 - MXNet's name
        max: Any = None,  # noqa: A002 - MXNet's name
        out: Any = None,
    ) -> ndarray:
        """Limit the elements to the range from ``min`` to ``max``."""
        return _space().clip(self, a_min=min, a_max=max, out=out)  # type: ignore[no-any-return]

    def sort(  # type: ignore[override]
        self, axis: int = -1, kind: str | None = None, order: str | None = None
    ) -> None:
        """Sort the elements along an axis, in place."""
        self[...] = _space().sort(self, axis=axis)

    def as_nd_ndarray(self) -> NDArray:
        """Return the array as an ``mx.nd`` array that shares memory and gradients with this one."""
        return as_nd(self)  # type: ignore[no-any-return]

    def as_np_ndarray(self) -> ndarray:
        """Return the array itself."""
        return self

    # -- other libraries

    __array_function__ = protocols.array_function
    __array_ufunc__ = protocols.array_ufunc


ndarray.__module__ = "phonograd.numpy"


def _view_as_class(array: NDArray, array_class: type[NDArray]) -> Any:
    """Return a view of a whole array with another class; for a variable, the view is the same variable."""
    view = as_class(make_view(array, 0, array.shape), array_class)
    share_variable(view, array)
    return view


def as_np(array: Any) -> Any:
    """Convert to an mx.np array that shares memory; recurse into lists and tuples, keep other values."""
    if isinstance(array, (list, tuple)):
        return type(array)([as_np(item) for item in array])
    if not isinstance(array, NDArray) or isinstance(array, ndarray):
        return array
    if type(array) is not array._result_class:
        raise ValueError(f"a {array.stype} array cannot be an mx.np array; use .tostype('default') first")
    return _view_as_class(array, ndarray)


def as_nd(array: Any) -> Any:
    """Convert to an mx.nd array that shares memory; recurse into lists and tuples, keep other values."""
    if isinstance(array, (list, tuple)):
        return type(array)([as_nd(item) for item in array])
    return _view_as_class(array, NDArray) if isinstance(array, ndarray) else array


complete_classes(globals(), ["ndarray"])
