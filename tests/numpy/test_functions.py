"""Functions of mx.np give what NumPy gives, and their derivatives are right to the third order."""

from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

import phonograd as mx
from phonograd import autograd

_generator = onp.random.default_rng(3)

#: what cases are about; no two elements are near each other, and none is near a whole number
ARRAYS: dict[str, Any] = {
    "x": onp.array([[0.3, 1.4, -0.7], [2.2, -1.6, 0.85]]),
    "y": onp.array([[1.15, 0.45, 2.3], [0.6, 1.75, 1.3]]),
    "v": onp.array([0.9, -0.35, 1.6]),
    "w": onp.array([0.4, 1.25]),
    "m": _generator.normal(size=(3, 3)),
    "t": _generator.normal(size=(2, 3, 4)),
    "s": onp.array(0.65),
}

#: code, and the order to which it is differentiated
DIFFERENTIABLE = """
    x + y; x - v; x * s; x / y; y ** x; 2.0 ** x; x ** 3; x % 1.3; -x; abs(x); x // 0.65; 1 / y; x @ v; m @ m
    t @ t[0].T
    np.add(x, y); np.subtract(1, x); np.multiply(x, 2); np.true_divide(x, y); np.power(y, 1.5); np.float_power(y, 2)
    np.maximum(x, y); np.minimum(x, 0.5); np.fmax(x, y); np.fmin(x, y); np.hypot(x, y); np.arctan2(x, y); np.mod(x, y)
    np.copysign(x, y); np.fmod(x, y); np.logaddexp(x, y); np.heaviside(x, y); np.floor_divide(x, y)
    np.remainder(x, y)
    np.exp(x); np.expm1(x); np.log(y); np.log2(y); np.log10(y); np.log1p(y); np.sqrt(y); np.cbrt(y); np.square(x)
    np.sin(x); np.cos(x); np.tan(x / 2); np.arcsin(x / 3); np.arccos(x / 3); np.arctan(x); np.sinh(x); np.cosh(x)
    np.tanh(x)
    np.arcsinh(x); np.arccosh(y + 1); np.arctanh(x / 3); np.degrees(x); np.radians(x); np.reciprocal(y); np.abs(x)
    np.sign(x); np.floor(x); np.ceil(x); np.trunc(x); np.around(x); np.sinc(x); np.nan_to_num(x); np.clip(x, -0.5, 1)
    np.positive(x); np.negative(x); np.fabs(x); np.ldexp(x, np.array([1, 2, 3]))
    np.sum(x); np.sum(t, axis=(0, 2)); np.sum(x, axis=0, keepdims=True); np.mean(x); np.mean(t, axis=1); np.prod(x)
    np.prod(t, axis=1); np.var(x); np.var(x, axis=1, ddof=1); np.std(x, axis=0); np.max(x); np.min(t, axis=2)
    np.ptp(x, axis=0); np.cumsum(x); np.cumsum(x, axis=0); np.cumprod(y, axis=1); np.nansum(x); np.nanmax(x)
    np.nanmin(x)
    np.nanprod(x, axis=0); np.nanmean(x); np.average(x, axis=1, weights=v); np.average(x); np.median(x)
    np.median(t, axis=1)
    np.quantile(x, 0.3); np.percentile(t, 70, axis=0); np.percentile(x, np.array([10.0, 60.0]), axis=1); np.cov(x)
    np.corrcoef(x); np.cov(v, v * v); np.diff(x); np.diff(x, 2, axis=1); np.ediff1d(x); np.trapezoid(x, axis=1)
    np.trapezoid(y, v, axis=1); np.interp(np.array([0.2, 0.7]), np.array([0.0, 0.5, 1.0]), v); np.polyval(v, x)
    np.dot(x, m); np.dot(v, v); np.dot(x, s); np.dot(m, v)
    np.matmul(t, t.transpose(0, 2, 1)); np.matmul(t[0].T, v); np.inner(x, y); np.inner(v, v); np.outer(w, v)
    np.vdot(x, y)
    np.tensordot(t, x, axes=([0, 1], [0, 1])); np.tensordot(x, m, 1); np.kron(x, m); np.cross(x, y); np.trace(m)
    np.trace(t)
    np.einsum("ij,kj->ik", x, y); np.einsum("ii", m); np.einsum("ii->i", m); np.einsum("ijk->kj", t)
    np.einsum("i,ij,j", w, x, v); np.einsum("...j,j->...", t[:, :, :3], v); np.einsum("ij,ij->i", x, y)
    np.einsum("tij,ij,ik->tk", t[:, :2, :3], x, y); np.einsum("ij,k->ijk", x, v); np.einsum("ij->", x)
    np.reshape(x, (3, 2)); x.reshape(-1); np.ravel(x); x.T; np.transpose(t, (1, 2, 0)); np.swapaxes(t, 0, 2)
    np.moveaxis(t, 0, 2); np.rollaxis(t, 2); np.expand_dims(x, 1); np.squeeze(x[None]); np.broadcast_to(v, (2, 3))
    np.flip(x, 1); np.flipud(x); np.fliplr(x); np.roll(x, 2); np.roll(x, 1, axis=1); np.rot90(x); np.rot90(x, 3)
    np.tile(v, (2, 2)); np.repeat(x, 2, axis=1); np.repeat(v, [1, 0, 2]); np.resize(v, (2, 4)); np.atleast_2d(v)
    np.pad(x, ((1, 2), (0, 1))); np.pad(x, 2, "edge"); np.pad(v, 2, "reflect")
    np.pad(x, ((1, 1), (2, 2)), "symmetric")
    np.pad(v, 4, "wrap"); np.pad(x, 1, "maximum"); np.pad(x, 1, "mean"); np.pad(v, 1, constant_values=3)
    np.concatenate([x, y], axis=1); np.stack([x, y], axis=1); np.vstack([v, v * 2]); np.hstack([x, y])
    np.dstack([x, y])
    np.column_stack([w, x]); np.append(x, y); np.split(x, 3, axis=1)[1]; np.array_split(v, 2)[0]; np.hsplit(x, 3)[2]
    np.delete(x, 1, axis=1); np.insert(v, 1, 5.0); np.insert(x, 1, w, axis=1)
    np.sort(x); np.sort(x, axis=0); np.sort(x, axis=None); np.unique(x); np.where(x > 0, x, y)
    np.where(x > 0, x * x, 0)
    np.select([x < 0, x < 1], [x, y * y], 3.0); np.take(x, np.array([0, 5, 5])); np.take(x, np.array([2, 0]), axis=1)
    np.take_along_axis(x, np.argsort(x), 1); np.compress(np.array([True, False, True]), x, axis=1)
    np.extract(x > 0, x)
    np.choose(np.array([0, 1, 0]), [v, v * v]); np.diag(v); np.diag(m, 1); np.diagflat(x); np.diagonal(t); np.tril(m)
    np.triu(m, 1); np.tril(t); np.meshgrid(v, w)[0]; np.meshgrid(v, w, indexing="ij")[1]; np.copy(x)
    x[0]; x[1, 2]; x[:, 1]; x[::-1, ::2]; x[..., None]; x[[1, 0, 1]]; x[np.array([0, 1]), np.array([2, 0])]; x[x > 0]
    x[x[:, 0] > 1]; t[:, np.array([0, 2])]; t[0, :, [1, 3]]; np.bincount(np.array([0, 2, 2]), v)
"""

