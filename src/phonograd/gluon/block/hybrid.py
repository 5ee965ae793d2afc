"""HybridBlock: a block written for arrays and symbols alike, whose Python code need not run each time.

``hybrid_forward(F, x, ..., **params)`` is called with ``F`` the namespace of arrays, or that of symbols if the inputs
are symbols (to export a network, or to find the shapes of parameters). After :meth:`HybridBlock.hybridize` a call is
captured once per structure of its inputs and then repeated (:mod:`phonograd.core.capture.compiled`).
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from ... import ndarray
from ...core.array.handle import make_result, node_in
from ...core.base.devices import Context, current_context
from ...core.capture.compiled import Compiled
from ...core.trace.trace import LOCAL, ready_trace
from ...ndarray.array import NDArray
from ...ndarray.params import save as save_arrays
from ...symbol import Symbol
from ...util import is_np_array
from ..parameter import DeferredInitializationError, ParameterDict
from ..parameter.parameter import replacements, symbols
from .monitoring import OperatorHook, run_monitored
from .nesting import count_arrays, filled, flattened, listed, outlined
from .plain import _LISTENERS, Block

__all__ = ["HybridBlock"]

_PACKAGE = __name__.partition(".")[0] + "."

_ONE_KIND = "Please check the type of the args.\n"


class _Calls(threading.local):
    """What is known of the calls of hybridized blocks that are being made."""

    #: whether they are made by the Python code of another one, which gets tuples as they are
    are_nested = False


_CALLS = _Calls()


class HybridBlock(Block):
    """The base class of blocks that can be compiled and exported. A subclass overrides ``hybrid_forward``.

    >>> import phonograd as mx
    >>> from phonograd.gluon import HybridBlock
    >>> class Scale(HybridBlock):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.factor = self.params.get("factor", shape=(1,), init="ones")
    ...
    ...     def hybrid_forward(self, F, x, factor):
    ...         return F.broadcast_mul(x, factor)
    >>> scale = Scale()
    >>> scale.initialize()
    >>> scale.hybridize()
    >>> scale(mx.nd.array([1.0, 2.0])).asnumpy().tolist()
    [1.0, 2.0]

    Compatibility
    -------------
    A hybridized block that looks at values of arrays works, but its Python code runs each time.
    """

    #: whether it stores arrays from one call to the next, so that its calls cannot be repeated from outside
    _keeps_arrays = False

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._active = False
        self._flags: dict[str, Any] = {}
        self._operator_hook: tuple[OperatorHook, bool] | None = None
        self._clear_cached_op()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._clear_cached_op()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_compiled": None, "_graph": None}

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make another block a child; it must be hybrid, too."""
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block!r} has type {type(block)}. "
                "If you are using Sequential, please try HybridSequential instead."
            )
        super().register_child(block, name)
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        """Forget what was captured: the block is not what it was."""
        self._compiled: Compiled[Any, Any] | None = None
        self._compiled_for = -1
        self._graph: tuple[list[Any], Any] | None = None
        self._outline: Any = None
        #: how the outputs of the graph are nested
        self._output_outline: Any = None

    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Have calls of the block and its children repeated without running their Python code, or not any more.

        Several outputs are a list from then on, whatever the Python code makes of them. The other arguments are options
        of MXNet's engine, and change nothing here.
        """
        self._active = active
        self._flags = {"static_alloc": static_alloc, "static_shape": static_shape, "inline_limit": inline_limit}
        if clear:
            self._clear_cached_op()
        if (active and self._forward_hooks) or self._forward_pre_hooks:
            warnings.warn(
                f'"{self}" is being hybridized while still having forward hook/pre-hook. If "{self}" is a child of '
                "HybridBlock, the hooks will not take effect.",
                stacklevel=2,
            )
        super().hybridize(active, **self._flags)

    def optimize_for(self, x: Any, *args: Any, backend: str | None = None, clear: bool = False, **kwargs: Any) -> None:
        """Hybridize the block and capture one call. There are no backends to choose from: any name is accepted."""
        if not backend:
            raise ValueError('Must specify "backend" to optimize_for')
        self.hybridize(True, backend, clear, **kwargs)
        self(x, *args)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype."""
        self._clear_cached_op()
        super().cast(dtype)

    # -- computing

    def forward(self, x: Any, *args: Any) -> Any:
        """Return the outputs for arrays or symbols; calls ``hybrid_forward``."""
        contexts: dict[Context, None] = {}
        has_symbol = _gather((x, *args), contexts)
        if has_symbol:
            if contexts:
                raise ValueError(
                    f"In HybridBlock, we do not support mixed NDArrays and Symbols types for the input. {_ONE_KIND}"
                )
            return self._run_symbolic(x, *args)
        if not contexts:
            raise ValueError(f"In HybridBlock, there must be one NDArray or one Symbol in the input. {_ONE_KIND}")
        context = next(iter(contexts))
        if not self._active:
            return self._run_eager(context, x, *args)
        # layers that somebody wants to see are called
        if self._keeps_arrays or not LOCAL.trace.allows_shortcuts or _LISTENERS:
            result = (self._run_nested if _CALLS.are_nested else self._run_unaliased)(context, x, *args)
        elif len(contexts) > 1:
            raise ValueError(
                "Find multiple contexts in the input, After hybridized, the HybridBlock only supports one input "
                "context. You can print the ele.ctx in the input arguments to inspect their contexts. "
                f"Find all contexts = {set(contexts)}"
            )
        elif self._operator_hook is not None:
            result = self._monitored(context, x, *args)
        else:
            result = self._run_compiled(context, x, *args)
        return result if isinstance(result, NDArray) or _CALLS.are_nested else listed(result)

    def register_op_hook(self, callback: OperatorHook, monitor_all: bool = False) -> None:
        """Have ``callback(name, operator, array)`` called for each output of each operator inside, once hybridized.

        Parameters
        ----------
        callback
            Called after a forward pass with names such as ``'net_dense0_fwd_output'`` and ``'FullyConnected'``, and
            with the array.
        monitor_all
            Whether it is called for the inputs of operators, too.

        Compatibility
        -------------
        MXNet gives bytes for names and the address of a C handle for the array, and calls for operators of backward
        passes, which here are fused with everything else.
        """
        self._operator_hook = callback, monitor_all
        super().register_op_hook(callback, monitor_all)

    def _monitored(self, context: Context, *args: Any) -> Any:
        """Return the outputs for arrays, with a hook told of every operator."""
        assert self._operator_hook is not None, "there is a hook"
        params = self.collect_params().values()
        if any([parameter._deferred_init is not None for parameter in params]):
            self._deferred_infer_shape(*args)
            for parameter in params:
                parameter._finish_deferred_init()
        return run_monitored(self, context, args, *self._operator_hook)

    def _run_eager(self, context: Context, *args: Any) -> Any:
        """Return the outputs for arrays."""
        try:
            params = {name: parameter.data(context) for name, parameter in self._reg_params.items()}
        except DeferredInitializationError:
            self._deferred_infer_shape(*args)
            for parameter in self.params.values():
                parameter._finish_deferred_init()
            params = {name: parameter.data(context) for name, parameter in self._reg_params.items()}
        if context == current_context():
            return self._call(context, *args, **params)
        with context:
            return self._call(context, *args, **params)

    def _run_nested(self, context: Context, *args: Any) -> Any:
        """Return the outputs for arrays of a hybridized block, as its Python code makes them."""
        before, _CALLS.are_nested = _CALLS.are_nested, True
        try:
            return self._run_eager(context, *args)
        finally:
            _CALLS.are_nested = before

    def _run_unaliased(self, context: Context, *args: Any) -> Any:
        """Return the outputs for arrays as a graph has them: none shares memory with an argument it is a view of."""
        return _unaliased(self._run_nested(context, *args))

    def _call(self, context: Context, *args: Any, **params: Any) -> Any:
        """Return the outputs for arrays, with all parameters at hand and the context set."""
        return self.hybrid_forward(ndarray, *args, **params)

    def _run_compiled(self, context: Context, *args: Any) -> Any:
        """Return the outputs for arrays, the Python code run only if that has to be."""
        if self._compiled is None or self._compiled_for != replacements():
            self._outline = outlined(args)
            if any([parameter._deferred_init is not None for parameter in self.collect_params().values()]):
                return self._run_unaliased(context, *args)
            if any([child._has_checkpoints() for child in self._children.values()]):
                return self._run_unaliased(context, *args)
            self._compiled, self._compiled_for = Compiled(self._run_unaliased), replacements()
            # what warnings and profiles call it
            self._compiled.__dict__["__qualname__"] = self._name
        return self._compiled(context, *args)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs by functions of `F`, a namespace of arrays or symbols; a subclass defines what they are.

        Parameters
        ----------
        F
            ``mx.nd`` or ``mx.sym``.
        x, *args
            The inputs.
        **kwargs
            The block's own parameters, by the names of the attributes they are set as.
        """
        raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward(self, F, x, ...)")

    # -- symbols

    def _run_symbolic(self, *args: Any) -> Any:
        """Return the outputs for symbols."""
        params = {name: parameter.var() for name, parameter in self._reg_params.items()}
        if is_np_array():
            params = {name: variable.as_np_ndarray() for name, variable in params.items()}
        with self.name_scope():
            return self.hybrid_forward(symbols(), *args, **params)

    def _get_graph(self, outline: Any) -> tuple[list[Any], Any]:
        """Return symbols for the inputs and the outputs that follow from them; `outline` says what inputs there are."""
        if self._graph is None:
            count = count_arrays(outline)
            names = ["data"] if count == 1 else [f"data{number}" for number in range(count)]
            inputs = [symbols().var(name) for name in names]
            if is_np_array():
                inputs = [variable.as_np_ndarray() for variable in inputs]
            composed = self._run_symbolic(*filled(outline, iter(inputs)))
            outputs, self._output_outline = flattened(composed), outlined(composed)
            self._graph = inputs, outputs[0] if len(outputs) == 1 else symbols().Group(outputs)
        return self._graph

    def _infer(self, method: str, attribute: str, args: tuple[Any, ...]) -> None:
        inputs, output = self._get_graph(outlined(args))
        given = [getattr(array, attribute) for array in flattened(args)]
        used = output.list_inputs()
        known = {variable.name: value for variable, value in zip(inputs, given) if variable.name in used}
        arguments, _, states = getattr(output, method)(**known)
        if arguments is None:
            raise ValueError(f"the {attribute}s of {', '.join(output.list_arguments())} do not follow from {known}")
        found = {
            **dict(zip(output.list_arguments(), arguments)),
            **dict(zip(output.list_auxiliary_states(), states)),
        }
        for name, parameter in self.collect_params().items():
            if name in found:
                setattr(parameter, attribute, found[name])

    def infer_shape(self, *args: Any) -> None:
        """Find the shapes of all parameters from those of inputs."""
        own = getattr(self.hybrid_forward, "__module__", "").startswith(_PACKAGE)
        if own and self._inferred_quickly(args):
            return
        try:
            self._infer("infer_shape", "shape", args)
        except (AttributeError, TypeError):
            # it is not written for symbols, so that what it is derived from is all there is to go by
            if own or not self._inferred_quickly(args):
                raise

    def _inferred_quickly(self, args: tuple[Any, ...]) -> bool:
        try:
            return self._infer_quickly(*args)
        except (AttributeError, TypeError):
            # these are not the arguments of the block, and the graph tells what is wrong with them
            return False

    def _infer_quickly(self, *args: Any) -> bool:
        """Return whether the shapes of all parameters could be found without a graph of what is computed.

        A ``hybrid_forward`` that is none of this library's may ask for other shapes: its graph is asked first.
        """
        return False

    def infer_type(self, *args: Any) -> None:
        """Find the dtypes of all parameters from those of inputs."""
        self._infer("infer_type", "dtype", args)

    def _deferred_infer_shape(self, *args: Any) -> None:
        try:
            self.infer_shape(*args)
        except Exception as error:
            message = f"Deferred initialization failed because shape cannot be inferred. {error}"
            raise ValueError(message) from error

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write the network to ``<path>-symbol.json`` and its parameters to ``<path>-<epoch>.params``.

        It must have been hybridized and called before, which tells what inputs it has.
        """
        if self._outline is None:
            raise RuntimeError(
                "Please first call block.hybridize() and then run forward with this block at least once before "
                "calling export."
            )
        _, output = self._get_graph(self._outline)
        output.save(f"{path}-symbol.json")
        states = set(output.list_auxiliary_states())
        params = dict(self.collect_params().items())
        arrays = {}
        # in the order of the graph, as in files of MXNet
        for name in output.list_inputs():
            parameter = params.pop(name, None)
            if parameter is not None:
                arrays[f"{'aux' if name in states else 'arg'}:{name}"] = parameter._reduce()
        for name in params:
            warnings.warn(f'Parameter "{name}" is not found in the graph. ', stacklevel=2)
        save_arrays(f"{path}-{epoch:04d}.params", arrays)

    def _description(self) -> dict[str, Any]:
        return {"hybridized": False}


def _gather(values: Any, contexts: dict[Context, None]) -> bool:
    """Return whether there are symbols in nested lists; the contexts of arrays are added to `contexts`."""
    has_symbol = False
    for value in values:
        if isinstance(value, NDArray):
            contexts[value.context] = None
        elif isinstance(value, Symbol):
            has_symbol = True
        elif isinstance(value, (list, tuple)):
            has_symbol |= _gather(value, contexts)
    return has_symbol


def _unaliased(value: Any) -> Any:
    """Return arrays of their own in the place of views, in any depth."""
    if isinstance(value, NDArray):
        if value._root is None:
            return value
        trace = ready_trace()
        return make_result(node_in(value, trace), trace, type(value))
    return type(value)([_unaliased(part) for part in value]) if type(value) in (list, tuple) else value
