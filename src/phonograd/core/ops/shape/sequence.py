"""Sequences of different lengths in one array: mask the padding, take the last step, reverse the steps.

Time runs along ``axis``, 0 or 1; the other of these two axes numbers the sequences. Without ``use_sequence_length``
every sequence has the full length.
"""

from __future__ import annotations

import numpy as np

from ...base.dtypes import convert_scalar
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, only_if
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, operator, single
from ...lower.lowering import Expansion
from ..math.arithmetic import maximum, minimum
from ..math.broadcasting import broadcast
from ..math.comparison import lesser
from ..math.primitives import cast, reshape_to, select, slice_step
from ..math.structural import constant
from ..vision.points import positions, take_along
from ..vision.regions import bounds
from .creation import position_along

__all__ = ["sequence_last", "sequence_mask", "sequence_reverse"]


def _check(name: str, data: Node, length: Node | None, use_sequence_length: bool, axis: int, axes: Shape) -> None:
    """Raise MXNetError unless data holds sequences along the axis and, if required, a length for each."""
    if axis not in axes:
        allowed = " or ".join(map(str, axes))
        raise MXNetError(f"Current implementation expects axis to be {allowed}, not {axis}, in operator {name}.")
    if data.ndim < 2:
        raise MXNetError(
            f"The data array must be of rank 2 or greater, not of shape {format_shape(data.shape)}, in operator {name}."
        )
    given, expected = 1 + (length is not None), 1 + use_sequence_length
    if given != expected:
        hint = "Pass use_sequence_length=True" if given == 2 else "Pass sequence_length"
        raise MXNetError(f"Operator {name} expects {expected} inputs, but got {given} instead. {hint}.")
    sequences = (data.shape[1 - axis],)
    if length is not None and length.shape != sequences:
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(length.shape)}, inferred shape={format_shape(sequences)}: "
            f"operator {name} takes one sequence_length for each sequence"
        )


def _align_lengths(length: Array, axis: int, ndim: int) -> Array:
    """Return lengths as integers along the axis of the sequences, in a shape that broadcasts."""
    shape = [1] * ndim
    shape[1 - axis] = -1
    return length.astype(np.int64).reshape(shape)


def _steps(extent: int, axis: int, ndim: int) -> Array:
    shape = [1] * ndim
    shape[axis] = extent
    return np.arange(extent).reshape(shape)


def _lengths(data: Node, sequence_length: Node, axis: int) -> Node:
    """Return the node of integer lengths along the axis of the sequences, in a shape that broadcasts."""
    shape = [1] * data.ndim
    shape[1 - axis] = data.shape[1 - axis]
    return reshape_to(cast(sequence_length, np.int64), tuple(shape))


def _expand_mask(data: Node, sequence_length: Node | None, *, value: float, axis: int) -> Node:
    if sequence_length is None:
        return data
    step = position_along(data.shape, axis, np.dtype(np.int64))
    inside = single(lesser(step, _lengths(data, sequence_length, axis)))
    return select(inside, data, constant(value, data.dtype))


def _expand_reverse(data: Node, sequence_length: Node | None) -> Node:
    if sequence_length is None:
        return slice_step(data, *bounds([slice(None, None, -1)], data.shape))
    step = position_along(data.shape, 0, np.dtype(np.int64))
    length = single(minimum(maximum(_lengths(data, sequence_length, 0), 0), data.shape[0]))
    return take_along(data, select(single(lesser(step, length)), length - 1 - step, step), 0)


@operator(name="SequenceMask", cost=0, lowering=Expansion(_expand_mask), npx="sequence_mask")
def sequence_mask(
    data: Array,
    sequence_length: Array | None = None,
    *,
    use_sequence_length: bool = False,
    value: float = 0.0,
    axis: int = 0,
) -> Array:
    """Replace all steps after the end of each sequence by a value."""
    if sequence_length is None:
        return data
    inside = _steps(data.shape[axis], axis, data.ndim) < _align_lengths(sequence_length, axis, data.ndim)
    return np.where(inside, data, convert_scalar(value, data.dtype))


@sequence_mask.infer
def sequence_mask_shape(data: Node, sequence_length: Node | None, *, use_sequence_length: bool, axis: int) -> Spec:
    _check("SequenceMask", data, sequence_length, use_sequence_length, axis, (0, 1))
    return data.shape, data.dtype


@sequence_mask.gradient
def sequence_mask_grad(
    out_grad: Node, out: Node, data: Node, sequence_length: Node | None, *, use_sequence_length: bool, axis: int
) -> tuple[Node, None]:
    if sequence_length is None:
        return out_grad, None
    return sequence_mask(out_grad, sequence_length, use_sequence_length=True, axis=axis), None


@composite(name="SequenceLast", npx="sequence_last")
def sequence_last(
    data: Node, sequence_length: Node | None = None, *, use_sequence_length: bool = False, axis: int = 0
) -> Node:
    """Return the last step of each sequence. Lengths below one count as one, too large ones as the full length."""
    _check("SequenceLast", data, sequence_length, use_sequence_length, axis, (0, 1))
    extent = data.shape[axis]
    shape = (*data.shape[:axis], *data.shape[axis + 1 :])
    if extent == 0:
        raise MXNetError(f"SequenceLast: sequences in an array of shape {format_shape(data.shape)} have no last step")
    if sequence_length is None:
        parts = [slice(None)] * axis + [slice(extent - 1, extent)]
        return reshape_to(slice_step(data, *bounds(parts, data.shape)), shape)
    last = positions(cast(sequence_length, np.int64) - 1, extent, "clip")
    beside = [1] * data.ndim
    beside[1 - axis] = data.shape[1 - axis]
    index = broadcast(reshape_to(last, tuple(beside)), (*data.shape[:axis], 1, *data.shape[axis + 1 :]))
    return reshape_to(take_along(data, index, axis), shape)


@operator(name="SequenceReverse", cost=0, lowering=Expansion(_expand_reverse), npx="sequence_reverse")
def sequence_reverse(
    data: Array, sequence_length: Array | None = None, *, use_sequence_length: bool = False, axis: int = 0
) -> Array:
    """Return the array with the steps of each sequence reversed; steps after its end stay in place."""
    if sequence_length is None:
        return data[::-1]
    steps = _steps(data.shape[0], 0, data.ndim)
    length = np.clip(_align_lengths(sequence_length, 0, data.ndim), 0, data.shape[0])
    return np.take_along_axis(data, np.where(steps < length, length - 1 - steps, steps), 0)


@sequence_reverse.infer
def sequence_reverse_shape(data: Node, sequence_length: Node | None, *, use_sequence_length: bool, axis: int) -> Spec:
    _check("SequenceReverse", data, sequence_length, use_sequence_length, axis, (0,))
    return data.shape, data.dtype


@sequence_reverse.gradient
def sequence_reverse_grad(
    out_grad: Node, out: Node, data: Node, sequence_length: Node | None, *, use_sequence_length: bool
) -> tuple[Node, None]:
    return sequence_reverse(out_grad, sequence_length, use_sequence_length=use_sequence_length), None


# -- symbol declarations


def _length_shapes(inputs: list[Partial], outputs: list[Partial], *, axis: int) -> list[Partial]:
    data = inputs[0]
    if data is None or len(data) < 2 or len(inputs) == 1:
        return inputs
    return [data, (data[1 - axis],)]


_BY_LENGTH = Interface(arguments=only_if(sequence_length="use_sequence_length"), shapes=_length_shapes)
sequence_mask.interface = sequence_last.interface = sequence_reverse.interface = _BY_LENGTH
