"""Sequences as one array or as a list of steps, and masking and reversal by length."""

from __future__ import annotations

from typing import Any

from ... import ndarray
from ...ndarray.array import NDArray
from ...symbol import Symbol
from ..parameter import tensor_types
from ..parameter.parameter import symbols

__all__ = ["format_sequence", "last_valid", "mask_sequence", "namespace_of", "reverse_sequence", "split"]


def namespace_of(value: Any) -> Any:
    """Return the namespace of a sequence's elements: that of arrays or of symbols."""
    first = value[0] if isinstance(value, (list, tuple)) else value
    return symbols() if isinstance(first, Symbol) else ndarray


def split(F: Any, data: Any, count: int, axis: int) -> list[Any]:
    """Split a sequence in one array into steps."""
    parts = F.split(data, num_outputs=count, axis=axis, squeeze_axis=True)
    return [parts] if isinstance(parts, NDArray) else list(parts)


def format_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, int, Any, int]:
    """Return a sequence in the requested form, its time axis, its namespace and its batch size.

    Parameters
    ----------
    length
        The number of steps; None to infer it.
    inputs
        The sequence: one array, or a list of steps.
    layout
        The order of axes of a single array: T time, N batch, C features.
    merge
        Whether to return one array; None keeps the given form.
    in_layout
        The order of axes of the input, if it differs.
    """
    assert inputs is not None, "unroll(inputs=None) has been deprecated. Please create input variables outside unroll."
    axis, batch_axis = layout.find("T"), layout.find("N")
    F = namespace_of(inputs)
    if isinstance(inputs, tensor_types) and in_layout is not None and in_layout.find("T") != axis:
        inputs = F.swapaxes(inputs, dim1=axis, dim2=in_layout.find("T"))
    if isinstance(inputs, tensor_types):
        size = inputs.shape[batch_axis] if isinstance(inputs, NDArray) else 0
        if merge is False:
            if isinstance(inputs, NDArray):
                assert length is None or length == inputs.shape[axis], (
                    f"the sequence has {inputs.shape[axis]} steps along axis {axis}, not {length}"
                )
                length = inputs.shape[axis]
            inputs = split(F, inputs, length or 1, axis)
        return inputs, axis, F, size
    assert length is None or len(inputs) == length, f"the sequence has {len(inputs)} steps, not {length}"
    size = inputs[0].shape[0] if isinstance(inputs[0], NDArray) else 0
    if merge is True:
        inputs = F.stack(*inputs, axis=axis)
    return inputs, axis, F, size


def mask_sequence(F: Any, data: Any, length: int, valid_length: Any, axis: int, merge: bool | None) -> Any:
    """Set a sequence to zero after its valid length; return one array if `merge` is true."""
    if not isinstance(data, tensor_types):
        data = F.stack(*data, axis=axis)
    data = F.SequenceMask(data, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return data if merge else split(F, data, length, axis)


def last_valid(F: Any, states: list[list[Any]], valid_length: Any) -> list[Any]:
    """Select the states after the last valid step of each sample from the states after all steps."""
    return [
        F.SequenceLast(F.stack(*state, axis=0), sequence_length=valid_length, use_sequence_length=True, axis=0)
        for state in zip(*states)
    ]


def reverse_sequence(steps: Any, valid_length: Any = None) -> list[Any]:
    """Reverse the steps of a sequence; with lengths, reverse only the valid ones."""
    if valid_length is None:
        return list(reversed(steps))
    F = namespace_of(steps)
    whole = F.SequenceReverse(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True)
    return split(F, whole, len(steps), 0)
