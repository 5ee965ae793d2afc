"""Executor: a symbol bound to arrays, with forward and backward passes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import autograd
from .core.array.handle import assign, is_recorded, known_value, make, node_in, replace
from .core.backward.function import record_call, sources_of
from .core.base.devices import Context, as_context
from .core.base.docstrings import complete_classes
from .core.base.errors import MXNetError, nearest
from .core.capture.compiled import Compiled
from .core.capture.replay import is_replaceable
from .core.graph.interface import is_known
from .core.graph.node import Node
from .core.ops.math.structural import detach
from .core.trace.trace import LOCAL
from .ndarray.array import NDArray
from .ndarray.creation import zeros
from .symbol.entry import Entry
from .symbol.extents import real_shape
from .symbol.graph import Symbol

__all__ = ["Executor", "bind_new_arrays"]

_FLOAT32 = np.dtype("float32")
_REQUESTS = ("null", "write", "add")

_CHANGED = (
    "Shape of unspecified array arg:{} changed. This can cause the new executor to not share parameters with the old "
    "one. Please check for error in network. If this is intended, set partial_shaping=True to suppress this warning."
)
_LARGER = (
    "New shape of arg:{} larger than original. First making a big executor and then down sizing it is more efficient "
    "than the reverse. If you really want to up size, set allow_up_sizing=True to enable allocation of new arrays."
)


class Executor:
    """A symbol with an array for each argument and, if requested, a buffer for its gradient.

    >>> import phonograd as mx
    >>> x = mx.sym.var("x")
    >>> executor = (x * x).bind(mx.cpu(), [mx.nd.array([5.0])], [mx.nd.zeros((1,))])
    >>> float(executor.forward(is_train=True)[0])
    25.0
    >>> executor.backward(mx.nd.ones((1,)))
    >>> float(executor.grad_dict["x"])
    10.0
    """

    def __init__(
        self,
        symbol: Symbol,
        args: Any,
        args_grad: Any,
        grad_req: Any,
        aux_states: Any = None,
        ctx: Any = None,
        groups: Mapping[str, Any] | None = None,
    ) -> None:
        names = symbol.list_arguments()
        self._groups = {group: as_context(context) for group, context in (groups or {}).items()}
        self._symbol = symbol
        self._ctx: Context | None = None if ctx is None else as_context(ctx)
        self.arg_dict: dict[str, NDArray] = _complete(names, args, "args")
        self.grad_dict: dict[str, NDArray | None] = dict.fromkeys(names)
        self.grad_dict.update(_by_name(names, args_grad or {}, "args_grad"))
        if isinstance(grad_req, str):
            grad_req = dict.fromkeys(names, grad_req)
        requests = _by_name(names, grad_req, "grad_req")
        for name, request in requests.items():
            if request not in _REQUESTS:
                raise ValueError(f"grad_req must be one of {_REQUESTS}, but that of {name} is {request!r}")
        self._requests = {
            name: requests.get(name, "null") if self.grad_dict[name] is not None else "null" for name in names
        }
        self.aux_dict: dict[str, NDArray] = _complete(symbol.list_auxiliary_states(), aux_states or {}, "aux_states")
        self._outputs: list[NDArray] | None = None
        self._recorded: list[NDArray] | None = None
        self._monitor: Callable[[str, NDArray], Any] | None = None
        self._monitor_all = False
        # Python code of the user must run once in each pass
        self._is_captured = not self._groups and not symbol._looks_at_values
        #: predictions, which are captured and replayed
        self._predict: Compiled[..., list[NDArray]] = Compiled(self._run, quietly=True)
        #: gradients that operators passed to their inputs in a monitored backward pass, by MXNet's names
        self._seen_gradients: list[tuple[str, NDArray]] = []

    def check_shapes(self) -> None:
        """Raise if shapes of the arrays conflict, or a gradient buffer differs in shape from its argument."""
        for name, grad in self.grad_dict.items():
            if grad is not None and grad.shape != self.arg_dict[name].shape:
                raise MXNetError(
                    f"bind: the array for the gradient of {name} has the shape {grad.shape}, but {name} has "
                    f"{self.arg_dict[name].shape}"
                )
        self._output_specs()

    def _output_specs(self) -> list[Any]:
        arrays = {**self.arg_dict, **self.aux_dict}
        inferred = self._symbol._infer(
            {name: array.shape for name, array in arrays.items()},
            {name: array._dtype for name, array in arrays.items()},
            with_empty=True,
        )
        return [inferred.of(head) for head in self._symbol._heads]

    @property
    def arg_arrays(self) -> list[NDArray]:
        """The arguments in order."""
        return [self.arg_dict[name] for name in self._symbol.list_arguments()]

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """The gradient buffers in order; None for arguments without gradient."""
        return [self.grad_dict[name] for name in self._symbol.list_arguments()]

    @property
    def aux_arrays(self) -> list[NDArray]:
        """The auxiliary states in order."""
        return [self.aux_dict[name] for name in self._symbol.list_auxiliary_states()]

    @property
    def outputs(self) -> list[NDArray]:
        """The outputs of the last forward pass; zeros before the first one."""
        if self._outputs is None:
            self._outputs = [
                zeros(real_shape(shape or ()), self._ctx, dtype or _FLOAT32) for shape, dtype in self._output_specs()
            ]
        return self._outputs

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs of the last forward pass by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs, strict=True))

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Write arrays given by name into the arguments, and return the outputs.

        Every call returns the same arrays, and overwrites them.
        """
        for name, value in kwargs.items():
            self._feed(name, value)
        seen: list[tuple[str, NDArray]] = []
        if not is_train and self._monitor is None and self._is_captured:
            with autograd.pause(train_mode=False):
                found = self._predict(*self.arg_dict.values(), *self.aux_dict.values())
            self._recorded = None
            if not self._replace_outputs(found):
                self._keep([detach(node_in(array, LOCAL.trace)) for array in found])
            return self.outputs
        found = self._compute(is_train, is_train, None if self._monitor is None else functools.partial(_note, seen))
        nodes = [node_in(array, LOCAL.trace) for array in found]
        self._recorded = found if is_train else None
        self._keep([detach(node) for node in nodes])
        for name, array in seen:
            # only now, because a callback may read values
            assert self._monitor is not None
            self._monitor(name, array)
        return self.outputs

    def _run(self, *arrays: NDArray) -> list[NDArray]:
        """Return the outputs for arguments and auxiliary states in order."""
        return self._symbol._run(dict(zip([*self.arg_dict, *self.aux_dict], arrays, strict=True)), self._ctx)

    def _compute(self, recorded: bool, training: bool, monitor: Callable[[str, Node], None] | None) -> list[NDArray]:
        """Return the outputs, and update auxiliary states."""
        # separate arrays with shared memory: in-place changes by operators (the gamma of BatchNorm) reach arguments,
        # but the arguments' own gradients stay untouched
        arguments = {name: array.detach() for name, array in self.arg_dict.items()}
        for name, request in self._requests.items():
            if recorded and request != "null":
                autograd.mark_variables(arguments[name], self.grad_dict[name], request)
        with autograd.record(train_mode=training) if recorded else autograd.pause(train_mode=training):
            return self._symbol._run(
                {**arguments, **self.aux_dict},
                self._ctx,
                monitor,
                self._monitor_all,
                self._groups,
                self._watch if recorded and monitor is not None else None,
            )

    def _watch(self, entry: Entry, inputs: list[Node]) -> list[Node]:
        """Return inputs of an operator whose gradients a monitored backward pass keeps, under MXNet's names."""
        places = [place for place, node in enumerate(inputs) if node.marked]
        if not places:
            return inputs
        count = len(inputs) - len(entry.call.auxiliary)
        names = [f"{entry.name}_backward_output{place if count > 1 else ''}" for place in places]
        arrays = [make(inputs[place], LOCAL.trace) for place in places]

        def keep(*gradients: NDArray) -> list[NDArray]:
            self._seen_gradients += zip(names, gradients, strict=True)
            return list(gradients)

        record_call(f"{entry.name}_backward", keep, sources_of(arrays), arrays)
        watched = list(inputs)
        for place, array in zip(places, arrays, strict=True):
            watched[place] = node_in(array, LOCAL.trace)
        return watched

    def _feed(self, name: str, value: Any) -> None:
        target = self.arg_dict.get(name)
        if target is None:
            raise TypeError(
                f"Unknown argument {name}{nearest(name, list(self.arg_dict))}; arguments are {', '.join(self.arg_dict)}"
            )
        if tuple(value.shape) != target.shape:
            raise ValueError(f"Shape not match! Argument {name}, need: {target.shape}, received: {tuple(value.shape)}")
        target[:] = value

    def _replace_outputs(self, found: list[NDArray]) -> bool:
        """Store the known values of some arrays in the outputs; return whether that was possible."""
        kept, values = self._outputs, [known_value(array) for array in found]
        if kept is None:
            return False
        for array, value in zip(kept, values, strict=True):
            if type(value) is not np.ndarray or value.shape != array.shape or value.dtype != array._dtype:
                return False
            if not is_replaceable(array):
                return False
        for array, value in zip(kept, values, strict=True):
            replace(array, value)
        return True

    def _keep(self, nodes: list[Node]) -> None:
        """Store new values in the outputs; they stay the same arrays while their shapes do not change."""
        trace = LOCAL.trace
        kept = self._outputs
        if kept is None or [(a.shape, a._dtype) for a in kept] != [(node.shape, node.dtype) for node in nodes]:
            self._outputs = [make(node, trace) for node in nodes]
            return
        for array, node in zip(kept, nodes, strict=True):
            assign(array, node, trace)

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute the gradients of the last forward pass.

        ``out_grads`` are the gradients of the outputs: one array, a list, or a dictionary by output name; ones by
        default. They are converted to the dtypes of the outputs and broadcast to their shapes; those of a list that
        are too many are ignored. If the last pass was not for training, or if there was none, the outputs are computed
        with the current arguments.
        """
        if set(self._requests.values()) <= {"null"}:
            return
        if self._recorded is None:
            self._recorded = self._compute(True, False, None)
        if isinstance(out_grads, Mapping):
            out_grads = [out_grads[name] for name in self._symbol.list_outputs()]
        elif isinstance(out_grads, NDArray):
            out_grads = [out_grads]
        if out_grads is not None:
            if not isinstance(out_grads, (list, tuple)):
                raise TypeError(f"out_grads must be an NDArray, a list or a dictionary of them, not {type(out_grads)}")
            if len(out_grads) < len(self._recorded):
                raise ValueError(f"there are {len(self._recorded)} outputs, but {len(out_grads)} gradients were given")
            for grad in out_grads:
                if not isinstance(grad, NDArray):
                    raise TypeError("inputs must be NDArray")
        grads: list[NDArray | None] = [None] * len(self._recorded)
        if out_grads is not None:
            grads = [_fit(grad, head) for grad, head in zip(out_grads, self._recorded, strict=False)]
        pairs = [(head, grad) for head, grad in zip(self._recorded, grads, strict=True) if is_recorded(head)]
        if pairs:
            heads, wanted = [head for head, _ in pairs], [grad for _, grad in pairs]
            autograd.backward(heads, None if out_grads is None else wanted, retain_graph=True, train_mode=is_train)
        seen, self._seen_gradients = self._seen_gradients, []
        for name, array in seen:
            # only now, because a callback may read values
            if self._monitor is not None:
                self._monitor(name, array)

    def set_monitor_callback(self, callback: Callable[[str, NDArray], Any], monitor_all: bool = False) -> None:
        """Call ``callback(name, array)`` for every output of every operator, and with ``monitor_all`` for inputs too.

        Backward passes show the gradient that an operator computes for each of its inputs, under names such as
        ``fc_backward_output0``.

        Compatibility
        -------------
        MXNet also shows gradients that no one asked for, as arbitrary memory, and the inputs of backward operators.
        """
        self._monitor = callback
        self._monitor_all = monitor_all

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays into the arguments and auxiliary states of the same names."""
        for given, own, what in (
            (arg_params, self.arg_dict, "arguments"),
            (aux_params or {}, self.aux_dict, "auxiliary states"),
        ):
            for name, array in given.items():
                if name in own:
                    if array.shape != own[name].shape:
                        raise MXNetError(
                            f"copy_params_from: {name} has the shape {own[name].shape}, but the given array "
                            f"has {array.shape}"
                        )
                    own[name][:] = array.astype(own[name].dtype)
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {what}{nearest(name, list(own))}')

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any) -> Executor:
        """Return an executor for other shapes, given by name; arrays share their memory if they do not grow."""
        arguments, _, states = self._symbol.infer_shape(**kwargs)
        if arguments is None:
            raise ValueError("Insufficient argument shapes provided.")
        new_args: dict[str, NDArray] = {}
        new_grads: dict[str, NDArray] = {}
        for name, shape in zip(self._symbol.list_arguments(), arguments, strict=True):
            old, grad = self.arg_dict[name], self.grad_dict[name]
            named = partial_shaping or name in kwargs
            new_args[name] = _reshape_array(name, old, shape, named, allow_up_sizing)
            if grad is not None:
                new_grads[name] = _reshape_array(name, grad, shape, named, allow_up_sizing)
        new_states = {
            name: _reshape_array(name, self.aux_dict[name], shape, partial_shaping, allow_up_sizing)
            for name, shape in zip(self._symbol.list_auxiliary_states(), states, strict=True)
        }
        return Executor(self._symbol, new_args, new_grads, dict(self._requests), new_states, self._ctx, self._groups)

    def get_optimized_symbol(self) -> Symbol:
        """Return the symbol that the executor computes: the bound one, because fusion happens below symbols."""
        return self._symbol

    def debug_str(self) -> str:
        """Return a text that lists all operators with their inputs and attributes."""
        return self._symbol.debug_str()


