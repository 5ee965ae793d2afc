"""Calls of operators with arrays: one look-up for a call that was made before, else conversion with explanations.

:func:`function_of` generates the public function of an operator: MXNet's signature, and a call of :func:`invoke`,
which is the one Python path. A call with the same nodes and the same arguments as before is found in
:attr:`Operator.calls <phonograd.core.graph.operator.Operator>`; any other call is checked, converted and remembered
there. :mod:`.fastcall.native_code` does the look-up in machine code once that is compiled (docs/decisions/0012).
"""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.devices import CPU, as_context
from ..base.errors import MXNetError, format_shape, nearest
from ..base.hot import hot, untracked
from ..graph.documentation import document
from ..graph.extension import extend, learn
from ..graph.node import Node
from ..graph.operator import Operator
from ..graph.parameters import REQUIRED, Parameter
from ..graph.signature import signature_of, visible
from ..ops.math.structural import copy_to_context, detach
from ..trace.flags import FLAGS, RECORDING, TRAINING
from ..trace.owner import MACHINE_CODE
from ..trace.trace import Trace, ready_trace
from . import immediate
from .handle import DENSE, Handle, assign, make, materialize_if_naive, new_result, node_in, record_or_detach
from .numbers import with_data
from .observed import LISTENERS, observe_call
from .several import make_several, several_of, visible_outputs

__all__ = ["apply", "function_of", "invoke", "write"]


class _Null:
    """MXNet's mark for "not given"."""

    def __repr__(self) -> str:
        return "_Null"


NULL: Any = _Null()


def write(out: Any, node: Node, trace: Trace) -> Any:
    """Assign a result, a node of a trace, to the argument ``out`` of a call, and return it."""
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
    assign(out, node, trace)
    return out


def _show(value: Any) -> str:
    return format_shape(value) if isinstance(value, tuple) else str(value)


def invoke(
    declared: Operator,
    inputs: tuple[Any, ...],
    given: tuple[Any, ...],
    out: Any,
    extra: dict[str, Any],
    listeners: Sequence[int] = LISTENERS,
) -> Any:
    """Return the result of an operator called by a user: arguments checked, converted, remembered.

    ``given`` holds the values of the visible parameters in order, ``extra`` the other keywords that were passed.
    """
    if listeners:
        return observe_call(
            declared, inputs, _parameters_by_name, given, invoke, (declared, inputs, given, out, extra, ())
        )
    if out is None and not extra and (form := _key_form(declared)) is not None:
        trace = ready_trace()
        if trace.is_immediate and immediate.is_possible(trace):
            key = given if not form else _converted(given, form)
            new_attributes = functools.partial(_new_attributes, declared, given)
            result = immediate.call(declared, inputs, key, new_attributes, _shown_outputs, trace)
            if result is not None:
                return result
        result = _recall(declared, inputs, given, form)
        if result is not None:
            return result
    context = extra.pop("ctx", None)
    for name in extra:
        if not (declared.tolerates and declared.tolerates(name, extra[name])):
            _refuse_unknown(declared, name)
    if declared.on_numbers is not None and not any([isinstance(value, Handle) for value in inputs]):
        differing = [(p, v) for p, v in zip(visible(declared), given, strict=True) if v is not p.default]
        return declared.on_numbers(*inputs, **{parameter.name: value for parameter, value in differing})
    attributes = _attributes(declared, given)
    handles = _check(declared, inputs)
    plain = DENSE[0]
    others = [type(each) for each in handles if each is not None and type(each) is not plain]
    if declared.name == "cast_storage" or any([other._result_class is not other for other in others]):
        return plain._call_with_storage(declared, handles, attributes, out)
    result, nodes, trace = apply(declared, handles, attributes)
    if handles:
        result = _at_home(result, handles)
    elif context is not None:
        result = _move_to_context(result, as_context(context))
    _remember(declared, nodes + (None,) * (len(inputs) - len(nodes)), given, attributes, result)
    return _return_results(declared, result, attributes, out, others[0] if others else plain, trace)


