"""Cases of operators on images. Random factors have equal limits, so that nothing is random."""

from __future__ import annotations

from ..case import Family, integers, normal, uniform

family = Family("image", tolerance="sum")

PIXELS = integers(8, 6, 3, low=0, high=256, dtype="uint8")
COLORS = uniform(8, 6, 3, low=0, high=255)
BATCH = integers(2, 8, 6, 3, low=0, high=256, dtype="uint8")

for image in (PIXELS, COLORS, BATCH, integers(4, 5, 1, low=0, high=256, dtype="uint8"), normal(2, 3)):
    family.call("nd.image.to_tensor", image, grad=False)
for options in (
    {"mean": (0.1, 0.2, 0.3), "std": (1.0, 2.0, 3.0)},
    {"mean": (0.5,), "std": (2.0,)},
    {"mean": (0.1, 0.2), "std": (1.0,)},
):
    family.call("nd.image.normalize", uniform(3, 4, 5), **options)
    family.call("nd.image.normalize", uniform(2, 3, 4, 5), **options)
family.call("nd.image.normalize", uniform(1, 4, 5, dtype="float64"), mean=(0.5,), std=(2.0,))

for x, y, width, height in ((1, 0, 2, 3), (0, 0, 6, 8), (5, 7, 1, 1), (1, 0, 6, 3), (1, 0, 0, 3), (0, 6, 3, 3)):
    family.call("nd.image.crop", COLORS, x=x, y=y, width=width, height=height)
    family.call("nd.image.crop", BATCH, x=x, y=y, width=width, height=height, grad=False)

for name in ("flip_left_right", "flip_top_bottom"):
    for image in (PIXELS, COLORS):
        family.call(f"nd.image.{name}", image, grad=False)

for size in ((3, 4), (12, 13), (3, 16), 5, (6, 8), (0, 3), (2, 2, 2)):
    for interp in range(5):
        family.call("nd.image.resize", COLORS, size=size, interp=interp, grad=False)
        family.call("nd.image.resize", PIXELS, size=size, interp=interp, grad=False)
    family.call("nd.image.resize", BATCH, size=size, grad=False)
family.call("nd.image.resize", COLORS, size=4, keep_ratio=True, grad=False)
family.call("nd.image.resize", PIXELS, size=(4, 4), keep_ratio=True, grad=False)

for factor in (0.5, 1.25):
    for image in (PIXELS, COLORS):
        for name in ("brightness", "contrast"):
            family.call(f"nd.image.random_{name}", image, min_factor=factor, max_factor=factor, grad=False)
    family.call("nd.image.random_hue", COLORS, min_factor=factor, max_factor=factor, grad=False)
family.call("nd.image.random_brightness", COLORS, min_factor=-1.0, max_factor=1.0, grad=False)
for image in (PIXELS, COLORS):
    family.call("nd.image.adjust_lighting", image, alpha=(0.1, 0.2, -0.3), grad=False)
