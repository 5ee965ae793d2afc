"""In-place operators of programs that are always new are machine code; unusual arrays are left to Python."""

from unittest import mock

import numpy as np
import pytest

from phonograd import nd
from phonograd.core.array import immediate
from phonograd.core.trace.trace import ready_trace

from ...fuzz import ways
from . import machine_code

pytest.importorskip("llvmlite")
native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
if not native_call.possible():
    pytest.skip("this interpreter runs calls in Python", allow_module_level=True)


def test_plain_changes_in_place_are_machine_code() -> None:
    machine_code.install()
    x, other = nd.array([[1.0, 2.0]]), nd.array([[3.0, 5.0]])
    x.attach_grad()
    with ways.immediate():
        x -= 2 * other
        with mock.patch.object(immediate, "change", wraps=immediate.change) as change:
            x -= 2 * other
            x *= 0.5
            assert not change.called
            view = x[0]
            # views are left to Python, and so are their bases
            view += 1
            x += other
            assert change.called
    ready_trace()
    np.testing.assert_array_equal(x.asnumpy(), [[-1.5, -3]])
    np.testing.assert_array_equal(view.asnumpy(), [-1.5, -3])
    np.testing.assert_array_equal(other.asnumpy(), [[3, 5]])
    assert x.grad is not None
