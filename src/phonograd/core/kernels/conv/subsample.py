"""Subsampling: the elements of images that a kernel of one element with a stride reads, next to each other."""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index
from ..launch import Launch, Reference, Words
from ..routine import Routine, module
from .geometry import Geometry

__all__ = ["Subsample", "subsampling"]

#: elements worth a call
_CHUNK_ELEMENTS = 1 << 13

_AXES = ("z", "y", "x")
_WORDS = Words(
    *[f"{name}_{axis}" for name in ("extent", "count", "stride") for axis in _AXES],
    *("pixels", "windows", "data*", "target*"),
)


@dataclasses.dataclass(frozen=True)
class Subsample:
    """The kernel that copies every n-th element along each axis; an item is a channel of an image."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, self.dtype)
        number = {
            word: _WORDS.index(e, word)
            for word in (*[f"{name}_{axis}" for name in ("extent", "count", "stride") for axis in _AXES],)
        }
        pixels, windows = _WORDS.index(e, "pixels"), _WORDS.index(e, "windows")
        data, target = _WORDS.pointer(e, "data"), _WORDS.pointer(e, "target")

        def channel(index: Index) -> None:
            image, into = e.at(data, e.times(index, pixels)), e.at(target, e.times(index, windows))

            def plane(z: Index) -> None:
                def line(y: Index) -> None:
                    row = e.plus(
                        e.times(e.times(z, number["stride_z"]), number["extent_y"]), e.times(y, number["stride_y"])
                    )
                    source = e.at(image, e.times(row, number["extent_x"]))
                    place = e.times(e.plus(e.times(z, number["count_y"]), y), number["count_x"])

                    def element(x: Index) -> None:
                        e.put_one(into, e.get_one(source, e.times(x, number["stride_x"])), e.plus(place, x))

                    e.for_each("0", number["count_x"], element)

                e.for_each("0", number["count_y"], line)

            e.for_each("0", number["count_z"], plane)

        e.for_each("%lo", "%hi", channel)
        return module(e)


def subsampling(shape: Geometry, dtype: DType, target: Reference) -> Launch:
    """Return the launch that copies the elements that windows of a convolution consist of."""
    values: dict[str, int | Reference] = {"pixels": shape.pixels, "windows": shape.windows, "target": target}
    for name, numbers in (("extent", shape.extent), ("count", shape.counts), ("stride", shape.stride)):
        values.update({f"{name}_{axis}": number for axis, number in zip(_AXES, numbers)})
    channels = shape.batch * shape.groups * shape.channels
    return Launch(Subsample(dtype), _WORDS.fill(values), channels, max(1, _CHUNK_ELEMENTS // shape.windows))