PLAIN = """
    x == y; x != y; x < y; x <= y; x > 0.5; x >= v; np.equal(x, x); np.logical_and(x > 0, y > 1); np.logical_not(x)
    np.logical_or(x > 0, y > 1); np.logical_xor(x > 0, y > 1); np.isnan(x); np.isinf(x); np.isfinite(x)
    np.isposinf(x)
    np.isneginf(x); np.signbit(x); np.all(x > -9); np.any(x > 2, axis=1); np.argmax(x); np.argmin(x, axis=1)
    np.argmax(t, axis=1); np.argsort(x); np.argsort(x, axis=None); np.count_nonzero(x > 0); np.nonzero(x > 0)
    np.argwhere(x > 0); np.flatnonzero(x > 0); np.isclose(x, x + 1e-12); np.allclose(x, y); np.array_equal(x, x)
    np.unique(np.array([3, 1, 1, 2]), return_index=True, return_inverse=True, return_counts=True)
    np.searchsorted(v, 0.5)
    np.eye(3, 4, 1); np.identity(3); np.linspace(0, 1, 5); np.logspace(0, 2, 4); np.geomspace(1, 8, 4)
    np.arange(2, 9, 2)
    np.tri(3, 4, 1); np.ones_like(x); np.zeros_like(x); np.full_like(x, 3); np.hanning(5); np.hamming(5)
    np.blackman(5)
    np.indices((2, 3)); np.tril_indices(3); np.triu_indices(3, 1); np.diag_indices(2); np.unravel_index(4, (2, 3))
    np.gcd(np.array([4, 6], dtype="int32"), 6); np.lcm(np.array([4, 6], dtype="int32"), 6)
    np.bitwise_and(np.array([5, 6], dtype="int32"), 3); ~np.array([1, 2], dtype="int32")
    np.array([5, 6], dtype="int32") | 8; np.array([5, 6], dtype="int32") ^ 1
    np.bincount(np.array([0, 2, 2]), minlength=5); np.isin(np.array([1, 2]), [2])
    np.histogram(x, bins=4, range=(-2, 3)); np.digitize(v, np.array([0.0, 1.0])); np.size(x); np.ndim(x); np.shape(x)
    np.lexsort((v, v)); np.union1d(v, w); np.vander(v); np.roots(w); np.convolve(v, w); np.shares_memory(x, x)
    np.expand_dims(x, (0, 3)); np.around(np.array([0.5, 1.5, 2.5, -0.5, 0.25]), 0); np.sum(x, axis=())
    np.max(np.array([1, 5]))
"""


