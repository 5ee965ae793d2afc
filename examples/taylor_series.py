"""Compute the Taylor series of exp(sin(x)), each term differentiated from the one before."""

import math
from collections.abc import Callable

from phonograd import autograd, nd


def derivatives(function: Callable[[nd.NDArray], nd.NDArray], point: float, order: int) -> list[float]:
    """Return the function's value and its first `order` derivatives at a point."""
    x = nd.array([point], dtype="float64")
    x.attach_grad()
    with autograd.record():
        values = [function(x)]
        for _ in range(order):
            values.append(autograd.grad(values[-1], x, create_graph=True)[0])
    return [float(value.asscalar()) for value in values]


def main() -> None:
    """Print seven derivatives at zero, and how fast their Taylor series approaches the function."""

    def function(x: nd.NDArray) -> nd.NDArray:
        return nd.exp(nd.sin(x))

    found = derivatives(function, 0.0, 7)
    exact = [1, 1, 1, 0, -3, -8, -3, 56]
    print("derivatives of exp(sin(x)) at 0:", [round(value, 10) for value in found])
    assert all(abs(value - truth) < 1e-9 for value, truth in zip(found, exact))

    x = 0.3
    truth = math.exp(math.sin(x))
    series, errors = 0.0, []
    for order, value in enumerate(found):
        series += value / math.factorial(order) * x**order
        errors.append(abs(series - truth))
        print(f"order {order}: {series:.10f}  error {errors[-1]:.1e}")
    assert errors[7] < 1e-5 < errors[3]


if __name__ == "__main__":
    main()
