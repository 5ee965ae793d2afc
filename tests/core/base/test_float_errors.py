"""Floating point errors are ignored between two calls, and treated as before after them."""

import numpy as np
import pytest

from phonograd.core.base import float_errors


@pytest.fixture(params=["variable", "scope"])
def way(request, monkeypatch):
    if request.param == "scope":
        monkeypatch.setattr(float_errors, "_variable", None)
    elif float_errors._variable is None:
        pytest.skip("this NumPy has no such variable")


@pytest.mark.usefixtures("way")
def test_errors_are_ignored_and_raised_again():
    with np.errstate(all="raise"):
        token = float_errors.ignore()
        try:
            assert np.isinf(np.divide(1.0, 0.0))
            inner = float_errors.ignore()
            float_errors.restore(inner)
            assert np.isnan(np.sqrt(-1.0))
        finally:
            float_errors.restore(token)
        with pytest.raises(FloatingPointError):
            np.divide(1.0, 0.0)