def cases(text: str) -> list[str]:
    """Return the pieces of code of a text."""
    return [code.strip() for line in text.strip().splitlines() for code in line.split(";")]


def run(code: str, numpy: Any, arrays: dict[str, Any]) -> Any:
    """Return what a piece of code gives with mx.np or NumPy as ``np``."""
    return eval(code, {"np": numpy, **arrays})


def as_double(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return arrays of mx.np with the same values."""
    return {name: mx.np.array(value, dtype="float64") for name, value in arrays.items()}


def assert_same(found: Any, expected: Any) -> None:
    """Assert that results have equal values and shapes, one by one if there are several."""
    if isinstance(expected, (tuple, list)) and not isinstance(expected, onp.ndarray):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    values = found.asnumpy() if isinstance(found, mx.np.ndarray) else onp.asarray(found)
    assert values.shape == onp.shape(expected)
    if isinstance(found, mx.np.ndarray):
        assert (values.dtype.kind == "b") == (onp.asarray(expected).dtype.kind == "b")
    onp.testing.assert_allclose(values, expected, rtol=1e-6 if values.dtype == onp.float32 else 1e-12, atol=1e-7)


@pytest.mark.parametrize("code", cases(DIFFERENTIABLE) + cases(PLAIN))
def test_value_is_that_of_numpy(code: str) -> None:
    if "trapezoid" in code and not hasattr(onp, "trapezoid"):
        code = code.replace("trapezoid", "trapz")
    with mx.settings.override(executor="reference"):
        assert_same(run(code, mx.np, as_double(ARRAYS)), run(code, onp, ARRAYS))


class _Line:
    """A function of one number: a random sum of what a piece of code gives on a line through the arrays.

    The way along the line is an exponential, so that no derivative is zero.
    """

    def __init__(self, code: str) -> None:
        self._code = code
        generator = onp.random.default_rng(5)
        self._directions = {name: generator.normal(size=value.shape) for name, value in ARRAYS.items()}
        shape = onp.shape(run(code, onp, ARRAYS))
        self._weights = generator.normal(size=shape)

    def at(self, step: float) -> float:
        """Return the value at a place, by NumPy."""
        way = onp.expm1(step)
        moved = {name: value + way * self._directions[name] for name, value in ARRAYS.items()}
        return float(onp.sum(run(self._code, onp, moved) * self._weights) + way)

    def derivatives(self, order: int) -> list[float]:
        """Return the derivatives at zero, by autograd."""
        step = mx.np.array(0.0, dtype="float64")
        step.attach_grad()
        found = []
        with autograd.record():
            fixed, directions = as_double(ARRAYS), as_double(self._directions)
            way = mx.np.expm1(step)
            moved = {name: fixed[name] + way * directions[name] for name in fixed}
            value = (run(self._code, mx.np, moved) * mx.np.array(self._weights, dtype="float64")).sum() + way
            for _ in range(order):
                value = autograd.grad(value, step, create_graph=True)[0]
                found.append(value)
        return [float(one) for one in found]


@pytest.mark.parametrize("code", cases(DIFFERENTIABLE))
def test_derivatives(code: str) -> None:
    if "trapezoid" in code and not hasattr(onp, "trapezoid"):
        code = code.replace("trapezoid", "trapz")
    line = _Line(code)
    with mx.settings.override(executor="reference"):
        exact = line.derivatives(3)
    step = 2e-3
    places = {k: line.at(k * step) for k in range(-4, 5)}
    # differences of the eighth, eighth and sixth order
    first = sum(
        c * (places[k] - places[-k]) for k, c in zip((1, 2, 3, 4), (4 / 5, -1 / 5, 4 / 105, -1 / 280), strict=True)
    )
    second = sum(
        c * (places[k] + places[-k]) for k, c in zip((1, 2, 3, 4), (8 / 5, -1 / 5, 8 / 315, -1 / 560), strict=True)
    )
    second += -205 / 72 * places[0]
    third = sum(
        c * (places[k] - places[-k]) for k, c in zip((1, 2, 3, 4), (-61 / 30, 169 / 120, -3 / 10, 7 / 240), strict=True)
    )
    numeric = [first / step, second / step**2, third / step**3]
    for order, (found, expected, accuracy) in enumerate(zip(exact, numeric, (1e-8, 1e-6, 1e-4), strict=True), 1):
        scale = max(1.0, abs(expected), abs(places[0]))
        assert abs(found - expected) <= accuracy * scale, f"order {order}: {found} but differences give {expected}"


@pytest.mark.parametrize("number", [0.5, -1, 0, 1, 1.0, 2, True, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_booleans_are_compared_with_numbers_as_numbers(name: str, number: float) -> None:
    values = onp.array([False, True])
    array = mx.np.array(values, dtype="bool")
    expected = getattr(onp, name)
    function = getattr(mx.np, name)
    assert function(array, number).asnumpy().tolist() == expected(values, number).tolist()
    assert function(number, array).asnumpy().tolist() == expected(number, values).tolist()


def test_interpolation_and_integrals_of_integers_have_double_precision() -> None:
    np = mx.np
    points = np.array([1, 2, 4], dtype="int32")
    for x in (np.array([1.5, 3.0]), points):
        assert np.interp(x, points, x[:1].repeat(3)).dtype == onp.float64
    assert np.trapz(points).dtype == onp.float64
    assert np.trapz(points.astype("float32")).dtype == onp.float32


def test_payments_and_interest():
    # the loan of 2000 at 1 % for 24 periods, paid back by equal payments, by the definition of each amount
    loan, rate, periods = 2000.0, 0.01, 24
    payment = -loan / float(mx.np.pv(rate, periods, -1))
    for when in ("end", "begin"):
        parts = mx.np.ppmt(rate, mx.np.arange(1, periods + 1), periods, loan, when=when)
        assert float(parts.sum()) == pytest.approx(-loan, rel=1e-3)
    assert float(mx.np.rate(periods, payment, loan, 0)) == pytest.approx(rate, abs=1e-6)
    assert float(mx.np.npv(rate, [-loan, *[-payment] * periods])) == pytest.approx(0, abs=1e-6)
    assert float(mx.np.pv(0, 5, -10)) == 50
    assert float(mx.np.mirr([-100, 110], 0.05, 0.2)) == pytest.approx(0.1)
    assert onp.isnan(float(mx.np.mirr([1, 2], 0.1, 0.1)))
    assert onp.isnan(float(mx.np.rate(5, -1, 100, 100, maxiter=1)))
