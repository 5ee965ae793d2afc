"""``np.einsum``: sums of products over labeled axes. Pairs of operands become matrix products."""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np

from ..core.base.errors import MXNetError
from ..core.graph.node import Node, Shape
from ..core.ops.math.primitives import permute, reshape_to
from ..core.ops.reduce.reduction import sum_axes
from .declaration import expression, public
from .joining import arrays_of
from .products import diagonal_of, multiply_matrices
from .promotion import promote
from .shaping import call_operator

__all__: list[str] = []


class _Term:
    """A node and the label of each of its axes."""

    def __init__(self, node: Node, labels: str) -> None:
        self.node = node
        self.labels = labels

    def without_repetition(self) -> _Term:
        """Take the diagonal over axes that share a label."""
        node, labels = self.node, self.labels
        for label in dict.fromkeys(labels):
            while labels.count(label) > 1:
                first = labels.index(label)
                second = labels.index(label, first + 1)
                node = diagonal_of(node, 0, first, second)
                labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
        return _Term(node, labels)

    def sum_to(self, kept: str) -> _Term:
        """Sum over axes whose labels are not kept."""
        axes = tuple([axis for axis, label in enumerate(self.labels) if label not in kept])
        labels = "".join([label for label in self.labels if label in kept])
        return _Term(sum_axes(self.node, axes), labels) if axes else self

    def transpose_to(self, labels: str) -> Node:
        """Return the node with its axes in the given order of labels."""
        return permute(self.node, tuple([self.labels.index(label) for label in labels]))

    def extent(self, label: str) -> int:
        """Return the extent of the axis with a label."""
        return self.node.shape[self.labels.index(label)]


def _without_ones(first: _Term, second: _Term) -> tuple[_Term, _Term]:
    """Drop axes of extent 1 that broadcast against a longer axis of the other term."""
    for label in dict.fromkeys(first.labels):
        if label in second.labels and first.extent(label) != second.extent(label):
            if first.extent(label) == 1:
                first = first.sum_to(first.labels.replace(label, ""))
            elif second.extent(label) == 1:
                second = second.sum_to(second.labels.replace(label, ""))
            else:
                raise ValueError(f"operands differ in the extent of axis {label!r}, in einsum")
    return first, second


def _product(first: _Term, second: _Term, kept: str) -> _Term:
    """Multiply two terms and sum over shared labels that are not kept."""
    first, second = _without_ones(first, second)
    first, second = first.sum_to(kept + second.labels), second.sum_to(kept + first.labels)
    shared = [label for label in first.labels if label in second.labels]
    batch = "".join([label for label in shared if label in kept])
    inner = "".join([label for label in shared if label not in kept])
    own = "".join([label for label in first.labels if label not in shared])
    other = "".join([label for label in second.labels if label not in shared])

    def sizes(term: _Term, labels: str) -> Shape:
        return tuple([term.extent(label) for label in labels])

    lead, rows, columns = sizes(first, batch), sizes(first, own), sizes(second, other)
    left, right = promote(first.transpose_to(batch + own + inner), second.transpose_to(batch + inner + other))
    if not inner:
        left = reshape_to(left, (*lead, *rows, *(1,) * len(columns)))
        right = reshape_to(right, (*lead, *(1,) * len(rows), *columns))
        return _Term(left * right, batch + own + other)
    depth = math.prod(sizes(first, inner))
    left = reshape_to(left, (math.prod(lead), math.prod(rows), depth))
    right = reshape_to(right, (math.prod(lead), depth, math.prod(columns)))
    return _Term(reshape_to(multiply_matrices(left, right), (*lead, *rows, *columns)), batch + own + other)


@expression("_einsum")
def _einsum(*operands: Node, inputs: str, output: str) -> Node:
    """Return a sum of products of arrays; ``inputs`` holds the labels of their axes, separated by commas."""
    terms = [_Term(node, labels) for node, labels in zip(operands, inputs.split(","), strict=True)]
    for term in terms:
        if len(term.labels) != term.node.ndim:
            raise ValueError(f"einsum: {term.labels!r} names {len(term.labels)} axes of an array with {term.node.ndim}")
    terms = [term.without_repetition() for term in terms]
    for places in _order(terms, output):
        chosen = [terms[place] for place in sorted(places)]
        terms = [term for place, term in enumerate(terms) if place not in places]
        kept = output + "".join([term.labels for term in terms])
        terms.append(chosen[0] if len(chosen) == 1 else _product(chosen[0], chosen[1], kept))
    return terms[0].sum_to(output).transpose_to(output)


def _order(terms: list[_Term], output: str) -> list[Any]:
    """Return the pairs of terms to multiply, in the order that NumPy chooses."""
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    subscripts = ",".join([term.labels for term in terms]) + "->" + output
    shapes = [np.broadcast_to(np.float32(0), term.node.shape) for term in terms]
    path = np.einsum_path(subscripts, *shapes, optimize="greedy")[0][1:]
    pairs: list[Any] = []
    for step in path:
        # a step of more than two terms is done in pairs: the product is appended last
        places, left = sorted(step), len(terms) - sum([len(pair) - 1 for pair in pairs])
        pairs.append(tuple(places[:2]))
        for done, place in enumerate(places[2:], 1):
            pairs.append((place - done - 1, left - done - 1))
    return pairs


def _labels(subscripts: str, ndims: list[int]) -> tuple[list[str], str]:
    """Return the labels of the operands and of the result, with the ellipsis expanded."""
    text = subscripts.replace(" ", "")
    given, arrow, wanted = text.partition("->")
    inputs = given.split(",")
    if len(inputs) != len(ndims):
        raise MXNetError(f"einsum: the subscripts describe {len(inputs)} operands, but {len(ndims)} are given")
    free = [letter for letter in string.ascii_letters if letter not in text]
    dotted = [ndim - len(part.replace("...", "")) for part, ndim in zip(inputs, ndims, strict=True) if "..." in part]
    width = max(dotted, default=0)
    letters = "".join(free[:width])
    found = []
    for part, ndim in zip(inputs, ndims, strict=True):
        own = ndim - len(part.replace("...", ""))
        if own < 0 or ("..." not in part and own):
            raise ValueError(f"einsum: {part!r} does not fit an array with {ndim} axes")
        found.append(part.replace("...", letters[width - own :] if own else ""))
    if not arrow:
        once = [label for label in sorted(set("".join(inputs)) - {"."}) if "".join(inputs).count(label) == 1]
        wanted = ("..." if dotted else "") + "".join(once)
    return found, wanted.replace("...", letters)


@public()
def einsum(*operands: Any, **kwargs: Any) -> Any:
    """Return a sum of products of arrays whose axes are named by ``subscripts``: ``einsum("ij,jk->ik", a, b)``.

    Labels that are missing from the result are summed over. Without an arrow, the result has the labels that occur
    once, in alphabetical order.
    """
    subscripts, *given = operands
    out = kwargs.pop("out", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"einsum got an unexpected keyword argument {next(iter(kwargs))!r}")
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum takes subscripts as a string first, not {type(subscripts)}")
    arrays = arrays_of(given, "einsum")
    inputs, output = _labels(subscripts, [array.ndim for array in arrays])
    for label in output:
        if output.count(label) > 1 or not any([label in part for part in inputs]):
            raise ValueError(f"einsum: label {label!r} occurs twice in the result, or in no operand")
    return call_operator(_einsum, *arrays, inputs=",".join(inputs), output=output, out=out)
