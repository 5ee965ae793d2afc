"""Connectionist temporal classification (CTC): a loss for label sequences with unknown alignment to the frames.

The probability of a label sequence is the sum over all alignments, computed frame by frame (Graves et al., 2006). The
labels with blanks around them form a path; ``alpha[s]`` is the log-probability of position *s* of the path. One frame
advances by 0, 1 or, from a label to a different one, 2 positions. The frames are unrolled into expressions, so
derivatives of every order exist.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...base.dtypes import FLOAT32, promote
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, only_if, separate_types
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ..math.elementary import exp
from ..math.gradient_control import depending_on
from ..math.primitives import cast, embed, gather, reshape_to, select
from ..shape.arrangement import slice_along
from ..shape.shape import split_at
from .softmax import demand_floating, log_softmax_along, log_sum_exp_along

__all__: list[str] = []

#: log-probability of impossible positions: finite, so that differences between them are numbers
_IMPOSSIBLE = -1e30


@operator(gradient=nothing, moves=True, interface=Interface(outputs=6))
def _ctc_paths(
    label: Array,
    data_lengths: Array | None,
    label_lengths: Array | None,
    *,
    frames: int,
    classes: int,
    blank_first: bool,
) -> tuple[Array, ...]:
    """Return the arrays of the CTC recursion for a batch of labels.

    The outputs are: flat positions of the path's classes in the scores of all frames; the positions with a move by 2;
    the positions where a path may begin; those where it may end; the frames within each sequence; the sequences with
    enough frames.
    """
    batch, longest = label.shape
    labels = label.astype(np.int64)
    if label_lengths is None:
        padding = labels <= 0 if blank_first else labels < 0
        counts = np.where(padding.any(axis=1), padding.argmax(axis=1), longest) if longest else np.zeros(batch, int)
    else:
        counts = np.clip(label_lengths.astype(np.int64), 0, longest)
    lengths = np.full(batch, frames) if data_lengths is None else np.clip(data_lengths.astype(np.int64), 0, frames)
    places = np.arange(2 * longest + 1)
    path = np.full((batch, places.size), 0 if blank_first else classes - 1, np.int64)
    path[:, 1::2] = np.clip(labels, 0, classes - 1)
    path = np.where(places < 2 * counts[:, None], path, path[:, :1])
    rows = np.arange(frames)[:, None, None] * batch + np.arange(batch)[:, None]
    skip = np.zeros(path.shape, bool)
    skip[:, 3::2] = path[:, 3::2] != path[:, 1:-2:2]
    last = 2 * counts[:, None]
    inside = np.arange(longest) < counts[:, None]
    repeats = ((labels[:, 1:] == labels[:, :-1]) & inside[:, 1:]).sum(axis=1)
    return (
        rows * classes + path,
        skip,
        np.broadcast_to(places < 2, path.shape),
        (places == last) | (places == last - 1),
        np.arange(frames)[:, None, None] < lengths[:, None],
        counts + repeats <= lengths,
    )


@_ctc_paths.infer
def ctc_paths_shape(label: Node, *lengths: Node | None, frames: int) -> list[Spec]:
    batch, longest = label.shape
    path = (batch, 2 * longest + 1)
    flag = np.dtype(np.bool_)
    return [
        ((frames, *path), np.dtype(np.int64)),
        (path, flag),
        (path, flag),
        (path, flag),
        ((frames, batch, 1), flag),
        ((batch,), flag),
    ]


@operator(cost=40)
def _ctc_step(alpha: Array, skip: Array) -> Array:
    """Return the log-probabilities of all positions after one move by 0, 1 or (where allowed) 2 positions."""
    one, two = np.full_like(alpha, _IMPOSSIBLE), np.full_like(alpha, _IMPOSSIBLE)
    one[:, 1:] = alpha[:, :-1]
    two[:, 2:] = np.where(skip[:, 2:], alpha[:, :-2], alpha.dtype.type(_IMPOSSIBLE))
    largest = np.maximum(alpha, np.maximum(one, two))
    return np.asarray(largest + np.log(np.exp(alpha - largest) + np.exp(one - largest) + np.exp(two - largest)))


@_ctc_step.gradient
def ctc_step_grad(out_grad: Node, out: Node, alpha: Node, skip: Node) -> tuple[Node, None]:
    places = alpha.shape[1]
    grad = out_grad * single(exp(alpha - out))
    for distance in range(1, min(3, places)):
        share = _columns(alpha, 0, places - distance) - _columns(out, distance, places)
        if distance == 2:
            # disallowed moves could have a far higher score than the rest
            share = select(_columns(skip, 2, places), share, _IMPOSSIBLE)
        moved = _columns(out_grad, distance, places) * single(exp(share))
        grad = grad + embed(moved, alpha.shape, (0, 0), moved.shape)
    return grad, None


def _columns(node: Node, begin: int, end: int) -> Node:
    return slice_along(node, 1, begin, end)


def _check_lengths(argument: str, node: Node | None, used: bool, batch: int) -> None:
    if (node is not None) != used:
        raise MXNetError(f"CTCLoss takes {argument} together with use_{argument}=True")
    if node is not None and node.shape != (batch,):
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(node.shape)}, inferred shape={format_shape((batch,))} for "
            f"{argument} in operator CTCLoss"
        )


@composite(aliases=("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"), npx="ctc_loss")
def CTCLoss(
    data: Node,
    label: Node,
    data_lengths: Node | None = None,
    label_lengths: Node | None = None,
    *,
    use_data_lengths: bool = False,
    use_label_lengths: bool = False,
    blank_label: Literal["first", "last"] = "first",
) -> Node:
    """Return the CTC loss of each sequence: minus the log-probability of its labels over all alignments.

    Parameters
    ----------
    data
        Scores (before softmax) of shape (frames, batch, classes). One class is the blank: the first or the last.
    label
        Class indices of shape (batch, length). Shorter sequences end at the first 0 if the blank is first, at the
        first -1 if it is last, unless ``label_lengths`` is given.
    data_lengths, label_lengths
        Lengths of each sequence of frames and of labels, given with ``use_data_lengths`` and ``use_label_lengths``.
    blank_label
        The class of the blank: ``first`` or ``last``.

    Notes
    -----
    A sequence with too few frames for its labels has loss 0 and gradient 0.
    """
    if use_label_lengths and not use_data_lengths and label_lengths is None:
        data_lengths, label_lengths = None, data_lengths
    demand_floating(data.dtype, "CTCLoss")
    if data.ndim != 3:
        raise MXNetError(f"The number of dimensions of data array must be 3, got {format_shape(data.shape)} in CTCLoss")
    if label.ndim != 2:
        raise MXNetError(
            f"The number of dimensions of labels array must be 2, got {format_shape(label.shape)} in CTCLoss"
        )
    frames, batch, classes = data.shape
    if label.shape[0] != batch:
        raise MXNetError(
            f"The batch size for the labels and data arrays must be the same, got {label.shape[0]} and {batch} in "
            f"CTCLoss (data is frames, batch, classes)"
        )
    if frames < max(label.shape[1], 1):
        raise MXNetError(
            f"The max number of labels cannot exceed the maximum sequence length of the data, got {label.shape[1]} "
            f"labels and {frames} frames in CTCLoss"
        )
    _check_lengths("data_lengths", data_lengths, use_data_lengths, batch)
    _check_lengths("label_lengths", label_lengths, use_label_lengths, batch)
    paths = _ctc_paths(
        label, data_lengths, label_lengths, frames=frames, classes=classes, blank_first=blank_label == "first"
    )
    wide = promote(data.dtype, FLOAT32)
    loss = _loss(cast(data, wide), paths, use_data_lengths)
    others = [node for node in (label, data_lengths, label_lengths) if node is not None]
    return depending_on(cast(loss, data.dtype), others)


def _loss(data: Node, paths: tuple[Node, ...], varying: bool) -> Node:
    index, skip, first, last, active, possible = paths
    frames, shape = data.shape[0], skip.shape
    scores = _frames(gather(log_softmax_along(data, 2), index), shape)
    running = _frames(active, (shape[0], 1)) if varying else []
    alpha = select(first, scores[0], _IMPOSSIBLE)
    for frame in range(1, frames):
        moved = single(_ctc_step(alpha, skip)) + scores[frame]
        alpha = select(running[frame], moved, alpha) if varying else moved
    total = log_sum_exp_along(select(last, alpha, _IMPOSSIBLE), 1)
    return select(possible, -reshape_to(total, shape[:1]), 0)


def _frames(node: Node, shape: Shape) -> list[Node]:
    parts = split_at(node, tuple(range(1, node.shape[0])), 0)
    return [reshape_to(part, shape) for part in parts]


# -- symbol declarations

CTCLoss.interface = Interface(
    arguments=only_if(data_lengths="use_data_lengths", label_lengths="use_label_lengths"),
    outputs=2,
    shown=1,
    types=separate_types(1, 2, 3),
)


# -- precision in mixed-precision training

for _declared in (CTCLoss,):
    _declared.precision = "float32"
