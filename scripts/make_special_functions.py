"""Write src/phonograd/core/ops/math/special_coefficients.py and tests/data/special_functions.npz.

The first holds the polynomials that :mod:`phonograd.core.ops.math.special_functions` evaluates: interpolation at Chebyshev
nodes, computed in 60 digits and rounded once. The second holds values of the functions for the tests.

Needs mpmath (which the library does not)::

    python scripts/make_special_functions.py
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp, mpf

ROOT = pathlib.Path(__file__).resolve().parent.parent
mp.dps = 60

Function = Callable[[Any], Any]


def fit(function: Function, low: Any, high: Any, degree: int, center: Any = 0) -> list[float]:
    """Return the coefficients, constant first, of the interpolating polynomial in (argument - center)."""
    low, high = mpf(low), mpf(high)
    count = degree + 1
    angles = [mp.pi * (2 * k + 1) / (2 * count) for k in range(count)]
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(angle) for angle in angles]
    matrix = mp.matrix(count, count)
    for row, node in enumerate(nodes):
        for column in range(count):
            matrix[row, column] = (node - center) ** column
    solution = mp.lu_solve(matrix, mp.matrix([function(node) for node in nodes]))
    check_fit(function, low, high, center, list(solution))
    return [float(value) for value in solution]


def check_fit(function: Function, low: Any, high: Any, center: Any, solution: list[Any]) -> None:
    """Raise unless the relative error of a polynomial is far below double precision."""
    worst = mpf(0)
    for k in range(101):
        point = low + (high - low) * (k + mpf(1) / 7) / 102
        value = function(point)
        found = mp.polyval(solution[::-1], point - center)
        worst = max(worst, abs(found / value - 1))
    if worst > mpf(2) ** -56:
        raise ValueError(f"degree {len(solution) - 1} on [{low}, {high}]: relative error {mp.nstr(worst, 3)}")


def root_fraction(z: Any) -> Any:
    """Return erf(x) / x for z = x * x."""
    root = mp.sqrt(z)
    return mp.erf(root) / root


def tail(x: Any) -> Any:
    """Return exp(x * x) * erfc(x)."""
    return mp.exp(x * x) * mp.erfc(x)


def inverse_tail(r: Any) -> Any:
    """Return erfinv(x) / r for x = 1 - exp(-r * r)."""
    return mp.erfinv(1 - mp.exp(-r * r)) / r


def gammaln_quotient(x: Any) -> Any:
    """Return gammaln(x) without its zeros 1 and 2."""
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def coefficients() -> dict[str, list[float]]:
    """Return every polynomial by name."""
    mp.dps = 60
    zero = mp.findroot(mp.digamma, mpf("1.4616321449683623"))
    stirling = mp.sqrt(2 * mp.pi)
    half_log = mp.log(2 * mp.pi) / 2
    tables = {
        # erf(x) = x * P(x**2) for |x| <= 1
        "ERF": fit(root_fraction, mpf(10) ** -30, 1, 12),
        # erfc(x) = exp(-x**2) * P(u), u = (x - 2.5) / (x + 2.5), for 1 <= x <= 6
        "ERFC": fit(lambda u: tail(mpf(5) / 2 * (1 + u) / (1 - u)), (mpf(1) - 2.5) / 3.5, (mpf(6) - 2.5) / 8.5, 18),
        # erfinv(x) = x * P(x**2) for |x| <= 0.75
        "ERFINV": fit(lambda z: mp.erfinv(mp.sqrt(z)) / mp.sqrt(z), mpf(10) ** -30, mpf(9) / 16, 24, mpf(9) / 32),
        # erfinv(x) = r * P(r - c), r = sqrt(-log(1 - |x|)), in three intervals of r
        "ERFINV_NEAR": fit(inverse_tail, 1.17, 2, 17, 1.5),
        "ERFINV_MIDDLE": fit(inverse_tail, 2, 3.5, 19, 2.75),
        "ERFINV_FAR": fit(inverse_tail, 3.5, 6.2, 21, 4.75),
        # gamma(x) = P(x - 2.5) for 2 <= x < 3
        "GAMMA": fit(mp.gamma, 2, 3, 17, 2.5),
        # gamma(x) = sqrt(2 pi) x**(x - 1/2) exp(-x) * P(1 / x) for x >= 12
        "STIRLING": fit(
            lambda w: mp.gamma(1 / w) / (stirling * (1 / w) ** (1 / w - mpf(1) / 2) * mp.exp(-1 / w)),
            mpf(10) ** -4,
            mpf(1) / 12,
            10,
        ),
        # gammaln(x) = (x - 1) (x - 2) * P(x - c) in three intervals of x
        "GAMMALN_ONE": fit(gammaln_quotient, 0.75, 1.5, 21, 1),
        "GAMMALN_TWO": fit(gammaln_quotient, 1.5, 2.5, 17, 2),
        "GAMMALN_THREE": fit(gammaln_quotient, 2.5, 3.5, 14, 3),
        # gammaln(x) = (x - 1/2) (log(x) - 1) + (log(2 pi) - 1) / 2 + P(1 / x**2) / x for x >= 12
        "GAMMALN_FAR": fit(
            lambda v: (mp.loggamma(v**-0.5) - (v**-0.5 - 0.5) * mp.log(v**-0.5) + v**-0.5 - half_log) / v**0.5,
            mpf(10) ** -8,
            mpf(1) / 144,
            6,
        ),
        # digamma(x) = (x - zero) * P(x - 1.5) for 1 <= x < 2
        "DIGAMMA_ONE": fit(lambda x: mp.digamma(x) / (x - zero), 1, 2, 22, 1.5),
        # digamma(x) = P(x - 2.5) for 2 <= x < 3
        "DIGAMMA_TWO": fit(mp.digamma, 2, 3, 17, 2.5),
        # digamma(x) = log(x) - 1 / (2 x) - P(1 / x**2) / x**2 for x >= 10
        "DIGAMMA_FAR": fit(
            lambda v: (mp.log(v**-0.5) - v**0.5 / 2 - mp.digamma(v**-0.5)) / v, mpf(10) ** -8, mpf(1) / 100, 7
        ),
    }
    high = float(zero)
    tables["DIGAMMA_ZERO"] = [high, float(zero - high)]
    return tables


def write_coefficients() -> None:
    """Write the module of coefficients."""
    lines = [
        '"""Coefficients of the polynomials in :mod:`.special_functions`, constant term first.',
        "",
        "Written by scripts/make_special_functions.py, which has the function and interval of each.",
        '"""',
        "",
        "from __future__ import annotations",
    ]
    for name, values in sorted(coefficients().items()):
        lines += ["", f"{name} = (", *[f"    {value!r}," for value in values], ")"]
    path = ROOT / "src/phonograd/core/ops/math/special_coefficients.py"
    path.write_text("\n".join(lines) + "\n")


