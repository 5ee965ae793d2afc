"""Report the operators of a hybridized block to a hook, by the names of its symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.array.handle import make
from ...core.base.devices import Context
from ...core.graph.node import Node
from ...core.ops.math.structural import detach
from ...core.trace.trace import LOCAL
from ...ndarray.array import NDArray
from ...symbol import Symbol
from .nesting import fill_outline, flatten_arrays, make_outline

if TYPE_CHECKING:
    from .hybrid import HybridBlock

__all__ = ["OperatorHook", "run_monitored"]

#: a function of the name of an output or input, the name of the operator, and the array
OperatorHook = Callable[[str, str, NDArray], Any]


def _operators_by_name(symbol: Symbol) -> dict[str, str]:
    """Return the operator of each output and input name that a monitor reports."""
    found = {}
    for entry in symbol._entries():
        if not entry.is_argument:
            # statistics and the like stay hidden
            shown = list(entry.output_names())[: entry.call.visible]
            found.update(dict.fromkeys(shown, entry.operator))
            found.update({f"{entry.name}_{name}": entry.operator for name in entry.call.argument_names})
    return found


def run_monitored(
    block: HybridBlock, context: Context, args: tuple[Any, ...], hook: OperatorHook, monitor_all: bool
) -> Any:
    """Compute the outputs of a block by its symbol, and report each operator to a hook afterwards."""
    variables, symbol = block._get_graph(make_outline(args))
    arrays = {variable.name: array for variable, array in zip(variables, flatten_arrays(args), strict=True)}
    params = block.collect_params()
    arrays.update({name: params[name].data(context) for name in symbol.list_inputs() if name not in arrays})
    seen: list[tuple[str, NDArray]] = []

    def note(name: str, node: Node) -> None:
        # a hook may read values, which computes them: report only after the whole graph has run
        seen.append((name, make(detach(node), LOCAL.trace)))

    outputs = symbol._run(arrays, context, note, monitor_all)
    operators = _operators_by_name(symbol)
    for name, array in seen:
        if name in operators:
            hook(name, operators[name], array)
    return fill_outline(block._output_outline, iter(outputs))
