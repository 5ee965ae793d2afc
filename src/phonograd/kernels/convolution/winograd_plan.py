"""Plans of convolutions by Winograd's algorithm."""

from __future__ import annotations

import dataclasses

from ...dtypes import FLOAT32
from ...node import Shape
from ..launch import Launch, Plan, Reference
from ..machine import Machine
from ..slots import Scratch
from .geometry import Geometry, evenly, rounded
from .microkernels import WIDTH, most_rows
from .winograd import FORWARD, WEIGHTS, Forward, Weights
from .winograd_few import BLOCK, FEW, TILES, Few, Tiles
from .winograd_transforms import Tiling
from .winograd_weights import COMBINE, TRANSFORM, Combine, Transform

__all__ = ["data_grad", "forward", "saves", "suits", "weight_grad"]

#: how many times fewer multiplications make up for the transforms
_LEAST_SAVING = 2.0
#: how many times fewer tiles make up for transforms that overlap
_LEAST_FEWER = 1.4
#: bytes of transformed weights that a cache holds, and the tiles that take as long as weights it does not hold
_CACHED_BYTES, _WEIGHT_TILES = 1 << 22, 96
#: bytes of transformed weights above which they are made in the cache, when they are needed
_FEW_BYTES = 1 << 21
#: how many tiles take as long as transforming weights in the cache does, how many times fewer multiplications make up
#: for all transforms then, how many tiles are multiplied by them, and how many at once
_TRANSFORM_TILES, _FEW_SAVING, _MOST_FEW, _FEW_ROWS = 14, 1.5, 128, 8
_FLOAT = FLOAT32.itemsize
#: bytes of transformed tiles of data that are made before they are used
_TILE_BYTES = 1 << 20
#: tiles that are transformed together, at least and at most
_LEAST_TILES, _MOST_TILES = 24, 64
#: parts of the images that have sums of their own: tiles of a part, for the sums to be worth their memory, and the
#: number of parts and the bytes of sums at most
_PART_TILES, _MOST_PARTS, _SUM_BYTES = 196, 16, 1 << 25

Values = dict[str, int | Reference]


def suits(shape: Geometry, tiling: Tiling) -> bool:
    """Return whether a convolution can be computed in such tiles."""
    return (
        shape.kernel == (1, tiling.kernel, tiling.kernel)
        and shape.extent[0] == 1
        and shape.stride == (1, 1, 1)
        and shape.dilate == (1, 1, 1)
        and max(shape.pad) < tiling.kernel
    )


def saves(shape: Geometry, outputs: Shape, tiling: Tiling) -> bool:
    """Return whether tiles of so many outputs save enough multiplications to pay for the transforms.

    Transformed weights that no cache holds cost as much as some tiles more.
    """
    tiles = shape.batch * _tiles(outputs, tiling) * _LEAST_SAVING
    if _transformed(shape, tiling) > _CACHED_BYTES:
        tiles += _WEIGHT_TILES
    return tiles * tiling.size**2 <= shape.batch * shape.windows * shape.taps


def _transformed(shape: Geometry, tiling: Tiling) -> int:
    """Return how many bytes the transformed weights of a group take."""
    return shape.channels * shape.filters * tiling.size**2 * _FLOAT


