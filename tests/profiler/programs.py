"""A small program that emits by hand everything that operators, kernels, gradients and memory emit."""

import time
from typing import Any

from phonograd.core.events import (
    BACKWARD_FUNCTION,
    COMPILATION,
    EVALUATION,
    FUNCTION,
    KERNEL,
    LISTENING,
    MODULE,
    Range,
    begin,
    note_allocation,
    note_release,
    record,
)
from phonograd.profiler import record_function


class Shaped:
    """Something with a shape and a dtype."""

    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.shape = shape
        self.dtype = dtype


def spin(microseconds: float) -> None:
    """Take that much time."""
    until = time.perf_counter_ns() + int(microseconds * 1000)
    while time.perf_counter_ns() < until:
        pass


def operator(name: str, *inputs: Any, number: int = -1, **parameters: Any) -> Range | None:
    """Call an operator and return the range in which that happened."""
    if not LISTENING[FUNCTION]:
        return None
    with begin(FUNCTION, name, inputs, parameters=parameters, sequence_nr=number) as entry:
        spin(5)
    return entry


def kernel(microseconds: float, operators: tuple[str, ...], serves: tuple[Any, ...], phase: str = "forward") -> None:
    """Run a kernel."""
    start = time.perf_counter_ns()
    spin(microseconds)
    facts: dict[str, Any] = {"flops": 1e6 * len(operators), "moved_bytes": 4096.0}
    record(
        ", ".join(operators),
        KERNEL,
        start,
        time.perf_counter_ns(),
        operators=operators,
        serves=serves,
        phase=phase,
        **facts,
    )


def training_step() -> None:
    """Do what one step of training does: forward, backward, update."""
    data, weight = Shaped(32, 64), Shaped(16, 64)
    with record_function("forward"):
        with begin(MODULE, "dense0"), record_function("dense0"):
            dense = operator("FullyConnected", data, weight, num_hidden=16, no_bias=True, number=1)
        with record_function("loss"):
            loss = operator("sum", Shaped(32, 16), number=2)
    with record_function("backward"):
        for origin, name in ((loss, "sum"), (dense, "FullyConnected")):
            with begin(BACKWARD_FUNCTION, f"_backward_{name}", forward=origin):
                spin(5)
        with begin(EVALUATION, "evaluation"):
            with begin(COMPILATION, "compilation"):
                spin(5)
            note_allocation(2048, "activation", 1)
            kernel(20, ("FullyConnected", "sum"), (dense, loss))
            note_allocation(4096, "gradient", 2)
            kernel(30, ("_backward_FullyConnected",), (dense,), "backward")
            note_release(2048, "activation", 1)
    with record_function("update"):
        with begin(EVALUATION, "evaluation"):
            kernel(10, ("sgd_update",), ("update",))
        note_release(4096, "gradient", 2)