def _parameters_by_name(declared: Operator, given: tuple[Any, ...]) -> dict[str, Any]:
    """Return the parameters that were given, by name."""
    return {p.name: value for p, value in zip(visible(declared), given, strict=True) if value is not NULL}


#: the parameters that the key of a call holds in another form: their places and the conversions
_KeyForm = tuple[tuple[int, Callable[[Any], Any]], ...]


def _recall(declared: Operator, inputs: tuple[Any, ...], given: tuple[Any, ...], form: _KeyForm) -> Any:
    """Return the result of a call if it needs no checks, else None. All inputs must be dense arrays or None.

    An equal call is remembered, or a call with the same parameters and as many arrays.
    """
    trace = ready_trace()
    parts: list[Any] = []
    array_class = _enter_all(inputs, trace, parts)
    if array_class is None:
        return None
    first = len(parts)
    parts += given
    try:
        for place, convert in form:
            parts[first + place] = convert(parts[first + place])
        key = tuple(parts)
        node = declared.calls.get(key)
    except (TypeError, ValueError):
        # a list or an array among the parameters: such calls are converted every time
        return None
    if node is not None:
        return new_result(node, trace, array_class)
    return _recall_kind(declared, key, first, trace, array_class)


@hot
def _enter_all(inputs: tuple[Any, ...], trace: Trace, parts: list[Any]) -> type[Any] | None:
    """Append the nodes of arrays to a list, and return the class of the result; None if one is no dense array."""
    array_class = plain = DENSE[0]
    for value in inputs:
        kind = type(value)
        if kind is plain:
            parts.append(node_in(value, trace))
        elif value is None:
            parts.append(None)
        elif kind in DENSE:
            parts.append(node_in(value, trace))
            array_class = kind
        else:
            return None
    return array_class


@hot
def _recall_kind(declared: Operator, key: tuple[Any, ...], first: int, trace: Trace, array_class: type[Any]) -> Any:
    """Return the result of a call of several outputs, or of a new one of a known kind; None for others."""
    several = declared.several.get(key)
    if several is not None:
        return make_several(several, trace, array_class)
    nodes, parameters = untracked(key[:first]), key[first:]
    attributes = declared.accepted_parameters.get((first, parameters))
    if attributes is None or None in nodes or declared.autocast is not None:
        return None
    result = extend(declared, nodes, parameters)
    if result is None:
        result = declared.apply(nodes, attributes)
        if (result if type(result) is Node else result[0]).context is not nodes[0].context:
            return None
        learn(declared, nodes, parameters, attributes, result)
    if type(result) is Node:
        declared.calls[untracked(key)] = result
        return new_result(result, trace, array_class)
    several = declared.several[untracked(key)] = several_of(declared, untracked(result), attributes)
    return make_several(several, trace, array_class)


def _converted(given: tuple[Any, ...], form: _KeyForm) -> tuple[Any, ...]:
    """Return parameters as they stand in the keys of remembered calls."""
    found = list(given)
    for place, convert in form:
        found[place] = convert(found[place])
    return tuple(found)


@functools.cache
def _key_form(declared: Operator) -> _KeyForm | None:
    """Return the conversions in the key of a call; None if calls of the operator are not remembered."""
    if not remembers(declared):
        return None
    converters = [(place, _CONVERTERS.get(p.kind)) for place, p in enumerate(visible(declared))]
    return tuple([(place, convert) for place, convert in converters if convert is not None])


def _number_key(value: Any) -> Any:
    # 0.0 and -0.0 are equal, but they are different arguments
    return value or repr(value)


#: the conversion of a value in the key of a remembered call, by the kind of its parameter
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "float": _number_key,
    "Number": _number_key,
    "Floats": repr,
    "Numbers": repr,
}


