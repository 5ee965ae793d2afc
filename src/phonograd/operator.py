"""Custom operators: MXNet's CustomOp and CustomOpProp, called as ``nd.Custom(x, op_type='name')``.

Forward runs with recording off; backward runs with the flags of the pass that calls it. Both may use other libraries.
:class:`phonograd.autograd.Function` does the same with less code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from .core.array.handle import as_class
from .core.backward.function import as_recorded, record_call, sources_of
from .core.base.devices import current_context
from .core.base.docstrings import complete_classes
from .core.base.dtypes import as_array_dtype
from .core.base.errors import MXNetError, nearest
from .core.events import CUSTOM_OPERATORS, LISTENING, USER_SCOPE, Range
from .core.graph.operator import REGISTRY
from .core.graph.parameters import REQUIRED, Parameter
from .core.graph.signature import visible
from .core.trace.flags import FLAGS, RECORDING, TRAINING, flags_set_to
from .ndarray.array import NDArray
from .ndarray.creation import zeros

__all__ = [
    "Custom",
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
    "registered_class",
]

_registered: dict[str, type[CustomOpProp]] = {}


class CustomOp:
    """The computation of a custom operator: override ``forward`` and ``backward``."""

    def forward(self, is_train: int, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        """Compute ``out_data`` from ``in_data``; write results with :meth:`assign`."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(is_train, req, in_data, out_data, aux)")

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        """Compute ``in_grad`` from ``out_grad``; write results with :meth:`assign`."""
        raise NotImplementedError(
            f"{type(self).__name__} must define backward(req, out_grad, in_data, out_data, in_grad, aux)"
        )

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write, add or drop a result according to the request."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] = dst + src if isinstance(src, NDArray) else dst.asnumpy() + src
        elif req != "null":
            raise ValueError(f"unknown request {req!r}; requests are 'null', 'write', 'inplace' and 'add'")


class CustomOpProp:
    """Describe a custom operator: its arguments, outputs, shapes and types, and create its CustomOp."""

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: Any) -> Any:
        """Return the shapes of inputs, outputs and auxiliary states; by default, all equal that of the first input."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: Any) -> Any:
        """Return the types of inputs, outputs and auxiliary states; by default, all equal that of the first input."""
        first = in_type[0]
        outputs, states = len(self.list_outputs()), len(self.list_auxiliary_states())
        return [first] * len(in_type), [first] * outputs, [first] * states

    def infer_storage_type(self, in_stype: Any) -> Any:
        """Return the storage types of inputs, outputs and auxiliary states; custom operators get dense arrays."""
        for number, stype in enumerate(in_stype):
            if stype != "default":
                raise MXNetError(f"custom operators take dense arrays, but input {number} is {stype}")
        outputs, states = len(self.list_outputs()), len(self.list_auxiliary_states())
        return in_stype, ["default"] * outputs, ["default"] * states

    def infer_storage_type_backward(
        self, ograd_stype: Any, in_stype: Any, out_stype: Any, igrad_stype: Any, aux_stype: Any
    ) -> Any:
        """Return the storage types of all arrays of the backward pass; gradients are dense."""
        return ograd_stype, in_stype, out_stype, ["default"] * len(igrad_stype), aux_stype

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of inputs that forward may change."""
        return []

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> list[Any]:
        """Return the arrays that backward reads; informative only, since all of them are kept."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        """Return the CustomOp for these inputs."""
        return CustomOp()


def register(reg_name: str) -> Callable[[type[CustomOpProp]], type[CustomOpProp]]:
    """Return a class decorator that registers a CustomOpProp under a name."""

    def decorate(prop_class: type[CustomOpProp]) -> type[CustomOpProp]:
        if not (isinstance(prop_class, type) and issubclass(prop_class, CustomOpProp)):
            raise TypeError(f"register expects a subclass of CustomOpProp, not {prop_class!r}")
        _registered[reg_name] = prop_class
        return prop_class

    return decorate


def get_all_registered_operators() -> list[str]:
    """Return the names of all operators, those of the library and registered custom ones."""
    return sorted({*REGISTRY, *_registered})


class OperatorArguments(NamedTuple):
    """The number of arguments of an operator, their names and their kinds in MXNet's words.

    Parameters
    ----------
    narg
        The number of arguments.
    names
        Their names, first those of arrays.
    types
        Their kinds, with the defaults of parameters.

    Examples
    --------
    >>> get_operator_arguments("relu")
    OperatorArguments(narg=1, names=['data'], types=['NDArray-or-Symbol'])
    """

    narg: int
    names: list[str]
    types: list[str]


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Return the arrays and the parameters of an operator.

    Parameters
    ----------
    op_name
        The name of the operator.

    Examples
    --------
    >>> get_operator_arguments("dot").names
    ['lhs', 'rhs', 'transpose_a', 'transpose_b', 'forward_stype']
    >>> get_operator_arguments("dot").types[1:3]
    ['NDArray-or-Symbol', 'boolean, optional, default=0']
    """
    if op_name not in REGISTRY:
        raise MXNetError(f"Cannot find operator {op_name}{nearest(op_name, list(REGISTRY))}")
    operator = REGISTRY[op_name]
    array = "NDArray-or-Symbol[]" if operator.variadic else "NDArray-or-Symbol"
    arguments = [(name, array) for name in operator.input_names if name != "counter"]
    if operator.variadic:
        arguments.append((operator.interface.count, "int, required"))
    arguments += [(each.name, _kind_of(each)) for each in visible(operator)]
    names, types = [name for name, _ in arguments], [kind for _, kind in arguments]
    return OperatorArguments(len(arguments), names, types)