def _tiles(outputs: Shape, tiling: Tiling) -> int:
    """Return how many tiles an image of so many outputs has."""
    return -(-outputs[1] // tiling.outputs) * -(-outputs[2] // tiling.outputs)


def forward(machine: Machine, slots: int, shape: Geometry, tiling: Tiling) -> Plan | None:
    """Return the plan of a convolution, or None where it does not pay."""
    taps = shape.taps
    strides = (shape.filters * shape.channels * taps, taps, shape.channels * taps)
    if _few_images(shape, tiling):
        return _few(machine, slots, shape, tiling, "data", strides)
    if not saves(shape, shape.counts, tiling):
        return None
    return _forward(machine, slots, shape, shape.counts, tiling, "data", strides)


def data_grad(machine: Machine, slots: int, shape: Geometry, tiling: Tiling) -> Plan | None:
    """Return the plan of the adjoint in the data, or None where it does not pay.

    It is a convolution of gradients with kernels read backwards, in tiles of data. Where padding is narrow and images
    are small there are far fewer tiles of gradients; then it is the adjoint of all that a convolution does.
    """
    by_outputs, by_data = _tiles(shape.counts, tiling), _tiles(shape.extent, tiling)
    # bands of tiles of one image would overlap
    if by_outputs * _LEAST_FEWER <= by_data and by_outputs <= _LEAST_TILES and saves(shape, shape.counts, tiling):
        return _adjoint(machine, slots, shape, tiling)
    _, pad_y, pad_x = shape.pad
    border = tiling.kernel - 1
    other = Geometry(
        *(shape.batch, shape.groups, shape.filters, shape.channels, shape.counts, shape.kernel),
        *(shape.stride, shape.dilate, (0, border - pad_y, border - pad_x), shape.extent),
    )
    taps = shape.taps
    strides = (shape.filters * shape.channels * taps, shape.channels * taps, taps)
    if _few_images(other, tiling):
        return _few(machine, slots, other, tiling, "out_grad", strides, flipped=True)
    if not saves(shape, shape.extent, tiling):
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
    walk = _Units(shape, tiled, tiling, lanes)
    rows = evenly(walk.usual_tiles, most_rows(machine))
    tiles = rounded(walk.tiles, rows)
    channels = rounded(shape.channels, lanes)
    elements = tiling.size**2
    scratch = Scratch(slots)
    pairs = -(-shape.filters // (WIDTH * lanes))
    packed = scratch.reserve(shape.groups * elements * pairs * shape.channels * WIDTH * lanes * _FLOAT)
    # a distance of a multiple of 4096 bytes would send all elements of a tile to the same few places of the cache
    data_step, sums_step = _apart(channels * tiles, lanes), _apart(WIDTH * lanes * tiles, lanes)
    values = walk.values(data_step, elements * data_step, sums_step, elements * (data_step + sums_step))
    values.update(scratch.slots((elements * (data_step + sums_step) + walk.picture) * _FLOAT))
    values.update(tiles=tiles, data=Reference(operand), weight=packed)
    group, depth, lane = strides
    packing: Values = {"depth": shape.channels, "filters": shape.filters, "packed": packed}
    packing.update(depth_stride=depth, filter_stride=lane, group_stride=group)
    launches = (
        scratch.clear(),
        Launch(Transform(lanes, tiling, flipped), TRANSFORM.fill(packing), *_vectors(shape, lanes)),
        Launch(Forward(lanes, tiling, rows, adjoint), FORWARD.fill(values), walk.units * shape.groups, work=shape.work),
    )
    return Plan(launches, scratch.size)


def _few_images(shape: Geometry, tiling: Tiling) -> int:
    """Return how many images weights should be transformed for, in the cache, or 0 where that does not pay."""
    in_image = _tiles(shape.counts, tiling)
    if in_image > _MOST_FEW or _transformed(shape, tiling) <= _FEW_BYTES:
        return 0
    images = evenly(shape.batch, _MOST_FEW // in_image)
    tiles = (images * in_image + _TRANSFORM_TILES) * _FEW_SAVING
    return images if tiles * tiling.size**2 <= images * shape.windows * shape.taps else 0


def _few(
    machine: Machine,
    slots: int,
    shape: Geometry,
    tiling: Tiling,
    operand: str,
    strides: tuple[int, int, int],
    flipped: bool = False,
) -> Plan:
    lanes = machine.lanes(FLOAT32)
    # kernels do not depend on the number of tiles, of which few should be computed in vain
    rows = min(most_rows(machine), _FEW_ROWS)
    images, elements = _few_images(shape, tiling), tiling.size**2
    tiles = rounded(images * _tiles(shape.counts, tiling), rows)
    walk = _Units(dataclasses.replace(shape, batch=1), shape.counts, tiling, lanes, whole=True)
    channels = rounded(shape.channels, lanes)
    data_step, sums_step = _apart(channels * tiles, lanes), _apart(WIDTH * lanes * tiles, lanes)
    scratch = Scratch(slots)
    products = scratch.reserve(shape.groups * elements * data_step * _FLOAT)
    weights = elements * BLOCK * lanes * WIDTH * lanes
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
            Launch(Tiles(lanes, tiling), TILES.fill(values), count * shape.groups),
            Launch(Few(lanes, tiling, rows, flipped), FEW.fill(values), shape.groups * pairs, work=part.work),
        ]
    return Plan(tuple(launches), scratch.size)


def weight_grad(machine: Machine, slots: int, shape: Geometry, tiling: Tiling) -> Plan:
    """Return the plan of the adjoint in the weights."""
    lanes = machine.lanes(FLOAT32)
    walk = _Units(shape, shape.counts, tiling, lanes)
    rows = evenly(shape.channels, most_rows(machine))
    channel_line, filter_line = rounded(shape.channels, lanes), rounded(shape.filters, lanes)
    elements = tiling.size**2
    sums = shape.groups * elements * shape.channels * filter_line * _FLOAT
    all_tiles = walk.units * walk.tiles
    most = max(1, min(-(-all_tiles // _PART_TILES), _MOST_PARTS, _SUM_BYTES // sums))
    part_units = -(-walk.units // most)
    parts = -(-walk.units // part_units)
    scratch = Scratch(slots)
    place = scratch.reserve(parts * sums)
    # the last rows of a product may read a few numbers of the next tile
    data_step = _apart(channel_line * walk.tiles + rows, lanes)
    sums_step = _apart(filter_line * walk.tiles, lanes)
    values = walk.values(data_step, elements * data_step, sums_step, elements * (data_step + sums_step))
    values.update(scratch.slots((elements * (data_step + sums_step) + walk.picture) * _FLOAT), sums=place)
    values.update(units=walk.units, part_units=part_units, channel_line=channel_line, filter_line=filter_line)
    combining = {**values, "parts": parts}
    launches = (
        scratch.clear(),
        Launch(Weights(lanes, tiling, rows), WEIGHTS.fill(values), parts * shape.groups, work=shape.work),
        Launch(Combine(lanes, tiling), COMBINE.fill(combining), *_vectors(shape, lanes)),
    )
    return Plan(launches, scratch.size)


def _vectors(shape: Geometry, lanes: int) -> tuple[int, int]:
    """Return how many vectors of filters there are in all groups, and how many of them are worth a call."""
    return shape.groups * -(-shape.filters // lanes), max(1, 64 // shape.channels)


def _apart(size: int, lanes: int) -> int:
    """Return a distance of at least a size, in whole vectors, that is not near a multiple of 4096 bytes."""
    step = rounded(size, lanes)
    return step + lanes if step * _FLOAT % 4096 < 4 * lanes * _FLOAT else step


class _Units:
    """How tiles are divided into units that are transformed together: some images, or a band of one."""

    def __init__(self, shape: Geometry, tiled: Shape, tiling: Tiling, lanes: int, whole: bool = False) -> None:
        self._shape = shape
        m = tiling.outputs
        self._tiles_y, self._tiles_x = -(-tiled[1] // m), -(-tiled[2] // m)
        in_image = self._tiles_y * self._tiles_x
        room = _TILE_BYTES // (tiling.size**2 * rounded(shape.channels, lanes) * _FLOAT)
        target = min(max(room, _LEAST_TILES), _MOST_TILES)
        self._images, self._band = 1, self._tiles_y
        if in_image > target and not whole:
            self._band = evenly(self._tiles_y, max(1, target // self._tiles_x))
        else:
            self._images = evenly(shape.batch, max(1, target // in_image))
        self._bands = -(-self._tiles_y // self._band)
        self.units = -(-shape.batch // self._images) * self._bands
        self.tiles = self._images * self._band * self._tiles_x
        #: tiles of a unit where there are images enough: kernels depend on this, and not on the number of images
        self.usual_tiles = max(1, target // in_image) * in_image if in_image <= target else self.tiles
        width, height = self._tiles_x * m + tiling.kernel - 1, self._band * m + tiling.kernel - 1
        #: elements of a picture, and of a square of lanes that may be written beyond its end
        self.picture = width * height * lanes + lanes * lanes

    def values(self, data_step: int, sums_at: int, sums_step: int, picture_at: int) -> Values:
        """Return the words that kernels have in common."""
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
        found.update(images=self._images, data_step=data_step, sums_at=sums_at, sums_step=sums_step)
        return {**found, "picture_at": picture_at}
