"""Provide MXNet's first forms of custom operators: NumpyOp and NDArrayOp, called as ``op(data)`` or ``get_symbol``.

They are built on :mod:`phonograd.operator`, which replaces them: :class:`phonograd.operator.CustomOp`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .operator import CustomOp, CustomOpProp, register

__all__ = ["NDArrayOp", "NumpyOp", "PythonOp"]

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
