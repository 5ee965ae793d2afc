"""Calling operators with arrays: the fast path that repeats a known call, and the slow path that explains itself.

A call that was made before with the same nodes and the same arguments is one dictionary look-up
(:attr:`Operator.calls <phonograd.core.graph.operator.Operator>`) and one new handle. :func:`function_of` generates, per
operator, a function with MXNet's signature whose first lines are that fast path; everything else goes to
:func:`invoke`.
"""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..base.devices import CPU, as_context
from ..base.errors import MXNetError, format_shape, nearest
from ..base.settings import active
from ..graph.node import Node
from ..graph.operator import Operator
from ..graph.parameters import REQUIRED, Parameter
from ..ops.math.structural import detach, moved
from ..trace.flags import FLAGS, RECORDING, TRAINING
from ..trace.trace import LOCAL, Trace
from . import handle as _handle
from .handle import Handle, apply, assign, make, make_result, materialize_if_naive, node_in, record_or_detach
from .observed import LISTENERS, observed

__all__ = ["function_of", "invoke", "write"]

#: arguments every generated function takes and that mean nothing here
_IGNORED = frozenset(("name", "attr", "__layout__", "num_args"))


class _Null:
    """MXNet's mark for "not given"."""

    def __repr__(self) -> str:
        return "_Null"


NULL = _Null()


def write(out: Any, node: Node) -> Any:
    """Make ``out`` hold a result and return it: what ``out=`` means."""
    if not isinstance(out, Handle):
        raise TypeError(f"out must be an NDArray, not {out!r}")
    if out._readonly:
        raise ValueError("trying to write to a readonly NDArray")
    if (out.shape, out._dtype) != (node.shape, node.dtype):
        expected, got = (node.shape, out.shape) if out.shape != node.shape else (node.dtype, out._dtype)
        name = node.operator.name if node.call is None else node.call[0].name
        raise MXNetError(
            f"Incompatible attr in node  at 0-th output: expected {_show(expected)}, got {_show(got)} "
            f"in operator {name}"
        )
    assign(out, node, LOCAL.trace)
    return out


def _show(value: Any) -> str:
    return format_shape(value) if isinstance(value, tuple) else str(value)


def invoke(declared: Operator, inputs: tuple[Any, ...], given: tuple[Any, ...], out: Any, extra: dict[str, Any]) -> Any:
    """Return the result of an operator called by a user: arguments checked, converted, remembered.

    ``given`` holds the values of the visible parameters in order, ``extra`` whatever other keywords were passed.
    """
    if LISTENERS:
        return observed(declared, inputs, _named, given, _invoke, (declared, inputs, given, out, extra))
    return _invoke(declared, inputs, given, out, extra)


def _named(declared: Operator, given: tuple[Any, ...]) -> dict[str, Any]:
    """Return the parameters that were given, by name."""
    return {p.name: value for p, value in zip(visible(declared), given, strict=True) if value is not NULL}


def _invoke(
    declared: Operator, inputs: tuple[Any, ...], given: tuple[Any, ...], out: Any, extra: dict[str, Any]
) -> Any:
    context = extra.pop("ctx", None)
    for name in extra:
        if name not in _IGNORED and not (declared.tolerates and declared.tolerates(name, extra[name])):
            _unknown(declared, name)
    if declared.on_numbers is not None and not any([isinstance(value, Handle) for value in inputs]):
        differing = [(p, v) for p, v in zip(visible(declared), given, strict=True) if v is not p.default]
        return declared.on_numbers(*inputs, **{parameter.name: value for parameter, value in differing})
    attributes = _attributes(declared, given)
    handles = _checked(declared, inputs)
    plain = _handle._class
    others = [type(each) for each in handles if each is not None and type(each) is not plain]
    if declared.name == "cast_storage" or any([other._result_class is not other for other in others]):
        from ...ndarray.sparse_calls import call_with_storage

        return call_with_storage(declared, handles, attributes, out)
    result, nodes = apply(declared, handles, attributes)
    if handles:
        result = _at_home(result, handles)
    elif context is not None:
        result = _moved(result, as_context(context))
    _remember(declared, nodes + (None,) * (len(inputs) - len(nodes)), given, attributes, result)
    return _returned(declared, result, attributes, out, others[0] if others else plain)


