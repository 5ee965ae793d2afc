"""Print the polynomial coefficients that ``phonograd.core.lower.vector_math`` uses, and the error of each fit.

    python -m benchmarks.polynomials

Each function is interpolated at Chebyshev nodes in decimal arithmetic of fifty digits, which comes within a small
factor of the best polynomial of that degree. The printed error is that of the polynomial with rounded coefficients,
relative to the function, in units in the last place of the format. It does not include rounding in the evaluation.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np

decimal.getcontext().prec = 50

Function = Callable[[Decimal], Decimal]


def interpolate(function: Function, low: Decimal, high: Decimal, degree: int) -> list[Decimal]:
    """Return the coefficients, constant first, of the polynomial that interpolates a function at Chebyshev nodes."""
    half, middle = (high - low) / 2, (high + low) / 2
    nodes = [middle + half * Decimal(math.cos(math.pi * (2 * k + 1) / (2 * degree + 2))) for k in range(degree + 1)]
    differences = [function(node) for node in nodes]
    for level in range(1, degree + 1):
        for k in range(degree, level - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - level])
    coefficients = [differences[degree]]
    for k in range(degree - 1, -1, -1):
        shifted = [Decimal(0), *coefficients]
        for position, coefficient in enumerate(coefficients):
            shifted[position] -= nodes[k] * coefficient
        shifted[0] += differences[k]
        coefficients = shifted
    return coefficients


def evaluate(coefficients: list[Decimal], x: Decimal) -> Decimal:
    """Evaluate a polynomial at a point."""
    total = Decimal(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def exp_tail(r: Decimal) -> Decimal:
    """Return (exp(r) - 1 - r) / r**2."""
    return (r.exp() - 1 - r) / (r * r) if r else Decimal("0.5")


def tanh_tail(z: Decimal) -> Decimal:
    """Return (tanh(a) / a - 1) / z where a is the square root of z."""
    if not z:
        return Decimal(-1) / 3
    a = z.sqrt()
    twice = (2 * a).exp()
    return ((twice - 1) / (twice + 1) / a - 1) / z


def exp_weight(r: Decimal) -> Decimal:
    """Return the factor by which an error in the tail of exp affects the result, relative to the result."""
    return r * r / r.exp()


def tanh_weight(z: Decimal) -> Decimal:
    """Return the factor by which an error in the tail of tanh affects the result, relative to the result."""
    return z / (1 + z * tanh_tail(z))


def report(name: str, kind: type, tail: Function, weight: Function, low: float, high: float, degree: int) -> None:
    """Print the coefficients of one fit in one format, and its error."""
    first, last = Decimal(low), Decimal(high)
    rounded = [kind(str(c)) for c in interpolate(tail, first, last, degree)]
    exact = [Decimal(float(c)) for c in rounded]
    unit = Decimal(float(np.finfo(kind).epsneg))
    points = [first + (last - first) * k / 2000 for k in range(2001)]
    worst = max([abs(evaluate(exact, x) - tail(x)) * weight(x) / unit for x in points])
    print(f"{name} {kind.__name__}, degree {degree}, error {float(worst):.4f} of the last place:")
    for coefficient in rounded:
        print(f"    {float(coefficient)!r},")


def main() -> None:
    """Print the coefficients of every function."""
    # the remainder of a division by log 2, and a little more where the division was rounded
    remainder = math.log(2) / 2 * 1.0001
    report("exp", np.float32, exp_tail, exp_weight, -remainder, remainder, 5)
    report("exp", np.float64, exp_tail, exp_weight, -remainder, remainder, 10)
    report("tanh", np.float32, tanh_tail, tanh_weight, 0.0, 1.0, 8)
    report("tanh", np.float64, tanh_tail, tanh_weight, 0.0, 1.0, 16)


if __name__ == "__main__":
    main()
