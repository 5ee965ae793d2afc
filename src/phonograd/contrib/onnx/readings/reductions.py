"""Operators over axes: sums, means, norms, searches, softmax."""

from __future__ import annotations

from ....core.base.dtypes import name_of
from ....core.graph.operator import Operator
from ....symbol import Symbol
from ..model import Node, reads, reads_form

__all__: list[str] = []


def _axes(node: Node) -> tuple[int, ...] | None:
    """Return the axes that a node reduces: None for all, () for none."""
    axes = node.integers(1, "axes")
    if not axes:
        return () if node.get("noop_with_empty_axes", 0) else None
    return tuple([node.axis(axis) for axis in axes])


@reads_form("reduction")
def reads_form_reduction(node: Node, declared: Operator) -> Symbol:
    return _reduce(declared, node)


def _reduce(operator: str | Operator, node: Node, data: Symbol | None = None) -> Symbol:
    data = node.data if data is None else data
    axes = _axes(node)
    if axes == ():
        return data
    given = {} if axes is None else {"axis": axes}
    return node.make(operator, data, keepdims=bool(node.get("keepdims", 1)), **given)


@reads("ReduceL1")
def import_reduce_l1(node: Node) -> Symbol:
    return _reduce("sum", node, node.make("abs", node.data))


@reads("ReduceL2")
def import_reduce_l2(node: Node) -> Symbol:
    return node.make("sqrt", _reduce("sum", node, node.make("square", node.data)))


@reads("ReduceSumSquare")
def import_reduce_sum_square(node: Node) -> Symbol:
    return _reduce("sum", node, node.make("square", node.data))


@reads("ReduceLogSum")
def import_reduce_log_sum(node: Node) -> Symbol:
    return node.make("log", _reduce("sum", node))


@reads("ReduceLogSumExp")
def import_reduce_log_sum_exp(node: Node) -> Symbol:
    return node.make("log", _reduce("sum", node, node.make("exp", node.data)))


@reads_form("search")
def reads_form_search(node: Node, declared: Operator) -> Symbol:
    if node.get("select_last_index", 0):
        raise node.refuse("has select_last_index=1")
    axis = node.axis(node.get("axis", 0))
    found = node.make(declared, node.data, axis=axis, keepdims=bool(node.get("keepdims", 1)))
    return node.make("Cast", found, dtype="int64")


@reads("TopK")
def import_top_k(node: Node) -> list[Symbol]:
    count = node.integers(1, "k")
    count = count[0] if isinstance(count, list) else count
    found = node.make(
        "topk",
        node.data,
        k=count,
        axis=node.axis(node.get("axis", -1)),
        ret_typ="both",
        is_ascend=not node.get("largest", 1),
        dtype="int64",
    )
    return [found[0], found[1]]


@reads("CumSum")
def import_cum_sum(node: Node) -> Symbol:
    if node.get("exclusive", 0) or node.get("reverse", 0):
        raise node.refuse("is exclusive or reversed")
    return node.make("cumsum", node.data, axis=node.axis(int(node.number(1, "axis", 0))))


@reads_form("softmax")
def reads_form_softmax(node: Node, declared: Operator) -> Symbol:
    rank = node.rank()
    if node.model.opset >= 13:
        return node.make(declared, node.data, axis=node.get("axis", -1))
    axis = node.axis(node.get("axis", 1))
    if axis == rank - 1:
        return node.make(declared, node.data, axis=-1)
    if axis != 1:
        raise node.refuse(f"has axis={axis} of {rank} in version {node.model.opset}")
    # older versions merge all axes from this one on
    rows = node.make(declared, node.make("Flatten", node.data), axis=-1)
    return node.make("reshape_like", rows, node.data)


@reads("OneHot")
def import_one_hot(node: Node) -> Symbol:
    if node.get("axis", -1) != -1:
        raise node.refuse(f"has axis={node.get('axis')}")
    depth = int(node.array(1, "depth").reshape(-1)[0])
    values = node.array(2, "values")
    off, on = [float(value) for value in values]
    # negative indices count from the end in ONNX, but select nothing here
    wrapped = node.make("where", node.data < 0, node.data + depth, node.data)
    return node.make("one_hot", wrapped, depth=depth, on_value=on, off_value=off, dtype=name_of(values.dtype))
