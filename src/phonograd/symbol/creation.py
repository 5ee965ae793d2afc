"""Symbols that create arrays, and functions of the namespace that are not operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.base.dtypes import name_of
from .build import build, single_head
from .entry import text_of
from .graph import Symbol

__all__ = ["arange", "eye", "full", "linspace", "ones", "split_v2", "zeros"]


def _create(operator: str, name: str | None, attr: Any, **parameters: Any) -> Symbol:
    parameters["dtype"] = name_of(parameters.get("dtype") or np.float32)
    return build(operator, operator, [], {key: text_of(value) for key, value in parameters.items()}, name, attr)


def zeros(shape: Any, dtype: Any = None, name: str | None = None, attr: Any = None, **kwargs: Any) -> Symbol:
    """Return a symbol of zeros; 0 in the shape means an unknown extent."""
    return _create("_zeros", name, attr, shape=shape, dtype=dtype, **kwargs)


def ones(shape: Any, dtype: Any = None, name: str | None = None, attr: Any = None, **kwargs: Any) -> Symbol:
    """Return a symbol of ones."""
    return _create("_ones", name, attr, shape=shape, dtype=dtype, **kwargs)


def full(shape: Any, val: float, dtype: Any = None, name: str | None = None, attr: Any = None, **kwargs: Any) -> Symbol:
    """Return a symbol of an array filled with a number."""
    return _create("_full", name, attr, shape=shape, dtype=dtype, value=float(val), **kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """Return a symbol of evenly spaced numbers from start to stop (exclusive), each repeated."""
    return _create(
        "_arange",
        name,
        None,
        start=start,
        stop=stop,
        step=step,
        repeat=repeat,
        infer_range=infer_range,
        dtype=dtype,
    )


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None, dtype: Any = None
) -> Symbol:
    """Return a symbol of ``num`` evenly spaced numbers from start to stop."""
    return _create("_linspace", name, None, start=start, stop=stop, num=num, endpoint=endpoint, dtype=dtype)


def eye(
    N: int,  # noqa: N803 - MXNet's name
    M: int = 0,  # noqa: N803 - MXNet's name
    k: int = 0,
    dtype: Any = None,
    name: str | None = None,
    attr: Any = None,
) -> Symbol:
    """Return a symbol of a matrix of N rows and M (default N) columns with ones on its k-th diagonal."""
    return _create("_eye", name, attr, N=N, M=M, k=k, dtype=dtype)


def split_v2(ary: Symbol, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Symbol:
    """Return parts of a symbol along an axis: a number of equal parts, or parts split at given indices."""
    single_head(ary, "split_v2")
    indices: Any = []
    sections = 0
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
    elif isinstance(indices_or_sections, (list, tuple)):
        indices = [0, *indices_or_sections]
    else:
        raise ValueError("indices_or_sections must either int or tuple of ints")
    parameters = {"indices": indices, "axis": axis, "squeeze_axis": squeeze_axis, "sections": sections}
    return build("_split_v2", "_split_v2", [ary], {key: text_of(value) for key, value in parameters.items()})