def key_form(parameter: Parameter, value: Any) -> Any:
    """Return the value of a parameter in the form that it has in the key of a remembered call."""
    convert = _CONVERTERS.get(parameter.kind)
    return value if convert is None else convert(value)


def apply(
    declared: Operator, inputs: tuple[Handle | None, ...], attributes: tuple[Any, ...]
) -> tuple[Any, tuple[Node | None, ...], Trace]:
    """Return the node (or nodes) of an operator applied to arrays, the nodes of the arrays, and their trace.

    The call goes on with this trace: a signal handler that evaluates arrays may end it and begin another one.
    """
    trace = ready_trace()
    nodes = tuple([None if handle is None else node_in(handle, trace) for handle in inputs])
    if declared.random:
        nodes += (None,) * (len(declared.input_names) - 1 - len(nodes)) + (trace.counter(),)
    if declared.numbers:
        attributes = with_data(declared, nodes, attributes, trace)
    used = nodes if declared.autocast is None else declared.autocast(nodes, attributes)
    result = declared.apply(used, attributes)
    if isinstance(result, tuple) and FLAGS.get() & RECORDING:
        for node in result:
            trace.tape.siblings[node] = result
    if declared.effects is not None:
        _take_effect(declared, inputs, nodes, result, attributes, trace)
    return result, nodes, trace


def _take_effect(
    declared: Operator,
    inputs: tuple[Handle | None, ...],
    nodes: tuple[Node | None, ...],
    result: Any,
    attributes: tuple[Any, ...],
    trace: Trace,
) -> None:
    """Assign the changes that an operator makes to its arguments (BatchNorm's moving statistics), unrecorded."""
    assert declared.effects is not None
    key = nodes, attributes
    changed = declared.consequences.get(key)
    if changed is None:
        outputs = result if isinstance(result, tuple) else (result,)
        changed = declared.effects(nodes, outputs, **declared.accepted(declared.effects, attributes))
        declared.consequences[key] = changed
    for index, node in changed.items():
        handle = inputs[index]
        if handle is not None:
            assign(handle, detach(node), trace)


#: the most ways of calling an operator that are remembered
_MOST_ARGUMENTS = 1000


