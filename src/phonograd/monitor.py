"""Monitor: statistics of arrays in executors, at an interval of batches (``mxnet.monitor``)."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any

from .core.base.docstrings import complete_classes
from .ndarray.array import NDArray

__all__ = ["Monitor"]

Statistic = Any


def _mean_size(array: NDArray) -> Statistic:
    """Return the root mean square of an array."""
    return array.astype("float32").norm() / math.sqrt(array.size)


class Monitor:
    """Collects a statistic of arrays whose names match a pattern.

    Parameters
    ----------
    interval
        Number of batches from one monitored batch to the next.
    stat_func
        A function of an array that returns an NDArray, or a list of them; ``norm(x) / sqrt(size)`` by default.
    pattern
        A regular expression for the names of arrays.
    sort
        Sort the results by name.
    monitor_all
        Include inputs of operators, not only outputs.

    >>> import phonograd as mx
    >>> executor = mx.sym.square(mx.sym.var("x"), name="y").bind(mx.cpu(), [mx.nd.array([3, 4])])
    >>> monitor = Monitor(1)
    >>> monitor.install(executor)
    >>> monitor.tic()
    >>> outputs = executor.forward()
    >>> [(batch, name) for batch, name, text in monitor.toc()]
    [(1, 'y_output'), (1, 'x')]
    """

    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Statistic] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.interval = interval
        self.stat_func = stat_func or _mean_size
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.step = 0
        self.exes: list[Any] = []
        self.queue: list[tuple[int, str, Statistic]] = []

    def stat_helper(self, name: Any, array: NDArray) -> None:
        """Compute the statistic of one array; called by executors."""
        name = name.decode() if isinstance(name, bytes) else str(name)
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Any) -> None:
        """Monitor an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """Begin a batch, and monitor it if the interval has passed."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """Stop monitoring, and return the collected batch numbers, names and statistics as text."""
        if not self.activated:
            return []
        for executor in self.exes:
            for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
                if self.re_prog.match(name):
                    self.queue.append((self.step, name, self.stat_func(array)))
        self.activated = False
        found = sorted(self.queue, key=lambda item: item[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, _text(statistic)) for step, name, statistic in found]

    def toc_print(self) -> None:
        """Stop monitoring, and log the collected statistics."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, text)


def _text(statistic: Statistic) -> str:
    values = statistic if isinstance(statistic, list) else [statistic]
    parts = []
    for value in values:
        if not isinstance(value, NDArray):
            raise AssertionError(f"stat_func must return an NDArray or a list of them, not {type(value)}")
        parts.append(str(value.asscalar() if value.size == 1 else value.asnumpy()) + "\t")
    return "".join(parts)


complete_classes(globals())