def points() -> dict[str, np.ndarray[Any, Any]]:
    """Return arguments that cover every interval, the seams between them and the neighbourhood of zeros and poles."""
    generator = np.random.default_rng(5)
    seams = np.array([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 10, 12, 1.4616321449683623, 20, 100, 171])
    beside = np.concatenate([np.nextafter(seams, 0), seams, np.nextafter(seams, 1e3), seams * 1.001, seams * 0.999])
    positive = np.concatenate([generator.uniform(0, 12, 150), generator.uniform(12, 171, 40), beside, [1e-300, 1e-8]])
    integers = -np.arange(0.0, 6)
    negative = np.concatenate(
        [-generator.uniform(0, 12, 80), -generator.uniform(12, 170, 30), integers + 1e-9, integers - 1e-5]
    )
    near_one = 1 - 10.0 ** -generator.uniform(0, 16, 60)
    fractions = np.concatenate([generator.uniform(0, 1, 100), near_one, [0.75, 1e-300]])
    return {
        "erf": np.concatenate([generator.normal(size=150) * 1.5, [1e-300, 1, -1, 5.9, 6, 6.1, 30, 0.9999999999]]),
        "erfinv": np.concatenate([fractions[fractions < 1], -fractions[fractions < 1]]),
        "gamma": np.concatenate([positive, negative]),
        "gammaln": np.concatenate([positive, [1e5, 1e10, 1e300], negative]),
        "digamma": np.concatenate([positive, [1e5, 1e300], negative]),
    }


def write_values() -> None:
    """Write arguments and values of every function, rounded from 40 digits."""
    mp.dps = 40
    chosen = points()
    functions: dict[str, Function] = {
        "erf": mp.erf,
        "gamma": mp.gamma,
        "gammaln": lambda x: mp.re(mp.loggamma(x)) if x > 0 else mp.log(abs(mp.gamma(x))),
        "digamma": mp.digamma,
        "erfinv": mp.erfinv,
    }
    found = {}
    for name, arguments in chosen.items():
        arguments = arguments[arguments != 0]
        if name in ("gammaln", "gamma", "digamma"):
            arguments = arguments[(arguments > 0) | (arguments != np.round(arguments))]
        found[f"{name}_x"] = arguments
        found[name] = np.array([float(functions[name](mpf(float(x)))) for x in arguments])
    arguments = chosen["digamma"][(chosen["digamma"] > -12) & (chosen["digamma"] != 0)]
    arguments = arguments[(arguments > 0) | (arguments != np.round(arguments))][::3]
    found["polygamma_x"] = arguments
    for order in (1, 2, 3, 6):
        found[f"polygamma_{order}"] = np.array([float(mp.polygamma(order, mpf(float(x)))) for x in arguments])
    np.savez_compressed(ROOT / "tests/data/special_functions.npz", **found)


if __name__ == "__main__":
    write_coefficients()
    write_values()