def _attributes(declared: Operator, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the attributes of a node, made from the visible parameters."""
    known = visible(declared)
    training = bool(FLAGS.get() & TRAINING)
    key: tuple[Any, ...] | None = (training, *[key_form(p, v) for p, v in zip(known, given, strict=True)])
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


def _new_attributes(declared: Operator, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the attributes of calls with parameters that are new; None if such calls are not remembered."""
    # results of cast_storage may be sparse
    is_dense = declared.name != "cast_storage"
    return _attributes(declared, given) if is_dense and _repeatable(declared) else None


def _remember(
    declared: Operator, nodes: tuple[Node | None, ...], given: tuple[Any, ...], attributes: tuple[Any, ...], result: Any
) -> None:
    if not _repeatable(declared):
        return
    key = (*nodes, *[key_form(p, v) for p, v in zip(visible(declared), given, strict=True)])
    try:
        if isinstance(result, Node):
            declared.calls[key] = result
        else:
            declared.several[key] = several_of(declared, result, attributes)
        if nodes and len(declared.accepted_parameters) < _MOST_ARGUMENTS:
            declared.accepted_parameters[len(nodes), key[len(nodes) :]] = attributes
    except TypeError:  # a list among the arguments: such calls are converted every time
        return


def _shown_outputs(declared: Operator, nodes: tuple[Node, ...], attributes: tuple[Any, ...]) -> tuple[int, bool]:
    """Return the number of outputs of a call that users see, and whether they are a list."""
    shown = visible_outputs(declared, len(nodes), attributes)
    return shown, shown != 1 or declared.visible is None


def _repeatable(declared: Operator) -> bool:
    """Return whether equal arguments always mean an equal result, so that a call can be remembered."""
    return not (declared.random or declared.training or declared.effects or declared.numbers)


def _return_results(
    declared: Operator, result: Any, attributes: tuple[Any, ...], out: Any, array_class: type[Any], trace: Trace
) -> Any:
    if isinstance(result, Node):
        if out is None:
            return new_result(result, trace, array_class)
        materialize_if_naive(
            write(
                out[0] if isinstance(out, (list, tuple)) and len(out) == 1 else out,
                record_or_detach(result, trace),
                trace,
            )
        )
        return out
    nodes = [record_or_detach(node, trace) for node in result[: visible_outputs(declared, len(result), attributes)]]
    if out is not None:
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(outs) != len(nodes):
            raise MXNetError(
                f"Operator {declared.name} expects {len(result)} (all) or {len(nodes)} (visible only) outputs, "
                f"but got {len(outs)} instead."
            )
        for target in [write(target, node, trace) for target, node in zip(outs, nodes, strict=True)]:
            materialize_if_naive(target)
        return out
    made = [materialize_if_naive(handle) for handle in [make(node, trace, array_class) for node in nodes]]
    return made[0] if len(made) == 1 and declared.visible is not None else made


def _move_to_context(result: Any, context: Any) -> Any:
    """Return nodes without inputs on another context: equal expressions elsewhere are other nodes."""
    if isinstance(result, tuple):
        return tuple([_move_to_context(node, context) for node in result])
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
        return tuple([copy_to_context(node, home) for node in result])
    return copy_to_context(result, home)


def _check(declared: Operator, inputs: tuple[Any, ...]) -> tuple[Handle | None, ...]:
    names = declared.input_names
    count = len(inputs)
    if declared.variadic:
        for value in inputs:
            if not isinstance(value, Handle):
                raise AssertionError(f"Positional arguments must have NDArray type, but got {_advice(declared, value)}")
        return inputs
    for index, value in enumerate(inputs):
        if value is None or value is NULL:
            if index < declared.required_arrays:
                given = sum(isinstance(v, Handle) for v in inputs)
                raise MXNetError(
                    f"Operator {declared.name} expects {declared.required_arrays} inputs, but got {given} instead."
                )
        elif not isinstance(value, Handle):
            raise AssertionError(f"Argument {names[index]} must have NDArray type, but got {_advice(declared, value)}")
    while count and (inputs[count - 1] is None or inputs[count - 1] is NULL):
        count -= 1
    return tuple([None if value is NULL else value for value in inputs[:count]])


def _advice(declared: Operator, value: Any) -> str:
    """Return a value that is no array as text, and the way to pass it."""
    if declared.variadic and isinstance(value, (list, tuple)) and all([isinstance(one, Handle) for one in value]):
        return f"a {type(value).__name__} of arrays: pass them one by one, {declared.name}(*arrays)"
    if isinstance(value, (list, tuple, np.ndarray, int, float)):
        return f"{value}: convert it with {'mx.np' if declared.array_name == 'ndarray' else 'mx.nd'}.array first"
    if hasattr(value, "list_data"):
        return f"{value}: the array of a parameter is parameter.data()"
    if hasattr(value, "list_arguments"):
        return f"{value}: functions of symbols are in mx.sym"
    return str(value)


def _refuse_unknown(declared: Operator, name: str) -> None:
    """Raise for a keyword that is no parameter.

    As in MXNet, operators without parameters ignore all keywords, and all operators ignore those between underscores.
    """
    known = [p.name for p in visible(declared)]
    if (not known and not declared.variadic) or (name.startswith("__") and name.endswith("__")):
        return
    if declared.variadic and name == declared.interface.count:
        return
    raise MXNetError(
        f"Cannot find argument '{name}', Possible Arguments: {', '.join(known) or 'none'}, "
        f'in operator {declared.name}(name=""){nearest(name, known)}'
    )


# -- generated functions

_TEMPLATE = """\
def {name}({signature}):
    return invoke(declared, {inputs}, ({given}), out, {options})
"""


def function_of(declared: Operator, name: str) -> Callable[..., Any]:
    """Return the public function of an operator: MXNet's signature, then ``out`` and ``name``."""
    functions = MACHINE_CODE.functions
    if functions is not None and remembers(declared):
        return functions.function(declared, name)  # type: ignore[no-any-return]
    return python_function_of(declared, name)


def remembers(declared: Operator) -> bool:
    """Return whether the function of an operator looks for calls made before."""
    return (declared.variadic or declared.required_inputs > 0) and _repeatable(declared)


#: the public functions of operators that are Python functions
_python_functions: dict[tuple[Operator, str], Any] = {}


def python_function_of(declared: Operator, name: str) -> Callable[..., Any]:
    """Return the public function of an operator as a Python function, which :func:`forward` may change."""
    found = _python_functions.get((declared, name))
    if found is None:
        function: Any = write_python_function(declared, name)
        function.__signature__, function.__doc__ = describe(declared)
        found = _python_functions.setdefault((declared, name), function)
    return found  # type: ignore[no-any-return]


def describe(declared: Operator) -> tuple[inspect.Signature, str]:
    """Return the signature and the docstring of the public function of an operator."""
    signature = signature_of(declared)
    return signature, document(declared, signature=signature)


def forward(declared: Operator, name: str, target: Callable[..., Any]) -> None:
    """Let the Python function of an operator, if there is one, call machine code: a program may have kept it."""
    function = _python_functions.get((declared, name))
    if function is None:
        return

    def invoke_target(
        declared: Operator, inputs: tuple[Any, ...], given: tuple[Any, ...], out: Any, extra: dict[str, Any]
    ) -> Any:
        if out is not None or extra:
            return invoke(declared, inputs, given, out, extra)
        count = len(inputs)
        if not declared.variadic:
            if inputs[-1] is not None:
                return target(*inputs, *given)
            # machine code takes optional arrays that are left out, but not None
            while count and inputs[count - 1] is None:
                count -= 1
        pairs = zip(visible(declared), given, strict=True)
        return target(*inputs[:count], **{p.name: value for p, value in pairs if value is not p.default})

    function.__globals__["invoke"] = invoke_target


def write_python_function(declared: Operator, name: str) -> Callable[..., Any]:
    """Return a new Python function of an operator, without a docstring.

    Its attribute ``facts`` is the pair of the operator and the name. The text for ``nd.clip``::

        def clip(data=None, a_min=default_a_min, a_max=default_a_max, out=None, name=None, **kwargs):
            return invoke(
                declared,
                (data,),
                (
                    a_min,
                    a_max,
                ),
                out,
                kwargs,
            )
    """
    inputs = [i for i in declared.input_names if i != "counter"]
    parameters = visible(declared)
    scope: dict[str, Any] = {"declared": declared, "invoke": invoke}
    defaults = []
    for parameter in parameters:
        scope[f"default_{parameter.name}"] = parameter.default
        defaults.append(f"{parameter.name}=default_{parameter.name}")
    options = "kwargs"
    if not inputs and "dtype" in declared.parameter_names:
        # an operator without inputs takes the context of its result, before the dtype
        defaults.insert([p.name for p in parameters].index("dtype"), "ctx=None")
        options = "{'ctx': ctx, **kwargs}"
    names = [f"*{inputs[0]}"] if declared.variadic else [f"{i}=None" for i in inputs]
    safe = name if name.isidentifier() and not keyword.iskeyword(name) else "function"
    source = _TEMPLATE.format(
        name=safe,
        signature=", ".join([*names, *defaults, "out=None", "name=None", "**kwargs"]),
        inputs=inputs[0] if declared.variadic else f"({''.join(f'{i}, ' for i in inputs)})",
        given="".join(f"{p.name}, " for p in parameters),
        options=options,
    )
    exec(compile(source, f"<phonograd {name}>", "exec"), scope)
    function: Any = scope[safe]
    function.__module__ = "phonograd.ndarray"
    function.facts = declared, name
    return function  # type: ignore[no-any-return]
