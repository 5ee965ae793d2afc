"""Make the table of ``Block.summary``: outputs, parameters, operations, memory and optional time of each block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...core.base.dtypes import as_array_dtype
from ...core.events import FUNCTION, MODULE, Range, current_range
from ...ndarray.array import NDArray
from ...profiler.events import EventList, FunctionEvent
from ...profiler.session import profile
from ...profiler.tables import bytes_text, count_text
from ..parameter import Parameter
from .hybrid import HybridBlock
from .nesting import flatten_arrays
from .plain import Block

__all__ = ["summarize"]


#: the fastest pass counts: other programs may delay a single one
_TIMED_PASSES = 3


@dataclass
class _Row:
    """Hold the figures of one call of a block; operations and kernels exclude those of its children."""

    layer: str
    shapes: str
    parameters: int = 0
    output_bytes: int = 0
    range: Range | None = None
    flops: float = 0.0
    kernel_ns: float = 0.0


def summarize(block: Block, inputs: tuple[Any, ...], timed: bool = False) -> str:
    """Return the table for some inputs, after passing them through the block; several times if `timed`."""
    from ..nn import HybridSequential, Sequential

    rows: list[_Row] = []
    calls: list[Parameter] = []
    handles: dict[Block, Any] = {}

    def check_hybrid(child: Block) -> None:
        if isinstance(child, HybridBlock) and child._active:
            raise AssertionError(
                f'"{child.name}" must not be hybridized to print summary: call summary before hybridize'
            )

    def note(child: Block, _inputs: Any, output: Any) -> None:  # adds to the rows of the current pass
        own = list(child.params.values())
        calls.extend(own)
        name = f"{type(child).__name__}-{len(rows)}"
        rows.append(_Row(name, shapes_of(output), _count(own), _bytes_of(output), current_range()))

    def register(child: Block) -> None:
        # apply() visits a shared child once per parent, but one hook sees all of its calls
        if not isinstance(child, (Sequential, HybridSequential)) and child not in handles:
            handles[child] = child.register_forward_hook(note)

    block.apply(check_hybrid)
    if timed:
        _wait_for(block(*inputs))
    block.apply(register)
    passes = []
    try:
        for _ in range(_TIMED_PASSES if timed else 1):
            rows, calls = [_Row("Input", shapes_of(list(inputs)), output_bytes=_bytes_of(inputs))], []
            with profile(with_modules=True, with_flops=True, all_threads=False) as profiler:
                _wait_for(block(*inputs))
            _take_costs(rows, profiler.events())
            passes.append(rows)
    finally:
        for handle in handles.values():
            handle.detach()
    return _table(min(passes, key=_kernel_ns), calls, timed)


def _kernel_ns(rows: list[_Row]) -> float:
    return sum([row.kernel_ns for row in rows])


def _wait_for(value: Any) -> None:
    for array in flatten_arrays(value):
        array.wait_to_read()


def _take_costs(rows: list[_Row], events: EventList) -> None:
    """Add to each row the operators and kernels of its block, without those of its children."""
    by_range: dict[Range | None, _Row] = {row.range: row for row in rows if row.range is not None}
    for event in events:
        if event.range.scope == FUNCTION and (event.parent is None or event.parent.range.scope != FUNCTION):
            row = by_range.get(_module_of(event))
            if row is not None:
                row.flops += event.flops
        elif event.range.scope == MODULE:
            outer = by_range.get(_module_of(event))
            own = by_range.get(event.range)
            if own is not None:
                own.kernel_ns += event.credit.forward_kernel_ns
            if outer is not None:
                outer.kernel_ns -= event.credit.forward_kernel_ns


def _module_of(event: FunctionEvent) -> Range | None:
    """Return the range of the innermost block around an event."""
    around = event.parent
    while around is not None and around.range.scope != MODULE:
        around = around.parent
    return None if around is None else around.range


def shapes_of(value: Any) -> str:
    """Return the shapes of arrays in nested lists, separated by commas; inner lists have brackets.

    >>> import phonograd as mx
    >>> shapes_of([mx.nd.ones((2,)), [mx.nd.ones((3,)), mx.nd.ones((4, 5))]])
    '(2,), [(3,), (4, 5)]'
    """
    if isinstance(value, NDArray):
        return str(value.shape)
    if isinstance(value, (list, tuple)):
        parts = [f"[{shapes_of(part)}]" if isinstance(part, (list, tuple)) else shapes_of(part) for part in value]
        return ", ".join(parts)
    return str(value)


def _bytes_of(value: Any) -> int:
    return sum([math.prod(array.shape) * as_array_dtype(array.dtype).itemsize for array in flatten_arrays(value)])


def _count(parameters: Any) -> int:
    return sum([math.prod(parameter.shape or (0,)) for parameter in parameters])


def _table(rows: list[_Row], calls: list[Parameter], timed: bool) -> str:
    unique = list(dict.fromkeys(calls))
    total, fixed = _count(calls), _count([parameter for parameter in calls if parameter.grad_req == "null"])
    parameter_bytes = sum([_count([parameter]) * as_array_dtype(parameter.dtype).itemsize for parameter in unique])
    titles = ["Layer (type)", "Output Shape", "Param #", "FLOPs", "Memory", "ms"]
    cells = [titles, *[_cells(row) for row in rows]]
    # MXNet's widths, unless a name or a shape is longer
    widths = [max(least, *map(len, column)) for least, column in zip((20, 43, 15, 10, 10, 9), zip(*cells))]
    used = len(widths) if timed else len(widths) - 1
    texts = [" ".join([cell.rjust(width) for cell, width in zip(line[:used], widths)]) for line in cells]
    width = len(texts[0])
    lines = [
        "-" * width,
        texts[0],
        "=" * width,
        *texts[1:],
        "=" * width,
        "Parameters in forward computation graph, duplicate included",
        f"   Total params: {total}",
        f"   Trainable params: {total - fixed}",
        f"   Non-trainable params: {fixed}",
        f"Shared params in forward computation graph: {total - _count(unique)}",
        f"Unique parameters in model: {_count(unique)}",
        f"Forward pass: {count_text(sum([row.flops for row in rows])) or 0} operations",
        f"Memory: {bytes_text(parameter_bytes)} of parameters, "
        f"{bytes_text(sum([row.output_bytes for row in rows]))} of inputs and outputs",
        *([f"Kernels: {_kernel_ns(rows) / 1e6:.3f} ms"] if timed else []),
        "-" * width,
    ]
    return "\n".join(lines)


def _cells(row: _Row) -> list[str]:
    flops = count_text(row.flops) if row.flops else "0"
    milliseconds = f"{max(row.kernel_ns, 0.0) / 1e6:.3f}"
    return [row.layer, row.shapes, str(row.parameters), flops, bytes_text(row.output_bytes), milliseconds]
