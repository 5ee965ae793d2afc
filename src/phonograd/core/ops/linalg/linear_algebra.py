"""Matrix products: ``dot``, ``batch_dot``, ``FullyConnected``, the Khatri-Rao product and attention scores.

All are composites over one primitive, the matrix product of :mod:`..math.primitives`: an operator selects the
contracted axes, reshapes and transposes its operands (which moves no data in a kernel) and multiplies. Gradients of
every order are therefore matrix products too.
"""

from __future__ import annotations

import math
from typing import Literal

from ...base.dtypes import is_floating, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, leave_out, merge, same_shapes
from ...graph.node import Node, Shape
from ...graph.operator import composite, single
from ..math.broadcasting import same_dtype
from ..math.primitives import matmul, permute, reshape_to, slice_step, swap_last

__all__ = ["FullyConnected", "batch_dot", "div_sqrt_dim", "dot", "khatri_rao"]


def _product(shape: Shape) -> int:
    return math.prod(shape)


def _floating(name: str, *operands: Node) -> None:
    """Raise unless the operands are floating point numbers of one dtype."""
    for position, operand in enumerate(operands[1:], 1):
        same_dtype(operands[0], operand, position)
    if not is_floating(operands[0].dtype):
        raise MXNetError(
            f"{name} only supports float32/float64 for CPU, and float16/float32/float64 for GPU: "
            f"the operands are {name_of(operands[0].dtype)}. Convert them with astype('float32')."
        )


@composite()
def dot(
    lhs: Node,
    rhs: Node,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    forward_stype: Literal["csr", "default", "row_sparse"] | None = None,
) -> Node:
    """Return the dot product of two arrays: the sum over the last axis of ``lhs`` and the first axis of ``rhs``.

    For vectors it is the inner product (of shape ``(1,)``), for matrices the matrix product. For more axes, the result
    has the remaining axes of ``lhs``, then those of ``rhs``. ``transpose_a`` contracts the first axis of ``lhs``
    instead, ``transpose_b`` the last axis of ``rhs``. ``forward_stype`` is accepted; results are dense.
    """
    _floating("dot", lhs, rhs)
    if lhs.ndim == 1 and rhs.ndim == 1 and (transpose_a or transpose_b):
        raise MXNetError("Cannot transpose vectors: dot of two vectors takes neither transpose_a nor transpose_b.")
    left_inner, left_rest = _contract(lhs, first=transpose_a and lhs.ndim > 1)
    right_inner, right_rest = _contract(rhs, first=not transpose_b or rhs.ndim == 1)
    if left_inner is None or left_inner != right_inner:
        options = "".join([", transpose_a=True" * transpose_a, ", transpose_b=True" * transpose_b])
        raise MXNetError(
            f"dot shape error: {format_shape(lhs.shape)} X {format_shape(rhs.shape)}{options}. "
            f"dot sums over the {'first' if transpose_a else 'last'} axis of lhs ({left_inner}) and the "
            f"{'last' if transpose_b else 'first'} axis of rhs ({right_inner}); they must be equal."
        )
    if transpose_a and lhs.ndim > 1:
        left = swap_last(reshape_to(lhs, (left_inner, _product(left_rest))))
    else:
        left = reshape_to(lhs, (_product(left_rest), left_inner))
    if transpose_b and rhs.ndim > 1:
        right = swap_last(reshape_to(rhs, (_product(right_rest), left_inner)))
    else:
        right = reshape_to(rhs, (left_inner, _product(right_rest)))
    return reshape_to(matmul(left, right), left_rest + right_rest or (1,))


def _contract(operand: Node, first: bool) -> tuple[int | None, Shape]:
    """Return the size of the first or last axis, and the other axes."""
    if operand.ndim == 0:
        return None, ()
    return (operand.shape[0], operand.shape[1:]) if first else (operand.shape[-1], operand.shape[:-1])


@composite(npx="batch_dot")
def batch_dot(
    lhs: Node,
    rhs: Node,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    forward_stype: Literal["csr", "default", "row_sparse"] | None = None,
) -> Node:
    """Return the matrix products of two stacks of matrices, over the last two axes.

    The leading axes must be equal. ``transpose_a`` and ``transpose_b`` transpose the matrices of an operand.
    """
    _floating("batch_dot", lhs, rhs)
    shapes = f"{format_shape(lhs.shape)} X {format_shape(rhs.shape)} trans_a={transpose_a:d} trans_b={transpose_b:d}"
    if lhs.ndim != rhs.ndim or lhs.ndim < 3:
        raise MXNetError(
            f"batch_dot currently only support N-D*N-D array (N >= 3){format_shape(lhs.shape)} v.s. "
            f"{format_shape(rhs.shape)}. Use dot for matrices, or add a leading axis with expand_dims."
        )
    if lhs.shape[:-2] != rhs.shape[:-2]:
        raise MXNetError(f"batch_dot shape error (the leading batch dimensions must be equal): {shapes}")
    left = swap_last(lhs) if transpose_a else lhs
    right = swap_last(rhs) if transpose_b else rhs
    if left.shape[-1] != right.shape[-2]:
        raise MXNetError(
            f"batch_dot shape error (shape mismatch): {shapes}. The columns of lhs ({left.shape[-1]}) must be as many "
            f"as the rows of rhs ({right.shape[-2]})."
        )
    return matmul(left, right)


