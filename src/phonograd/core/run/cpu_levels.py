"""CPU levels: the features of x86-64 processors that kernels may use under the setting ``cpu_level``.

Takes LLVM's report about the processor of this computer, and hands the permitted features to the compiler. The levels
are those of the x86-64 psABI. LLVM knows processors of the same names, so code for a level is the same on every
processor that has all of its features.
"""

from __future__ import annotations

__all__ = ["FEATURES", "limit"]

_FIRST = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_SECOND = _FIRST | {"crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_THIRD = _SECOND | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_FOURTH = _THIRD | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}

#: the features of each level, by LLVM's names
FEATURES: dict[str, frozenset[str]] = {
    "x86-64": _FIRST,
    "x86-64-v2": _SECOND,
    "x86-64-v3": _THIRD,
    "x86-64-v4": _FOURTH,
}


def limit(processor: str, features: str, level: str) -> tuple[str, str]:
    """Return a processor and its features in LLVM's form, without the features above a level.

    Features are only ever removed: one that the processor lacks stays off at every level.

    >>> limit("znver3", "+avx2,-avx512f,+sse2,+sse4a", "x86-64-v4")
    ('x86-64-v4', '+avx2,-avx512f,+sse2,-sse4a')
    >>> limit("znver3", "+avx2,-avx512f,+sse2,+sse4a", "native")
    ('znver3', '+avx2,-avx512f,+sse2,+sse4a')
    """
    if level == "native":
        return processor, features
    allowed = FEATURES[level]
    names = [feature if feature[1:] in allowed else f"-{feature[1:]}" for feature in features.split(",")]
    return level, ",".join(names)
