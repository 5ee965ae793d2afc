"""Random sequences of calls of one operator with other shapes each time.

What is learned from some shapes (templates, rules, functions for any extents) is used for the next ones. A sequence is
computed twice: by what was learned from the shapes before, and by the rules of operators alone. Both must give the same
bits, shapes and errors, for results and for gradients.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from phonograd import autograd, nd
from phonograd.core.graph.learned import forget_kinds
from phonograd.core.graph.templates import Templates
from phonograd.core.plan import cache
from phonograd.core.plan.eager_expansion import Expansions
from phonograd.core.trace.trace import LOCAL

from . import ways

#: extents that rules may tell apart
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 17, 31, 32, 33, 40)
#: calls of a sequence
LENGTH = 10

Shape = tuple[int, ...]
Draw = random.Random


class Sequence(NamedTuple):
    """An operator with its parameters, and the shapes of the arguments of each call."""

    name: str
    call: Callable[..., Any]
    shapes: list[list[Shape]]


class _Kind(NamedTuple):
    """An operator: random parameters, and random shapes of arguments that go with them."""

    parameters: Callable[[Draw], dict[str, Any]]
    shapes: Callable[[Draw, dict[str, Any]], list[Shape]]
    call: Callable[..., Any]


def _of_rank(rank: int) -> Callable[[Draw, dict[str, Any]], list[Shape]]:
    return lambda draw, _: [_shape(draw, rank)]


def _shape(draw: Draw, rank: int) -> Shape:
    return tuple([draw.choice(EXTENTS) for _ in range(rank)])


def _choice(**values: Any) -> Callable[[Draw], dict[str, Any]]:
    return lambda draw: {name: draw.choice(found) for name, found in values.items()}


def _product_shapes(draw: Draw, given: dict[str, Any]) -> list[Shape]:
    rows, terms, columns = _shape(draw, 3)
    left = (terms, rows) if given["transpose_a"] else (rows, terms)
    return [left, (columns, terms) if given["transpose_b"] else (terms, columns)]


def _batched_shapes(draw: Draw, given: dict[str, Any]) -> list[Shape]:
    count = draw.choice(EXTENTS)
    return [(count, *shape) for shape in _product_shapes(draw, given)]


def _convolution_shapes(draw: Draw, given: dict[str, Any]) -> list[Shape]:
    count, channels = draw.choice((1, 2, 4)), draw.choice((1, 2, 3, 5))
    return [(count, channels, *_shape(draw, 2)), (given["num_filter"], channels, *given["kernel"])]


def _layer_shapes(draw: Draw, given: dict[str, Any]) -> list[Shape]:
    data = _shape(draw, 3)
    features = math.prod(data[1:]) if given["flatten"] else data[-1]
    return [data, (given["num_hidden"], features), (given["num_hidden"],)]


def _normalized_shapes(draw: Draw, given: dict[str, Any]) -> list[Shape]:
    data = _shape(draw, 3)
    return [data, (data[given["axis"]],), (data[given["axis"]],)]


def _joined_shapes(draw: Draw, given: dict[str, Any]) -> list[Shape]:
    first, axis = _shape(draw, 3), given["dim"]
    return [first, (*first[:axis], draw.choice(EXTENTS), *first[axis + 1 :])]


def _picked_shapes(draw: Draw, given: dict[str, Any]) -> list[Shape]:
    data = _shape(draw, 2)
    return [data, data[1:] if given["axis"] == 0 else data[:1]]


def _sequence_shapes(draw: Draw, _: dict[str, Any]) -> list[Shape]:
    steps, count = _shape(draw, 2)
    return [(steps, count, 3), (count,)]


_AXES = (0, 1, 2, -1)
_SMALL = (1, 2, 3, 4)
_KINDS: dict[str, _Kind] = {
    "slice": _Kind(
        _choice(
            begin=[(None, 0), (1, 2), (3, None), (-3, 5), (-9, 0), (8, 2)],
            end=[(None, 7), (4, 3), (8, None), (20, 16), (-1, 7), (-5, 3)],
            step=[(None, None), (1, 3), (2, 1)],
        ),
        _of_rank(2),
        nd.slice,
    ),
    "slice_axis": _Kind(_choice(axis=_AXES, begin=(0, 1, 2, -2, -8), end=(None, 3, 8, -1)), _of_rank(3), nd.slice_axis),
    "topk": _Kind(
        _choice(axis=(0, 1, None), k=(1, 2, 3, 8, 20), ret_typ=("indices", "value", "mask")), _of_rank(2), nd.topk
    ),
    "tile": _Kind(_choice(reps=[(1, 2), (3, 1), (2, 2, 2)]), _of_rank(2), nd.tile),
    "repeat": _Kind(_choice(repeats=_SMALL, axis=(None, 0, 1)), _of_rank(2), nd.repeat),
    "reshape": _Kind(
        _choice(shape=[(-1,), (0, -1), (-2,), (-3, 0), (0, -3), (-4, 1, -1, -2), (-1, 4), (8, -1), (2, -1, 3)]),
        _of_rank(3),
        nd.reshape,
    ),
    "pad": _Kind(
        _choice(
            mode=("constant", "edge", "reflect"),
            pad_width=[(0, 0, 0, 0, 1, 2, 0, 3), (0, 0, 0, 0, 4, 0, 7, 1), (0, 0, 0, 0, 0, 0, 2, 2)],
        ),
        _of_rank(4),
        nd.pad,
    ),
    "Pooling": _Kind(
        _choice(
            kernel=[(1, 2), (3, 3), (5, 2), (2, 4)],
            stride=[(1, 1), (2, 1), (3, 2)],
            pad=[(0, 0), (1, 1), (2, 0)],
            pooling_convention=("valid", "full"),
            pool_type=("max", "avg", "sum"),
        ),
        _of_rank(4),
        nd.Pooling,
    ),
    "Convolution": _Kind(
        lambda draw: {
            **_choice(kernel=[(1, 1), (3, 3), (4, 2)], stride=[(1, 1), (2, 3)], pad=[(0, 0), (1, 2)])(draw),
            **_choice(dilate=[(1, 1), (3, 1)], num_filter=(1, 4, 8), no_bias=(True,))(draw),
        },
        _convolution_shapes,
        nd.Convolution,
    ),
    "take": _Kind(
        _choice(axis=(0, 1), mode=("clip", "wrap")),
        lambda draw, _: [_shape(draw, 2), _shape(draw, 1)],
        lambda data, index, **given: nd.take(data, nd.floor(index * 7), **given),
    ),
    "one_hot": _Kind(
        _choice(depth=(1, 2, 5, 20)), _of_rank(2), lambda data, **given: nd.one_hot(nd.abs(data * 9), **given)
    ),
    "diag": _Kind(_choice(k=(0, 1, -2, 5, -9)), _of_rank(2), nd.diag),
    "split": _Kind(_choice(num_outputs=(1, 2, 3, 4, 8), axis=_AXES), _of_rank(3), nd.split),
    "SequenceMask": _Kind(
        _choice(value=(0, -1)),
        _sequence_shapes,
        lambda data, length, **given: nd.SequenceMask(
            data, nd.floor(nd.abs(length * 5)) + 1, use_sequence_length=True, **given
        ),
    ),
    "dot": _Kind(_choice(transpose_a=(False, True), transpose_b=(False, True)), _product_shapes, nd.dot),
    "batch_dot": _Kind(_choice(transpose_a=(False, True), transpose_b=(False, True)), _batched_shapes, nd.batch_dot),
    "softmax": _Kind(_choice(axis=_AXES), _of_rank(3), nd.softmax),
    "log_softmax": _Kind(_choice(axis=_AXES), _of_rank(3), nd.log_softmax),
    "mean": _Kind(_choice(axis=(None, 0, (0, 2), (1, 2)), keepdims=(False, True)), _of_rank(3), nd.mean),
    "norm": _Kind(_choice(axis=(None, 0, (1, 2))), _of_rank(3), nd.norm),
    "LayerNorm": _Kind(_choice(axis=_AXES), _normalized_shapes, nd.LayerNorm),
    "FullyConnected": _Kind(_choice(num_hidden=(1, 4, 8, 17), flatten=(False, True)), _layer_shapes, nd.FullyConnected),
    "slice_like": _Kind(
        _choice(axes=((), (0,), (1,), (-1,))), lambda draw, _: [_shape(draw, 2), _shape(draw, 2)], nd.slice_like
    ),
    "UpSampling": _Kind(_choice(scale=_SMALL, sample_type=("nearest",)), _of_rank(4), nd.UpSampling),
    "BilinearResize2D": _Kind(_choice(height=(1, 4, 9), width=(1, 7, 20)), _of_rank(4), nd.contrib.BilinearResize2D),
    "AdaptiveAvgPooling2D": _Kind(
        _choice(output_size=[(1, 1), (2, 5), (3, 4), (5, 2), (6, 3)]), _of_rank(4), nd.contrib.AdaptiveAvgPooling2D
    ),
    "argsort": _Kind(_choice(axis=(None, 0, 1), dtype=("float32", "int32", "uint8")), _of_rank(2), nd.argsort),
    "concat": _Kind(_choice(dim=(0, 1, 2)), _joined_shapes, nd.concat),
    "pick": _Kind(
        _choice(axis=(0, 1), mode=("clip", "wrap")),
        _picked_shapes,
        lambda data, index, **given: nd.pick(data, nd.floor(index * 9), **given),
    ),
    "flip": _Kind(_choice(axis=(0, 1, (0, 2))), _of_rank(3), nd.flip),
    "depth_to_space": _Kind(
        _choice(block_size=(1, 2, 3)),
        lambda draw, _: [(draw.choice((1, 2)), draw.choice((4, 8, 9, 18, 32)), *_shape(draw, 2))],
        nd.depth_to_space,
    ),
}


def sequence(seed: int) -> Sequence:
    """Return a random sequence."""
    draw = random.Random(seed)
    name = draw.choice(sorted(_KINDS))
    kind = _KINDS[name]
    given = kind.parameters(draw)
    shapes = [kind.shapes(draw, given) for _ in range(LENGTH)]
    return Sequence(f"{name} {given}", lambda *arrays: kind.call(*arrays, **given), shapes)


@contextlib.contextmanager
def rules_only() -> Iterator[None]:
    """Use nothing that was learned from other calls."""
    forget_kinds()
    cache._forget_except(set())
    function = Expansions.function
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(Templates, "find", return_value=None))
        stack.enter_context(mock.patch.object(Templates, "generic", return_value=None))
        stack.enter_context(mock.patch.object(Expansions, "known", return_value=None))
        stack.enter_context(
            mock.patch.object(
                Expansions, "function", lambda self, node, order, given, _: function(self, node, order, given, None)
            )
        )
        yield
    forget_kinds()
    cache._forget_except(set())


def values(found: Sequence, number: int) -> list[np.ndarray[Any, Any]]:
    """Return the arguments of one call."""
    chance = np.random.default_rng(number)
    return [chance.standard_normal(shape).astype(np.float32) for shape in found.shapes[number]]


def results(found: Sequence, number: int) -> list[Any]:
    """Return the results of one call, not recorded, or its error."""
    arrays = [nd.array(value) for value in values(found, number)]
    try:
        made = found.call(*arrays)
        return [each.asnumpy() for each in (made if isinstance(made, list) else [made])]
    except Exception as error:
        LOCAL.trace.flush(end=True)
        return [type(error), str(error)]


def gradients(found: Sequence, number: int) -> list[Any]:
    """Return the results of one recorded call and the gradients of its arguments, or its error."""
    arrays = [nd.array(value) for value in values(found, number)]
    for array in arrays:
        array.attach_grad()
    try:
        with autograd.record():
            made = found.call(*arrays)
            parts = made if isinstance(made, list) else [made]
            total = nd.add_n(*[(part.astype("float32") * part.astype("float32")).sum() for part in parts])
        total.backward()
        return [each.asnumpy() for each in (*parts, *[array.grad for array in arrays])]
    except Exception as error:
        autograd.set_recording(False)
        return [type(error), str(error)]


def difference(seed: int) -> str:
    """Return how a sequence differs by what was learned and by rules, or nothing."""
    found = sequence(seed)
    for run, condition in ((results, ways.immediate), (gradients, contextlib.nullcontext)):
        expected = []
        for number in range(LENGTH):
            with rules_only():
                expected.append(run(found, number))
        with condition():
            # each call twice: what is remembered for its shapes is used, too
            for number in [place for place in range(LENGTH) for _ in range(2)]:
                if not _are_same(run(found, number), expected[number]):
                    before = found.shapes[: number + 1]
                    return f"{found.name}: {run.__name__} of shapes {before[-1]} after {before[:-1]}, seed {seed}"
    return ""


def _are_same(one: list[Any], two: list[Any]) -> bool:
    if len(one) != len(two):
        return False
    for first, second in zip(one, two, strict=True):
        if not (isinstance(first, np.ndarray) and isinstance(second, np.ndarray)):
            if first is not second and (type(first), str(first)) != (type(second), str(second)):
                return False
        elif first.shape != second.shape or first.tobytes() != second.tobytes():
            return False
    return True
