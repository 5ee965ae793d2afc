"""Winograd's transforms: a convolution of small tiles as elementwise products, with far fewer multiplications.

A tile of m by m outputs of an r by r kernel needs (m + r - 1)² products instead of m² r². Kernels of r taps along one
axis have tiles of m outputs, and m + r - 1 products instead of m r. The three matrices come from
polynomials at some points and infinity (Toom and Cook): with g the kernel and d the data of a tile, the outputs are
``A' [(G g G') * (B' d B)] A``. Adjoints use the transposed matrices.

Rounding errors depend on the points. The table shows the largest error over the largest output (and root mean square
over root mean square) of a convolution of random numbers; "without" is the same without Winograd's algorithm:

==============================  ==================  ==================
points                          64 channels         512 channels
==============================  ==================  ==================
3 by 3: 0, ±5/8, ±3/2           1.7e-6 (0.8e-6)     3.8e-6 (2.0e-6)
3 by 3: 0, ±1, ±2               6.7e-6 (1.7e-6)     16e-6 (4.1e-6)
3 by 3: 0, ±1 (tiles of 4)      0.4e-6 (0.3e-6)     1.1e-6 (0.7e-6)
3 by 3: without                 0.5e-6 (0.3e-6)     0.4e-6 (0.3e-6)
5 by 5: 0, ±1/2, ±1, ±2         5.9e-6 (3.2e-6)     15e-6 (8.3e-6)
5 by 5: 0, ±5/8, ±3/2           1.3e-6 (0.9e-6)     3.0e-6 (2.3e-6)
3 by 3: ±1/2, ±5/4 (tiles of 5)                     1.8e-6 (1.1e-6)
3 by 3: ±1/2, ±3/2 (tiles of 5)                     2.8e-6 (1.3e-6)
2 by 2: ±1/2, ±5/4 (tiles of 5)                     1.6e-6 (1.2e-6)
2 by 2: 0, ±5/8, ±3/2                               4.0e-6 (2.2e-6)
==============================  ==================  ==================

Lanes are channels: a routine transforms the same tile of as many channels as a vector has lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from ...base.dtypes import FLOAT32, DType
from ...lower.ir.function_builder import Index, Value
from ..routine import Routine

__all__ = [
    "LARGEST",
    "SIZES",
    "TRANSFORM_ARGUMENTS",
    "Axis",
    "Matrix",
    "Sides",
    "Tiling",
    "data_sides",
    "kernel_sides",
    "matrices",
    "output_sides",
    "transform_back",
    "transform_gradient",
    "transform_in",
    "transform_out",
    "transpose",
    "transposed",
    "two_sided",
]

Matrix = tuple[tuple[Fraction, ...], ...]
#: the matrices along y and x
Sides = tuple[Matrix, Matrix]

#: points by tile size, other than infinity
_POINTS: dict[int, tuple[Fraction, ...]] = {
    1: (),
    4: (Fraction(0), Fraction(1), Fraction(-1)),
    # without zero, errors are half as large
    5: (Fraction(1, 2), Fraction(-1, 2), Fraction(5, 4), Fraction(-5, 4)),
    6: (Fraction(0), Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)),
    8: (Fraction(0), Fraction(1, 2), Fraction(-1, 2), Fraction(1), Fraction(-1), Fraction(2), Fraction(-2)),
}


#: the sizes of tiles along an axis, and the largest
SIZES = tuple(_POINTS)[1:]
LARGEST = SIZES[-1]


class Axis(NamedTuple):
    """Tiles along an axis: the numbers of their outputs and of the taps of a kernel."""

    outputs: int
    kernel: int

    @property
    def size(self) -> int:
        """Number of elements of data in a tile."""
        return self.outputs + self.kernel - 1


class Tiling(NamedTuple):
    """Tiles of ``outputs`` by ``outputs`` outputs of a ``kernel`` by ``kernel`` convolution.

    Along axes that are not named, kernels have one tap and tiles have one output.
    """

    outputs: int
    kernel: int
    axes: str = "yx"

    @property
    def y(self) -> Axis:
        """The tiles along y."""
        return Axis(self.outputs, self.kernel) if "y" in self.axes else Axis(1, 1)

    @property
    def x(self) -> Axis:
        """The tiles along x."""
        return Axis(self.outputs, self.kernel) if "x" in self.axes else Axis(1, 1)

    @property
    def size(self) -> int:
        """Number of elements of data in a tile along the named axes."""
        return self.outputs + self.kernel - 1

    @property
    def elements(self) -> int:
        """Number of elements of data in a tile, and of products."""
        return self.y.size * self.x.size

    @property
    def taps(self) -> int:
        """Number of elements of a kernel."""
        return self.y.kernel * self.x.kernel


class TransformMatrices(NamedTuple):
    """The matrices of a tiling: kernel to products, data to products, products to outputs."""

    kernel: Matrix
    data: Matrix
    outputs: Matrix


@functools.cache
def matrices(tiling: Axis) -> TransformMatrices:
    """Return the matrices G, B' and A' of tiles along an axis.

    >>> [[int(entry) for entry in row] for row in matrices(Axis(2, 3)).data]
    [[-1, 0, 1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]
    """
    points = list(_POINTS[tiling.size])
    kernel, data = [], []
    for number, point in enumerate(points):
        others = points[:number] + points[number + 1 :]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        kernel.append(tuple([point**power / scale for power in range(tiling.kernel)]))
        data.append((*_coefficients(others), Fraction(0)))
    kernel.append((*[Fraction(0)] * (tiling.kernel - 1), Fraction(1)))
    data.append(_coefficients(points))
    outputs = [
        (*[point**power for point in points], Fraction(int(power == tiling.outputs - 1)))
        for power in range(tiling.outputs)
    ]
    return TransformMatrices(tuple(kernel), tuple(data), tuple(outputs))


def _coefficients(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the polynomial with some roots, constant coefficient first."""
    found = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *found], [*found, Fraction(0)]
        found = [a - root * b for a, b in zip(shifted, scaled)]
    return tuple(found)


