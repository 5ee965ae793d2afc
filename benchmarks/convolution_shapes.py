"""200 convolutions of real networks, for :mod:`benchmarks.convolution`; every library reads this table.

Batches are as large as a pass of some 10 to 1000 million multiplications allows, so that a sweep takes minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple


class Case(NamedTuple):
    """One convolution; ``data`` and ``weight`` are shapes, and filters come first in a transposed one's data."""

    network: str
    kind: str
    data: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilate: tuple[int, ...]
    groups: int
    transposed: bool

    @property
    def name(self) -> str:
        """The convolution in one line; no two cases share it."""
        filters = self.weight[1] * self.groups if self.transposed else self.weight[0]
        parts = ["x".join(map(str, self.weight[2:]))]
        parts += [f"stride {'x'.join(map(str, self.stride))}"] if max(self.stride) > 1 else []
        parts += [f"dilation {max(self.dilate)}"] if max(self.dilate) > 1 else []
        parts += [f"{self.groups} groups"] if self.groups > 1 else []
        parts += ["transposed"] if self.transposed else []
        sizes = " x ".join([str(size) for size in (self.data[0], *self.data[2:])])
        return f"{self.network}: {' '.join(parts)}, {self.data[1]} -> {filters}, {sizes}"

    @property
    def out(self) -> tuple[int, ...]:
        """The shape of the result."""
        spans = [gap * (width - 1) + 1 for gap, width in zip(self.dilate, self.weight[2:])]
        axes = list(zip(self.data[2:], spans, self.stride, self.pad))
        if self.transposed:
            sizes = [(size - 1) * step + span - 2 * border for size, span, step, border in axes]
            return (self.data[0], self.weight[1] * self.groups, *sizes)
        sizes = [(size + 2 * border - span) // step + 1 for size, span, step, border in axes]
        return (self.data[0], self.weight[0], *sizes)

    @property
    def operations(self) -> float:
        """Multiplications and additions of one pass."""
        windows = self.data if self.transposed else self.out
        return 2.0 * windows[0] * math.prod(windows[2:]) * math.prod(self.weight)


#: networks and kinds, each with a table of channels, filters, image, kernel, stride, padding, dilation, groups, batch
_TABLE = """
LeNet: first layer
    1 20 28x28 5 1 0 1 1 64
ResNet: first layer
    3 64 224x224 7 2 3 1 1 2
    3 64 112x112 7 2 3 1 1 8
    3 64 32x32 3 1 1 1 1 32
VGG: first layer
    3 64 224x224 3 1 1 1 1 2
AlexNet: first layer
    3 64 224x224 11 4 2 1 1 4
MobileNet: first layer
    3 32 224x224 3 2 1 1 1 4
    3 32 96x96 3 2 1 1 1 16
Inception: first layer
    3 32 149x149 3 2 0 1 1 4
YOLO: first layer
    3 16 208x208 3 1 1 1 1 4
    3 32 208x208 6 2 2 1 1 4
U-Net: first layer
    1 64 128x128 3 1 1 1 1 8
    3 32 128x128 3 1 1 1 1 8
ViT: first layer
    3 192 224x224 16 16 0 1 1 4
    3 96 224x224 4 4 0 1 1 4
ResNet-18: 3x3
    64 64 56x56 3 1 1 1 1 4
    64 64 56x56 3 1 1 1 1 1
    128 128 28x28 3 1 1 1 1 8
    256 256 14x14 3 1 1 1 1 8
    512 512 7x7 3 1 1 1 1 8
ResNet-20: 3x3
    16 16 32x32 3 1 1 1 1 128
    32 32 16x16 3 1 1 1 1 128
    64 64 8x8 3 1 1 1 1 128
WideResNet: 3x3
    320 320 16x16 3 1 1 1 1 4
VGG: 3x3
    64 64 112x112 3 1 1 1 1 1
    128 256 56x56 3 1 1 1 1 1
    512 512 14x14 3 1 1 1 1 2
convbn: 3x3
    64 64 28x28 3 1 1 1 1 16
DenseNet: 3x3
    128 32 56x56 3 1 1 1 1 4
    128 32 14x14 3 1 1 1 1 16
    128 32 7x7 3 1 1 1 1 32
    48 12 32x32 3 1 1 1 1 16
U-Net: 3x3
    64 64 126x126 3 1 0 1 1 1
    128 64 64x64 3 1 1 1 1 2
    256 128 32x32 3 1 1 1 1 2
SSD: 3x3
    512 84 38x38 3 1 1 1 1 1
    1024 126 19x19 3 1 1 1 1 1
    512 126 10x10 3 1 1 1 1 4
    256 126 5x5 3 1 1 1 1 8
    128 256 3x3 3 1 0 1 1 16
YOLO: 3x3
    32 32 104x104 3 1 1 1 1 2
RetinaNet: 3x3
    256 256 32x32 3 1 1 1 1 1
EDSR: 3x3
    64 256 48x48 3 1 1 1 1 1
    64 3 96x96 3 1 1 1 1 4
ResNet-18: strided
    64 128 56x56 3 2 1 1 1 8
    128 256 28x28 3 2 1 1 1 8
    256 512 14x14 3 2 1 1 1 8
    128 256 28x28 1 2 0 1 1 16
ResNet-20: strided
    16 32 32x32 3 2 1 1 1 64
    32 64 16x16 3 2 1 1 1 64
    32 64 32x32 3 2 1 1 1 16
ResNet-50: strided
    128 128 56x56 3 2 1 1 1 4
    256 256 28x28 3 2 1 1 1 4
    512 1024 28x28 1 2 0 1 1 2
SSD: strided
    256 512 19x19 3 2 1 1 1 2
    128 256 10x10 3 2 1 1 1 8
YOLO: strided
Inception: strided
    288 384 35x35 3 2 0 1 1 1
DCGAN: strided
    3 64 32x32 4 2 1 1 1 16
    64 128 16x16 4 2 1 1 1 16
    128 256 16x16 4 2 1 1 1 8
    128 256 8x8 4 2 1 1 1 16
    256 1 4x4 4 1 0 1 1 16
ResNet-50: 1x1
    64 64 56x56 1 1 0 1 1 4
    64 256 56x56 1 1 0 1 1 4
    256 64 56x56 1 1 0 1 1 4
    512 128 28x28 1 1 0 1 1 4
    1024 256 14x14 1 1 0 1 1 4
    256 1024 14x14 1 1 0 1 1 4
    2048 512 7x7 1 1 0 1 1 4
    512 2048 7x7 1 1 0 1 1 8
MobileNet-v1: 1x1
    32 64 112x112 1 1 0 1 1 4
    512 512 14x14 1 1 0 1 1 4
    1024 1024 7x7 1 1 0 1 1 4
MobileNet-v2: 1x1
    32 16 112x112 1 1 0 1 1 4
    16 96 112x112 1 1 0 1 1 4
    24 144 56x56 1 1 0 1 1 8
    144 24 56x56 1 1 0 1 1 8
    96 576 14x14 1 1 0 1 1 16
    160 960 7x7 1 1 0 1 1 16
    960 320 7x7 1 1 0 1 1 8
ShuffleNet-v2: 1x1
    58 58 28x28 1 1 0 1 1 16
    232 232 7x7 1 1 0 1 1 32
Inception: 1x1
    768 192 17x17 1 1 0 1 1 4
DenseNet: 1x1
    256 128 56x56 1 1 0 1 1 2
YOLO: 1x1
    1024 255 13x13 1 1 0 1 1 2
DeepLab: 1x1
    1280 256 33x33 1 1 0 1 1 1
    256 21 65x65 1 1 0 1 1 2
U-Net: 1x1
    64 2 128x128 1 1 0 1 1 8
SqueezeNet: 1x1
    96 16 54x54 1 1 0 1 1 8
    16 64 54x54 1 1 0 1 1 8
MobileNet-v1: depthwise
    32 32 112x112 3 1 1 1 32 8
    64 64 112x112 3 2 1 1 64 8
    128 128 56x56 3 1 1 1 128 8
    128 128 28x28 3 1 1 1 128 16
    256 256 28x28 3 1 1 1 256 8
    512 512 14x14 3 1 1 1 512 8
    1024 1024 7x7 3 1 1 1 1024 8
MobileNet-v2: depthwise
    96 96 112x112 3 2 1 1 96 4
    96 96 56x56 3 2 1 1 96 16
    144 144 56x56 3 1 1 1 144 8
    192 192 28x28 3 2 1 1 192 8
    384 384 14x14 3 1 1 1 384 16
    960 960 7x7 3 1 1 1 960 8
ShuffleNet-v2: depthwise
    58 58 28x28 3 1 1 1 58 16
    116 116 28x28 3 2 1 1 116 16
    232 232 7x7 3 1 1 1 232 32
EfficientNet: depthwise
    240 240 28x28 5 1 2 1 240 4
    672 672 14x14 5 2 2 1 672 4
    1152 1152 7x7 5 1 2 1 1152 8
ConvNeXt: depthwise
    96 96 56x56 7 1 3 1 96 2
    384 384 14x14 7 1 3 1 384 4
Xception: depthwise
    728 728 19x19 3 1 1 1 728 4
ResNeXt-50: grouped
    128 128 56x56 3 1 1 1 32 4
    256 256 56x56 3 2 1 1 32 2
    256 256 28x28 3 1 1 1 32 4
    512 512 28x28 3 2 1 1 32 2
    512 512 14x14 3 1 1 1 32 4
    1024 1024 7x7 3 1 1 1 32 4
ShuffleNet-v1: grouped
    240 60 28x28 1 1 0 1 3 8
    960 240 7x7 1 1 0 1 3 16
AlexNet: grouped
    96 256 27x27 5 1 2 1 2 2
    384 384 13x13 3 1 1 1 2 4
RegNet: grouped
    64 64 56x56 3 1 1 1 4 4
    160 160 28x28 3 1 1 1 10 4
AlexNet: large kernel
    64 192 27x27 5 1 2 1 1 2
LeNet: large kernel
    20 50 12x12 5 1 0 1 1 64
    6 16 14x14 5 1 0 1 1 64
Inception: large kernel
    48 64 35x35 5 1 2 1 1 8
    128 128 17x17 1x7 1 0x3 1 1 4
    128 192 17x17 7x1 1 3x0 1 1 4
    384 384 8x8 1x3 1 0x1 1 1 8
GoogLeNet: large kernel
    16 32 28x28 5 1 2 1 1 8
    32 64 16x16 5 1 2 1 1 16
SRCNN: large kernel
    1 64 64x64 9 1 4 1 1 8
    32 1 64x64 5 1 2 1 1 8
DCGAN: transposed
    100 256 1x1 4 1 0 1 1 16
    100 512 1x1 4 1 0 1 1 16
    512 256 4x4 4 2 1 1 1 8
    256 128 4x4 4 2 1 1 1 16
    256 128 8x8 4 2 1 1 1 8
    128 64 8x8 4 2 1 1 1 16
    128 64 16x16 4 2 1 1 1 8
    64 3 16x16 4 2 1 1 1 16
    64 3 32x32 4 2 1 1 1 16
U-Net: transposed
    128 64 64x64 2 2 0 1 1 2
    256 128 32x32 2 2 0 1 1 4
    512 256 16x16 2 2 0 1 1 4
    1024 512 8x8 2 2 0 1 1 4
FCN: transposed
    21 21 16x16 4 2 1 1 1 8
    21 21 16x16 16 8 4 1 1 4
pose: transposed
    256 256 16x16 4 2 1 1 1 2
CycleGAN: transposed
    128 64 64x64 3 2 1 1 1 1
WaveGAN: transposed
    128 64 1024 25 4 11 1 1 1
DeepLab: dilated
    256 256 33x33 3 1 2 2 1 1
    256 256 33x33 3 1 12 12 1 1
    320 256 33x33 3 1 18 18 1 1
DRN: dilated
    64 64 56x56 3 1 2 2 1 4
    128 128 28x28 3 1 4 4 1 4
context network: dilated
    32 32 64x64 3 1 2 2 1 4
    21 21 64x64 3 1 8 8 1 4
DeepLab: depthwise
    256 256 33x33 3 1 12 12 256 4
    960 960 17x17 3 1 2 2 960 4
WaveNet: 1-d
    32 64 4000 2 1 0 1 1 4
    32 64 4000 2 1 0 64 1 4
    128 256 4000 1 1 0 1 1 2
    1 32 16000 2 1 0 1 1 4
TCN: 1-d
    25 25 784 7 1 6 1 1 32
    25 25 784 7 1 48 8 1 32
    150 150 256 3 1 2 1 1 16
    600 600 80 3 1 4 2 1 8
Conv-TasNet: 1-d
    512 512 1000 3 1 4 4 512 4
    1 256 16000 20 10 0 1 1 4
    128 512 1000 1 1 0 1 1 4
wav2vec: 1-d
    1 512 16000 10 5 0 1 1 1
    512 512 800 3 2 0 1 1 1
    512 512 400 2 2 0 1 1 2
TextCNN: 1-d
    300 100 64 3 1 0 1 1 32
    300 100 64 5 1 0 1 1 32
M5: 1-d
    1 32 16000 80 4 38 1 1 4
    128 128 250 3 1 1 1 1 16
C3D: 3-d
    3 64 16x56x56 3 1 1 1 1 1
    64 128 8x28x28 3 1 1 1 1 1
    128 256 8x14x14 3 1 1 1 1 1
    256 256 4x14x14 3 1 1 1 1 1
    512 512 2x7x7 3 1 1 1 1 2
I3D: 3-d
    3 64 16x112x112 7 2 3 1 1 1
    64 64 8x28x28 1 1 0 1 1 2
    64 192 8x28x28 3 1 1 1 1 1
    96 208 4x14x14 3 1 1 1 1 2
R(2+1)D: 3-d
    64 144 8x28x28 1x3x3 1 0x1x1 1 1 1
    144 64 8x28x28 3x1x1 1 1x0x0 1 1 2
    64 230 8x28x28 1x3x3 1x2x2 0x1x1 1 1 2
    3 45 16x56x56 1x7x7 1x2x2 0x3x3 1 1 1
3D U-Net: 3-d
    32 32 32x32x32 3 1 1 1 1 1
    1 32 32x32x32 3 1 1 1 1 2
    64 64 16x16x16 3 1 1 1 1 1
X3D: 3-d
    54 54 8x28x28 3 1 1 1 54 2
    108 108 8x14x14 3 1 1 1 108 4
SlowFast: 3-d
    8 8 16x56x56 1x3x3 1 0x1x1 1 1 2
    64 64 4x28x28 3x1x1 1 1x0x0 1 1 4
"""


def _cases() -> Iterator[Case]:
    """Yield the cases of the table."""
    network = kind = ""
    for line in _TABLE.strip().splitlines():
        if not line.startswith(" "):
            network, kind = line.split(": ")
            continue
        channels, filters, *others = line.split()
        image, kernel, stride, pad, dilate = [tuple(map(int, word.split("x"))) for word in others[:5]]
        groups, batch = int(others[5]), int(others[6])
        stride, pad, dilate, kernel = [(word * len(image))[: len(image)] for word in (stride, pad, dilate, kernel)]
        sides = int(channels), int(filters)
        is_transposed = kind == "transposed"
        weight = (sides[0], sides[1] // groups) if is_transposed else (sides[1], sides[0] // groups)
        data = batch, sides[0], *image
        yield Case(network, kind, data, (*weight, *kernel), stride, pad, dilate, groups, is_transposed)


CASES: tuple[Case, ...] = tuple(_cases())
KINDS = tuple(dict.fromkeys([case.kind for case in CASES]))
