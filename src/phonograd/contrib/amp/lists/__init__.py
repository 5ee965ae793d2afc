"""Lists of operators by the precision in which mixed precision runs them, derived from the registry.

``Operator.precision`` states the fact beside each declaration: ``low`` operators run in 16 bits, ``float32`` operators
in float32, ``widest`` operators in the widest dtype of their inputs. All others take their inputs as they are.
"""

from __future__ import annotations

from ....core.graph.operator import REGISTRY, Operator

__all__ = ["conditional_names", "loss_names", "names_of", "precision_of", "symbol_bf16", "symbol_fp16"]


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


def loss_names() -> list[str]:
    """Return the operators whose gradient is that of a loss, and which have a factor for it."""
    is_loss = [name for name, declared in REGISTRY.items() if declared.family == "loss" and name.endswith("Output")]
    return sorted([name for name in is_loss if "grad_scale" in REGISTRY[name].parameter_names])


from . import symbol_bf16, symbol_fp16  # noqa: E402 - they ask the functions above
