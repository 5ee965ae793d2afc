"""Docstrings of public functions: the text of a declaration, completed by its signature and by shared descriptions.

Takes the docstring of an :class:`~phonograd.core.graph.operator.Operator`, whose sections are optional, and the
descriptions of :mod:`.shared_parameters`; hands the whole text to ``help``, to the type stubs and to the reference.
A declaration says only what is its own. Its examples are in its docstring, or in the file ``examples.txt`` beside the
declarations of its family, which is read when a function of that family is made for the first time::

    '''Divide each element by one plus its absolute value.

    .. math:: y = x / (1 + |x|)

    >>> mx.nd.softsign(mx.nd.array([-1, 0, 3])).asnumpy()
    array([-0.5 ,  0.  ,  0.75], dtype=float32)

    '''
"""

from __future__ import annotations

import inspect
import sys
from collections import ChainMap
from collections.abc import Mapping

from ..base.docstrings import compose, examples_beside, own_descriptions, sections_of
from ..base.formulas import with_formula
from .operator import Operator
from .signature import signature_of

__all__ = ["brief_of", "descriptions", "document", "example_of", "text_of", "undescribed"]


def descriptions(declared: Operator, sections: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return the descriptions of arguments of an operator by name: its own, then the shared ones."""
    sections = sections_of(declared.__doc__ or "") if sections is None else sections
    from .shared_parameters import COMMON, SHARED

    keys = {name: f"{declared.name}.{name}" for name in (*declared.input_names, *declared.parameter_names)}
    own = {name: SHARED[key] for name, key in keys.items() if key in SHARED}
    return ChainMap(
        own_descriptions(sections.get("Parameters", "")), own, {**declared.more_descriptions()}, SHARED, COMMON
    )


def undescribed(declared: Operator) -> list[str]:
    """Return the arguments of an operator's function that have no description."""
    known = descriptions(declared)
    return [name for name in signature_of(declared).parameters if name not in known]


def example_of(declared: Operator) -> str:
    """Return the examples of an operator, or an empty text."""
    return _example(declared, sections_of(declared.__doc__ or ""))


def _example(declared: Operator, sections: Mapping[str, str]) -> str:
    module = sys.modules.get(declared.function.__module__)
    file = getattr(module, "__file__", None) or ""
    stored = examples_beside(file)
    # an expression of mx.np has the name of its function, with a prefix
    found = stored.get(declared.name) or stored.get(declared.name.removeprefix("_np_"), "")
    return sections.get("Examples") or found


def document(declared: Operator, examples: bool = True, signature: inspect.Signature | None = None) -> str:
    """Return the complete docstring of the public function of an operator."""
    sections = sections_of(declared.__doc__ or "")
    signature = signature or signature_of(declared)
    example = _example(declared, sections) if examples else ""
    known, shown = descriptions(declared, sections), with_formula(sections, declared.name)
    return compose(shown, signature, known, example, signature.return_annotation)


def text_of(declared: Operator) -> str:
    """Return the complete docstring of an operator."""
    return document(declared)


def brief_of(declared: Operator) -> str:
    """Return the first paragraph of the docstring of an operator."""
    return sections_of(declared.__doc__ or "")[""].partition("\n\n")[0]