@composite(npx="fully_connected")
def FullyConnected(
    data: Node,
    weight: Node,
    bias: Node | None = None,
    *,
    num_hidden: int,
    no_bias: bool = False,
    flatten: bool = True,
) -> Node:
    """Return a linear transform of the data: ``data * transpose(weight) + bias``.

    With ``flatten``, all axes of ``data`` but the first are features; otherwise only the last axis is.
    """
    given, expected = (2 if bias is None else 3), (2 if no_bias else 3)
    if given != expected:
        raise MXNetError(
            f"Operator FullyConnected expects {expected} inputs, but got {given} instead. "
            + ("Remove the bias, or no_bias=True." if no_bias else "Pass a bias, or no_bias=True.")
        )
    if num_hidden < 1:
        raise MXNetError(
            f"value {num_hidden} for Parameter num_hidden should be greater equal to 1, in operator FullyConnected"
        )
    _floating("FullyConnected", *(operand for operand in (data, weight, bias) if operand is not None))
    if data.ndim == 0:
        raise MXNetError("FullyConnected needs data with at least one axis, but its shape is [].")
    outer = data.shape[:1] if flatten else data.shape[:-1]
    features = _product(data.shape[1:]) if flatten else data.shape[-1]
    if weight.shape != (num_hidden, features):
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(weight.shape)}, inferred shape=({num_hidden},{features}): "
            f"the weight of FullyConnected with num_hidden={num_hidden} for data of shape {format_shape(data.shape)}."
        )
    if bias is not None and bias.shape != (num_hidden,):
        raise MXNetError(
            f"Unexpected shape for bias {format_shape(bias.shape)}: FullyConnected with num_hidden={num_hidden} "
            f"needs a bias of shape [{num_hidden}]."
        )
    out = matmul(reshape_to(data, (_product(outer), features)), swap_last(weight))
    if bias is not None:
        out = out + bias
    return reshape_to(out, (*outer, num_hidden))


@composite()
def khatri_rao(*args: Node) -> Node:
    """Return the Khatri-Rao product of matrices: the Kronecker product of corresponding columns."""
    if not args:
        raise MXNetError("Operator khatri_rao expects at least 1 input, but got 0 instead.")
    out = args[0]
    for position, matrix in enumerate(args):
        same_dtype(out, matrix, position)
        if matrix.ndim != 2 or matrix.shape[1] != args[0].shape[1]:
            raise MXNetError(
                "khatri_rao takes matrices with equally many columns, but got shapes "
                + ", ".join([format_shape(each.shape) for each in args])
            )
        if position:
            rows, columns = out.shape
            stacked = reshape_to(out, (rows, 1, columns)) * reshape_to(matrix, (1, *matrix.shape))
            out = reshape_to(stacked, (rows * matrix.shape[0], columns))
    return out


@composite(name="_contrib_div_sqrt_dim")
def div_sqrt_dim(data: Node) -> Node:
    """Return the array divided by the square root of the size of its last axis."""
    if data.ndim == 0:
        raise MXNetError("_contrib_div_sqrt_dim needs data with at least one axis, but its shape is [].")
    return data / math.sqrt(data.shape[-1])


# -- attention over interleaved projections: (sequence, batch, heads * parts * width), where the parts are queries, keys
#    and values (self attention) or keys and values (attention of a decoder to an encoder)


def _three_axes(operator_name: str, name: str, layout: str, data: Node) -> None:
    if data.ndim != 3:
        raise MXNetError(
            f"Input {name} should be 3D in {layout}, currently is: {data.ndim}D "
            f"(operator {operator_name}, shape {format_shape(data.shape)})"
        )


def _split_heads(operator_name: str, name: str, data: Node, heads: int, parts: int) -> list[Node]:
    """Split a projection into its parts, each of shape (batch * heads, sequence, width)."""
    _three_axes(operator_name, name, "seq_length-batch-proj_dim", data)
    length, batch, channels = data.shape
    if heads < 1 or channels % (heads * parts):
        raise MXNetError(
            f"{operator_name}: the last axis of {name} {format_shape(data.shape)} does not divide into "
            f"heads * {parts} equal parts, with heads={heads}."
        )
    width = channels // (heads * parts)
    whole = permute(reshape_to(data, (length, batch, heads, parts, width)), (3, 1, 2, 0, 4))
    found = []
    for part in range(parts):
        begin, end = (part, 0, 0, 0, 0), (part + 1, *whole.shape[1:])
        found.append(reshape_to(slice_step(whole, begin, end), (batch * heads, length, width)))
    return found


def _scores(queries: Node, keys: Node) -> Node:
    return matmul(single(div_sqrt_dim(queries)), swap_last(keys))


def _apply_attention(attention: Node, values: Node, heads: int) -> Node:
    """Return the values weighted by attention, with the heads concatenated: (sequence, batch, heads * width)."""
    out = matmul(attention, values)
    batch, (length, width) = out.shape[0] // heads, out.shape[1:]
    return reshape_to(
        permute(reshape_to(out, (batch, heads, length, width)), (2, 0, 1, 3)), (length, batch, heads * width)
    )