def _kind_of(parameter: Parameter) -> str:
    """Return the kind of a parameter, and its default, in MXNet's words."""
    kind, default = parameter.description, parameter.default
    if parameter.choices:
        values = [repr(choice) for choice in sorted(parameter.choices)]
        kind = "{" + ", ".join(["None", *values] if parameter.optional else values) + "}"
    if default is REQUIRED:
        return f"{kind}, required"
    if isinstance(default, bool):
        default = int(default)
    elif default is None or isinstance(default, str):
        default = repr(str(default))
    elif isinstance(default, tuple):
        default = list(default)
    elif isinstance(default, float):
        default = f"{default:g}"
    return f"{kind}, optional, default={default}"


def registered_class(op_type: str) -> type[CustomOpProp]:
    """Return the class registered under a name."""
    if op_type not in _registered:
        raise MXNetError(f"Cannot find custom operator {op_type}{nearest(op_type, list(_registered))}")
    return _registered[op_type]


def Custom(*data: NDArray, op_type: str, **kwargs: Any) -> Any:  # noqa: N802 - MXNet's name
    """Call a registered custom operator; keywords are arrays by name, or parameters passed on as strings."""
    make_prop: Callable[..., CustomOpProp] = registered_class(op_type)
    named = {key: value for key, value in kwargs.items() if isinstance(value, NDArray)}
    parameters = {
        key: str(value) for key, value in kwargs.items() if key not in named and key not in ("name", "ctx", "out")
    }
    prop = make_prop(**parameters)
    arguments, states = list(prop.list_arguments()), list(prop.list_auxiliary_states())
    arrays = _inputs(op_type, list(data), named, [*arguments, *states])
    inputs, aux = arrays[: len(arguments)], arrays[len(arguments) :]
    shapes = prop.infer_shape([list(array.shape) for array in inputs])
    types = prop.infer_type([array.dtype for array in inputs])
    context = inputs[0].context if inputs else current_context()
    outputs = [
        zeros(tuple(shape), context, as_array_dtype(kind)) for shape, kind in zip(shapes[1], types[1], strict=True)
    ]
    if inputs:
        outputs = [as_class(output, inputs[0]._result_class) for output in outputs]
    op = prop.create_operator(context, [list(a.shape) for a in inputs], [a.dtype for a in inputs])
    call = _Call(op, {**parameters, "op_type": op_type}, inputs, outputs, aux)
    call.forward()
    return _return_or_write(outputs, kwargs.get("out"))


def _return_or_write(outputs: list[NDArray], out: Any) -> Any:
    if out is None:
        return outputs[0] if len(outputs) == 1 else outputs
    targets = list(out) if isinstance(out, (list, tuple)) else [out]
    if len(targets) != len(outputs):
        raise MXNetError(f"Custom has {len(outputs)} outputs, but out= lists {len(targets)}")
    for target, output in zip(targets, outputs, strict=True):
        target[:] = output
    return out


def _inputs(op_type: str, given: list[Any], named: dict[str, NDArray], names: list[str]) -> list[NDArray]:
    for array in given:
        if not isinstance(array, NDArray):
            raise AssertionError(f"Positional arguments must have NDArray type, but got {array}")
    rest = [name for name in names[len(given) :] if name not in named]
    if rest or len(given) + len(named) != len(names):
        raise MXNetError(
            f"custom operator {op_type} takes the arrays {', '.join(names)}, but got {len(given)} by position and "
            f"{', '.join(named) or 'none'} by name"
        )
    return given + [named[name] for name in names[len(given) :]]


