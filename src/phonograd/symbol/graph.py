"""Symbol: a computation as a named graph, with MXNet's API.

A symbol is one or more outputs of a graph of entries (:mod:`.entry`). It can be inspected, composed, written to a file,
used to infer shapes and dtypes, and computed: with arrays by name (``eval``), or bound to arrays
(:mod:`phonograd.executor`). The operator registry declares the operators.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.handle import assign, make, node_in, record_or_detach
from ..core.base.devices import Context
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import as_dtype, public_type
from ..core.base.errors import MXNetError, nearest
from ..core.base.files import write_atomically
from ..core.graph.interface import is_known
from ..core.graph.node import Node
from ..core.ops.math.structural import detach
from ..core.trace.flags import is_training
from ..core.trace.trace import LOCAL, ready_trace
from ..ndarray.array import NDArray
from ..util import is_np_shape
from . import json_format
from .arithmetic import Arithmetic
from .calls import Environment, Spec
from .entry import Entry, Head, copy_graph, entries_of, hidden_key, substitute
from .extents import as_partial, real_shape
from .graph_to_nodes import Closed, Monitor, Watch, run
from .inference import Inferred, infer

if TYPE_CHECKING:
    # the methods that are operators, for type checkers; at run time __getattr__ finds them
    from .symbol_methods import SymbolMethods as _Base
else:
    _Base = Arithmetic

__all__ = ["Group", "Symbol"]


class Symbol(_Base):
    """A named graph of operators with one or more outputs.

    >>> import phonograd as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    >>> net.list_arguments()
    ['data', 'fc_weight', 'fc_bias']
    >>> net.infer_shape(data=(2, 5))
    ([(2, 5), (3, 5), (3,)], [(2, 3)], [])
    """

    __slots__ = ("__weakref__", "_closed", "_heads", "_order")

    def __init__(self, heads: Sequence[Head]) -> None:
        self._heads = list(heads)
        self._order: list[Entry] | None = None
        self._closed: Closed = {}

    # -- contents

    @property
    def name(self) -> str | None:
        """The name of the symbol's operator or argument; None for a group."""
        first = self._heads[0][0]
        return first.name if all([entry is first for entry, _ in self._heads]) else None

    def __repr__(self) -> str:
        if self.name is not None:
            return f"<Symbol {self.name}>"
        return f"<Symbol group [{', '.join([entry.name for entry, _ in self._heads])}]>"

    def _repr_svg_(self) -> str:
        """Return a picture of the graph for notebooks."""
        from ..visualization import plot_network

        return plot_network(self)._repr_svg_()

    def _entries(self) -> list[Entry]:
        """Return all entries, inputs before their users; computed once, because a graph never changes."""
        if self._order is None:
            self._order = entries_of(self._heads)
        return self._order

    def _auxiliary(self) -> dict[Entry, None]:
        """Return the arguments that are auxiliary states of calls, in graph order."""
        found: dict[Entry, None] = {}
        for entry in self._entries():
            if not entry.is_argument and entry.call.auxiliary:
                sources = [entry.inputs[position][0] for position in sorted(entry.call.auxiliary)]
                found.update(dict.fromkeys([source for source in sources if source.is_argument]))
        return found

    def list_arguments(self) -> list[str]:
        """Return the names of all arguments, in depth-first order."""
        auxiliary = self._auxiliary()
        return [entry.name for entry in self._entries() if entry.is_argument and entry not in auxiliary]

    def list_inputs(self) -> list[str]:
        """Return the names of all arguments and auxiliary states, in depth-first order."""
        return [entry.name for entry in self._entries() if entry.is_argument]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return [entry.output_names()[index] for entry, index in self._heads]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of arguments that operators update in training, such as BatchNorm's moving mean."""
        auxiliary = self._auxiliary()
        return [entry.name for entry in self._entries() if entry in auxiliary]

    def get_internals(self) -> Symbol:
        """Return a symbol with the outputs of every entry of this one."""
        return Symbol([(entry, index) for entry in self._entries() for index in range(entry.visible())])

    def get_children(self) -> Symbol | None:
        """Return a symbol whose outputs are the inputs of this symbol's operators; None for an argument."""
        entries = dict.fromkeys([entry for entry, _ in self._heads])
        children = [source for entry in entries for source in entry.inputs]
        return Symbol(children) if children else None

    def __len__(self) -> int:
        return len(self._heads)

    def __getitem__(self, index: int | slice | str) -> Symbol:
        if isinstance(index, str):
            names = self.list_outputs()
            if names.count(index) > 1:
                raise ValueError(f'There are multiple outputs with name "{index}"')
            if index not in names:
                raise ValueError(f'Cannot find output that matches name "{index}"{nearest(index, names)}')
            index = names.index(index)
        if isinstance(index, slice):
            return Symbol(self._heads[index])
        if not isinstance(index, (int, np.integer)):
            raise TypeError(f"Symbol only support integer index to fetch i-th output, not {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"output {index} is out of range: the symbol has {len(self)}")
        return Symbol([self._heads[index]])

    def __iter__(self) -> Iterator[Symbol]:
        return (self[index] for index in range(len(self)))

    # -- attributes

    def _own_entry(self) -> Entry | None:
        return self._heads[0][0] if self.name is not None else None

    def attr(self, key: str) -> str | None:
        """Return an attribute of this symbol's own entry, or None."""
        entry = self._own_entry()
        return None if entry is None else entry.attributes.get(hidden_key(key))

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Return the attributes of this symbol's own entry."""
        if recursive:
            raise DeprecationWarning(
                "Symbol.list_attr with recursive=True has been deprecated. Please use attr_dict instead."
            )
        entry = self._own_entry()
        return {} if entry is None else entry.shown_attributes()

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the non-empty attributes of all entries, by name."""
        return {entry.name: entry.shown_attributes() for entry in self._entries() if entry.attributes}

    def _set_attr(self, **kwargs: str) -> None:
        """Change attributes of this symbol's own entry."""
        entry = self._own_entry()
        if entry is None:
            raise MXNetError("a group of symbols has no attributes: set those of its members")
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError("Set Attr only accepts string values")
            entry.attributes[hidden_key(key)] = value
        entry.forget_call()

    # -- copies and files

    def __copy__(self) -> Symbol:
        return Symbol(copy_graph(self._heads))

    def __deepcopy__(self, memo: Any) -> Symbol:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return _from_json, (self.tojson(remove_amp_cast=False),)

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Return the graph in MXNet's JSON format."""
        return json_format.write(json_format.without_casts(self._heads) if remove_amp_cast else self._heads)

    def save(self, fname: str | os.PathLike[str], remove_amp_cast: bool = True) -> None:
        """Write the graph to a file, which :func:`load` and MXNet can read."""
        if not isinstance(fname, (str, os.PathLike)):
            raise TypeError("fname must be a string")
        text = self.tojson(remove_amp_cast)
        try:
            write_atomically(fname, [text.encode()])
        except OSError as error:
            raise MXNetError(f'Open "{os.fspath(fname)}": {error.strerror or error}') from error

    def debug_str(self) -> str:
        """Return a text that lists all entries with their inputs and attributes."""
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{i}]={entry.name}({index})" for i, (entry, index) in enumerate(self._heads)]
        for entry in self._entries():
            if entry.is_argument:
                lines.append(f"Variable:{entry.name}")
                continue
            lines += ["--------------------", f"Op:{entry.operator}, Name={entry.name}"]
            lines += ["Inputs:"] if entry.inputs else []
            for position, (source, index) in enumerate(entry.inputs):
                version = " version=0" if source.is_argument else ""
                lines.append(f"\targ[{position}]={source.name}({index}){version}")
            lines += ["Attrs:"] if entry.attributes else []
            lines += [f"\t{key}={entry.attributes[key]}" for key in sorted(entry.attributes)]
        return "\n".join(lines) + "\n"

    # -- putting together

    def __call__(self, *args: Symbol, **kwargs: Any) -> Symbol:
        """Return a copy of this symbol with arguments, given by name, replaced by other symbols."""
        name = kwargs.pop("name", None)
        if args and kwargs:
            raise TypeError("compose only accept input Symbols either as positional or keyword arguments, not both")
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Symbol):
                raise TypeError("Compose expect `Symbol` as arguments")
        if args:
            raise MXNetError(
                f"General composition only support kwargs for now: name the arguments to replace, which are "
                f"{', '.join(self.list_arguments())}"
            )
        self._check_names(kwargs, "Symbol.Compose")
        replacements = {}
        for key, symbol in kwargs.items():
            if len(symbol) != 1:
                raise MXNetError(f"Keyword Argument {key} is a tuple, single value is required")
            replacements[key] = symbol._heads[0]
        heads = substitute(self._heads, replacements)
        if name is not None and self.name is not None:
            heads[0][0].name = name
        return Symbol(heads)

    def _check_names(self, given: Mapping[str, Any], method: str) -> None:
        names = self.list_inputs()
        for name in given:
            if name not in names:
                raise MXNetError(
                    f"{method}: Keyword argument name {name} not found.{nearest(name, names)} "
                    f"Candidate arguments: {', '.join(names)}"
                )

    # -- shapes and dtypes

    def _arguments_by_name(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], what: str, method: str
    ) -> dict[str, Any]:
        if args and kwargs:
            raise ValueError(f"Can only specify known argument {what} either by positional or kwargs way.")
        for name, value in kwargs.items():
            if value is None:
                raise TypeError(f"Arguments need to be {what}, but {name!r} is {type(value)}.")
        names = self.list_arguments()
        if len(args) > len(names):
            raise ValueError(f"{method} got {len(args)} {what}, but there are {len(names)} arguments: {names}")
        self._check_names(kwargs, method)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return {name: value for name, value in given.items() if value is not None}

    def _infer(
        self,
        shapes: Mapping[str, Any],
        dtypes: Mapping[str, Any],
        fill: Any = None,
        with_empty: bool | None = None,
    ) -> Inferred:
        """Return what follows from shapes and dtypes by name; :func:`.inference.as_partial` says what 0 means."""
        specs: dict[str, Spec] = {}
        for name in {**shapes, **dtypes}:
            shape = shapes.get(name)
            dtype = dtypes.get(name)
            specs[name] = (
                None if shape is None else as_partial(_shape(shape, name), with_empty),
                None if dtype is None else as_dtype(dtype),
            )
        return infer(self._heads, specs, fill)

    def _specs_by_role(self, inferred: Inferred) -> tuple[list[Spec], list[Spec], list[Spec]]:
        """Return the specs of arguments, outputs and auxiliary states."""
        auxiliary = self._auxiliary()
        arguments = [entry for entry in inferred.entries if entry.is_argument]
        return (
            [inferred.specs[entry][0] for entry in arguments if entry not in auxiliary],
            [inferred.of(head) for head in self._heads],
            [inferred.specs[entry][0] for entry in arguments if entry in auxiliary],
        )

    def infer_shape(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Return the shapes of arguments, outputs and auxiliary states; three times None if too little is known.

        Give shapes in the order of :meth:`list_arguments` or by name; 0 means an unknown extent.
        """
        inferred = self._infer(self._shapes_by_name(args, kwargs, "infer_shape"), {})
        parts = self._specs_by_role(inferred)
        if not all([is_known(shape) for part in parts for shape, _ in part]):
            return None, None, None
        shapes = [[real_shape(shape or ()) for shape, _ in part] for part in parts]
        return shapes[0], shapes[1], shapes[2]

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Return the known parts of shapes: () for an unknown shape, 0 for an unknown extent.

        With NumPy shapes, None is an unknown shape and -1 an unknown extent.
        """
        inferred = self._infer(self._shapes_by_name(args, kwargs, "infer_shape_partial"), {})
        nothing, unknown = (None, -1) if is_np_shape() else ((), 0)
        shapes = [
            [nothing if shape is None else real_shape(shape, unknown) for shape, _ in part]
            for part in self._specs_by_role(inferred)
        ]
        return shapes[0], shapes[1], shapes[2]

    def _shapes_by_name(self, args: Any, kwargs: Any, method: str) -> dict[str, Any]:
        """Return shapes by argument name; a list is not a shape, as in MXNet."""
        for name, shape in [*enumerate(args), *kwargs.items()]:
            if not isinstance(shape, tuple) and not (shape is None and isinstance(name, int)):
                which = f"argument {name}" if isinstance(name, int) else f"'{name}'"
                raise TypeError(f"Arguments need to be shapes (tuple), but {which} is {type(shape)}.")
        return self._arguments_by_name(args, kwargs, "shapes", method)

    def _partial_shapes(self, given: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the known parts of shapes, () and 0 for unknown ones whatever semantics is on."""
        roles = self._specs_by_role(self._infer(given, {}, with_empty=False))
        shapes = [[shape or () for shape, _ in part] for part in roles]
        return shapes[0], shapes[1], shapes[2]

    def infer_type(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Return the types of arguments, outputs and auxiliary states; three times None if too little is known.

        Give types in the order of :meth:`list_arguments` or by name.
        """
        types = self.infer_type_partial(*args, **kwargs)
        return (None, None, None) if any([None in part for part in types]) else types

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Return the known types; None for an unknown type."""
        inferred = self._infer({}, self._arguments_by_name(args, kwargs, "types", "infer_type"))
        types = [
            [None if dtype is None else public_type(dtype) for _, dtype in part]
            for part in self._specs_by_role(inferred)
        ]
        return types[0], types[1], types[2]

    # -- computing with it

    @property
    def _looks_at_values(self) -> bool:
        """Whether an operator runs Python code of the user, or needs values of arrays."""
        return any([not entry.is_argument and entry.call.looks_at_values for entry in self._entries()])

    def _run(
        self,
        arrays: Mapping[str, NDArray],
        context: Context | None,
        monitor: Monitor | None = None,
        monitor_inputs: bool = False,
        groups: Mapping[str, Context] | None = None,
        watch: Watch | None = None,
    ) -> list[NDArray]:
        """Return the outputs for arrays by name; updates arrays that operators change in place."""
        trace = ready_trace()
        nodes: dict[str, Node] = {name: node_in(array, trace) for name, array in arrays.items()}
        entries = self._entries()
        environment = Environment(context, is_training(), self._looks_at_values, groups)
        outputs, changed = run(self._heads, entries, nodes, environment, self._closed, monitor, monitor_inputs, watch)
        trace = LOCAL.trace
        # outputs are arrays of mx.np if any input is
        kind = next((c for c in [array._result_class for array in arrays.values()] if c is not NDArray), NDArray)
        results = [make(record_or_detach(node, trace), trace, kind) for node in outputs]
        for name, node in changed.items():
            assign(arrays[name], detach(node), trace)
        return results

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """Return the outputs for arrays given by argument name; recorded if recording is on.

        >>> import phonograd as mx
        >>> (mx.sym.var("x") * 2).eval(x=mx.nd.ones((2,)))[0]
        <BLANKLINE>
        [2. 2.]
        <NDArray 2 @cpu(0)>
        """
        given: dict[str, NDArray] = {}
        for name in self.list_inputs():
            if name not in kwargs:
                raise ValueError(f"key `{name}` is missing in `args`{nearest(name, list(kwargs))}")
            if not isinstance(kwargs[name], NDArray):
                raise TypeError(f"eval: {name} must be an NDArray, not {type(kwargs[name])}")
            given[name] = kwargs[name]
        return self._run(given, ctx)

    def bind(
        self,
        ctx: Context | None,
        args: Any,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Any = None,
    ) -> Any:
        """Return an :class:`~phonograd.executor.Executor` that computes with given arrays.

        ``args``, ``args_grad`` and ``aux_states`` are lists in the order of :meth:`list_arguments` and
        :meth:`list_auxiliary_states`, or dictionaries by name. ``group2ctx`` has the contexts of operators by their
        attribute ``ctx_group``. ``shared_exec`` has no effect here.
        """
        from ..executor import Executor

        executor = Executor(self, args, args_grad, grad_req, aux_states, ctx, group2ctx)
        executor.check_shapes()
        return executor

    def simple_bind(
        self,
        ctx: Context | None,
        grad_req: Any = "write",
        type_dict: Mapping[str, Any] | None = None,
        stype_dict: Any = None,
        group2ctx: Any = None,
        shared_arg_names: Any = None,
        shared_exec: Any = None,
        shared_buffer: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return an executor with new zero-filled arrays, whose shapes follow from the shapes given by name.

        ``type_dict`` gives dtypes by name; the default is float32. ``group2ctx`` has the contexts of arguments and
        operators by their attribute ``ctx_group``. The other arguments, and names of no argument, have no effect.
        """
        from ..executor import bind_new_arrays

        return bind_new_arrays(self, ctx, grad_req, type_dict or {}, kwargs, groups=group2ctx)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from .methods import method_of

            return method_of(self, name)


def _shape(value: Any, name: str) -> tuple[int, ...]:
    if isinstance(value, (int, np.integer)):
        value = (value,)
    try:
        return tuple([operator.index(extent) for extent in value])
    except TypeError:
        raise TypeError(f"the shape of {name} must be a tuple of integers, not {value!r}") from None


def _from_json(text: str) -> Symbol:
    return Symbol(json_format.read(text))


def Group(symbols: Sequence[Symbol], create_fn: Any = Symbol) -> Symbol:  # noqa: N802 - MXNet's name
    """Return a symbol whose outputs are those of several symbols."""
    members = list(symbols)
    if not members or any([not isinstance(symbol, Symbol) for symbol in members]):
        raise TypeError("Expected a list of symbols as input")
    made: Symbol = create_fn([head for symbol in members for head in symbol._heads])
    return made


complete_classes(globals())