def kernel_sides(tiling: Tiling) -> Sides:
    """Return the matrices that transform kernels."""
    return matrices(tiling.y).kernel, matrices(tiling.x).kernel


def data_sides(tiling: Tiling) -> Sides:
    """Return the matrices that transform data."""
    return matrices(tiling.y).data, matrices(tiling.x).data


def output_sides(tiling: Tiling) -> Sides:
    """Return the matrices that transform products to outputs."""
    return matrices(tiling.y).outputs, matrices(tiling.x).outputs


def transposed(sides: Sides) -> Sides:
    """Return the transposes of both matrices."""
    return transpose(sides[0]), transpose(sides[1])


def transpose(matrix: Matrix) -> Matrix:
    """Return the transpose of a matrix."""
    return tuple(zip(*matrix))


# -- products with a constant matrix


class _Recipe(NamedTuple):
    """Product of a constant matrix and a column of values, in few instructions.

    Points come in pairs of opposite sign. Two columns that differ in the sign of odd powers need only the sum and the
    difference of their values (``joined``). Two such rows are the sum and the difference of their even and their odd
    part (``paired``, with the even part, the odd part, and a factor of the odd part). ``single`` contains all other
    rows.
    """

    joined: tuple[tuple[int, int], ...]
    paired: tuple[tuple[int, int, tuple[float, ...], tuple[float, ...], float], ...]
    single: tuple[tuple[int, tuple[float, ...]], ...]


@functools.cache
def _recipe(matrix: Matrix) -> _Recipe:
    columns, joined = list(transpose(matrix)), []
    # with as many rows as columns, pairing rows saves more
    for first in range(len(columns) if len(matrix) < len(columns) else 0):
        for second in range(first + 1, len(columns)):
            if _opposite(columns[first], columns[second]) and any(
                a and b for a, b in zip(columns[first], columns[second])
            ):
                joined.append((first, second))
                columns[first], columns[second] = _even_and_odd(columns[first], columns[second])
    rows, paired, single = transpose(tuple(columns)), [], []
    done: set[int] = set()
    for number, row in enumerate(rows):
        if number in done:
            continue
        partner = next((other for other in range(number + 1, len(rows)) if _opposite(row, rows[other])), None)
        if partner is None:
            single.append((number, tuple(map(float, row))))
            continue
        done.add(partner)
        even, odd = _even_and_odd(row, rows[partner])
        # divide the odd part by the factor of its highest power, which makes that factor free
        scale = next(a for a in reversed(odd) if a)
        parts = tuple(map(float, even)), tuple([float(a / scale) for a in odd])
        paired.append((number, partner, *parts, float(scale)))
    return _Recipe(tuple(joined), tuple(paired), tuple(single))


def _opposite(first: Sequence[Fraction], second: Sequence[Fraction]) -> bool:
    """Return whether two rows have equal entries up to signs, with some equal and some opposite ones."""
    pairs = [(a, b) for a, b in zip(first, second) if a or b]
    return all([abs(a) == abs(b) for a, b in pairs]) and len({a == b for a, b in pairs}) == 2