class _Call:
    """One call of a custom operator. Later writes to the arrays do not change the values it saw."""

    def __init__(
        self,
        op: CustomOp,
        attributes: dict[str, str],
        inputs: list[NDArray],
        outputs: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        self.op = op
        self.attributes = attributes
        self.name = attributes["op_type"]
        self.inputs = inputs
        self.outputs = outputs
        self.aux = aux

    def forward(self) -> None:
        """Compute the outputs and record the call if recording is on."""
        flags = FLAGS.get()
        sources = sources_of(self.inputs) if flags & RECORDING else []
        # the operator gets its own array objects on the same memory, so that anything it attaches stays local
        seen = [array.detach() for array in self.inputs]
        with flags_set_to(flags & ~RECORDING), self._observed(""):
            self.op.forward(int(bool(flags & TRAINING)), ["write"] * len(self.outputs), seen, self.outputs, self.aux)
        if record_call(self.name, self.backward, sources, self.outputs, self.attributes):
            self.requests = ["write" if node.marked else "null" for _, node in sources]
            self.inputs = [as_recorded(array) for array in self.inputs]
            self.outputs = [as_recorded(array) for array in self.outputs]

    def backward(self, *out_grads: NDArray) -> list[NDArray]:
        """Return the gradients of the inputs."""
        grads = [zeros(array.shape, array.context, array.dtype) for array in self.inputs]
        in_grads = [as_class(grad, array._result_class) for grad, array in zip(grads, self.inputs, strict=True)]
        with self._observed("_backward_"):
            self.op.backward(self.requests, list(out_grads), list(self.inputs), list(self.outputs), in_grads, self.aux)
        return in_grads

    def _observed(self, prefix: str) -> AbstractContextManager[Any]:
        """Return a scope in which profilers see the Python code of the operator, under MXNet's name for it."""
        if not LISTENING[USER_SCOPE]:
            return nullcontext()
        entry = Range(USER_SCOPE)
        entry.kind, entry.domain = "custom", CUSTOM_OPERATORS
        entry.before(f"{prefix}{self.name}::pure_python")
        return entry


# -- MXNet's first forms of custom operators: instances that are called as ``op(data)``

_numbers = itertools.count()


class PythonOp:
    """Base class of operators that are instances: override ``forward``, ``backward`` and ``infer_shape``.

    Parameters
    ----------
    need_top_grad
        Whether the gradient depends on that of the output; False for losses.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.info_: Any = None
        self.need_top_grad_ = need_top_grad
        self._registered_as: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Return a symbol of this operator."""
        raise NotImplementedError("Must override this")

    def forward(self, in_data: Sequence[Any], out_data: Sequence[Any]) -> None:
        """Write the outputs; by default, copies of the inputs."""
        out_data[0][:] = in_data[0]

    def backward(
        self, out_grad: Sequence[Any], in_data: Sequence[Any], out_data: Sequence[Any], in_grad: Sequence[Any]
    ) -> None:
        """Write the gradients of the inputs; by default, ones."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the shapes of inputs and outputs; by default, that of the first input."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Return whether the gradient depends on that of the output."""
        return self.need_top_grad_


class _Adapter(CustomOp):
    """Call a PythonOp with NumPy arrays, whose values are written back, or with arrays of the library."""

    def __init__(self, op: PythonOp, as_numpy: bool) -> None:
        self._op, self._as_numpy = op, as_numpy

    def _call(self, function: Any, inputs: list[Sequence[Any]], results: Sequence[Any]) -> None:
        if not self._as_numpy:
            function(*inputs, results)
            return
        written = [array.asnumpy().copy() for array in results]
        function(*[[array.asnumpy() for array in group] for group in inputs], written)
        for array, value in zip(results, written, strict=True):
            array[:] = value

    def forward(self, is_train: int, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        """Compute the outputs."""
        self._call(self._op.forward, [in_data], out_data)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        """Compute the gradients of the inputs."""
        self._call(self._op.backward, [out_grad, in_data, out_data], in_grad)


def _make_symbol(op: PythonOp, as_numpy: bool, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return a symbol of an operator, after registering it under a name of its own."""
    if op._registered_as is None:

        class Prop(CustomOpProp):
            """Describe one PythonOp."""

            def __init__(self) -> None:
                super().__init__(need_top_grad=op.need_top_grad())

            def list_arguments(self) -> list[str]:
                return op.list_arguments()

            def list_outputs(self) -> list[str]:
                return op.list_outputs()

            def infer_shape(self, in_shape: Any) -> Any:
                inputs, outputs = op.infer_shape(in_shape)
                return inputs, outputs, []

            def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
                return _Adapter(op, as_numpy)

        op._registered_as = f"_python_op_{next(_numbers)}"
        register(op._registered_as)(Prop)
    from . import symbol

    return symbol.Custom(*args, op_type=op._registered_as, **kwargs)


class NumpyOp(PythonOp):
    """An operator whose ``forward`` and ``backward`` get NumPy arrays.

    >>> import phonograd as mx
    >>> class Square(NumpyOp):
    ...     def forward(self, in_data, out_data):
    ...         out_data[0][:] = in_data[0] ** 2
    ...
    ...     def backward(self, out_grad, in_data, out_data, in_grad):
    ...         in_grad[0][:] = 2 * in_data[0] * out_grad[0]
    >>> symbol = Square()(data=mx.sym.var("data"), name="square")
    >>> symbol.eval(data=mx.nd.array([3.0]))[0].asscalar()
    np.float32(9.0)
    """

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Return a symbol of this operator."""
        return _make_symbol(self, True, args, kwargs)


class NDArrayOp(PythonOp):
    """An operator whose ``forward`` and ``backward`` get arrays of the library."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Return a symbol of this operator."""
        return _make_symbol(self, False, args, kwargs)

    def declare_backward_dependency(
        self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
    ) -> list[int]:
        """Return the numbers of the arrays that backward reads."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


complete_classes(globals())