#: ways of calling an operator that are remembered
_MOST_ARGUMENTS = 1000


def _attributes(declared: Operator, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the attributes of a node, made from the visible parameters."""
    known = visible(declared)
    training = bool(FLAGS.get() & TRAINING)
    key: tuple[Any, ...] | None = (training, *[keyed(p, v) for p, v in zip(known, given, strict=True)])
    try:
        found = declared.arguments.get(key)
    except TypeError:  # a list among the parameters
        found = key = None
    if found is None:
        pairs = zip(known, given, strict=True)
        parameters = {p.name: value for p, value in pairs if value is not NULL and value is not REQUIRED}
        if declared.training:
            parameters["training"] = training
        found = declared.attributes_of(parameters)
        if key is not None and len(declared.arguments) < _MOST_ARGUMENTS:
            declared.arguments[key] = found
    return found


def _remember(
    declared: Operator, nodes: tuple[Node | None, ...], given: tuple[Any, ...], attributes: tuple[Any, ...], result: Any
) -> None:
    if not _repeatable(declared):
        return
    key = (*nodes, *[keyed(p, v) for p, v in zip(visible(declared), given, strict=True)])
    try:
        if isinstance(result, Node):
            declared.calls[key] = result
        else:
            declared.several[key] = _Several(result, _shown(declared, len(result), attributes), declared.visible)
    except TypeError:  # a list among the arguments: such calls are converted every time
        return


class _Several(NamedTuple):
    """The outputs of a remembered call, how many of them a user sees, and what was declared about that."""

    nodes: tuple[Node, ...]
    shown: int
    declared: Any


def _make_several(call: _Several, trace: Trace, array_class: type[Any]) -> Any:
    """Return the arrays of a remembered call."""
    if FLAGS.get() & RECORDING:
        for node in call.nodes:
            trace.tape.siblings[node] = call.nodes
    made = [make(record_or_detach(node), trace, array_class) for node in call.nodes[: call.shown]]
    return made[0] if len(made) == 1 and call.declared is not None else made


def _shown(declared: Operator, outputs: int, attributes: tuple[Any, ...]) -> int:
    """Return how many of the outputs of a call a user sees."""
    rule = declared.visible
    if rule is None or isinstance(rule, int):
        return outputs if rule is None else rule
    count: int = rule(**declared.accepted(rule, attributes))
    return count


def _repeatable(declared: Operator) -> bool:
    """Return whether equal arguments always mean an equal result, so that a call can be remembered."""
    return not (declared.random or declared.training or declared.effects or declared.numbers)


def visible(declared: Operator) -> list[Parameter]:
    """Return the parameters that a user gives."""
    return [parameter for parameter in declared.parameters if parameter.name != "training"]


def keyed(parameter: Parameter, value: Any) -> Any:
    """Return a parameter's value as it stands in the key of a remembered call, like the code of ``_key_source``."""
    if parameter.kind in ("float", "Number"):
        return value or repr(value)
    return repr(value) if parameter.kind in ("Floats", "Numbers") else value


def _key_source(parameter: Parameter) -> str:
    # 0.0 and -0.0 are equal, but they are different arguments
    templates = {"float": "{0} or repr({0})", "Floats": "repr({0})"}
    return templates.get(parameter.kind, "{0}").format(parameter.name)


def _returned(declared: Operator, result: Any, attributes: tuple[Any, ...], out: Any, array_class: type[Any]) -> Any:
    if isinstance(result, Node):
        node = record_or_detach(result)
        if out is None:
            return make_result(node, LOCAL.trace, array_class)
        materialize_if_naive(write(out[0] if isinstance(out, (list, tuple)) and len(out) == 1 else out, node))
        return out
    nodes = [record_or_detach(node) for node in result[: _shown(declared, len(result), attributes)]]
    if out is not None:
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(outs) != len(nodes):
            raise MXNetError(
                f"Operator {declared.name} expects {len(result)} (all) or {len(nodes)} (visible only) outputs, "
                f"but got {len(outs)} instead."
            )
        for target in [write(target, node) for target, node in zip(outs, nodes, strict=True)]:
            materialize_if_naive(target)
        return out
    made = [materialize_if_naive(handle) for handle in [make(node, LOCAL.trace, array_class) for node in nodes]]
    return made[0] if len(made) == 1 and declared.visible is not None else made


def _moved(result: Any, context: Any) -> Any:
    """Return nodes without inputs on another context: equal expressions elsewhere are other nodes."""
    if isinstance(result, tuple):
        return tuple([_moved(node, context) for node in result])
    if result.context == context:
        return result
    table = result.operator.table
    key = (result, context)
    found = table.get(key)
    if found is None:
        elsewhere = Node(result.operator, result.inputs, result.attributes, result.shape, result.dtype, context=context)
        found = table.setdefault(key, elsewhere)
    return found


def _at_home(result: Any, handles: tuple[Handle | None, ...]) -> Any:
    """Return nodes on the context of the first array, also where an operator begins with a constant."""
    home = next((handle.context for handle in handles if handle is not None), CPU)
    if isinstance(result, tuple):
        return tuple([moved(node, home) for node in result])
    return moved(result, home)


def _checked(declared: Operator, inputs: tuple[Any, ...]) -> tuple[Handle | None, ...]:
    names = declared.input_names
    count = len(inputs)
    if declared.variadic:
        for value in inputs:
            if not isinstance(value, Handle):
                raise AssertionError(f"Positional arguments must have NDArray type, but got {value}")
        return inputs
    for index, value in enumerate(inputs):
        if value is None or value is NULL:
            if index < declared.required_inputs - declared.random:
                given = sum(isinstance(v, Handle) for v in inputs)
                raise MXNetError(
                    f"Operator {declared.name} expects {declared.required_inputs - declared.random} inputs, "
                    f"but got {given} instead."
                )
        elif not isinstance(value, Handle):
            raise AssertionError(f"Argument {names[index]} must have NDArray type, but got {value}")
    while count and (inputs[count - 1] is None or inputs[count - 1] is NULL):
        count -= 1
    return tuple([None if value is NULL else value for value in inputs[:count]])


def _unknown(declared: Operator, name: str) -> None:
    known = [p.name for p in visible(declared)]
    raise MXNetError(
        f"Cannot find argument '{name}', Possible Arguments: {', '.join(known) or 'none'}, "
        f'in operator {declared.name}(name=""){nearest(name, known)}'
    )


# -- generated functions

_TEMPLATE = """\
def {name}({signature}):
    if listeners:
        return watched(declared, ({inputs}), named, ({given}), deaf, ({inputs}{given}out, name), kwargs)
    if out is None and not kwargs and not active.naive and {known}:
        trace = LOCAL.trace
        try:
            key = ({key},)
            node = calls.get(key)
        except (TypeError, ValueError):
            key = node = None
        if node is not None:
            if node.marked:
                if not FLAGS.get() & 1:
                    node = node.detached or detach(node)
                elif node in trace.made:
                    node = trace.distinct(node)
                else:
                    trace.made[node] = 1
            result = new(array_class)
            result._trace = trace
            result._node = node
            result._buffer = result._extras = None
            handles = trace.handles
            handles.append(result)
            if len(handles) > trace.prune_at:
                trace.prune()
            return result
        if key in several:
            return make_several(several[key], trace, array_class)
    return invoke(declared, ({inputs}), ({given}), out, kwargs)
"""

_SLOW_TEMPLATE = """\
def {name}({signature}):
    return invoke(declared, {inputs}, ({given}), out, {options})
"""


class Faster(Protocol):
    """What makes calls faster than Python functions can (:mod:`.fastcall.native_install`)."""

    def function(self, declared: Operator, name: str, function: Any) -> Any:
        """Return a function that does what the Python function of an operator does."""

    def method(self, function: Any) -> Any:
        """Return such a function as a method."""

    def accept(self, array_class: type[Any]) -> None:
        """Make calls with arrays of another class faster, too."""


#: classes of dense arrays beside NDArray
OTHER_CLASSES: list[type[Any]] = []

#: what makes functions faster, once there is such a thing
FASTER: list[Faster] = []


#: the Python functions of operators, each with the operator and the name it was made for
MADE: dict[Any, tuple[Operator, str]] = {}


def function_of(declared: Operator, name: str, array_class: type[Any] | None = None) -> Callable[..., Any]:
    """Return the public function of an operator: MXNet's signature, then ``out`` and ``name``.

    It takes arrays of every class, and is quick for those of one: NDArray, if no other is given.
    """
    function = python_function_of(declared, name, array_class)  # type: ignore[arg-type]
    return FASTER[0].function(declared, name, function) if FASTER and remembers(declared) else function


def method_of(declared: Operator, name: str, array_class: type[Any] | None = None) -> Any:
    """Return the function of an operator in a form that can be a method."""
    function = function_of(declared, name, array_class)
    return FASTER[0].method(function) if function not in MADE else function


def remembers(declared: Operator) -> bool:
    """Return whether the function of an operator looks for calls made before."""
    return not declared.variadic and declared.required_inputs > 0 and _repeatable(declared)


@functools.cache
def python_function_of(declared: Operator, name: str, array_class: type[Any] | None = None) -> Callable[..., Any]:
    """Return the public function of an operator as a Python function, quick for arrays of a class."""
    inputs = [i for i in declared.input_names if i != "counter"]
    parameters = visible(declared)
    scope: dict[str, Any] = {
        "LOCAL": LOCAL,
        "FLAGS": FLAGS,
        "calls": declared.calls,
        "declared": declared,
        "detach": detach,
        "enter": node_in,
        "invoke": invoke,
        "listeners": LISTENERS,
        "make_several": _make_several,
        "several": declared.several,
        "active": active,
        "named": _named,
        "new": object.__new__,
        "watched": observed,
    }
    defaults = []
    for parameter in parameters:
        scope[f"default_{parameter.name}"] = parameter.default
        defaults.append(f"{parameter.name}=default_{parameter.name}")
    given = "".join(f"{p.name}, " for p in parameters)
    options = "kwargs"
    if not inputs and "dtype" in declared.parameter_names:
        # what makes an array from nothing is told where to make it, before the dtype
        defaults.insert([p.name for p in parameters].index("dtype"), "ctx=None")
        options = "{'ctx': ctx, **kwargs}"
    safe = name if name.isidentifier() and not keyword.iskeyword(name) else "function"
    names = [f"*{inputs[0]}"] if declared.variadic else [f"{i}=None" for i in inputs]
    signature = ", ".join([*names, *defaults, "out=None", "name=None", "**kwargs"])
    together = "".join(f"{i}, " for i in inputs)
    if remembers(declared):
        scope["array_class"] = array_class or _handle._class
        required, optional = inputs[: declared.required_inputs], inputs[declared.required_inputs :]

        def each(test: str) -> str:
            tests = [test.format(i) for i in required] + [f"({i} is None or {test.format(i)})" for i in optional]
            return " and ".join(tests)

        # the node is read before the trace (trace.HANDOVER)
        entered = "node if (node := {0}._node) is not None and {0}._trace is trace else enter({0}, trace)"
        nodes = [entered.format(i) for i in required]
        nodes += [f"None if {i} is None else {entered.format(i)}" for i in optional]
        source = _TEMPLATE.format(
            name=safe,
            signature=signature,
            known=each("type({0}) is array_class"),
            key=", ".join([*nodes, *[_key_source(p) for p in parameters]]),
            inputs=together,
            given=given,
        )
    else:
        arrays = inputs[0] if declared.variadic else f"({together})"
        source = _SLOW_TEMPLATE.format(name=safe, signature=signature, inputs=arrays, given=given, options=options)
    code = compile(source, f"<phonograd {name}>", "exec")
    # the same once more, for those who have told observers of the call
    unheard = {**scope, "listeners": (), "invoke": _invoke}
    exec(code, unheard)
    scope["deaf"] = unheard[safe]
    exec(code, scope)
    function: Callable[..., Any] = scope[safe]
    function.__doc__ = declared.__doc__
    function.__module__ = "phonograd.ndarray"
    MADE[function] = declared, name
    return function
