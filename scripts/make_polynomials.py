"""Write src/phonograd/core/lower/vector_math/coefficients.py: the polynomials that kernels evaluate.

Each is the polynomial of its degree whose largest error (weighted, so that it is relative to the result) is smallest,
found by Remez' exchange in 120 digits. Coefficients are rounded to the format one after the other, the lowest first,
and those that are still free are fitted again after each, so that they make up for it. Printed beside each name is the
error that remains, in units of the last place of the result: what comes on top is rounding in the evaluation.

Needs mpmath (which the library does not)::

    python scripts/make_polynomials.py                 all of them (an hour)
    python scripts/make_polynomials.py TANH ERFC_ROOT  these only; the others stay as they are
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf

ROOT = pathlib.Path(__file__).resolve().parent.parent
mp.dps = 120

Function = Callable[[Any], Any]

#: how many points of an interval the error is looked at
POINTS = 800


class Fit(NamedTuple):
    """What to fit: a function and the weight of its error, an interval, and the degree in each format (or None)."""

    function: Function
    weight: Function
    low: Any
    high: Any
    single: int | None
    double: int | None
    comment: str
    #: float32 results are computed in double precision
    wide: bool = False
    #: the constant term of the polynomial in double precision, if it is not fitted
    constant: float | None = None


def _grid(low: Any, high: Any) -> list[Any]:
    """Return points that are denser at the ends, none of them 0."""
    angles = [mp.pi * (2 * k + 1) / (2 * POINTS) for k in range(POINTS)]
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(angle) for angle in angles]


def _evaluate(coefficients: list[Any], x: Any) -> Any:
    return mp.polyval(coefficients[::-1], x) if coefficients else mpf(0)


def remez(points: list[Any], values: list[Any], weights: list[Any], degree: int) -> list[Any]:
    """Return the coefficients, constant first, with the smallest largest weighted error on some points."""
    count = degree + 2
    chosen = [round((POINTS - 1) * (1 - np.cos(np.pi * k / (count - 1))) / 2) for k in range(count)]
    for _ in range(30):
        matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
        for row, index in enumerate(chosen):
            for power in range(degree + 1):
                matrix[row, power] = points[index] ** power
            matrix[row, count - 1] = (-1) ** row / weights[index]
            right[row] = values[index]
        solution = list(mp.lu_solve(matrix, right))
        errors = [(_evaluate(solution[:-1], x) - v) * w for x, v, w in zip(points, values, weights, strict=True)]
        following = _extremes(errors, count)
        if following is None or following == chosen:
            break
        chosen = following
    return solution[:-1]


def _extremes(errors: list[Any], count: int) -> list[int] | None:
    """Return the places of the largest errors of alternating sign; None if there are not enough."""
    places: list[int] = []
    for index, error in enumerate(errors):
        if places and (errors[places[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[places[-1]]):
                places[-1] = index
        else:
            places.append(index)
    while len(places) > count:
        places.pop(0 if abs(errors[places[0]]) < abs(errors[places[-1]]) else -1)
    return places if len(places) == count else None


def fit(wanted: Fit, kind: type, degree: int) -> tuple[list[float], float]:
    """Return rounded coefficients, and their largest error in units of the last place."""
    if wanted.constant is not None and kind is np.float64:
        rest, error_of_rest = fit(_without_constant(wanted, mpf(wanted.constant)), kind, degree - 1)
        return [wanted.constant, *rest], error_of_rest
    format_ = np.float64 if wanted.wide else kind
    points = _grid(mpf(wanted.low), mpf(wanted.high))
    exact = [wanted.function(x) for x in points]
    weights = [wanted.weight(x) for x in points]
    unit = mpf(float(np.finfo(kind).epsneg))

    def error(coefficients: list[float]) -> float:
        polynomial = [mpf(c) for c in coefficients]
        pairs = zip(points, exact, weights, strict=True)
        return float(max([abs((_evaluate(polynomial, x) - value) * weight) for x, value, weight in pairs]) / unit)

    found = [float(format_(str(c))) for c in remez(points, exact, [abs(w) for w in weights], degree)]
    # where 0 is inside the interval, what is left of a rounded coefficient cannot be made up for around it
    if wanted.low >= 0:
        refitted = _rounded_one_by_one(points, exact, weights, format_, degree)
        found = min(found, refitted, key=error)
    return found, error(found)


def _without_constant(wanted: Fit, constant: Any) -> Fit:
    """Return what is left to fit if the constant term is known."""
    return wanted._replace(
        function=lambda x: (wanted.function(x) - constant) / x, weight=lambda x: wanted.weight(x) * x, constant=None
    )


def _rounded_one_by_one(
    points: list[Any], exact: list[Any], weights: list[Any], kind: type, degree: int
) -> list[float]:
    found: list[float] = []
    for position in range(degree + 1):
        free = remez(points, exact, [abs(w) for w in weights], degree - position)
        found.append(float(kind(str(free[0]))))
        exact = [(value - mpf(found[-1])) / x for value, x in zip(exact, points, strict=True)]
        weights = [weight * x for weight, x in zip(weights, points, strict=True)]
    return found


# -- the functions, each with what an error of it is multiplied with to become a relative one of the result


def exp_tail(r: Any) -> Any:
    """Return (exp(r) - 1 - r) / r**2."""
    return (mp.exp(r) - 1 - r) / (r * r)


def odd_tail(function: Function) -> Function:
    """Return (f(x) / x - 1) / z as a function of z = x * x."""

    def tail(z: Any) -> Any:
        x = mp.sqrt(z)
        return (function(x) / x - 1) / z

    return tail


def odd_weight(function: Function) -> Function:
    """Return the weight of an odd function's tail: z * x / f(x)."""
    return lambda z: z * mp.sqrt(z) / function(mp.sqrt(z))


