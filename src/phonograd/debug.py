"""debug: inspect plans, and find the origin of wrong numbers.

=============================  =====================================================================================
:func:`explain`                the plan for an array: kernels with their operators, NumPy calls, memory
:func:`plans`                  the plans made by a block of code, and the reason why each one is new
:func:`detect_anomaly`         reports NaN and infinities with the operator, line and scope that produced them
:func:`set_detect_anomaly`     switches anomaly detection on or off
:func:`evaluate_at_once`       a scope in which every operator is evaluated when called (the naive engine)
=============================  =====================================================================================

>>> import phonograd as mx
>>> x = mx.nd.array([1.0, 4.0])
>>> with mx.settings.override(executor="reference"):
...     print(mx.debug.explain(mx.nd.sqrt(x) + x))
1 value from 1 array: 2 NumPy calls
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
    """Return a scope in which operators are evaluated when called, so that errors and times appear at the call.

    >>> import phonograd as mx
    >>> with mx.debug.evaluate_at_once():
    ...     y = mx.nd.ones((2,)) * 3
    >>> y.asnumpy().tolist()
    [3.0, 3.0]
    """
    return settings.override(naive=True)
