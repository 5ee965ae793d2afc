"""Names of mx.np and mx.npx operators in symbol files: ``_npi_add``, ``_np_sum``, ``_npx_relu``."""

from __future__ import annotations

from ..core.graph.operator import NAMES, REGISTRY, Operator

__all__ = ["name_of", "operator_of"]


def _beside_number(word: str) -> Operator | None:
    """Return the operator of an array and a number for a function of mx.np; after an "r" the number comes first."""
    from ..numpy.declaration import FUNCTIONS

    kind = "number_last"
    if word not in FUNCTIONS and word.startswith("r"):
        kind, word = "number_first", word[1:]
    whole = NAMES["with_scalars"].get(getattr(FUNCTIONS.get(word), "with_scalars", None) or "")
    form = None if whole is None else whole.forms[kind]
    # where the order does not matter there is one form, and one name
    return form if form is not None and form.form_of == (whole, kind) else None


def operator_of(name: str) -> Operator | None:
    """Return the operator of a name with the prefix ``_np_``, ``_npi_`` or ``_npx_``, or None.

    >>> operator_of("_npx_relu"), operator_of("_npi_add_scalar"), operator_of("_npi_tanh"), operator_of("_npi_nothing")
    (<operator relu>, <operator _plus_scalar>, <operator _np_tanh>, None)
    """
    from ..numpy.declaration import FUNCTIONS
    from ..numpy_extension.functions import EXPRESSIONS

    prefix, _, word = name[1:].partition("_")
    if word.endswith("_scalar"):
        return _beside_number(word.removesuffix("_scalar"))
    if prefix == "npx":
        return EXPRESSIONS.get(word) or NAMES["npx"].get(word)
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
    return declared.in_files or f"_npi_{word}"