def tanh_weight(z: Any) -> Any:
    """Return the weight of the tail of tanh(r): a remainder r above 0.185 occurs only for x above (r - 0.185) / 0.0536.

    n log(2) / 2 falls behind x by 0.0536 x, and the result is 1 - 2 exp(-2 x) (see ``vector_math.tanh``).
    """
    least = (mp.sqrt(z) - mpf("0.185")) / mpf("0.0536")
    return odd_weight(mp.tanh)(z) * mp.exp(-2 * max(least, 0))


def cos_tail(z: Any) -> Any:
    """Return (cos(x) - 1 + z / 2) / z**2 as a function of z = x * x."""
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / (z * z)


def log_tail(f: Any) -> Any:
    """Return (log(1 + f) - f + f**2 / 2) / f**3."""
    return (mp.log(1 + f) - f + f * f / 2) / f**3


def atanh_tail(z: Any) -> Any:
    """Return 2 (atanh(s) - s) / s as a function of z = s * s, divided by z."""
    s = mp.sqrt(z)
    return 2 * (mp.atanh(s) - s) / (s * z)


def atanh_second_tail(z: Any) -> Any:
    """Return 2 (atanh(s) - s - s**3 / 3) / s**5 as a function of z = s * s."""
    s = mp.sqrt(z)
    return 2 * (mp.atanh(s) - s - s**3 / 3) / s**5


def atanh_weight(power: int) -> Function:
    """Return the weight of a tail of 2 atanh(s) that is multiplied by a power of s."""
    return lambda z: mp.sqrt(z) ** power / (2 * mp.atanh(mp.sqrt(z)))


