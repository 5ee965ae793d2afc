"""NDArray: MXNet's mutable array. Operators on it are recorded lazily; printing and conversion compute.

The mechanics (nodes, views, in-place writes) are in :mod:`..core.array.handle`, indexing in
:mod:`..core.array.indexing`, conversion to and from other libraries in :mod:`.protocols`; methods that are operators
(``x.exp()``) come from the registry on first use.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ..core.array import indexing
from ..core.array.binary import binary, inplace
from ..core.array.call import function_of, write
from ..core.array.handle import (
    Handle,
    assign,
    make_concrete,
    make_view,
    materialize_if_naive,
    new_result,
    node_in,
    read,
    record_or_detach,
    variable_of,
)
from ..core.array.handover import LEAST_BYTES, given_memory
from ..core.array.numpy_scalar import as_number
from ..core.array.observed import LISTENERS, NamedAction, observe_call
from ..core.array.values import values_of
from ..core.backward.backward import backward_pass
from ..core.backward.variable import attach
from ..core.base.devices import Context, as_context
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import DType, as_dtype, kind_of, name_of, public_type, widen
from ..core.base.errors import MXNetError
from ..core.base.foreign_names import OF_ARRAYS, ForeignName
from ..core.events import LISTENING, MEMORY
from ..core.graph.operator import DECLARED, REGISTRY, Operator
from ..core.graph.shapes import infer_reshape
from ..core.observe.allocations import hold
from ..core.ops.math.primitives import cast
from ..core.ops.math.structural import copy_to_context, detach
from ..core.trace.liveness import is_temporary
from ..core.trace.recorder import CAPTURES
from ..core.trace.trace import LOCAL, ready_trace
from . import protocols

__all__ = ["NDArray"]

if TYPE_CHECKING:
    # the methods that are operators, for type checkers; at run time they are set on the class below
    from typing_extensions import Self

    from .array_methods import ArrayMethods as _Base
    from .sparse import CSRNDArray, RowSparseNDArray
else:
    _Base = Handle

_CAST, _COPY, _RESHAPE = NamedAction("Cast"), NamedAction("_copyto"), NamedAction("Reshape")


class NDArray(_Base, dense=True):
    """An array on the CPU, as in MXNet: fixed shape and dtype, mutable, differentiable.

    >>> import phonograd as mx
    >>> mx.nd.array([[1, 2], [3, 4]]) * 2
    <BLANKLINE>
    [[2. 4.]
     [6. 8.]]
    <NDArray 2x2 @cpu(0)>
    """

    __slots__ = ()

    __array_priority__ = 1000.0

    def __new__(cls, handle: None = None, writable: bool = True) -> NDArray:
        if handle is not None:
            raise TypeError("create arrays with mx.nd.array(values), mx.nd.zeros(shape) etc., not with NDArray(...)")
        # no value yet: unpickling MXNet's pickles calls NDArray(None) and then __setstate__
        made = object.__new__(cls)
        made._trace = made._node = made._buffer = made._extras = None
        if not writable:
            made._readonly = True
        return made

    # -- facts

    @property
    def dtype(self) -> type[Any]:
        """The NumPy type of the elements; bfloat16, which NumPy does not have, is MXNet's dtype of one 16-bit word."""
        return public_type(self._dtype)  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def ctx(self) -> Context:
        """The context of the array."""
        return self.context

    @property
    def stype(self) -> str:
        """The storage type: always 'default' (dense)."""
        return "default"

    @property
    def writable(self) -> bool:
        """True if in-place operations are allowed."""
        return not self._readonly

    @property
    def T(self) -> NDArray:
        """The array with its axes reversed; the array itself if it has fewer than two axes."""
        return self if self.ndim < 2 else self.transpose()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in OF_ARRAYS]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an NDArray without axes")
        return self.shape[0]

    def __bool__(self) -> bool:
        size = math.prod(self.shape)
        if size == 0:
            return False
        if size == 1:
            return bool(widen(read(self)).item())
        raise ValueError(
            "The truth value of an NDArray with multiple elements is ambiguous. Reduce it first: (x > 0).min() for "
            "all, (x > 0).max() for any element."
        )

    def __float__(self) -> float:
        return float(self._only())

    def __int__(self) -> int:
        return int(self._only())

    def __index__(self) -> int:
        if kind_of(self._dtype) not in "iub":
            raise TypeError("only an integer NDArray of one element can be used as an index")
        return int(self._only())

    def _only(self) -> Any:
        if self.size != 1:
            raise TypeError("only an NDArray of one element can be converted to a number")
        return widen(read(self)).reshape(-1)[0]

    def __iter__(self) -> Iterator[NDArray]:
        # an array without axes raises here, not at the first element: Matplotlib relies on it
        return map(self.__getitem__, range(len(self)))

    def __hash__(self) -> int:
        return id(self) >> 4

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n{widen(read(self))!s}\n<{type(self).__name__} {shape} @{self.context}>"

    def _repr_html_(self) -> str:
        from .html import table_of

        shape = "x".join(map(str, self.shape))
        return table_of(widen(read(self)), f"{type(self).__name__} {shape} {name_of(self._dtype)} @{self.context}")

    def __format__(self, specification: str) -> str:
        return format(self._only() if specification else str(self), specification)

    # -- arithmetic

    if not TYPE_CHECKING:
        __add__ = binary("broadcast_add")
        __radd__ = binary("broadcast_add", reflected=True)
        __sub__ = binary("broadcast_sub")
        __rsub__ = binary("broadcast_sub", reflected=True)
        __mul__ = binary("broadcast_mul")
        __rmul__ = binary("broadcast_mul", reflected=True)
        __truediv__ = binary("broadcast_div")
        __rtruediv__ = binary("broadcast_div", reflected=True)
        __mod__ = binary("broadcast_mod")
        __rmod__ = binary("broadcast_mod", reflected=True)
        __rpow__ = binary("broadcast_power", reflected=True)
        __eq__ = binary("broadcast_equal")
        __ne__ = binary("broadcast_not_equal")
        __gt__ = binary("broadcast_greater")
        __ge__ = binary("broadcast_greater_equal")
        __lt__ = binary("broadcast_lesser")
        __le__ = binary("broadcast_lesser_equal")
        __iadd__ = inplace("broadcast_add")
        __isub__ = inplace("broadcast_sub")
        __imul__ = inplace("broadcast_mul")
        __itruediv__ = inplace("broadcast_div")
        __imod__ = inplace("broadcast_mod")
        _power = binary("broadcast_power")
        # functions of an array and a number go through these, which become machine code like the operators above
        _maximum = binary("broadcast_maximum")
        _minimum = binary("broadcast_minimum")

    def __pow__(self, other: Any) -> NDArray:
        # a small integer exponent becomes part of the expression: exact products instead of a power function
        if (type(other) is int or (type(other) is float and other.is_integer())) and abs(other) <= 64:
            base = self.astype("int64") if kind_of(self._dtype) == "b" else self
            return base._call_operator("_integer_power", exponent=int(other))
        return self._power(other)

    def __matmul__(self, other: Any) -> NDArray:
        from .functions import matmul

        return matmul(self, other)

    def __neg__(self) -> NDArray:
        return self * -1 if kind_of(self._dtype) == "b" else self.negative()

    def __pos__(self) -> NDArray:
        return self.copy()

    def __abs__(self) -> NDArray:
        return self.abs()

    # -- reading and writing

    if not TYPE_CHECKING:
        __getitem__ = indexing.get
        __setitem__ = indexing.set_

    _basic_indexing_slice_is_contiguous = staticmethod(indexing.is_contiguous)

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy copy of the values; one element also converts to a number (``"%f" % x.asnumpy()``)."""
        value = read(self)
        if value.nbytes >= LEAST_BYTES and is_temporary(self):
            del value
            given = given_memory(self)
            if given is not None:
                return given
            value = read(self)
        return as_number(np.array(value, order="C"))

    def asscalar(self) -> Any:
        """Return the value of an array with one element."""
        if math.prod(self.shape) != 1:
            raise ValueError(f"The current array is not a scalar: it has shape {self.shape}. Use asnumpy() or tolist()")
        values = widen(read(self))
        # with more axes, MXNet returns the array
        return values[0] if values.ndim == 1 else np.array(values)[()]

    def item(self) -> Any:
        """Return the value of an array with one element as a Python number."""
        return widen(self.asnumpy()).item()

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers."""
        return widen(read(self)).tolist()

    def wait_to_read(self) -> None:
        """Compute the value now; errors of pending operators surface here."""
        read(self)

    def wait_to_write(self) -> None:
        """Compute the value now."""
        read(self)

    def copy(self) -> NDArray:
        """Return a copy. The copy is recorded, so gradients pass through it."""
        return self.identity()

    def copyto(self, other: Any) -> Any:
        """Write the values into another array (converting the dtype), or return a copy on another context."""
        if isinstance(other, Context):
            return self._move_to(as_context(other))
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto does not support type {type(other)}: pass an array, or a context such as mx.cpu()")
        if other is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2)
            return False
        return self._copy_into(other)

    def _copy_into(self, other: NDArray, listeners: Sequence[int] = LISTENERS) -> NDArray:
        if listeners:
            return observe_call(_COPY, (self,), None, (), self._copy_into, (other, ()))  # type: ignore[no-any-return]
        trace = ready_trace()
        node = cast(node_in(self, trace), other._dtype)
        copied = record_or_detach(REGISTRY["identity"](node), trace)
        return materialize_if_naive(write(other, copied, trace))  # type: ignore[no-any-return]

    def _move_to(self, context: Context, listeners: Sequence[int] = LISTENERS) -> NDArray:
        if listeners:
            return observe_call(_COPY, (self,), None, (), self._move_to, (context, ()))  # type: ignore[no-any-return]
        trace = ready_trace()
        return new_result(copy_to_context(node_in(self, trace), context), trace, self._result_class)  # type: ignore[no-any-return]

    def as_in_context(self, context: Context) -> NDArray:
        """Return the array itself if it is on that context, else a copy there."""
        if not isinstance(context, Context):
            raise TypeError(f"copyto does not support type {type(context)}: pass a context such as mx.cpu()")
        return self if self.context == context else self._move_to(as_context(context))

    as_in_ctx = as_in_context

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Convert to another dtype; always a new array unless ``copy`` is false and the dtype is the same."""
        target = as_dtype(dtype)
        if target == self._dtype:
            return self.copy() if copy else self
        return self._convert_to(target)

    def _convert_to(self, target: DType, listeners: Sequence[int] = LISTENERS) -> NDArray:
        if listeners:
            return observe_call(_CAST, (self,), None, (), self._convert_to, (target, ()))  # type: ignore[no-any-return]
        trace = ready_trace()
        return new_result(cast(node_in(self, trace), target), trace, self._result_class)  # type: ignore[no-any-return]

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """Return a view in another shape; 0 copies an extent, -1 infers, -2 copies the rest, -3 merges, -4 splits."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        elif not shape:
            given = kwargs.get("shape")
            if given is None:
                raise AssertionError("Shape must be provided.")
            shape = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        unknown = [name for name in kwargs if name not in ("shape", "reverse")]
        if unknown:
            raise TypeError(
                f"Got unknown keywords in reshape: {', '.join(unknown)}. Accepted keyword arguments are 'shape' and "
                "'reverse'."
            )
        codes = tuple([operator.index(code) for code in shape])
        return self._view_as(infer_reshape(self.shape, codes, bool(kwargs.get("reverse", False))))

    def _view_as(self, shape: tuple[int, ...], listeners: Sequence[int] = LISTENERS) -> NDArray:
        if listeners:
            return observe_call(_RESHAPE, (self,), None, (), self._view_as, (shape, ()))  # type: ignore[no-any-return]
        return make_view(self, 0, shape)  # type: ignore[no-any-return]

    def flatten(self, inplace: bool = False) -> NDArray:
        """Return the array with all axes but the first merged; a view if ``inplace``."""
        if not inplace:
            return self._call_operator("Flatten")
        return self._view_as((*self.shape[:1], math.prod(self.shape[1:])))

    def expand_dims(self, axis: int, inplace: bool = False) -> NDArray:
        """Return the array with an axis of extent 1 inserted; a view if ``inplace``."""
        if not inplace:
            return self._call_operator("expand_dims", axis=axis)
        ndim = self.ndim
        if not -ndim - 1 <= axis <= ndim:
            raise AssertionError(f"axis {axis} is out of range for {ndim}d array")
        place = axis if axis >= 0 else axis + ndim + 1
        return self._view_as((*self.shape[:place], 1, *self.shape[place:]))

    def squeeze(self, axis: Any = None, inplace: bool = False) -> NDArray:
        """Return the array without axes of extent 1; a view if ``inplace``."""
        if not inplace:
            return self._call_operator("squeeze", axis=axis)
        ndim = self.ndim
        axes = [a for a in range(ndim) if self.shape[a] == 1]
        if axis is not None:
            axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
        for one in axes:
            if not -ndim <= one < ndim:
                raise AssertionError(f"axis {one} is out of range for {ndim}d array")
            if self.shape[one] != 1:
                raise AssertionError(f"Squeeze target axis {one} must be size 1, got {self.shape[one]}.")
        dropped = {one % ndim for one in axes}
        if len(dropped) != len(axes):
            raise AssertionError(f"axis {axis} contains duplicate which is not allowed.")
        kept = tuple([extent for one, extent in enumerate(self.shape) if one not in dropped])
        return self._view_as(kept or self.shape[:1])

    def broadcast_to(self, shape: Any) -> NDArray:
        """Repeat the array along axes of extent 1, and along new leading axes, to the given shape."""
        target = tuple([int(extent) for extent in np.ravel(shape)])
        missing = len(target) - self.ndim
        extents = (1,) * missing + self.shape
        if missing < 0 or any([own not in (1, wanted) for own, wanted in zip(extents, target, strict=True)]):
            raise ValueError(
                "operands could not be broadcast together with remapped shapes[original->remapped]: "
                f"{self.shape} and requested shape {target}"
            )
        source = self.reshape(extents) if missing else self
        return source._call_operator("broadcast_to", shape=target)

    def broadcast_like(self, other: NDArray) -> NDArray:
        """Repeat the array to the shape of another one, as :meth:`broadcast_to` does."""
        return self.broadcast_to(other.shape)

    def split_v2(self, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Any:
        """Split the array along an axis into equal sections, or at the given indices."""
        from .functions import split_v2

        return split_v2(self, indices_or_sections, axis, squeeze_axis)

    def _call_operator(self, name: str, **parameters: Any) -> NDArray:
        """Call an operator on this array."""
        return function_of(REGISTRY[name], name)(self, **parameters)  # type: ignore[no-any-return]

    def transpose(self, *axes: Any, **kwargs: Any) -> NDArray:
        """Return the array with its axes permuted (reversed if no axes are given)."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = tuple(axes[0] or ())
        return self._call_operator("transpose", **{**kwargs, "axes": axes or kwargs.get("axes") or ()})

    @overload
    def tostype(self, stype: Literal["csr"]) -> CSRNDArray: ...
    @overload
    def tostype(self, stype: Literal["row_sparse"]) -> RowSparseNDArray: ...
    @overload
    def tostype(self, stype: str) -> NDArray: ...
    def tostype(self, stype: str) -> NDArray:
        """Convert to a storage type: 'default', 'csr' or 'row_sparse'; gradients pass through."""
        return self._call_operator("cast_storage", stype=stype)

    def _forget_stored(self) -> None:
        """Hold the dense value alone; a dense array holds nothing else."""

    def _zeros_stored(self, stype: str) -> NDArray:
        """Return zeros of the array's shape, dtype and context with a storage type."""
        from .sparse import zeros

        return zeros(stype, self.shape, self.context, self._dtype)

    @staticmethod
    def _call_with_storage(
        declared: Operator, handles: tuple[Handle | None, ...], attributes: tuple[Any, ...], out: Any
    ) -> Any:
        """Call an operator that has a sparse argument or depends on storage types."""
        from .sparse_calls import call_with_storage

        return call_with_storage(declared, handles, attributes, out)

    def _to_storage(self) -> Any:
        """Return the content for a file: the values, or the record of a sparse array."""
        return read(self)

    def slice_assign(self, rhs: Any, begin: Any, end: Any, step: Any) -> NDArray:
        """Write ``rhs`` into ``self[begin:end:step]`` and return self."""
        steps = step or (None,) * len(begin)
        self[tuple([slice(*bounds) for bounds in zip(begin, end, steps, strict=True)])] = rhs
        return self

    def slice_assign_scalar(self, value: Any, begin: Any, end: Any, step: Any) -> NDArray:
        """Write a number into ``self[begin:end:step]`` and return self."""
        return self.slice_assign(value, begin, end, step)

    # -- differentiation

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Mark the array as a variable and allocate a gradient buffer for ``backward``.

        ``grad_req`` is 'write', 'add' or 'null'. An array that was recorded as a result is detached first.
        """
        attach(self, grad_req, stype)

    @property
    def grad(self) -> Self:
        """The gradient of a variable; None before ``attach_grad``, which the type leaves out for brevity."""
        # reads the slots directly: each training step asks every parameter
        rare = self._extras
        owner = None if rare is None else rare.variable
        if CAPTURES:
            LOCAL.trace.note_gradient(self)
        return None if owner is None else owner.grad  # type: ignore[return-value]

    @property
    def _fresh_grad(self) -> int:
        """1 after a backward pass has reached this variable, until it is reset."""
        return 0 if self._variable is None else self._variable.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, value: Any) -> None:
        owner = variable_of(self)
        if owner is None:
            raise MXNetError("NDArray has not been marked as a variable and does not have gradient state")
        owner.mark_fresh(int(bool(value)))

    def detach(self) -> NDArray:
        """Return an array that shares memory with this one but is not recorded."""
        view: NDArray = make_view(self, 0, self.shape)
        if view._region is not None:
            view._region = (*view._region[:2], False)
        if view._node is not None:
            view._node = detach(view._node)
        return view

    def backward(self, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Compute the gradients of this array with respect to all variables it depends on."""
        backward_pass([self], [out_grad], bool(retain_graph), bool(train_mode))

    # -- other libraries

    __array__ = protocols.array
    __array_ufunc__ = protocols.array_ufunc
    __array_function__ = protocols.array_function
    __dlpack__ = protocols.dlpack
    __dlpack_device__ = protocols.dlpack_device
    __buffer__ = protocols.buffer
    __getstate__ = protocols.get_state
    __setstate__ = protocols.set_state
    __reduce_ex__ = protocols.reduce
    __copy__ = protocols.copy
    __deepcopy__ = protocols.deepcopy
    to_dlpack_for_read = protocols.to_dlpack
    to_dlpack_for_write = protocols.to_dlpack

    def as_nd_ndarray(self) -> NDArray:
        """Return the array itself."""
        return self

    def as_np_ndarray(self) -> NDArray:
        """Return the array as an ``mx.np`` array that shares memory and gradients with this one."""
        from ..numpy.multiarray import as_np

        return as_np(self)  # type: ignore[no-any-return]

    def _sync_copyfrom(self, source_array: Any) -> None:
        values = values_of(source_array, self._dtype)
        if values.shape != self.shape:
            raise ValueError(f"Shape inconsistent: expected {values.shape} vs got {self.shape}")
        trace = LOCAL.trace
        assign(self, trace.bind(values, self.context), trace)


class _Method:
    """An operator as a method of arrays, created on first access because there are hundreds."""

    __slots__ = ("_declared", "_name")

    def __init__(self, declared: Operator, name: str) -> None:
        self._declared = declared
        self._name = name

    def __get__(self, array: NDArray | None, owner: type[NDArray]) -> Any:
        setattr(NDArray, self._name, function_of(self._declared, self._name))
        return getattr(owner if array is None else array, self._name)


def _offer(name: str, declared: Operator) -> None:
    """Add an operator to the methods of arrays if it is declared as one."""
    if declared.method and not hasattr(NDArray, name):
        setattr(NDArray, name, _Method(declared, name))


for _name, _declared in REGISTRY.items():
    _offer(_name, _declared)
DECLARED.connect(_offer)
for _name, _instead in OF_ARRAYS.items():
    setattr(NDArray, _name, ForeignName(_name, _instead))


def concrete(data: np.ndarray[Any, Any], context: Context) -> NDArray:
    """Wrap values in an array; ``data`` must not be written to afterwards."""
    if LISTENING[MEMORY]:
        hold(data, "input")
    made: NDArray = make_concrete(data, context)
    return made


complete_classes(globals())
