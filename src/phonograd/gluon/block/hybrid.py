"""Provide HybridBlock: a block for arrays and symbols alike, whose calls can be captured and replayed.

``hybrid_forward(F, x, ..., **params)`` takes the namespace of arrays as ``F``. If the inputs are symbols, ``F`` is the
namespace of symbols; this exports a network, or infers the shapes of parameters. After :meth:`HybridBlock.hybridize`,
the first call for each structure of inputs is captured, and later calls replay it
(:mod:`phonograd.core.capture.compiled`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import ndarray
from ...core.array.handle import make_result, node_in
from ...core.base.devices import Context, current_context
from ...core.base.docstrings import complete_classes
from ...core.base.foreign_names import advise_arguments
from ...core.base.outside import is_from_outside
from ...core.capture.compiled import Compiled
from ...core.trace.trace import LOCAL, ready_trace
from ...ndarray.array import NDArray
from ...ndarray.params import save as save_arrays
from ...symbol import Symbol
from ...util import is_np_array
from ..parameter import DeferredInitializationError, ParameterDict
from ..parameter.parameter import replacements, symbols
from .monitoring import OperatorHook, run_monitored
from .nesting import count_arrays, describe_outline, fill_outline, flatten_arrays, make_outline, tuples_to_lists
from .plain import _LISTENERS, Block

__all__ = ["HybridBlock"]

_PACKAGE = __name__.partition(".")[0] + "."

_ONE_KIND = "Please check the type of the args.\n"


class _Calls(threading.local):
    """Hold the state of the current calls of hybridized blocks, per thread."""

    #: whether another hybridized block makes the call; its Python code gets tuples unchanged
    are_nested = False


_CALLS = _Calls()


class HybridBlock(Block):
    """Base class of blocks that can be compiled and exported. A subclass overrides ``hybrid_forward``.

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
    A hybridized block that reads values of arrays works, but its Python code runs in each call.
    """

    #: whether the block stores arrays from call to call, so that an outer block cannot replay its calls
    _keeps_arrays = False

    @advise_arguments
    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._active = False
        #: whether a block that cannot be replayed causes no warning
        self._captures_quietly = False
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
        """Add a child, which must be a hybrid block, too."""
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block!r} has type {type(block)}. "
                "If you are using Sequential, please try HybridSequential instead."
            )
        super().register_child(block, name)
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        """Discard captured calls, because the block has changed."""
        self._compiled: Compiled[Any, Any] | None = None
        self._compiled_for = -1
        self._graph: tuple[list[Any], Any] | None = None
        self._outline: Any = None
        #: the nesting of the outputs of the graph
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
        """Enable or disable replay: calls of this block and its children skip their Python code.

        Several outputs become a list, whatever container the Python code returns. The other arguments are options of
        MXNet's engine, and have no effect.
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
        """Hybridize the block and capture one call. There are no backends: `backend` may be any name."""
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
        """Return the outputs of ``hybrid_forward`` for arrays or symbols."""
        if not args and isinstance(x, NDArray) and self._compiled is not None:
            # most calls of a network repeat another one
            is_replayed = self._active and LOCAL.trace.allows_shortcuts and not _LISTENERS
            if is_replayed and not self._keeps_arrays and self._operator_hook is None:
                result = self._run_compiled(x.context, x)
                return result if isinstance(result, NDArray) or _CALLS.are_nested else tuples_to_lists(result)
        contexts: dict[Context, None] = {}
        has_symbol = _gather((x, *args), contexts)
        if has_symbol:
            if contexts:
                raise ValueError(
                    f"In HybridBlock, we do not support mixed NDArrays and Symbols types for the input. {_ONE_KIND}"
                )
            return self._run_symbolic(x, *args)
        if not contexts:
            raise ValueError(
                f"In HybridBlock, there must be one NDArray or one Symbol in the input. {_ONE_KIND}"
                f"The first one is a {type(x).__name__}; convert it with mx.nd.array first."
            )
        context = next(iter(contexts))
        if not self._active:
            return self._run_eager(context, x, *args)
        # a replay would hide the calls of layers from listeners
        if self._keeps_arrays or not LOCAL.trace.allows_shortcuts or _LISTENERS:
            result = (self._run_nested if _CALLS.are_nested else self._run_unaliased)(context, x, *args)
        elif len(contexts) > 1:
            raise ValueError(
                "Find multiple contexts in the input, After hybridized, the HybridBlock only supports one input "
                "context. You can print the ele.ctx in the input arguments to inspect their contexts. "
                f"Find all contexts = {set(contexts)}"
            )
        elif self._operator_hook is not None:
            result = self._run_monitored(context, x, *args)
        else:
            result = self._run_compiled(context, x, *args)
        return result if isinstance(result, NDArray) or _CALLS.are_nested else tuples_to_lists(result)

    def register_op_hook(self, callback: OperatorHook, monitor_all: bool = False) -> None:
        """Call ``callback(name, operator, array)`` for each output of each operator, once the block is hybridized.

        Parameters
        ----------
        callback
            The function to call after each forward pass, with a name such as ``'net_dense0_fwd_output'``, an operator
            such as ``'FullyConnected'``, and the array.
        monitor_all
            Whether to call it for the inputs of operators, too.

        Compatibility
        -------------
        MXNet passes names as bytes and the array as the address of a C handle. It also reports operators of backward
        passes, which are fused with all others here.
        """
        self._operator_hook = callback, monitor_all
        super().register_op_hook(callback, monitor_all)

    def _run_monitored(self, context: Context, *args: Any) -> Any:
        """Return the outputs for arrays, and report every operator to the hook."""
        assert self._operator_hook is not None, "there is a hook"
        params = self.collect_params().values()
        if any([parameter._deferred_init is not None for parameter in params]):
            self._deferred_infer_shape(*args)
            for parameter in params:
                parameter._finish_deferred_init()
        return run_monitored(self, context, args, *self._operator_hook)

    def _run_eager(self, context: Context, *args: Any) -> Any:
        """Run the Python code of the block on arrays."""
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
        """Run the Python code of a hybridized block, and return its outputs unchanged."""
        before, _CALLS.are_nested = _CALLS.are_nested, True
        try:
            return self._run_eager(context, *args)
        finally:
            _CALLS.are_nested = before

    def _run_unaliased(self, context: Context, *args: Any) -> Any:
        """Run the Python code of a hybridized block, and replace outputs that are views by arrays of their own.

        An argument that is returned stays itself, also if it is a view.
        """
        return _replace_views(self._run_nested(context, *args), {id(array) for array in flatten_arrays(args)})

    def _call(self, context: Context, *args: Any, **params: Any) -> Any:
        """Run ``hybrid_forward`` on arrays, with all parameters initialized and the context set."""
        return self.hybrid_forward(ndarray, *args, **params)

    def _run_compiled(self, context: Context, *args: Any) -> Any:
        """Replay a captured call, or run the Python code if there is none."""
        if self._compiled is None or self._compiled_for != replacements():
            self._outline = make_outline(args)
            if any([parameter._deferred_init is not None for parameter in self.collect_params().values()]):
                return self._run_unaliased(context, *args)
            if any([child._has_checkpoints() for child in self._children.values()]):
                return self._run_unaliased(context, *args)
            self._compiled_for = replacements()
            self._compiled = Compiled(self._run_unaliased, self._captures_quietly)
            # the name in warnings and profiles
            self._compiled.__dict__["__qualname__"] = self._name
        return self._compiled(context, *args)

    if TYPE_CHECKING:
        # a subclass chooses the arguments
        hybrid_forward: Callable[..., Any]
    else:

        def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
            """Return the outputs, computed by functions of `F`. A subclass overrides this method.

            Parameters
            ----------
            F
                ``mx.nd`` or ``mx.sym``.
            x, *args
                The inputs.
            **kwargs
                The parameters of this block, by the names of their attributes.
            """
            raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward(self, F, x, ...)")

    # -- symbols

    def _run_symbolic(self, *args: Any) -> Any:
        """Run ``hybrid_forward`` on symbols."""
        params = {name: parameter.var() for name, parameter in self._reg_params.items()}
        if is_np_array():
            params = {name: variable.as_np_ndarray() for name, variable in params.items()}
        with self.name_scope():
            return self.hybrid_forward(symbols(), *args, **params)

    def _get_graph(self, outline: Any) -> tuple[list[Any], Any]:
        """Return symbols for the inputs and the outputs computed from them; `outline` is the nesting of the inputs."""
        if self._graph is None:
            count = count_arrays(outline)
            names = ["data"] if count == 1 else [f"data{number}" for number in range(count)]
            inputs = [symbols().var(name) for name in names]
            if is_np_array():
                inputs = [variable.as_np_ndarray() for variable in inputs]
            composed = self._run_symbolic(*fill_outline(outline, iter(inputs)))
            outputs, self._output_outline = flatten_arrays(composed), make_outline(composed)
            self._graph = inputs, outputs[0] if len(outputs) == 1 else symbols().Group(outputs)
        return self._graph

    def _infer(self, method: str, attribute: str, args: tuple[Any, ...]) -> None:
        inputs, output = self._get_graph(make_outline(args))
        given = [getattr(array, attribute) for array in flatten_arrays(args)]
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
        """Infer the shapes of all parameters from the shapes of the inputs."""
        own = getattr(self.hybrid_forward, "__module__", "").startswith(_PACKAGE)
        if own and self._try_infer_quickly(args):
            return
        try:
            self._infer("infer_shape", "shape", args)
        except (AttributeError, TypeError):
            # the subclass does not support symbols: rely on the rule of the layer that it derives from
            if own or not self._try_infer_quickly(args):
                raise

    def _try_infer_quickly(self, args: tuple[Any, ...]) -> bool:
        try:
            return self._infer_quickly(*args)
        except (AttributeError, TypeError):
            # wrong arguments: inference by graph raises an error that says why
            return False

    def _infer_quickly(self, *args: Any) -> bool:
        """Return whether this method could set the shapes of all parameters without building a graph.

        A subclass of another library may need other shapes than its base class: inference tries its graph first.
        """
        return False

    def infer_type(self, *args: Any) -> None:
        """Infer the dtypes of all parameters from the dtypes of the inputs."""
        self._infer("infer_type", "dtype", args)

    def _deferred_infer_shape(self, *args: Any) -> None:
        try:
            self.infer_shape(*args)
        except Exception as error:
            if is_from_outside(error):
                raise
            message = f"Deferred initialization failed because shape cannot be inferred. {error}"
            raise ValueError(message) from error

    @property
    def _cached_graph(self) -> tuple[Any, ...]:
        """Return the inputs and the output of the traced graph, or () before the first hybridized call."""
        return () if self._outline is None else self._get_graph(self._outline)

    @property
    def _in_format(self) -> Any:
        """Return how MXNet describes the nesting of the inputs of a hybridized call: 0 for an array, -1 for None."""
        return None if self._outline is None else describe_outline(self._outline)

    @property
    def _out_format(self) -> Any:
        """Return how MXNet describes the nesting of the outputs of a hybridized call."""
        if self._outline is None:
            return None
        self._get_graph(self._outline)
        return describe_outline(self._output_outline)

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write the network to ``<path>-symbol.json`` and its parameters to ``<path>-<epoch>.params``.

        Hybridize the block and call it once before: the call determines the number of inputs.
        """
        graph = self._cached_graph
        if not graph:
            raise RuntimeError(
                "Please first call block.hybridize() and then run forward with this block at least once before "
                "calling export."
            )
        _, output = graph
        output.save(f"{path}-symbol.json", remove_amp_cast)
        states = set(output.list_auxiliary_states())
        params = dict(self.collect_params().items())
        arrays = {}
        # MXNet's files are in the order of the graph
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
    """Return whether nested lists contain symbols, and add the contexts of their arrays to `contexts`."""
    has_symbol = False
    for value in values:
        if isinstance(value, NDArray):
            contexts[value.context] = None
        elif isinstance(value, Symbol):
            has_symbol = True
        elif isinstance(value, (list, tuple)):
            has_symbol |= _gather(value, contexts)
    return has_symbol


def _replace_views(value: Any, arguments: set[int]) -> Any:
    """Return nested lists with views that are no arguments replaced by arrays of their own."""
    if isinstance(value, NDArray):
        if value._root is None or id(value) in arguments:
            return value
        trace = ready_trace()
        return make_result(node_in(value, trace), trace, type(value))
    if type(value) not in (list, tuple):
        return value
    return type(value)([_replace_views(part, arguments) for part in value])


complete_classes(globals())
