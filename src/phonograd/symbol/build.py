"""Building: make symbols by calling operators, with names, attributes and variables for missing inputs.

:func:`function_of` returns the public function of an operator, with MXNet's arguments; :func:`build` makes the symbol.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..attribute import AttrScope
from ..core.array.call import NULL as NOT_GIVEN
from ..core.base.dtypes import name_of
from ..core.base.errors import MXNetError, nearest
from ..core.graph.documentation import document
from ..core.graph.operator import Operator
from ..core.graph.parameters import REQUIRED, Parameter
from ..core.graph.signature import signature_of, visible
from ..name import NameManager
from .calls import call_of, name_in_files
from .entry import HIDDEN, NULL, Entry, Head, hidden_key, text_of
from .graph import Symbol

__all__ = ["attributes_for", "build", "function_of", "set_input_casts", "var"]

#: ``casts(operator, name, attributes, inputs, auxiliary states)`` returns the inputs of a call in mixed precision
InputCasts = Callable[[str, str, Mapping[str, str], list[Head], frozenset[int]], list[Head]]

_input_casts: InputCasts | None = None


def set_input_casts(casts: InputCasts | None) -> None:
    """Let a function choose the inputs of new symbols; None: they are taken as they are."""
    global _input_casts
    _input_casts = casts


#: arguments that every generated function accepts and ignores
_IGNORED = frozenset(("out", "ctx"))

#: in the order of their numbers in files
_STORAGE_TYPES = ("default", "row_sparse", "csr")

_OF_A_VARIABLE = re.compile(r".+_(ctx_group|lr_mult|wd_mult|force_mirroring|mirror_stage)")


def _text_of_any(value: Any) -> str:
    """Return the text of an attribute that may have any value: an initializer describes itself."""
    if isinstance(value, str):
        return value
    return str(value.dumps()) if hasattr(value, "dumps") else str(value)


def attributes_for(attr: Mapping[str, str] | None) -> dict[str, str]:
    """Return the attributes of a new entry: those of the enclosing scopes, and its own."""
    for value in (attr or {}).values():
        if not isinstance(value, str):
            raise ValueError("Set Attr only accepts string values")
    return {hidden_key(key): value for key, value in AttrScope.current.get(attr).items()}


def var(
    name: str,
    attr: Mapping[str, str] | None = None,
    shape: Any = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """Return a symbol that is an argument of the graph.

    Parameters
    ----------
    name
        Its name.
    attr
        Attributes, strings by name.
    shape, dtype
        Known shape and dtype, used by inference; 0 in a shape means an unknown extent.
    lr_mult, wd_mult
        Factors of the learning rate and of the weight decay.
    init
        The initializer: a name, or an object with a method ``dumps``.
    stype
        The storage type: ``"default"``, ``"row_sparse"`` or ``"csr"``. It is written to files and has no other effect.
    kwargs
        More attributes; their names begin and end with two underscores.

    >>> var("x", shape=(2, 3)).list_attr()
    {'__shape__': '(2, 3)'}
    """
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    attributes = attributes_for(attr)
    if shape is not None:
        attributes["__shape__"] = text_of(shape)
    if lr_mult is not None:
        attributes["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        attributes["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        attributes["__dtype__"] = str(_code_of(dtype))
    if init is not None:
        attributes["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        if stype not in _STORAGE_TYPES:
            raise MXNetError(f"variable {name}: unknown storage type {stype!r}; use one of {', '.join(_STORAGE_TYPES)}")
        attributes["__storage_type__"] = str(_STORAGE_TYPES.index(stype))
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with double "
                f"underscores, e.g, __yourattr__"
            )
        attributes[key] = str(value)
    return Symbol([(Entry(NULL, name, attributes, []), 0)])


def _code_of(dtype: Any) -> int:
    from ..core.base.dtypes import CODES, as_dtype

    return CODES[as_dtype(dtype)]


def build(
    operator: str,
    hint: str,
    inputs: Sequence[Symbol | None],
    parameters: Mapping[str, str],
    name: str | None = None,
    attr: Mapping[str, str] | None = None,
    named: Mapping[str, Symbol] | None = None,
    subgraphs: tuple[list[Head], ...] = (),
) -> Symbol:
    """Return the symbol of a call, given its inputs by position and by name, and its parameters as text.

    Missing inputs become variables, named after the call and the input.
    """
    attributes = {**attributes_for({key: _text_of_any(value) for key, value in (attr or {}).items()}), **parameters}
    for key in attributes:
        if _OF_A_VARIABLE.fullmatch(key) and not key.startswith("__"):
            raise MXNetError(
                f"setting variable attributes with {key} is deprecated. please instead use\n"
                f"w = Variable({key.rpartition('_')[2]}=...)\nsym = YourSymbolName(weight=w)"
            )
    name = NameManager.current.get(name, hint.lower())
    given = [None if symbol is None else single_head(symbol, name) for symbol in inputs]
    call = call_of(operator, attributes, subgraphs, len(given))
    heads: list[Head] = []
    if len(given) > len(call.argument_names):
        # None may take the place of an input that does not exist with these parameters
        given = [head for head in given if head is not None]
    if len(given) > len(call.argument_names):
        expected = ", ".join(call.argument_names)
        raise MXNetError(f"Operator {operator} expects the inputs {expected}, but got {len(given)} by position")
    rest = {key: single_head(symbol, name) for key, symbol in (named or {}).items()}
    for position, argument in enumerate(call.argument_names):
        head = given[position] if position < len(given) else None
        if argument in rest:
            if head is not None:
                raise MXNetError(f"Operator {operator} got input {argument} both by position and by name")
            head = rest.pop(argument)
        if head is None:
            head = Entry(NULL, f"{name}_{argument}", dict(attributes), []), 0
        if argument in call.initial and head[0].is_argument:
            head[0].attributes.setdefault("__init__", call.initial[argument])
        heads.append(head)
    for key in rest:
        raise MXNetError(
            f"Operator {operator} has no input {key} with these parameters{nearest(key, list(call.argument_names))}; "
            f"its inputs are {', '.join(call.argument_names)}"
        )
    if _input_casts is not None:
        heads = _input_casts(operator, name, attributes, heads, call.auxiliary)
    entry = Entry(operator, name, attributes, heads, None, subgraphs)
    kinds = {type(symbol) for symbol in (*inputs, *(named or {}).values()) if symbol is not None} - {Symbol}
    kind = kinds.pop() if kinds else Symbol
    return kind([(entry, index) for index in range(entry.visible())])


def single_head(symbol: Symbol, name: str) -> Head:
    """Return the only output of a symbol used as the input of a call; raise if it has several."""
    if len(symbol) != 1:
        raise MXNetError(
            f"an input of {name} is a tuple of {len(symbol)} outputs ({', '.join(symbol.list_outputs())}), single "
            f"value is required: choose one with symbol[index]"
        )
    return symbol._heads[0]


# -- functions of operators


def parameter_text(parameter: Parameter, value: Any) -> str:
    """Return the value of a parameter as attribute text."""
    if parameter.kind == "DType" and not isinstance(value, str) and not (value is None and parameter.optional):
        # as in MXNet, None is NumPy's default where a dtype is required
        return name_of(value)
    return text_of(value)


@functools.cache
def function_of(declared: Operator, name: str) -> Callable[..., Any]:
    """Return the function that makes symbols of an operator; ``name`` is the prefix of their names."""
    inputs = [i for i in declared.input_names if i != "counter"]
    parameters = {parameter.name: parameter for parameter in visible(declared)}
    positional = list(parameters) if declared.variadic else [*inputs, *parameters]
    file_name = name_in_files(declared)
    depends = declared.interface.arguments is not None

    def function(*args: Any, name: str | None = None, attr: Mapping[str, str] | None = None, **kwargs: Any) -> Symbol:
        sources: Sequence[Any] = args
        by_name: dict[str, Any] = {}
        if not declared.variadic:
            if len(args) > len(positional):
                raise TypeError(f"{hint}() takes {len(positional)} positional arguments but {len(args)} were given")
            given = dict(zip(positional, args, strict=False))
            for key in given:
                if key in kwargs:
                    raise TypeError(f"{hint}() got multiple values for argument {key!r}")
            if depends:
                # parameters decide which inputs exist, so a named one need not be at its position in the signature
                by_name = {i: _symbol(i, kwargs.pop(i)) for i in inputs if kwargs.get(i) is not None}
            kwargs = {**given, **kwargs}
            sources = [_symbol(i, kwargs.pop(i, None)) for i in inputs]
            while sources and sources[-1] is None:
                sources.pop()
        named = {key: kwargs.pop(key) for key, value in list(kwargs.items()) if isinstance(value, Symbol)}
        named.update(by_name)
        for source in args if declared.variadic else ():
            if not isinstance(source, Symbol):
                raise AssertionError(f"Positional arguments must be Symbol instances, but got {source}")
        texts = _texts(declared, parameters, kwargs)
        if declared.variadic:
            sources = [*sources, *named.values()]
            named = {}
            texts.setdefault(declared.interface.count, str(len(sources) // declared.interface.counted))
        return build(file_name, hint, sources, texts, name, attr, named)

    hint = name
    function.__name__ = function.__qualname__ = name
    function.__module__ = "phonograd.symbol"
    signature = signature_of(declared, "Symbol", symbolic=True)
    function.__doc__ = document(declared, signature=signature)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _symbol(argument: str, value: Any) -> Symbol | None:
    if value is not None and value is not NOT_GIVEN and not isinstance(value, Symbol):
        raise AssertionError(f"Argument {argument} must be Symbol instances, but got {value}")
    return value if isinstance(value, Symbol) else None


def _texts(declared: Operator, parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, str]:
    texts = {}
    for key, value in given.items():
        if value is NOT_GIVEN or value is REQUIRED or key in _IGNORED:
            continue
        if key in parameters:
            texts[key] = parameter_text(parameters[key], value)
        elif (key.startswith("__") and key.endswith("__")) or key == declared.interface.count:
            texts[key] = str(value)
        elif key in HIDDEN:
            texts[hidden_key(key)] = str(value)
        elif parameters or declared.variadic:
            declared.reject_unknown([key])
        else:
            texts[key] = text_of(value)  # operators without parameters keep any keyword, as in MXNet
    return texts
