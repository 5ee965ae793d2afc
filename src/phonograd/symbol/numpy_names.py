"""Names of mx.np and mx.npx operators in symbol files: ``_npi_add``, ``_np_sum``, ``_npx_relu``."""

from __future__ import annotations

from ..core.graph.operator import REGISTRY, Operator

__all__ = ["name_of", "operator_of"]

#: functions of mx.np whose operators MXNet prefixes with ``_np_``; all others have the prefix ``_npi_``
_PLAIN = frozenset(
    (
        "all",
        "amax",
        "amin",
        "any",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "copy",
        "cumsum",
        "diag",
        "diagflat",
        "diagonal",
        "dot",
        "max",
        "min",
        "moveaxis",
        "prod",
        "product",
        "repeat",
        "reshape",
        "roll",
        "sometrue",
        "squeeze",
        "sum",
        "trace",
        "transpose",
    )
)

#: operators of an array and a number, by the names of mx.np
_SCALAR = {
    "add": "_plus",
    "subtract": "_minus",
    "rsubtract": "_rminus",
    "multiply": "_mul",
    "true_divide": "_div",
    "rtrue_divide": "_rdiv",
    "mod": "_mod",
    "rmod": "_rmod",
    "power": "_power",
    "rpower": "_rpower",
    "maximum": "_maximum",
    "minimum": "_minimum",
    "hypot": "_hypot",
    "equal": "_equal",
    "not_equal": "_not_equal",
    "greater": "_greater",
    "greater_equal": "_greater_equal",
    "less": "_lesser",
    "less_equal": "_lesser_equal",
}


def operator_of(name: str) -> Operator | None:
    """Return the operator of a name with the prefix ``_np_``, ``_npi_`` or ``_npx_``, or None.

    >>> operator_of("_npx_relu"), operator_of("_npi_add_scalar"), operator_of("_npi_tanh"), operator_of("_npi_nothing")
    (<operator relu>, <operator _plus_scalar>, <operator _np_tanh>, None)
    """
    from .. import numpy_extension
    from ..numpy.declaration import FUNCTIONS
    from ..numpy_extension.functions import EXPRESSIONS

    prefix, _, word = name[1:].partition("_")
    if word.endswith("_scalar"):
        return REGISTRY.get(_SCALAR.get(word.removesuffix("_scalar"), "") + "_scalar")
    if prefix == "npx":
        return EXPRESSIONS.get(word) or REGISTRY.get(numpy_extension.OPERATORS.get(word, ""))
    if word == "reshape":
        return EXPRESSIONS[word]
    for known in (word, f"_{word}"):
        found = FUNCTIONS.get(known)
        if isinstance(found, Operator):
            return found
    return None


def name_of(declared: Operator) -> str:
    """Return the name of an operator in symbol files: MXNet's for mx.np expressions, otherwise its own."""
    if REGISTRY.get(declared.name) is declared or not declared.name.startswith("_np_"):
        return declared.name
    word = declared.name.removeprefix("_np_").lstrip("_")
    return f"_np_{word}" if word in _PLAIN else f"_npi_{word}"
