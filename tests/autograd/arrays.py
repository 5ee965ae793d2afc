"""Short words for what the tests of autograd say often."""

from __future__ import annotations

from typing import Any

import numpy as np

from phonograd import autograd, nd

NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, "
    "you need to pass retain_graph=True to backward."
)
NO_VARIABLES = "There are no inputs in computation graph that require gradients."


def variable(values: Any, grad_req: str = "write", dtype: str = "float32") -> nd.NDArray:
    """Return an array of some values with a gradient buffer."""
    array = nd.array(values, dtype=dtype)
    array.attach_grad(grad_req)
    return array


def flags() -> tuple[bool, bool]:
    """Return both flags."""
    return autograd.is_recording(), autograd.is_training()


def values(array: Any) -> Any:
    """Return the numbers of an array, or of each array of a list."""
    return [values(item) for item in array] if isinstance(array, list) else array.asnumpy().tolist()


def close(array: nd.NDArray, expected: Any, rtol: float = 1e-5) -> None:
    """Assert that an array has some values."""
    np.testing.assert_allclose(array.asnumpy(), expected, rtol=rtol, atol=1e-7)
