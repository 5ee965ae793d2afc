"""Docstrings of functions of mx.np: types and descriptions by argument, and examples from ``examples.txt``.

Functions that are expressions have the docstrings of operators (:mod:`phonograd.core.graph.documentation`); this module
serves the plain functions of ``mx.np``, ``np.linalg`` and ``np.random``. Their annotations are often ``Any``, because
they take everything that NumPy takes; :data:`~.argument_types.TYPES` tells editors and readers which type is meant.
"""

from __future__ import annotations

import inspect
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.base.docstrings import compose, examples_beside, own_descriptions, sections_of
from ..core.base.formulas import with_formula
from ..core.graph.shared_parameters import COMMON
from ..core.graph.shared_parameters import SHARED as OF_OPERATORS
from ..core.graph.signature import Type
from .shared_parameters import RESULTS, SHARED, TYPES

__all__ = ["complete", "complete_all", "descriptions", "typed_signature"]


def descriptions(name: str) -> Mapping[str, str]:
    """Return the descriptions of arguments of a function of mx.np."""
    # of the function, of its module, of all
    starts = [f"{name}.", f"{name.rpartition('.')[0]}."] if "." in name else [f"{name}."]
    own = [{key.removeprefix(start): text for key, text in SHARED.items() if key.startswith(start)} for start in starts]
    return ChainMap(*own, dict(SHARED))


def typed_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function; arguments annotated with Any get the types of their names."""
    signature = _signature(function)
    arguments = []
    for argument in signature.parameters.values():
        annotation = str(argument.annotation)
        own = f"{function.__name__}.{argument.name}"
        if annotation == "Any" and (own in TYPES or argument.name in TYPES):
            annotation = TYPES.get(own) or TYPES[argument.name]
            if argument.default is None and "None" not in annotation:
                annotation += " | None"
        arguments.append(argument.replace(annotation=Type(annotation)))
    result = RESULTS.get(function.__name__) or re.sub(r"\bAny\b", "ndarray", str(signature.return_annotation))
    return signature.replace(parameters=arguments, return_annotation=Type(result))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    shown = getattr(function, "shown_as", None)
    if shown is None:
        return inspect.signature(function)
    # the text is a constant of fallback.py
    signature = inspect.signature(eval(f"lambda {shown[0]}: None"))
    arguments = [argument.replace(annotation="Any") for argument in signature.parameters.values()]
    return signature.replace(parameters=arguments, return_annotation=shown[1])


def complete(function: Callable[..., Any], name: str, namespace: str = "") -> None:
    """Complete the docstring of a plain function of mx.np, or of a module of it.

    The examples of a module are in the file of the package too, by the module's name: ``linalg.det``.
    """
    if hasattr(function, "__signature__"):
        # it was completed under another name
        return
    sections = sections_of(function.__doc__ or "")
    whole = f"{namespace}{name}"
    own = own_descriptions(sections.get("Parameters", ""))
    known = ChainMap(own, dict(descriptions(whole)), dict(OF_OPERATORS), dict(COMMON))
    signature = typed_signature(function)
    example = sections.get("Examples") or examples_beside(__file__).get(whole, "")
    if not example:
        # an alias: the example of the function's own name
        example = examples_beside(__file__).get(f"{namespace}{function.__name__}", "")
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__doc__ = compose(
        with_formula(sections, whole), signature, known, example, str(signature.return_annotation)
    )


def complete_all(namespace: Mapping[str, Any], names: Iterable[str]) -> None:
    """Complete the docstrings of the functions of a module of mx.np; the module calls it at its end."""
    prefix = namespace["__name__"].rpartition(".")[2] + "."
    for name in names:
        if inspect.isfunction(namespace[name]) and namespace[name].__module__ == namespace["__name__"]:
            complete(namespace[name], name, prefix)
