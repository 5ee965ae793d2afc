"""Functions that NumPy computes on the values of arrays, without gradients, as in MXNet."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array.values import check_size, naming_itself
from ..core.base.dtypes import FLOAT64
from .declaration import FUNCTIONS, public
from .protocols import on_values

__all__: list[str] = []

#: functions that MXNet leaves to NumPy and that have no operators here, and a few related ones
_NAMES = [
    "apply_along_axis",
    "apply_over_axes",
    "argpartition",
    "correlate",
    "convolve",
    "digitize",
    "divmod",
    "frexp",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "i0",
    "in1d",
    "intersect1d",
    "isin",
    "ix_",
    "lexsort",
    "modf",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "nanstd",
    "nanvar",
    "packbits",
    "partition",
    "piecewise",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "roots",
    "searchsorted",
    "setdiff1d",
    "setxor1d",
    "spacing",
    "trim_zeros",
    "union1d",
    "unpackbits",
    "unwrap",
    "vander",
    "genfromtxt",
    "loadtxt",
    "fromstring",
    "gradient",
    "bartlett",
    "kaiser",
    "nextafter",
    "left_shift",
    "right_shift",
    "ravel_multi_index",
    "broadcast_shapes",
    "iscomplexobj",
    "isrealobj",
    "isscalar",
    "array2string",
    "array_repr",
    "array_str",
]


#: by name the shape of the result, where arguments give it
_SHAPES: dict[str, Callable[..., tuple[int, ...]]] = {
    "vander": lambda x, N=None, **_: (len(x), len(x) if N is None else N),  # noqa: N803 - NumPy's name
    "bartlett": lambda M: (M,),  # noqa: N803
    "kaiser": lambda M, **_: (M,),  # noqa: N803
}


def _define(name: str, function: Any) -> Any:
    shape_of = _SHAPES.get(name)

    def body(*args: Any, **kwargs: Any) -> Any:
        if shape_of is not None:
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            check_size(name, shape_of(**given), FLOAT64)
        return on_values(function, args, kwargs)

    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Compute numpy.{name} on the values of arrays; gradients do not pass through."
    return public()(naming_itself(body))


for _name in _NAMES:
    _function = getattr(np, _name, None)
    if _function is None and _name == "in1d":
        # NumPy renamed it to isin in version 2.4
        _function = np.isin
    if _function is not None and _name not in FUNCTIONS:
        _define(_name, _function)
