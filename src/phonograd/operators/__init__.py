"""Every operator of the library, by family. Importing this package fills the registry."""

from . import (  # noqa: F401
    arithmetic,
    arrangement,
    broadcasting,
    comparison,
    convolution,
    elementary,
    linalg,
    linear_algebra,
    ordering,
    points,
    pooling,
    primitives,
    reduction,
    regions,
    shape,
    softmax,
    structural,
    windows,
)
