"""Wait until the calls of operators are machine code, which a helper may be installing for an earlier test."""

import time

from phonograd import nd, settings
from phonograd.core.trace.trace import LOCAL

__all__ = ["install"]


def install() -> None:
    """Install machine code for calls, and end the trace of this thread."""
    deadline = time.monotonic() + 60
    # in the background, a helper would prepare the code first
    with settings.override(executor="native", tiers="blocking"):
        LOCAL.trace.flush(end=True)
        while not _is_installed():
            assert time.monotonic() < deadline, "machine code was not installed"
            # a program that repeats
            (nd.ones((2,)) + 1).wait_to_read()
            time.sleep(0.001)
    LOCAL.trace.flush(end=True)


def _is_installed() -> bool:
    # the functions of modules are replaced last
    return type(nd.NDArray.__mul__).__name__ == "method_descriptor" and not isinstance(nd.tanh, type(install))
