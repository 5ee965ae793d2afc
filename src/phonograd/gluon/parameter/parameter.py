"""Provide Parameter, a trained array with its gradient and initializer, and Constant, which is not trained.

A parameter has one array per context. ``initialize`` creates the arrays, or the first forward pass does if the shape
is unknown until then (deferred initialization). Later changes are in place, so that all references to an array see
them. ``cast``, ``reset_ctx`` and ``force_reinit`` replace arrays, which increases :func:`replacements`.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import autograd, initializer
from ...core.backward.variable import zero_gradient
from ...core.base.devices import Context, cpu, current_context
from ...core.base.docstrings import complete_classes
from ...core.base.dtypes import as_array_dtype, as_dtype
from ...core.base.errors import MXNetError
from ...ndarray.array import NDArray
from ...ndarray.creation import array, zeros
from ...ndarray.semantics import of_chosen_kind
from ...ndarray.sparse import unique_rows
from ...symbol import Symbol
from ...util import is_np_shape

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "is_known", "replacements", "tensor_types"]

tensor_types = (Symbol, NDArray)

_STORAGE_TYPES = ("default", "row_sparse", "csr")
_replaced = itertools.count(1)
_count = 0


def replacements() -> int:
    """Return a number that changes whenever the arrays of any parameter are replaced."""
    return _count


def _note_replacement() -> None:
    global _count
    _count = next(_replaced)


class _Arrays(list[NDArray]):
    """Hold the arrays of a parameter, one for each context; libraries set entries to results of other computations."""

    def __setitem__(self, place: Any, array: Any) -> None:
        super().__setitem__(place, array)
        _note_replacement()


def symbols() -> Any:
    """Return the namespace of symbols; the import is late because few programs need it."""
    return importlib.import_module("phonograd.symbol")


class DeferredInitializationError(MXNetError):
    """Report the use of a parameter whose shape is unknown before the first forward pass."""


class _Deferred(NamedTuple):
    """Hold the arguments of a deferred initialization."""

    init: Any
    contexts: list[Context]
    default_init: Any
    data: Any


def is_known(shape: tuple[int, ...] | None) -> bool:
    """Return whether all extents of a shape are known; 0 and -1 stand for unknown ones."""
    return shape is not None and all([extent > 0 for extent in shape])


def _contexts(ctx: Any) -> list[Context]:
    if ctx is None:
        return [current_context()]
    return [ctx] if isinstance(ctx, Context) else list(ctx)


def _number_by_context(contexts: Sequence[Context]) -> list[list[int | None]]:
    """Return the number of each context in a list, by kind and number of the device, as MXNet's ``_ctx_map``.

    Pinned memory and plain memory of the host are the same kind.
    """
    found: list[list[int | None]] = [[], []]
    for number, context in enumerate(contexts):
        places = found[context.device_typeid & 1]
        places.extend([None] * (context.device_id + 1 - len(places)))
        places[context.device_id] = number
    return found


class Parameter:
    """Hold an array that is trained, or is otherwise part of a block.

    Parameters
    ----------
    name
        The full name, with the prefixes of all blocks around it.
    grad_req
        The treatment of a new gradient: 'write' it, 'add' it to the last one, or 'null' for no gradient.
    shape
        The shape; unknown extents are 0 or -1.
    dtype
        The dtype.
    lr_mult, wd_mult
        The factors of learning rate and weight decay in :class:`~phonograd.gluon.Trainer`.
    init
        The initializer of this parameter, or its name.
    allow_deferred_init
        Whether ``initialize`` may wait until the shape is known.
    differentiable
        Whether the parameter may have a gradient.
    stype, grad_stype
        The storage types of MXNet. Weights are stored densely; a gradient of type 'row_sparse' holds rows.

    >>> import phonograd as mx
    >>> weight = mx.gluon.Parameter("weight", shape=(2, 2))
    >>> weight.initialize("ones")
    >>> weight.data().asnumpy().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: Any = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        self._var: Any = None
        self._data: _Arrays | None = None
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] = []
        self._ctx_map = _number_by_context([])
        self._trainer: Any = None
        self._deferred_init: _Deferred | None = None
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req: str | None = None
        self._shape: tuple[int, ...] | None = (shape,) if isinstance(shape, int) else shape
        self.name = name
        self._dtype = dtype
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.grad_req = grad_req
        self.init = init
        for label, given in (("grad_stype", grad_stype), ("stype", stype)):
            assert given in _STORAGE_TYPES, (
                f"{label} for Parameter '{name}' must be one of 'default', 'row_sparse', or 'csr', but got '{given}'"
            )
        self._stype = stype
        self._grad_stype = grad_stype

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={self.dtype})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        # copies of arrays have no gradient
        vars(self).update(state)
        if self._data is not None and self._grad is not None:
            autograd.mark_variables(self._data, self._grad, self.grad_req)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_trainer": None, "_var": None}

    # -- attributes

    @property
    def grad_req(self) -> str:
        """The treatment of a new gradient: 'write', 'add' or 'null'."""
        return self._grad_req or "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        assert req in ("write", "add", "null"), f"grad_req must be one of 'write', 'add', or 'null', but got '{req}'"
        if not self._differentiable:
            req = "null"
        if self._grad_req == req:
            return
        self._grad_req = req
        if self._data is None:
            return
        if req == "null" and self._grad is not None:
            self._grad = None
            with autograd.pause():
                self._data = _Arrays([data.detach().copy() for data in self._data])
            _note_replacement()
        else:
            self._init_grad()

    @property
    def dtype(self) -> Any:
        """The dtype; assigning to it converts the arrays."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape. Unknown extents are 0, or -1 with NumPy shapes, and can be set once."""
        if self._shape is not None and is_np_shape():
            return tuple([extent or -1 for extent in self._shape])
        return self._shape

    @shape.setter
    def shape(self, new_shape: tuple[int, ...]) -> None:
        if self._shape is not None:
            fits = [old in (-1, 0, new) for old, new in zip(self._shape, new_shape)]
            assert len(self._shape) == len(new_shape), _incompatible_message(new_shape, self._shape)
            assert all(fits), _incompatible_message(new_shape, self._shape)
        self._shape = tuple(new_shape)

    # -- arrays

    def initialize(
        self,
        init: Any = None,
        ctx: Any = None,
        default_init: Any = initializer.Uniform(),  # noqa: B008 - it is never changed
        force_reinit: bool = False,
    ) -> None:
        """Create the arrays, now or as soon as the shape is known.

        Parameters
        ----------
        init
            The initializer. None selects the one of this parameter, or `default_init` if it has none.
        ctx
            One context or a list of contexts.
        default_init
            The initializer of the whole network.
        force_reinit
            Whether to replace existing arrays.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True to re-initialize.",
                stacklevel=2,
            )
            return
        self._data = self._grad = None
        if init is None:
            init = default_init if self.init is None else self.init
        if not is_known(self.shape) and not self._allow_deferred_init:
            raise ValueError(f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self.shape}.")
        self._deferred_init = _Deferred(init, _contexts(ctx), default_init, None)
        if is_known(self.shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self) -> None:
        """Create the arrays if their initialization was deferred."""
        deferred = self._deferred_init
        if deferred is None:
            return
        shape = self.shape
        assert shape is not None, f"Cannot initialize Parameter '{self.name}' because it has no shape."
        assert is_known(shape), (
            f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {shape}. "
            "Please specify in_units, in_channels, etc for `Block`s."
        )
        self._deferred_init = None
        with autograd.pause():
            data = deferred.data
            if data is None:
                data = of_chosen_kind(zeros(shape, dtype=self.dtype, ctx=cpu()))
                _fill(data, self.name, deferred.init, deferred.default_init)
            self._init_impl(data, deferred.contexts)

    def _init_impl(self, data: Any, contexts: Iterable[Context]) -> None:
        self._ctx_list = list(contexts)
        self._ctx_map = _number_by_context(self._ctx_list)
        self._data = _Arrays(
            [self._as_storage_type(of_chosen_kind(data.copyto(context))) for context in self._ctx_list]
        )
        self._init_grad()

    def _as_storage_type(self, data: NDArray) -> NDArray:
        """Return data in the storage type of this parameter."""
        return data if data.stype == self._stype else data.tostype(self._stype)

    def _init_grad(self) -> None:
        _note_replacement()
        assert self._data is not None
        if self.grad_req == "null":
            self._grad = None
            return
        self._grad = [
            zero_gradient(data.shape, data._dtype, data.context, data._result_class)
            if self._grad_stype == "default"
            else zeros(data.shape, data.ctx, data.dtype, self._grad_stype)
            for data in self._data
        ]
        autograd.mark_variables(self._data, self._grad, self.grad_req)

    def _check_and_get(self, arr_list: list[NDArray] | None, ctx: Any) -> Any:
        """Return the array on a context; None selects the only or the current one, the class `list` the whole list."""
        if arr_list is None:
            raise self._missing_error()
        if ctx is list:
            return arr_list
        if ctx is None:
            if len(arr_list) == 1:
                return arr_list[0]
            ctx = current_context()
        numbers = self._ctx_map[ctx.device_typeid & 1]
        number = numbers[ctx.device_id] if ctx.device_id < len(numbers) else None
        if number is None:
            raise RuntimeError(
                f"Parameter '{self.name}' was not initialized on context {ctx}. "
                f"It was only initialized on {self._ctx_list}."
            )
        return arr_list[number]

    def _missing_error(self) -> Exception:
        """Return the error to raise for missing arrays."""
        if self._deferred_init is not None:
            return DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was deferred. Actual "
                "initialization happens during the first forward pass. Please pass one batch of data through the "
                "network before accessing Parameters. You can also avoid deferred initialization by specifying "
                "in_units, num_features, etc., for network layers."
            )
        return RuntimeError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize parameters and create "
            "Trainer with Block.collect_params() instead of Block.params because the later does not include "
            "Parameters of nested child Blocks"
        )

    def _check_dense(self, where: str) -> None:
        if self._stype != "default":
            raise RuntimeError(
                f"Cannot return a copy of Parameter '{self.name}' {where} because its storage type is {self._stype}. "
                "Please use row_sparse_data() instead."
            )

    def data(self, ctx: Context | None = None) -> NDArray:
        """Return the array on one context. It is no copy: changing it changes the parameter."""
        self._check_dense(f"on ctx {ctx} via data()")
        found: NDArray = self._check_and_get(self._data, ctx)
        return found

    def list_data(self) -> list[NDArray]:
        """Return the arrays on all contexts."""
        self._check_dense("on all contexts via list_data()")
        return list(self._check_and_get(self._data, list))

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Return the rows that `row_id` names of a parameter with stype='row_sparse', on the context of `row_id`."""
        self._check_sparse("via row_sparse_data()")
        return self._rows(self._check_and_get(self._data, row_id.ctx), row_id)

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """Return the rows that `row_id` names of a parameter with stype='row_sparse', on all contexts."""
        self._check_sparse("on all contexts via list_row_sparse_data()")
        return [self._rows(data, row_id) for data in self._check_and_get(self._data, list)]

    def _rows(self, data: Any, row_id: NDArray) -> NDArray:
        """Return some rows, recorded: gradients reach the parameter."""
        found: NDArray = data.retain(unique_rows(row_id, data.context))
        return found

    def _check_sparse(self, where: str) -> None:
        if self._stype != "row_sparse":
            raise RuntimeError(
                f"Cannot return a copy of Parameter {self.name} {where} because its storage type is {self._stype}. "
                "Please use data() instead."
            )

    def grad(self, ctx: Context | None = None) -> NDArray:
        """Return the gradient on one context."""
        self._check_grad()
        found: NDArray = self._check_and_get(self._grad, ctx)
        return found

    def list_grad(self) -> list[NDArray]:
        """Return the gradients on all contexts."""
        self._check_grad()
        return list(self._check_and_get(self._grad, list))

    def _check_grad(self) -> None:
        if self._data is not None and self._grad is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'")

    def list_ctx(self) -> list[Context]:
        """Return the current or deferred contexts."""
        if self._data is not None:
            return self._ctx_list
        if self._deferred_init is not None:
            return self._deferred_init.contexts
        raise RuntimeError(f"Parameter '{self.name}' has not been initialized")

    # -- changes

    def set_data(self, data: Any) -> None:
        """Assign values on all contexts."""
        self.shape = data.shape
        if self._data is None:
            assert self._deferred_init is not None, f"Parameter '{self.name}' has not been initialized"
            given = data if isinstance(data, NDArray) else array(data, dtype=self.dtype)
            self._deferred_init = self._deferred_init._replace(data=given)
            return
        if self._trainer is not None:
            self._trainer._note_new_data(self)
        with autograd.pause():
            for own in self._data:
                own[:] = data

    def zero_grad(self) -> None:
        """Set the gradients to zero."""
        for grad in self._grad or ():
            grad[:] = 0

    def cast(self, dtype: Any) -> None:
        """Convert the arrays and gradients to another dtype."""
        try:
            as_dtype(dtype)
        except (TypeError, KeyError) as error:
            raise TypeError(f"Parameter '{self.name}' cannot be cast: {error.args[0]}") from None
        self._dtype = dtype
        # the symbol carries the dtype
        self._var = None
        if self._data is None:
            return
        with autograd.pause():
            self._data = _Arrays([data.astype(dtype) for data in self._data])
            _note_replacement()
            if self._grad is not None:
                self._grad = [grad.astype(dtype) for grad in self._grad]
                autograd.mark_variables(self._data, self._grad, self.grad_req)

    def reset_ctx(self, ctx: Any) -> None:
        """Move the arrays to other contexts; the new value is the mean over the old contexts."""
        contexts = _contexts(ctx)
        if self._data is not None:
            with autograd.pause():
                self._init_impl(self._reduce(), contexts)
        elif self._deferred_init is not None:
            self._deferred_init = self._deferred_init._replace(contexts=contexts)
        else:
            raise ValueError(f"Cannot reset context for Parameter '{self.name}' because it has not been initialized.")

    def _reduce(self) -> NDArray:
        """Return the mean over all contexts, on the host."""
        with autograd.pause():
            arrays = [data.copyto(cpu()) for data in self._check_and_get(self._data, list)]
            mean: NDArray = arrays[0] if len(arrays) == 1 else functools.reduce(operator.add, arrays) / len(arrays)
            return self._as_storage_type(mean)

    def _set_trainer(self, trainer: Any) -> None:
        if self._stype != "default" and self._trainer and trainer and self._trainer is not trainer:
            raise RuntimeError(
                f"Failed to set the trainer for Parameter '{self.name}' because it was already set. More than one "
                f"trainers for a {self._stype} Parameter is not supported."
            )
        self._trainer = trainer

    def _check_load(self, data: NDArray, ctx: Any, cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Raise AssertionError if :meth:`_load_init` cannot set these values."""
        if cast_dtype:
            assert dtype_source in ("current", "saved"), f"dtype_source is 'current' or 'saved', not {dtype_source!r}"
        if self.shape:
            fits = len(self.shape) == len(data.shape) and all(
                [own in (0, -1, saved) for own, saved in zip(self.shape, data.shape)]
            )
            assert fits, (
                f"Failed loading Parameter '{self.name}' from saved params: shape incompatible expected "
                f"{self.shape} vs saved {data.shape}"
            )
        if self.dtype and as_array_dtype(self.dtype) != as_array_dtype(data.dtype):
            assert cast_dtype, (
                f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible expected {self.dtype} "
                f"vs saved {data.dtype}. Set cast_dtype=True to cast the dtype of saved params."
            )
        if self._data is not None or self._deferred_init is not None:
            assert ctx is None or set(_contexts(ctx)) == set(self.list_ctx()), (
                f"Failed to load Parameter '{self.name}' on {ctx} because it was previous initialized on "
                f"{self.list_ctx()}."
            )

    def _load_init(self, data: NDArray, ctx: Any, cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Set values from a file, and initialize the parameter if it is not initialized."""
        self._check_load(data, ctx, cast_dtype, dtype_source)
        if self.shape:
            self.shape = tuple([own if own > 0 else saved for own, saved in zip(self.shape, data.shape)])
        elif self.shape is None:
            self.shape = data.shape
        if self.dtype and as_array_dtype(self.dtype) != as_array_dtype(data.dtype):
            if dtype_source == "current":
                data = data.astype(self.dtype)
            else:
                self.dtype = data.dtype
        contexts = None if ctx is None else _contexts(ctx)
        if self._data is not None:
            self.set_data(data)
        else:
            deferred = self._deferred_init
            with autograd.pause():
                self._init_impl(data, deferred.contexts if deferred is not None else contexts or [cpu()])
        self._deferred_init = None

    def var(self) -> Any:
        """Return the symbol of this parameter."""
        if self._var is None:
            self._var = symbols().var(
                self.name,
                shape=self.shape,
                dtype=self.dtype,
                lr_mult=self.lr_mult,
                wd_mult=self.wd_mult,
                init=self.init,
                stype=self._stype,
            )
        return self._var


def _incompatible_message(new: Any, old: Any) -> str:
    return f"Expected shape {new} is incompatible with given shape {old}."


def _fill(data: NDArray, name: str, init: Any, default_init: Any) -> None:
    """Fill an array by the initializer of its parameter, or by that of the network."""
    if isinstance(default_init, (initializer.Load, initializer.Mixed)):
        if init is default_init:
            default_init(initializer.InitDesc(name), data)
            return
        default_init = initializer.Uniform()
    if isinstance(init, (initializer.Load, initializer.Mixed)):
        init(initializer.InitDesc(name), data)
        return
    initializer.create(default_init)(initializer.InitDesc(name, {"__init__": init}), data)


class _Value(initializer.Initializer):
    """Initialize a constant."""

    def __init__(self, value: NDArray) -> None:
        super().__init__()
        self.value = value

    def _init_weight(self, _: str, arr: NDArray) -> None:
        arr[:] = self.value

    def dumps(self) -> str:
        return initializer.Constant(self.value).dumps()


class Constant(Parameter):
    """Hold a fixed value that is saved, loaded and moved like a parameter, but never trained.

    >>> import phonograd as mx
    >>> two = mx.gluon.Constant("two", [2.0])
    >>> two.initialize()
    >>> two.data().asnumpy().tolist(), two.grad_req
    ([2.0], 'null')
    """

    def __init__(self, name: str, value: Any) -> None:
        self.value: NDArray = value if isinstance(value, NDArray) else of_chosen_kind(array(value))
        super().__init__(name, grad_req="null", shape=self.value.shape, dtype=self.value.dtype, init=_Value(self.value))

    @property
    def grad_req(self) -> str:
        """Always 'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", and new value "{req}" '
                "is ignored.",
                stacklevel=2,
            )


complete_classes(globals())
