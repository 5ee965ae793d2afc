"""debug: what the library is about to do, what it did, and where wrong numbers come from.

=============================  =====================================================================================
:func:`explain`                what computing an array would do: kernels with their operators, NumPy calls, memory
:func:`plans`                  the plans that a block of code makes, and why each of them is new
:func:`detect_anomaly`         reports NaN and infinities with the operator, the line and the scope that made them
:func:`set_detect_anomaly`     switches that on or off
:func:`evaluate_at_once`       a scope in which every operator is evaluated as it is called (the naive engine)
=============================  =====================================================================================

>>> import phonograd as mx
>>> x = mx.nd.array([1.0, 4.0])
>>> with mx.settings.override(executor="reference"):
...     print(mx.debug.explain(mx.nd.sqrt(x) + x))
1 value from 1 array: 2 calls of NumPy
  NumPy: sqrt
  NumPy: broadcast_add
  memory: 8 bytes of results
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from .autograd import detect_anomaly, set_detect_anomaly
from .core.base import settings
from .explain import plan as explain
from .explain import plans

__all__ = ["detect_anomaly", "evaluate_at_once", "explain", "plans", "set_detect_anomaly"]


def evaluate_at_once() -> AbstractContextManager[Any]:
    """Return a scope in which operators are evaluated as they are called: errors and times are where they belong.

    >>> import phonograd as mx
    >>> with mx.debug.evaluate_at_once():
    ...     y = mx.nd.ones((2,)) * 3
    >>> y.asnumpy().tolist()
    [3.0, 3.0]
    """
    return settings.override(naive=True)
