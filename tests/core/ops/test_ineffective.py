"""Arguments that the documentation calls ineffective change no bit of any sample."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest

import tests.core.ops as package
from phonograd.core.graph.documentation import descriptions
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.graph.parameters import Parameter

from .calls import call

MODULES = [one.name for one in pkgutil.iter_modules(package.__path__) if one.name.startswith("samples_")]
SAMPLES = [sample for name in MODULES for sample in importlib.import_module(f"tests.core.ops.{name}").SAMPLES]

#: values of parameters that may be anything
NUMBERS = {"int": 2, "Count": 2, "float": 0.5, "Number": 0.5, "Any": 2, "str": "other"}


def ineffective(declared: Operator) -> list[Parameter]:
    """Return the parameters whose description says that they have no effect."""
    known = descriptions(declared)
    return [one for one in declared.parameters if "no effect" in known.get(one.name, "")]


OPERATORS = sorted({one.name for one in REGISTRY.values() if ineffective(one)})


def others(parameter: Parameter) -> list[Any]:
    """Return values of a parameter that are not its default."""
    if parameter.choices:
        return [choice for choice in parameter.choices if choice != parameter.default]
    if parameter.kind == "bool":
        return [not parameter.default]
    return [NUMBERS[parameter.kind]]


def test_there_are_such_arguments() -> None:
    assert {"Convolution", "Embedding", "_contrib_SyncBatchNorm"} <= set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_arguments_without_effect(name: str) -> None:
    declared = REGISTRY[name]
    samples = [sample for sample in SAMPLES if REGISTRY[sample.name] is declared]
    if not samples:
        pytest.skip("the operator has no sample")
    for sample in samples[:3]:
        expected = call(name, *sample.inputs, **sample.parameters)
        for parameter in ineffective(declared):
            for value in others(parameter):
                found = call(name, *sample.inputs, **{**sample.parameters, parameter.name: value})
                for one, other in zip(_list(found), _list(expected), strict=True):
                    np.testing.assert_array_equal(one, other, err_msg=f"{name}({parameter.name}={value!r})")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