def _note(seen: list[tuple[str, NDArray]], name: str, node: Node) -> None:
    seen.append((name, make(detach(node), LOCAL.trace)))


def _fit(grad: NDArray, head: NDArray) -> NDArray:
    """Return a head gradient with the dtype and the shape of its head."""
    if grad._dtype != head._dtype:
        grad = grad.astype(head._dtype)
    if grad.shape == head.shape:
        return grad
    try:
        return grad.broadcast_to(head.shape)
    except ValueError as error:
        raise MXNetError(f"operands shape mismatch from.shape = {grad.shape} to.shape={head.shape}") from error


def _reshape_array(name: str, old: NDArray, shape: tuple[int, ...], named: bool, allow_up_sizing: bool) -> NDArray:
    if old.shape == shape:
        return old
    if not named:
        raise MXNetError(_CHANGED.format(name))
    size = int(np.prod(shape))
    if size <= old.size:
        smaller: NDArray = old.reshape((-1,))[:size].reshape(shape)
        return smaller
    if not allow_up_sizing:
        raise MXNetError(_LARGER.format(name))
    larger: NDArray = zeros(shape, old.context, old._dtype)
    return larger


def _by_name(names: list[str], given: Any, what: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {name: value for name, value in given.items() if name in names}
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"Only accept list of NDArrays or dict of str to NDArray: {what} is {type(given)}")
    if len(set(names)) < len(names):
        raise ValueError(f"Duplicate names detected, {', '.join(names)}: give {what} by name")
    if len(given) != len(names):
        raise ValueError(
            f"Length of {what} does not match the number of arguments: {len(given)} for {', '.join(names) or 'none'}"
        )
    return dict(zip(names, given, strict=True))


