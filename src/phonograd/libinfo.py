"""The C library's location (``mxnet.libinfo``): there is no C library, and the API version is MXNet's."""

from __future__ import annotations

__all__ = ["find_conf_path", "find_include_path", "find_lib_path"]

#: the version of MXNet whose API this library implements, for version checks in scripts
__version__ = "1.9.1"


def find_lib_path(prefix: str = "libmxnet") -> list[str]:
    """Return the paths of the C library: an empty list, since phonograd has none."""
    return []


def find_include_path() -> str:
    """Raise: there are no C headers to build against."""
    raise RuntimeError("There are no C headers: phonograd has no C interface to build against.")


def find_conf_path(prefix: str = "tvmop") -> str:
    """Raise: there are no TVM operators to configure."""
    raise RuntimeError("Cannot find the TVM op config: phonograd has no TVM operators.")