def erf_tail(z: Any) -> Any:
    """Return erf(x) / x - 1 as a function of z = x * x."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


def erfc_root(x: Any) -> Any:
    """Return the fourth root of erfc(x)."""
    return mp.root(mp.erfc(x), 4)


def erfc_root_weight(x: Any) -> Any:
    """Return the weight of the above in 1 - erfc(x)."""
    return 4 * erfc_root(x) ** 3 / mp.erf(x)


def _erfinv_ratio(w: Any) -> Any:
    """Return erfinv(x) / x for w = -log(1 - x * x)."""
    x = mp.sqrt(1 - mp.exp(-w))
    return mp.erfinv(x) / x


def _erfinv_near(center: float, high: float, single: int, double: int) -> Fit:
    middle, start = mpf(center), mp.sqrt(mp.pi) / 2

    def slope(u: Any) -> Any:
        return (_erfinv_ratio(u + middle) - start) / (u + middle)

    def weight(u: Any) -> Any:
        return (u + middle) / _erfinv_ratio(u + middle)

    comment = f"(erfinv(x) / x - root(pi) / 2) / w, in w - {center} with w = -log(1 - x**2)"
    return Fit(slope, weight, mpf("1e-12") - middle, mpf(high) - middle, single, double, comment, wide=True)


def _erfinv_far(center: float, low: float, high: float, single: int | None, double: int | None) -> Fit:
    middle = mpf(center)

    def ratio(u: Any) -> Any:
        return _erfinv_ratio((u + middle) ** 2)

    comment = f"erfinv(x) / x, in root(-log(1 - x**2)) - {center}"
    return Fit(ratio, lambda u: 1 / ratio(u), mpf(low) - middle, mpf(high) - middle, single, double, comment, wide=True)


def _remainder() -> Any:
    # of a division by log 2, and a little more where the division was rounded
    return mp.log(2) / 2 * mpf("1.0001")


def fits() -> dict[str, Fit]:
    """Return everything to fit by name."""
    remainder, turn = _remainder(), (mp.pi / 4 * mpf("1.004")) ** 2
    root = mp.sqrt(2)
    edge = ((root - 1) / (root + 1)) ** 2
    return {
        "EXP": Fit(exp_tail, lambda r: r * r / mp.exp(r), -remainder, remainder, 4, 10, "(exp(r) - 1 - r) / r**2"),
        "EXP_WIDE": Fit(
            exp_tail, lambda r: r * r / mp.exp(r), -remainder, remainder, 5, None, "(exp(r) - 1 - r) / r**2", wide=True
        ),
        "TANH": Fit(odd_tail(mp.tanh), tanh_weight, 0, 1, 2, 8, "(tanh(x) / x - 1) / x**2"),
        "SINH": Fit(odd_tail(mp.sinh), odd_weight(mp.sinh), 0, 1, 3, 6, "(sinh(x) / x - 1) / x**2"),
        "LOG": Fit(
            log_tail,
            lambda f: f**3 / mp.log(1 + f),
            1 / root - 1,
            root - 1,
            7,
            None,
            "(log(1 + f) - f + f**2 / 2) / f**3",
        ),
        "ATANH": Fit(atanh_tail, atanh_weight(3), 0, edge, None, 6, "(2 atanh(s) - 2 s) / s**3, in s**2"),
        "ATANH_WIDE": Fit(
            atanh_tail, atanh_weight(3), 0, edge, 4, None, "(2 atanh(s) - 2 s) / s**3, in s**2", wide=True
        ),
        "ATANH_SECOND": Fit(
            atanh_second_tail, atanh_weight(5), 0, edge, None, 6, "(2 atanh(s) - 2 s - 2 s**3 / 3) / s**5, in s**2"
        ),
        "SIN": Fit(odd_tail(mp.sin), odd_weight(mp.sin), 0, turn, 2, 5, "(sin(r) / r - 1) / r**2"),
        "COS": Fit(cos_tail, lambda z: z * z / mp.cos(mp.sqrt(z)), 0, turn, 2, 5, "(cos(r) - 1 + r**2 / 2) / r**4"),
        "ATAN": Fit(
            odd_tail(mp.atan),
            odd_weight(mp.atan),
            0,
            (root - 1) ** 2 * mpf("1.0001"),
            4,
            10,
            "(arctan(t) / t - 1) / t**2",
        ),
        "ERF": Fit(
            erf_tail, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), 0, mpf("1.0609"), 5, 11, "erf(x) / x - 1, in x**2"
        ),
        # above 1 at 0, so that it is too large below the interval
        "ERFC_ROOT": Fit(erfc_root, erfc_root_weight, mpf("1.03"), 6, 7, 20, "erfc(x)**(1/4)", constant=1 + 2.0**-24),
        "ERFINV_NEAR": _erfinv_near(3.0, 6.0, 10, 23),
        "ERFINV_MIDDLE": _erfinv_far(3.25, 6.0**0.5, 4.1, 9, 20),
        "ERFINV_FAR": _erfinv_far(5.0, 4.1, 6.1, None, 19),
        "ASIN": Fit(odd_tail(mp.asin), odd_weight(mp.asin), 0, mpf("0.25"), 4, 12, "(arcsin(t) / t - 1) / t**2"),
    }


def _table(name: str, wanted: Fit) -> str:
    """Return the text of a table of coefficients."""
    lines = [f"#: {wanted.comment}", f"{name}: Table = {{"]
    for kind, degree in ((np.float32, wanted.single), (np.float64, wanted.double)):
        if degree is None:
            continue
        found, error = fit(wanted, kind, degree)
        print(f"{name:14} {kind.__name__} degree {degree:2} error {error:.4f}", flush=True)
        lines += [f"    # error {error:.4f}", f"    {kind.__name__.upper()}: ("]
        lines += [f"        {coefficient!r}," for coefficient in found] + ["    ),"]
    return "\n".join([*lines, "}"])


def write(names: list[str]) -> None:
    """Fit some tables, or all, and write the file with the others as they are."""
    path = ROOT / "src/phonograd/core/lower/vector_math/coefficients.py"
    head, *tables = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n#: ")
    before = {table.split("\n")[1].partition(":")[0]: f"#: {table}" for table in tables}
    after = [before[name] if names and name not in names else _table(name, wanted) for name, wanted in fits().items()]
    path.write_text("\n\n".join([head, *after]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
