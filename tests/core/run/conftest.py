"""The fixtures of every test that compiles kernels."""

from ..compiled_kernels import IGNORED, verified  # noqa: F401

collect_ignore_glob = IGNORED