@composite(name="_contrib_interleaved_matmul_selfatt_qk")
def interleaved_matmul_selfatt_qk(queries_keys_values: Node, *, heads: int) -> Node:
    """Return the scaled query-key products of self attention, of shape (batch * heads, length, length)."""
    name = "_contrib_interleaved_matmul_selfatt_qk"
    _floating(name, queries_keys_values)
    queries, keys, _ = _split_heads(name, "queries_keys_values", queries_keys_values, heads, 3)
    return _scores(queries, keys)


@composite(name="_contrib_interleaved_matmul_selfatt_valatt")
def interleaved_matmul_selfatt_valatt(queries_keys_values: Node, attention: Node, *, heads: int) -> Node:
    """Return the attention-weighted values of self attention, of shape (length, batch, heads * width)."""
    name = "_contrib_interleaved_matmul_selfatt_valatt"
    _floating(name, queries_keys_values, attention)
    values = _split_heads(name, "queries_keys_values", queries_keys_values, heads, 3)[2]
    _check_attention(name, "queries_keys_values", queries_keys_values, attention, heads)
    return _apply_attention(attention, values, heads)


@composite(name="_contrib_interleaved_matmul_encdec_qk")
def interleaved_matmul_encdec_qk(queries: Node, keys_values: Node, *, heads: int) -> Node:
    """Return the scaled products of decoder queries and encoder keys: (batch * heads, query_length, key_length)."""
    name = "_contrib_interleaved_matmul_encdec_qk"
    _floating(name, queries, keys_values)
    _three_axes(name, "queries", "seq_length-batch-proj_dim", queries)
    _three_axes(name, "keys_values", "seq_length-batch-proj_dim", keys_values)
    if queries.shape[2] * 2 != keys_values.shape[2]:
        raise MXNetError(
            f"keys_values.shape[2] should be equal to queries.shape[2] * 2, currently are: "
            f"{keys_values.shape[2]} and {queries.shape[2]} (operator {name})"
        )
    if queries.shape[1] != keys_values.shape[1]:
        raise MXNetError(
            f"queries.shape[1] should be equal to keys_values.shape[1], currently are: "
            f"{queries.shape[1]} and {keys_values.shape[1]} (operator {name})"
        )
    (query,) = _split_heads(name, "queries", queries, heads, 1)
    keys, _ = _split_heads(name, "keys_values", keys_values, heads, 2)
    return _scores(query, keys)


@composite(name="_contrib_interleaved_matmul_encdec_valatt")
def interleaved_matmul_encdec_valatt(keys_values: Node, attention: Node, *, heads: int) -> Node:
    """Return encoder values weighted by decoder attention, of shape (length, batch, heads * width)."""
    name = "_contrib_interleaved_matmul_encdec_valatt"
    _floating(name, keys_values, attention)
    _, values = _split_heads(name, "keys_values", keys_values, heads, 2)
    _check_attention(name, "keys_values", keys_values, attention, heads)
    return _apply_attention(attention, values, heads)


def _check_attention(operator_name: str, name: str, projections: Node, attention: Node, heads: int) -> None:
    _three_axes(operator_name, "attention", "batch-seq_length-seq_length", attention)
    if projections.shape[0] != attention.shape[2]:
        raise MXNetError(
            f"{name}.shape[0] and attention.shape[2] should be the same, currently are "
            f"{projections.shape[0]} and {attention.shape[2]} (operator {operator_name})"
        )
    if projections.shape[1] * heads != attention.shape[0]:
        raise MXNetError(
            f"attention.shape[0] should be equal to {name}.shape[1] * heads, currently are: "
            f"{attention.shape[0]} and {projections.shape[1]} * {heads} (operator {operator_name})"
        )


# -- symbol declarations


def _dense_shapes(inputs: list[Partial], outputs: list[Partial], *, num_hidden: int, flatten: bool) -> list[Partial]:
    data, out = inputs[0], outputs[0]
    if data is None:
        return inputs
    if out is not None:
        data = merge(data, (out[0], *(0,) * (len(data) - 1)) if flatten else (*out[:-1], 0))
        assert data is not None
    width = _product(data[1:]) if flatten else data[-1]
    shapes: list[Partial] = [data, (num_hidden, width), (num_hidden,)]
    return shapes[: len(inputs)]


div_sqrt_dim.interface = Interface(shapes=same_shapes)
FullyConnected.interface = Interface(arguments=leave_out("bias", "no_bias"), shapes=_dense_shapes)


# -- precision in mixed-precision training

for _declared in (khatri_rao,):
    _declared.precision = "float32"
for _declared in (FullyConnected,):
    _declared.precision = "low"
for _declared in (
    interleaved_matmul_encdec_qk,
    interleaved_matmul_encdec_valatt,
    interleaved_matmul_selfatt_qk,
    interleaved_matmul_selfatt_valatt,
    batch_dot,
    dot,
):
    _declared.precision = "widest"
