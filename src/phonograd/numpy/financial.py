"""Functions of payments and interest that NumPy removed in version 1.20 and that MXNet's ``np`` still names.

The formulas are those of the NumPy enhancement proposal 32; ``when`` is 'begin' (1) or 'end' (0) of a period.
:mod:`.fallback` runs them on the values of arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["FINANCIAL"]

Values = Any

_WHEN = {"end": 0, "finish": 0, "begin": 1, "start": 1, "e": 0, "b": 1, 0: 0, 1: 1}


def _growth(rate: Values, nper: Values, when: Any) -> tuple[Values, Values]:
    """Return the factor of an amount after all periods, and that of equal payments."""
    rate, nper = np.asarray(rate, float), np.asarray(nper, float)
    factor = (1 + rate) ** nper
    some = np.where(rate == 0, 1, rate)
    return factor, np.where(rate == 0, nper, (1 + some * _WHEN[when]) * (factor - 1) / some)


def _payment(rate: Values, nper: Values, pv: Values, fv: Values, when: Any) -> Values:
    factor, payments = _growth(rate, nper, when)
    return -(fv + pv * factor) / payments


def pv(rate: Values, nper: Values, pmt: Values, fv: Values = 0, when: Any = "end") -> Values:
    """Return the present value of payments.

    >>> round(float(pv(0.05 / 12, 120, -100, 15692.93)), 2)
    -100.0
    """
    factor, payments = _growth(rate, nper, when)
    return -(fv + pmt * payments) / factor


def npv(rate: float, values: Values) -> Values:
    """Return the net present value of a series of payments, the first of which is due now.

    >>> round(float(npv(0.281, [-100, 39, 59, 55, 20])), 4)
    -0.0085
    """
    amounts = np.atleast_1d(np.asarray(values, float))
    return (amounts / (1 + rate) ** np.arange(len(amounts))).sum(axis=0)


def ppmt(rate: Values, per: Values, nper: Values, pv: Values, fv: Values = 0, when: Any = "end") -> Values:
    """Return the part of the payment of a period that repays the loan.

    >>> round(float(ppmt(0.1 / 12, 1, 24, 2000)), 2)
    -75.62
    """
    payment = _payment(rate, nper, pv, fv, when)
    factor, payments = _growth(rate, np.asarray(per, float) - 1, when)
    interest = -(pv * factor + payment * payments) * rate
    if _WHEN[when] == 1:
        interest = np.where(np.asarray(per) == 1, 0, interest / (1 + np.asarray(rate, float)))
    return payment - interest


def rate(
    nper: Values,
    pmt: Values,
    pv: Values,
    fv: Values,
    when: Any = "end",
    guess: float | None = None,
    tol: float | None = None,
    maxiter: int = 100,
) -> Values:
    """Return the rate of interest of a period, found by Newton's method; NaN if it is not found.

    >>> round(float(rate(10, 0, -3500, 10000)), 6)
    0.110691
    """
    found = np.asarray(0.1 if guess is None else guess, float)
    begin, limit = _WHEN[when], 1e-6 if tol is None else tol
    for _ in range(maxiter):
        factor = (1 + found) ** nper
        before = (1 + found) ** (np.asarray(nper, float) - 1)
        payments = (1 + found * begin) * (factor - 1) / found
        slope = nper * before * pv - pmt * payments / found + pmt * begin * (factor - 1) / found
        slope = slope + nper * pmt * before * (1 + found * begin) / found
        step = (fv + factor * pv + pmt * payments) / slope
        found = found - step
        if np.all(np.abs(step) < limit):
            return found
    return np.full_like(found, np.nan)


def mirr(values: Values, finance_rate: float, reinvest_rate: float) -> Values:
    """Return the modified internal rate of return of payments; NaN unless some are positive and some negative.

    >>> round(float(mirr([-100, 39, 59, 55, 20], 0.1, 0.12)), 4)
    0.2044
    """
    amounts = np.asarray(values, float)
    gains, costs = np.where(amounts > 0, amounts, 0), np.where(amounts < 0, amounts, 0)
    if not (gains.any() and costs.any()):
        return np.nan
    ratio = abs(npv(reinvest_rate, gains)) / abs(npv(finance_rate, costs))
    return ratio ** (1 / (amounts.size - 1)) * (1 + reinvest_rate) - 1


#: the functions by name
FINANCIAL = {function.__name__: function for function in (mirr, npv, ppmt, pv, rate)}
