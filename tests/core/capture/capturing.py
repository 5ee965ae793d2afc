"""What tests of compiled functions have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd, settings


def array(*shape: int, seed: int = 0) -> Any:
    """Return an array of numbers that are drawn."""
    return nd.array(np.random.default_rng(seed).normal(size=shape))


def bits(*arrays: Any) -> list[bytes]:
    """Return the values of arrays as bytes."""
    return [part.asnumpy().tobytes() for part in arrays]


def counted(function: Callable[..., Any]) -> tuple[Any, list[int]]:
    """Return a compiled function and a list that grows each time that its Python code runs."""
    runs: list[int] = []

    def counting(*arguments: Any, **keywords: Any) -> Any:
        runs.append(1)
        return function(*arguments, **keywords)

    return mx.compile(counting), runs


@pytest.fixture(params=["reference", "native"])
def each_executor(request: pytest.FixtureRequest) -> Any:
    """Have a test run with both executors."""
    if request.param == "native":
        pytest.importorskip("llvmlite")
    # what is remembered is not dropped in the middle of a test, whatever other tests have left behind
    with settings.override(executor=request.param, plan_limit=1_000_000, node_limit=100_000_000):
        yield