def _even_and_odd(
    first: Sequence[Fraction], second: Sequence[Fraction]
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return the entries that two rows share, and those that differ in sign: their sum and difference are the rows."""
    even = tuple([a if a == b else Fraction(0) for a, b in zip(first, second)])
    return even, tuple([a if a != b else Fraction(0) for a, b in zip(first, second)])


def _combination(e: Routine, row: Sequence[float], values: Sequence[Value]) -> Value:
    """Return the sum of values times constants, at least one of which is not zero."""
    total: Value | None = None
    # terms without a factor come first: each of the others is one fused multiply-add
    for factor, value in sorted(zip(row, values), key=lambda term: abs(abs(term[0]) - 1)):
        if not factor:
            continue
        if total is None:
            total = value if factor == 1 else e.multiply(value, e.like(value, factor))
        elif abs(factor) == 1:
            total = (e.add if factor == 1 else e.subtract)(total, value)
        else:
            total = e.fma(value, e.like(value, factor), total)
    assert total is not None
    return total


def _apply(e: Routine, matrix: Matrix, column: Sequence[Value]) -> list[Value]:
    """Return a constant matrix times a column of values."""
    recipe, values = _recipe(matrix), list(column)
    for first, second in recipe.joined:
        values[first], values[second] = e.add(values[first], values[second]), e.subtract(values[first], values[second])
    found: dict[int, Value] = {number: _combination(e, row, values) for number, row in recipe.single}
    for number, partner, even_row, odd_row, scale in recipe.paired:
        even, odd = _combination(e, even_row, values), _combination(e, odd_row, values)
        if abs(scale) == 1:
            total, difference = e.add(even, odd), e.subtract(even, odd)
        else:
            factor = abs(scale)
            total = e.fma(odd, e.like(odd, factor), even)
            difference = e.fma(odd, e.like(odd, -factor), even)
        found[number], found[partner] = (total, difference) if scale > 0 else (difference, total)
    return [found[number] for number in range(len(matrix))]


def two_sided(
    e: Routine, sides: Sides, load: Callable[[int, int], Value], store: Callable[[int, int, Value], None]
) -> None:
    """Write left · values · right', given both sides; ``load(row, column)`` returns a value and ``store`` takes one."""
    left, right = sides
    columns = [_apply(e, left, [load(row, column) for row in range(len(left[0]))]) for column in range(len(right[0]))]
    for row in range(len(left)):
        for column, value in enumerate(_apply(e, right, [found[row] for found in columns])):
            store(row, column, value)


# -- transforms of a row of tiles

#: arguments of a routine that transforms a row of tiles
TRANSFORM_ARGUMENTS = (
    "ptr noalias %target, i64 %target_line, i64 %target_step, "
    "ptr noalias %source, i64 %source_line, i64 %source_step, i64 %count"
)


def _transform(
    name: str,
    lanes: int,
    sides: Sides,
    into: bool,
    adding: bool = False,
    builder: type[Routine] = Routine,
    dtype: DType = FLOAT32,
) -> Routine:
    """Return a routine that transforms a row of tiles.

    Pictures have lines; products are at a constant stride, in the row-major order of their matrix. With ``into``, the
    source is a picture and the target are products; otherwise the reverse. With ``adding``, results are added to the
    target. ``builder`` writes the arithmetic.
    """
    e = builder(name, lanes, dtype, TRANSFORM_ARGUMENTS)
    made, taken = len(sides[1]), len(sides[1][0])

    def place(row: int, column: int, line: Index, picture: bool, width: int) -> Index:
        if picture:
            return e.plus(e.times(str(row), line), str(column * lanes))
        return e.times(str(row * width + column), line)

    def tile(index: Index) -> None:
        source = e.at("%source", e.times(index, "%source_step"))
        target = e.at("%target", e.times(index, "%target_step"))

        def store(row: int, column: int, value: Value) -> None:
            at = place(row, column, "%target_line", not into, made)
            e.store(target, at, e.add(e.get(target, at), value) if adding else value)

        two_sided(e, sides, lambda row, column: e.get(source, place(row, column, "%source_line", into, taken)), store)

    e.for_each("0", "%count", tile)
    return e


def transform_in(
    name: str, lanes: int, tiling: Tiling, builder: type[Routine] = Routine, dtype: DType = FLOAT32
) -> Routine:
    """Return the routine that transforms tiles of data to products: B' d B."""
    return _transform(name, lanes, data_sides(tiling), into=True, builder=builder, dtype=dtype)


def transform_out(name: str, lanes: int, tiling: Tiling) -> Routine:
    """Return the routine that transforms products to tiles of outputs: A' p A."""
    return _transform(name, lanes, output_sides(tiling), into=False)


def transform_gradient(name: str, lanes: int, tiling: Tiling) -> Routine:
    """Return the routine that transforms gradients of outputs to gradients of products: A g A'."""
    return _transform(name, lanes, transposed(output_sides(tiling)), into=True)


def transform_back(name: str, lanes: int, tiling: Tiling) -> Routine:
    """Return the routine that adds transformed gradients of products to tiles of data: B p B'."""
    return _transform(name, lanes, transposed(data_sides(tiling)), into=False, adding=True)
