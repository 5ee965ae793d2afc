"""Plans of convolutions by Winograd's algorithm: from shapes to launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from ...base.dtypes import FLOAT32
from ...graph.node import Shape
from ..launch import Launch, Plan, Prepared, Reference, align_up
from ..scratch import Scratch
from ..target import Machine
from .geometry import Geometry, evenly, round_up
from .microkernels import WIDTH, most_rows
from .winograd import FORWARD, WinogradForward
from .winograd_few import FEW, FEW_TILES, FewTilesForward, TransformFewTiles, block_size
from .winograd_transforms import Tiling
from .winograd_weight_grad import (
    BLOCKS,
    PARTS,
    TILES,
    TOTAL,
    AddParts,
    WeightGradBlocks,
    WeightGradParts,
    WeightGradTiles,
)
from .winograd_weights import TRANSFORM, TransformWeights

__all__ = [
    "PLAIN",
    "Phasing",
    "Units",
    "band_tiles",
    "data_grad",
    "forward",
    "odd_stride",
    "saves",
    "suits",
    "tiles_at_once",
    "tiles_of",
    "weight_grad",
]

#: minimum factor of saved multiplications that pays for the transforms, and that of tiles of 2 by 2 outputs, whose
#: transforms take less time (images of 5 by 5: 1.0 to 1.8 times as fast from 16 channels on, AMD EPYC, Zen 4)
_LEAST_SAVING, _LEAST_SMALL_SAVING, _SMALL = 2.0, 1.5, 3
#: minimum ratio of tiles that pays for overlapping transforms
_LEAST_FEWER = 1.4
#: maximum size of transformed weights that a cache holds, and the cost of larger ones in tiles
_CACHED_BYTES, _WEIGHT_TILES = 1 << 22, 96
#: size in bytes from which weights are transformed in the cache, when they are needed
_FEW_BYTES = 1 << 21
#: the cost in tiles of transforming weights in the cache, the minimum factor of saved multiplications that pays for
#: all transforms then, the maximum number of tiles that share the weights, and the number of tiles multiplied at once
_TRANSFORM_TILES, _FEW_SAVING, _MOST_FEW, _FEW_ROWS = 4, 1.5, 128, 8
#: the minimum number of pairs of vectors of filters then
_LEAST_PAIRS = 2
#: the cost in tiles of transforming products back, and the minimum number of items in blocks of weights
_BACK_TILES, _BLOCK_ITEMS = 4, 32
#: the cost of a call of a product in steps of a sum
_CALL_STEPS = 32
_FLOAT = FLOAT32.itemsize
#: bytes of transformed tiles of data made before they are used
_TILE_BYTES = 1 << 20
#: minimum and maximum number of tiles in a band of a large image
_LEAST_TILES, _MOST_TILES = 24, 64
#: tiles of small images transformed together
_JOINED_TILES = 32
#: parts of the images with sums of their own: tiles per part that make the sums worth their memory, minimum and
#: maximum number of parts, and maximum size of the sums in bytes
_PART_TILES, _LEAST_PARTS, _MOST_PARTS, _SUM_BYTES = 196, 4, 16, 1 << 25

Values = dict[str, int | Reference]


class Phasing(NamedTuple):
    """Facts about the phases that a convolution consists of, if there are any."""

    useful: float = 1.0
    """Share of the taps that exist."""
    copying: float = 0.0
    """Number of products in the time of copying all elements to phases, or back."""

    def products(self, shape: Geometry, images: int) -> float:
        """Return the number of products of a channel and a filter, less those in the time of copying phases."""
        pairs = shape.groups * shape.channels * shape.filters
        copying = self.copying / (pairs * max(shape.batch, 1))
        return images * (shape.windows * shape.taps * self.useful - copying)


PLAIN = Phasing()


def suits(shape: Geometry, tiling: Tiling) -> bool:
    """Return whether a convolution can be computed in such tiles."""
    return (
        shape.kernel == (1, tiling.y.kernel, tiling.x.kernel)
        and shape.extent[0] == 1
        and shape.stride == (1, 1, 1)
        and shape.dilate == (1, 1, 1)
        and shape.pad[1] < tiling.y.kernel
        and shape.pad[2] < tiling.x.kernel
    )


def saves(shape: Geometry, outputs: Shape, tiling: Tiling, phasing: Phasing = PLAIN) -> bool:
    """Return whether tiles of so many outputs save enough multiplications to pay for the transforms.

    Transformed weights beyond the size of the cache cost as much as some additional tiles.
    """
    is_cheap = tiling.outputs <= _SMALL or len(tiling.axes) == 1
    least = _LEAST_SMALL_SAVING if is_cheap else _LEAST_SAVING
    tiles = shape.batch * tiles_of(outputs, tiling) * least
    if _transformed_bytes(shape, tiling) > _CACHED_BYTES:
        tiles += _WEIGHT_TILES
    return tiles * tiling.elements <= phasing.products(shape, shape.batch)


def _transformed_bytes(shape: Geometry, tiling: Tiling) -> int:
    """Return the number of bytes of the transformed weights of a group."""
    return shape.channels * shape.filters * tiling.elements * _FLOAT


def tiles_of(outputs: Shape, tiling: Tiling) -> int:
    """Return the number of tiles in an image of so many outputs."""
    return -(-outputs[1] // tiling.y.outputs) * -(-outputs[2] // tiling.x.outputs)


def forward(machine: Machine, slots: int, shape: Geometry, tiling: Tiling, phasing: Phasing = PLAIN) -> Plan | None:
    """Return the plan of a convolution, or None if it does not pay."""
    taps = shape.taps
    strides = (shape.filters * shape.channels * taps, taps, shape.channels * taps)
    images = _few_images(machine, shape, tiling, phasing)
    if images:
        return _few(machine, slots, shape, tiling, images, "data", strides)
    if not saves(shape, shape.counts, tiling, phasing):
        return None
    return _forward(machine, slots, shape, shape.counts, tiling, "data", strides)


def data_grad(
    machine: Machine, slots: int, shape: Geometry, tiling: Tiling, data_tiling: Tiling, phasing: Phasing = PLAIN
) -> Plan | None:
    """Return the plan of the data gradient, or None if it does not pay.

    It is a convolution of gradients with flipped kernels, in tiles of data. If padding is narrow and images are small,
    there are far fewer tiles of gradients; then it is the adjoint of each step of a convolution. ``data_tiling`` are
    the tiles of data.
    """
    by_outputs, by_data = tiles_of(shape.counts, tiling), tiles_of(shape.extent, tiling)
    # bands of tiles of one image would overlap
    if (
        by_outputs * _LEAST_FEWER <= by_data
        and by_outputs <= _LEAST_TILES
        and saves(shape, shape.counts, tiling, phasing)
    ):
        return _adjoint(machine, slots, shape, tiling)
    tiling = data_tiling
    _, pad_y, pad_x = shape.pad
    other = Geometry(
        *(shape.batch, shape.groups, shape.filters, shape.channels, shape.counts, shape.kernel),
        *(shape.stride, shape.dilate, (0, tiling.y.kernel - 1 - pad_y, tiling.x.kernel - 1 - pad_x), shape.extent),
    )
    taps = shape.taps
    strides = (shape.filters * shape.channels * taps, shape.channels * taps, taps)
    images = _few_images(machine, other, tiling, phasing)
    if images:
        return _few(machine, slots, other, tiling, images, "out_grad", strides, flipped=True)
    if not saves(shape, shape.extent, tiling, phasing):
        return None
    return _forward(machine, slots, other, other.counts, tiling, "out_grad", strides, flipped=True)


def _adjoint(machine: Machine, slots: int, shape: Geometry, tiling: Tiling) -> Plan:
    other = Geometry(
        *(shape.batch, shape.groups, shape.filters, shape.channels, shape.counts, shape.kernel),
        *(shape.stride, shape.dilate, shape.pad, shape.extent),
    )
    taps = shape.taps
    strides = (shape.filters * shape.channels * taps, shape.channels * taps, taps)
    return _forward(machine, slots, other, shape.counts, tiling, "out_grad", strides, adjoint=True)


def _forward(
    machine: Machine,
    slots: int,
    shape: Geometry,
    tiled: Shape,
    tiling: Tiling,
    operand: str,
    strides: tuple[int, int, int],
    flipped: bool = False,
    adjoint: bool = False,
) -> Plan:
    lanes = machine.lanes(FLOAT32)
    walk = Units(shape, tiled, tiling, lanes, _JOINED_TILES, band_tiles(shape.channels, tiling, lanes))
    rows = tiles_at_once(machine, shape.channels, walk.usual_tiles)
    tiles = round_up(walk.tiles, rows)
    channels = round_up(shape.channels, lanes)
    elements = tiling.elements
    scratch = Scratch(slots)
    pairs = -(-shape.filters // (WIDTH * lanes))
    packed_bytes = shape.groups * elements * (pairs * shape.channels * WIDTH + 1) * lanes * _FLOAT
    packed = scratch.reserve(packed_bytes)
    # at a distance of a multiple of 4096 bytes, all elements of a tile would compete for the same few cache sets
    data_step, sums_step = odd_stride(channels * tiles, lanes), odd_stride(WIDTH * lanes * tiles, lanes)
    values = walk.values(data_step, elements * data_step, sums_step, elements * (data_step + sums_step))
    values.update(scratch.slots((elements * (data_step + sums_step) + walk.picture) * _FLOAT))
    values.update(tiles=tiles, data=Reference(operand), weight=packed)
    group, depth, lane = strides
    packing: Values = {"depth": shape.channels, "filters": shape.filters, "packed": packed}
    packing.update(depth_stride=depth, filter_stride=lane, group_stride=group)
    launches = (
        scratch.clear(),
        Launch(
            TransformWeights(lanes, tiling, flipped, flipped or adjoint),
            TRANSFORM.fill(packing),
            *_vectors(shape, lanes),
        ),
        Launch(
            WinogradForward(lanes, tiling, rows, adjoint),
            FORWARD.fill(values),
            walk.units * shape.groups,
            work=shape.work,
        ),
    )
    prepared = Prepared(1, "weight", packed.offset, align_up(packed_bytes))
    return Plan(launches, scratch.size, (prepared,))


def tiles_at_once(machine: Machine, channels: int, tiles: int) -> int:
    """Return the number of tiles to multiply at once that wastes the least work on missing tiles.

    >>> [tiles_at_once(Machine(64, 32), 64, tiles) for tiles in (49, 64, 56)]
    [10, 13, 14]
    """
    most = most_rows(machine)
    return min(range(most, most // 2, -1), key=lambda rows: -(-tiles // rows) * (rows * channels + _CALL_STEPS))


def _few_images(machine: Machine, shape: Geometry, tiling: Tiling, phasing: Phasing) -> int:
    """Return the number of images that share weights transformed in the cache, or 0 if that does not pay."""
    in_image = tiles_of(shape.counts, tiling)
    if in_image > _MOST_FEW or _transformed_bytes(shape, tiling) <= _FEW_BYTES:
        return 0
    # pairs of vectors of filters are divided among threads
    if shape.groups * -(-shape.filters // (WIDTH * machine.lanes(FLOAT32))) < _LEAST_PAIRS:
        return 0
    images = evenly(shape.batch, _MOST_FEW // in_image)
    tiles = (images * in_image + _TRANSFORM_TILES) * _FEW_SAVING
    return images if tiles * tiling.elements <= phasing.products(shape, images) else 0


def _few(
    machine: Machine,
    slots: int,
    shape: Geometry,
    tiling: Tiling,
    images: int,
    operand: str,
    strides: tuple[int, int, int],
    flipped: bool = False,
) -> Plan:
    lanes = machine.lanes(FLOAT32)
    # kernels do not depend on the number of tiles; few rows waste little work on missing tiles
    rows = min(most_rows(machine), _FEW_ROWS)
    elements = tiling.elements
    tiles = round_up(images * tiles_of(shape.counts, tiling), rows)
    walk = Units(dataclasses.replace(shape, batch=1), shape.counts, tiling, lanes, 1, _MOST_FEW)
    channels = round_up(shape.channels, lanes)
    data_step, sums_step = odd_stride(channels * tiles, lanes), odd_stride(WIDTH * lanes * tiles, lanes)
    scratch = Scratch(slots)
    products = scratch.reserve(shape.groups * elements * data_step * _FLOAT)
    weights = elements * block_size(lanes)
    values = walk.values(data_step, weights, sums_step, weights + elements * sums_step)
    values.update(tiles=tiles, weights_at=0, products=products)
    values.update(scratch.slots((weights + elements * sums_step + walk.picture) * _FLOAT))
    group, depth, lane = strides
    values.update(depth_stride=depth, filter_stride=lane, group_stride=group)
    pairs = -(-shape.filters // (WIDTH * lanes))
    launches = [scratch.clear()]
    for first in range(0, shape.batch, images):
        count, before = min(images, shape.batch - first), first * shape.groups * _FLOAT
        values.update(batch=count, data=Reference(operand, before * shape.channels * shape.pixels))
        values.update(out=Reference("out", before * shape.filters * shape.windows))
        part = dataclasses.replace(shape, batch=count)
        launches += [
            Launch(TransformFewTiles(lanes, tiling), FEW_TILES.fill(values), count * shape.groups),
            Launch(
                FewTilesForward(lanes, tiling, rows, flipped), FEW.fill(values), shape.groups * pairs, work=part.work
            ),
        ]
    return Plan(tuple(launches), scratch.size)


def weight_grad(machine: Machine, slots: int, shape: Geometry, tiling: Tiling, phasing: Phasing = PLAIN) -> Plan | None:
    """Return the plan of the weight gradient, or None if it does not pay."""
    if _many_weights(shape, tiling, phasing):
        return _blocks(machine, slots, shape, tiling)
    if not saves(shape, shape.counts, tiling, phasing):
        return None
    lanes, elements = machine.lanes(FLOAT32), tiling.elements
    walk = Units(shape, shape.counts, tiling, lanes, _JOINED_TILES, band_tiles(shape.channels, tiling, lanes))
    kernel = WeightGradParts(lanes, tiling)
    pairs, blocks = -(-shape.filters // (WIDTH * lanes)), -(-shape.channels // kernel.channels)
    lines = shape.groups * pairs * shape.channels * shape.taps
    sums = lines * WIDTH * lanes * _FLOAT
    wanted = max(_LEAST_PARTS, -(-walk.units * walk.tiles // _PART_TILES))
    most = max(1, min(wanted, _MOST_PARTS, _SUM_BYTES // sums))
    part_units = -(-walk.units // most)
    parts = -(-walk.units // part_units)
    scratch = Scratch(slots)
    # lines are read in squares
    place = scratch.reserve(parts * sums + lanes * WIDTH * lanes * _FLOAT)
    data_step, sums_step = odd_stride(lanes * walk.tiles, lanes), odd_stride(WIDTH * lanes * walk.tiles, lanes)
    sums_at = elements * blocks * data_step
    products_at = sums_at + elements * pairs * sums_step
    picture_at = products_at + elements * kernel.rows * WIDTH * lanes
    values = walk.values(data_step, sums_at, sums_step, picture_at)
    values.update(scratch.slots((picture_at + walk.picture) * _FLOAT), sums=place)
    values.update(units=walk.units, part_units=part_units, products_at=products_at)
    total = {**values, "taps": shape.taps, "parts": parts}
    launches = (
        scratch.clear(),
        Launch(kernel, PARTS.fill(values), parts * shape.groups, work=shape.work),
        Launch(AddParts(lanes), TOTAL.fill(total), shape.groups * pairs * blocks, max(1, 16 // parts)),
    )
    return Plan(launches, scratch.size)


def _many_weights(shape: Geometry, tiling: Tiling, phasing: Phasing) -> bool:
    """Return whether computing the weight gradient by blocks of weights is needed, and saves enough."""
    if _transformed_bytes(shape, tiling) <= _FEW_BYTES:
        return False
    tiles = (shape.batch * tiles_of(shape.counts, tiling) + _BACK_TILES) * _FEW_SAVING
    return tiles * tiling.elements <= phasing.products(shape, shape.batch)


def _blocks(machine: Machine, slots: int, shape: Geometry, tiling: Tiling) -> Plan:
    lanes, elements = machine.lanes(FLOAT32), tiling.elements
    kernel = WeightGradBlocks(lanes, tiling)
    walk = Units(shape, shape.counts, tiling, lanes, _MOST_FEW, _MOST_FEW)
    data_step, sums_step = odd_stride(lanes * walk.tiles, lanes), odd_stride(WIDTH * lanes * walk.tiles, lanes)
    pairs, blocks = shape.groups * -(-shape.filters // (WIDTH * lanes)), -(-shape.channels // kernel.channels)
    part_blocks = -(-blocks // min(blocks, -(-_BLOCK_ITEMS // pairs)))
    parts = -(-blocks // part_blocks)
    scratch = Scratch(slots)
    data = scratch.reserve(shape.groups * blocks * elements * data_step * _FLOAT)
    grad = scratch.reserve(pairs * elements * sums_step * _FLOAT)
    sums = scratch.reserve(pairs * shape.channels * shape.taps * WIDTH * lanes * _FLOAT if walk.units > 1 else 0)
    lines_at = elements * kernel.rows * WIDTH * lanes
    # lines are read in squares
    room = lines_at + (kernel.channels * shape.taps + lanes) * WIDTH * lanes
    slot = scratch.slots(max(walk.picture, room) * _FLOAT)
    values = {**walk.values(data_step, 0, sums_step, 0), **slot, "blocks": blocks, "parts": parts}
    values.update(part_blocks=part_blocks, lines_at=lines_at, sums=sums)
    launches = [scratch.clear()]
    for number, (first, count, band, tiles) in enumerate(walk.iterate()):
        before = first * shape.groups * _FLOAT
        for gradient, vectors, size, place in (
            (False, blocks, shape.channels * shape.pixels, data),
            (True, -(-shape.filters // lanes), shape.filters * shape.windows, grad),
        ):
            operand = Reference("out_grad" if gradient else "data", before * size)
            words = TILES.fill({**values, "first_band": band, "data": operand, "tiles": place})
            launches.append(Launch(WeightGradTiles(lanes, tiling, gradient), words, count * shape.groups * vectors))
        values.update(tiles=tiles, first=int(number == 0), last=int(number == walk.units - 1), data=data, grad=grad)
        work = dataclasses.replace(shape, batch=count).work
        launches.append(Launch(kernel, BLOCKS.fill(values), pairs * parts, work=work))
    return Plan(tuple(launches), scratch.size)


def _vectors(shape: Geometry, lanes: int) -> tuple[int, int]:
    """Return the number of vectors of filters in all groups, and the number of them that is worth a call."""
    return shape.groups * -(-shape.filters // lanes), max(1, 64 // shape.channels)


def odd_stride(size: int, lanes: int) -> int:
    """Return an odd number of vectors of at least a size: this distance spreads a tile's elements over the cache."""
    return (-(-size // lanes) | 1) * lanes


def band_tiles(channels: int, tiling: Tiling, lanes: int) -> int:
    """Return the number of tiles in a band of a large image."""
    room = _TILE_BYTES // (tiling.elements * round_up(channels, lanes) * _FLOAT)
    return min(max(room, _LEAST_TILES), _MOST_TILES)


class Units:
    """Division of tiles into units that are transformed together: some images, or a band of one.

    ``joined`` is the number of tiles of small images to join, and ``most`` the number of tiles in a band of a large
    image.
    """

    def __init__(self, shape: Geometry, tiled: Shape, tiling: Tiling, lanes: int, joined: int, most: int) -> None:
        self._shape = shape
        self._tiles_y, self._tiles_x = -(-tiled[1] // tiling.y.outputs), -(-tiled[2] // tiling.x.outputs)
        in_image = self._tiles_y * self._tiles_x
        self._images, self._band, self._band_x = 1, self._tiles_y, self._tiles_x
        if in_image > most:
            # of tiles along both axes, parts of a row would overlap in many elements
            self._band_x = evenly(self._tiles_x, most) if len(tiling.axes) == 1 else self._tiles_x
            self._band = evenly(self._tiles_y, max(1, most // self._band_x))
        else:
            self._images = evenly(shape.batch, max(1, joined // in_image))
        self._bands_x = -(-self._tiles_x // self._band_x)
        self._bands = -(-self._tiles_y // self._band) * self._bands_x
        self.units = -(-shape.batch // self._images) * self._bands
        self.tiles = self._images * self._band * self._band_x
        #: tiles of a unit with enough images: kernels depend on this, and not on the number of images
        self.usual_tiles = max(1, joined // in_image) * in_image if in_image <= most else self.tiles
        width = self._band_x * tiling.x.outputs + tiling.x.kernel - 1
        height = self._band * tiling.y.outputs + tiling.y.kernel - 1
        #: elements of a picture, and of a square of lanes that may be stored beyond its end
        self.picture = width * height * lanes + lanes * lanes

    def iterate(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the units: first image, number of images, band, and number of tiles."""
        for first in range(0, self._shape.batch, self._images):
            count = min(self._images, self._shape.batch - first)
            for band in range(self._bands):
                at_y, at_x = divmod(band, self._bands_x)
                rows = min(self._band, self._tiles_y - at_y * self._band)
                yield first, count, band, count * rows * min(self._band_x, self._tiles_x - at_x * self._band_x)

    def values(self, data_step: int, sums_at: int, sums_step: int, picture_at: int) -> Values:
        """Return the table words that the kernels share."""
        shape = self._shape
        found: Values = {
            "groups": shape.groups,
            "channels": shape.channels,
            "filters": shape.filters,
            "batch": shape.batch,
        }
        found.update(rows=shape.extent[1], columns=shape.extent[2], pad_y=shape.pad[1], pad_x=shape.pad[2])
        found.update(out_rows=shape.counts[1], out_columns=shape.counts[2])
        found.update(tiles_y=self._tiles_y, tiles_x=self._tiles_x, band=self._band, bands=self._bands)
        found.update(band_x=self._band_x, bands_x=self._bands_x)
        found.update(images=self._images, data_step=data_step, sums_at=sums_at, sums_step=sums_step)
        return {**found, "picture_at": picture_at}
