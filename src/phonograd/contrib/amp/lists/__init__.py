"""Lists of operators by the precision in which mixed precision runs them.

``Operator.precision`` states the fact beside each declaration: ``low`` operators run in 16 bits, ``float32`` operators
in float32, ``widest`` operators in the widest dtype of their inputs. All others take their inputs as they are.
:func:`..amp.init` and the conversions follow these facts. :mod:`.symbol_fp16` and :mod:`.symbol_bf16` have the contents
of MXNet's modules, recorded by scripts/record_amp_lists.py; a test compares them with the facts.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from ....core.graph.operator import REGISTRY, Operator

__all__ = ["conditional_names", "names_of", "precision_of", "recorded", "symbol_bf16", "symbol_fp16"]


def precision_of(declared: Operator) -> str:
    """Return the precision of an operator; a form of another operator has that of the whole."""
    if declared.precision or declared.form_of is None:
        return declared.precision
    return declared.form_of[0].precision


def names_of(precision: str) -> list[str]:
    """Return the names of all public operators with a precision; the empty text asks for those without one.

    >>> names_of("low")
    ['Convolution', 'Convolution_v1', 'Deconvolution', 'FullyConnected', 'RNN']
    """
    return sorted([name for name, declared in REGISTRY.items() if precision_of(declared) == precision])


def conditional_names() -> list[tuple[str, str, list[str]]]:
    """Return operators that need float32 for some values of a parameter: (operator, parameter, values)."""
    return [
        (name, declared.float32_when[0], list(declared.float32_when[1]))
        for name, declared in sorted(REGISTRY.items())
        if declared.float32_when is not None
    ]


@functools.cache
def recorded() -> dict[str, dict[str, Any]]:
    """Return the lists of MXNet's modules, by module and name."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("mxnet.json").read_text())
    for lists in found.values():
        lists["CONDITIONAL_FP32_FUNCS"] = [tuple(each) for each in lists["CONDITIONAL_FP32_FUNCS"]]
    return found


from . import symbol_bf16, symbol_fp16  # noqa: E402 - they ask the functions above