def _complete(names: list[str], given: Any, what: str) -> dict[str, Any]:
    """Return arrays by name, in the order of the names; raise if one is missing."""
    found = _by_name(names, given, what)
    for name in names:
        if name not in found:
            raise ValueError(f"key `{name}` is missing in `{what}`")
        if not isinstance(found[name], NDArray):
            raise TypeError(f"Only accept list of NDArrays or dict of str to NDArray: {name} is {type(found[name])}")
    return {name: found[name] for name in names}


def bind_new_arrays(
    symbol: Symbol,
    ctx: Any,
    grad_req: Any,
    types: Mapping[str, Any],
    shapes: Mapping[str, Any],
    shared: Mapping[str, Mapping[str, NDArray]] | None = None,
    groups: Mapping[str, Any] | None = None,
) -> Executor:
    """Return an executor with new arrays of zeros, whose shapes and dtypes follow from those given by name.

    ``shared`` holds arrays to use instead of new ones: ``"args"``, ``"grads"`` and ``"states"`` by name. Names of no
    argument are ignored, as in MXNet.
    """
    inferred = symbol._infer(_known_names(symbol, shapes), _known_names(symbol, types), _FLOAT32)
    places = {
        entry.name: groups[entry.attributes["__ctx_group__"]]
        for entry in symbol._entries()
        if groups and entry.is_argument and entry.attributes.get("__ctx_group__") in groups
    }
    arguments, _, states = symbol._specs_by_role(inferred)
    names, state_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    unknown = [
        f"{name}: {shape}"
        for name, (shape, _) in zip([*names, *state_names], [*arguments, *states], strict=True)
        if not is_known(shape)
    ]
    if unknown:
        raise MXNetError(
            "simple_bind error: InferShape pass cannot decide shapes for the following arguments (0 means unknown "
            f"dimensions). Please consider providing them as inputs: {', '.join(unknown)}"
        )

    def make_arrays(keys: list[str], specs: Any, part: str) -> dict[str, NDArray]:
        known = (shared or {}).get(part, {})
        arrays = {}
        for name, (shape, dtype) in zip(keys, specs, strict=True):
            extents = real_shape(shape)
            arrays[name] = known[name] if name in known else zeros(extents, places.get(name, ctx), dtype)
            if arrays[name].shape != extents:
                raise MXNetError(f"{name} has the shape {arrays[name].shape} in the shared executor, but {shape} here")
        return arrays

    if isinstance(grad_req, str):
        requests = dict.fromkeys(names, grad_req)
    else:
        requests = _by_name(names, grad_req, "grad_req")
    wanted = [name for name in names if requests.get(name, "null") != "null"]
    grads = make_arrays(wanted, [spec for name, spec in zip(names, arguments, strict=True) if name in wanted], "grads")
    args = make_arrays(names, arguments, "args")
    return Executor(symbol, args, grads, requests, make_arrays(state_names, states, "states"), ctx, groups)


def _known_names(symbol: Symbol, given: Mapping[str, Any]) -> dict[str, Any]:
    names = set(symbol.list_inputs())
    return {name: value for name, value in given.items() if name in names}


complete_classes(globals())
