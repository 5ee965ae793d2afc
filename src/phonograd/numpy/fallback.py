"""Functions that NumPy computes on the values of arrays, without gradients, as in MXNet."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def _define(name: str, function: Any) -> Any:
    def body(*args: Any, **kwargs: Any) -> Any:
        return on_values(function, args, kwargs)

    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Compute numpy.{name} on the values of arrays; gradients do not pass through."
    return public()(body)


for _name in _NAMES:
    _function = getattr(np, _name, None)
    if _function is None and _name == "in1d":
        # NumPy renamed it to isin in version 2.4
        _function = np.isin
    if _function is not None and _name not in FUNCTIONS:
        _define(_name, _function)
