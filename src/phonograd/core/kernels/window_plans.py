"""Convolution and pooling: from a node to the launches that compute it.

Shapes, dtype and settings alone choose the method, so bits never depend on threads or on the rest of a program. Takes
nodes from the planner; hands them to :mod:`~phonograd.core.kernels.conv` and
:mod:`~phonograd.core.kernels.pool.forward`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..base import settings
from ..base.dtypes import HALVES, DType, compute_dtype
from ..graph.node import Node, Shape
from ..lower.lowering import Windowed
from .conv import Convolution
from .convert import in_float32
from .launch import Plan, Reference
from .pool.forward import Pooling
from .target import Machine

__all__ = ["plan"]

#: size of the float32 copies of images of 16 bits that are pooled at once
PART_BYTES = 1 << 21


def plan(node: Node, lowering: Windowed, machine: Machine) -> Plan | None:
    """Return how to compute a function of windows, or None where no kernels fit the shapes."""
    if node.size == 0:
        return None
    now = settings.current()
    shapes = tuple([source.shape for source in node.inputs])
    parameters = tuple(zip(node.operator.parameter_names, node.attributes, strict=True))
    dtype, threads = node.inputs[0].dtype, max(1, now.num_threads)
    wide = compute_dtype(dtype)
    # positions of elements count all images
    is_divided = wide != dtype and lowering.primitive in _POOLINGS and node.dtype in HALVES
    images = _images_of_part(node, wide) if is_divided else shapes[0][0]
    is_whole = images == shapes[0][0]
    if not is_whole:
        shapes = tuple([(images, *shape[1:]) for shape in shapes])
    found = _plan(lowering.primitive, shapes, wide, parameters, machine, threads, now.winograd)
    if found is None or wide == dtype:
        return found
    sizes = {name: math.prod(shape) for name, shape in zip(node.operator.input_names, shapes, strict=True)}
    out_size = node.size if is_whole else node.size // node.shape[0] * images
    found = in_float32(found, sizes, out_size if node.dtype in HALVES else 0, dtype, machine)
    return found if is_whole else _repeated(found, node, images)


def _images_of_part(node: Node, wide: DType) -> int:
    """Return how many images are pooled at once, so that their float32 copies stay in a cache."""
    count = node.shape[0]
    image_bytes = sum([each.size for each in (node, *node.inputs)]) // count * wide.itemsize
    parts = -(-count // max(1, PART_BYTES // max(1, image_bytes)))
    return -(-count // parts)


def _repeated(plan: Plan, node: Node, images: int) -> Plan:
    """Return the launches for all images, given those for some; images are pooled without regard to each other."""
    count = node.shape[0]
    arrays = dict(zip((*node.operator.input_names, "out"), (*node.inputs, node), strict=True))
    image_bytes = {name: each.size // count * each.dtype.itemsize for name, each in arrays.items()}

    def moved(word: int | Reference, first: int) -> int | Reference:
        if not isinstance(word, Reference) or word.operand not in image_bytes:
            return word
        return Reference(word.operand, word.offset + first * image_bytes[word.operand])

    launches = []
    for number in range(0, count, images):
        # all parts have the same size: the last one begins earlier than where the one before it ends
        first = min(number, count - images)
        launches += [each._replace(words=tuple([moved(word, first) for word in each.words])) for each in plan.launches]
    return Plan(tuple(launches), plan.scratch_bytes)


@functools.lru_cache(maxsize=1024)
def _plan(
    primitive: str,
    shapes: tuple[Shape, ...],
    dtype: DType,
    parameters: tuple[tuple[str, Any], ...],
    machine: Machine,
    slots: int,
    winograd: int,
) -> Plan | None:
    known = dict(parameters)
    if primitive in _CONVOLUTIONS:
        return _CONVOLUTIONS[primitive](Convolution(machine, slots, winograd), shapes, dtype, known)
    return _POOLINGS[primitive](Pooling(machine, slots), shapes, dtype, known)


# -- convolution

_Shapes = tuple[Shape, ...]
_Parameters = dict[str, Any]


def _forward(plans: Convolution, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    data, weight = shapes
    return plans.forward(data, weight, dtype, **parameters) if plans.suits(data, weight, dtype) else None


def _data_grad(plans: Convolution, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    out_grad, weight = shapes
    data = (out_grad[0], weight[1] * parameters["groups"], *parameters["extent"])
    return plans.data_grad(out_grad, weight, dtype, **parameters) if plans.suits(data, weight, dtype) else None


def _weight_grad(plans: Convolution, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    data, out_grad = shapes
    weight = (out_grad[1], data[1] // parameters["groups"], *parameters["kernel"])
    return plans.weight_grad(data, out_grad, dtype, **parameters) if plans.suits(data, weight, dtype) else None


_CONVOLUTIONS: dict[str, Callable[[Convolution, _Shapes, DType, _Parameters], Plan | None]] = {
    "convolution": _forward,
    "convolution_data_grad": _data_grad,
    "convolution_weight_grad": _weight_grad,
}


# -- pooling


def _largest(plans: Pooling, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    (data,) = shapes
    return plans.largest(data, dtype, **parameters) if plans.suits(dtype, data[2:], parameters["counts"]) else None


def _sum(plans: Pooling, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    (data,) = shapes
    return plans.sum(data, dtype, **parameters) if plans.suits(dtype, data[2:], parameters["counts"]) else None


def _spread(plans: Pooling, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    (data,) = shapes
    return plans.spread(data, dtype, **parameters) if plans.suits(dtype, parameters["extent"], data[2:]) else None


def _position(plans: Pooling, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    data, largest = shapes
    return plans.position(data, largest, dtype, **parameters) if plans.suits(dtype, data[2:], largest[2:]) else None


def _spread_largest(plans: Pooling, shapes: _Shapes, dtype: DType, parameters: _Parameters) -> Plan | None:
    _, data, largest = shapes
    if not plans.suits(dtype, data[2:], largest[2:]):
        return None
    return plans.spread_largest(data, largest, dtype, **parameters)


_POOLINGS: dict[str, Callable[[Pooling, _Shapes, DType, _Parameters], Plan | None]] = {
    "window_max": _largest,
    "window_sum": _sum,
    "window_spread": _spread,
    "window_argmax": _position,
    "window_max_grad": _spread_largest,
}
