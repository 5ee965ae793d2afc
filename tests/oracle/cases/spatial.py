"""Cases of sampling and correlation operators."""

from __future__ import annotations

from ..case import Family, normal, uniform, values

family = Family("spatial", tolerance="sum")

IDENTITY = [[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]
TURNED = [[0.83, -0.31, 0.13, 0.41, 0.89, -0.17]]

for dtype in ("float32", "float64"):
    data, grid = normal(2, 2, 4, 5, dtype=dtype), uniform(2, 2, 3, 3, dtype=dtype, low=-0.95, high=0.95)
    family.call("nd.BilinearSampler", data, grid)
    outside = uniform(1, 2, 3, 3, dtype=dtype, low=-1.6, high=1.6)
    family.call("nd.BilinearSampler", normal(1, 2, 4, 5, dtype=dtype), outside, tag="outside")
    family.call(
        "nd.SpatialTransformer",
        normal(1, 2, 4, 5, dtype=dtype),
        values(TURNED, dtype),
        target_shape=(3, 4),
        transform_type="affine",
        sampler_type="bilinear",
    )
family.call(
    "nd.BilinearSampler", normal(1, 1, 3, 3), values([[[[-1.0, 0, 1]], [[-1.0, 0, 1]]]]), grad=(0,), tag="corners"
)
family.call("nd.GridGenerator", values(IDENTITY), transform_type="affine", target_shape=(2, 3))
family.call("nd.GridGenerator", values(TURNED), transform_type="affine", target_shape=(3, 4))
family.call("nd.GridGenerator", normal(1, 2, 3, 4), transform_type="warp")
family.call(
    "nd.SpatialTransformer",
    normal(1, 2, 3, 4),
    values(IDENTITY),
    target_shape=(3, 4),
    transform_type="affine",
    sampler_type="bilinear",
    grad=(0,),
    tag="identity",
)
for multiply in (True, False):
    for options in (
        {"kernel_size": 1, "max_displacement": 1},
        {"kernel_size": 3, "max_displacement": 1, "pad_size": 1},
        {"kernel_size": 1, "max_displacement": 2, "stride1": 1, "stride2": 2, "pad_size": 2},
    ):
        family.call("nd.Correlation", normal(1, 2, 5, 5), normal(1, 2, 5, 5), is_multiply=multiply, **options)
