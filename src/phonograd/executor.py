"""Executor: a symbol bound to arrays, computed and differentiated on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import autograd
from .errors import MXNetError
from .ndarray.array import NDArray
from .symbol import Symbol

__all__ = ["Executor"]


class Executor:
    """A symbol with an array for each argument and, where gradients are wanted, a buffer for its gradient.

    >>> import phonograd as mx
    >>> x = mx.nd.array([3.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * x
    >>> symbol = mx.autograd.get_symbol(y)
    >>> executor = symbol.bind(mx.cpu(), [mx.nd.array([5.0])], [mx.nd.zeros((1,))])
    >>> float(executor.forward(is_train=True)[0])
    25.0
    >>> executor.backward(mx.nd.ones((1,)))
    >>> float(executor.grad_arrays[0])
    10.0
    """

    def __init__(self, symbol: Symbol, args: Any, args_grad: Any, grad_req: Any) -> None:
        names = symbol.list_arguments()
        self._symbol = symbol
        self.arg_dict: dict[str, NDArray] = _by_name(names, args, "args")
        for name in names:
            if name not in self.arg_dict:
                raise ValueError(f"key `{name}` is missing in `args`")
        self.grad_dict: dict[str, NDArray | None] = dict.fromkeys(names)
        self.grad_dict.update(_by_name(names, args_grad or {}, "args_grad"))
        if isinstance(grad_req, str):
            grad_req = dict.fromkeys(names, grad_req)
        requests = _by_name(names, grad_req, "grad_req")
        self._requests = {
            name: requests.get(name, "null") if self.grad_dict[name] is not None else "null" for name in names
        }
        self.aux_dict: dict[str, NDArray] = {}
        self.outputs: list[NDArray] = []

    @property
    def arg_arrays(self) -> list[NDArray]:
        """The arguments in order."""
        return [self.arg_dict[name] for name in self._symbol.list_arguments()]

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """The gradient buffers in order, None where no gradient is wanted."""
        return [self.grad_dict[name] for name in self._symbol.list_arguments()]

    @property
    def aux_arrays(self) -> list[NDArray]:
        """The auxiliary states: none."""
        return []

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs of the last forward pass by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs))

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Return the outputs; arrays given by name are written into the arguments first."""
        for name, value in kwargs.items():
            if name not in self.arg_dict:
                raise TypeError(f"Unknown argument {name}; arguments are {', '.join(self.arg_dict)}")
            self.arg_dict[name][:] = value
        # arrays of its own on the same memory, so that the arguments' own gradients are left alone
        arguments = {name: array.detach() for name, array in self.arg_dict.items()}
        for name, request in self._requests.items():
            if request != "null":
                autograd.mark_variables(arguments[name], self.grad_dict[name], request)
        with autograd.record() if is_train else autograd.pause():
            self.outputs = self._symbol.eval(None, **arguments)
        return self.outputs

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute the gradients of the last forward pass, which must have been one for training."""
        if not self.outputs:
            raise MXNetError("call forward(is_train=True) before backward()")
        autograd.backward(self.outputs, out_grads, retain_graph=True, train_mode=is_train)


def _by_name(names: list[str], given: Any, what: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if len(given) != len(names):
        raise ValueError(f"Length of {what} do not match arguments: {len(given)} for {', '.join(names)}")
    return dict(zip(names, given))
