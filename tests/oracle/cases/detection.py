"""Cases of operators on boxes and regions."""

from __future__ import annotations

from ..case import Family, Spec, distinct, integers, normal, uniform, values

family = Family("detection", tolerance="sum")

CORNERS = [[0.1, 0.1, 0.5, 0.6], [0.2, 0.2, 0.6, 0.7], [0.7, 0.7, 0.9, 0.9], [0.0, 0.0, 0.1, 0.1]]
CENTERS = [[0.3, 0.35, 0.4, 0.5], [0.4, 0.45, 0.4, 0.5], [0.8, 0.8, 0.2, 0.2]]
# Class, score and corners.
SCORED = [
    [0.0, 0.5, 0.1, 0.1, 0.2, 0.2],
    [1.0, 0.4, 0.1, 0.1, 0.2, 0.2],
    [0.0, 0.3, 0.1, 0.1, 0.14, 0.14],
    [2.0, 0.6, 0.5, 0.5, 0.7, 0.8],
    [0.0, 0.9, 0.11, 0.1, 0.21, 0.2],
    [1.0, 0.05, 0.0, 0.0, 1.0, 1.0],
]
ROIS = [[0, 0.3, 0.2, 3.1, 3.7], [1, 1.2, 1.1, 4.4, 5.3], [0, 2.1, 2.2, 2.9, 2.7]]


def boxes(content: list[list[float]], dtype: str = "float32") -> Spec:
    """Return a batch of one image."""
    return values([content], dtype)


for layout, content in (("corner", CORNERS), ("center", CENTERS)):
    family.call("nd.contrib.box_iou", values(content), values(content[:2]), format=layout)
    family.call("nd.contrib.box_iou", values([content, content]), values(content), format=layout, grad=False)
family.call("nd.contrib.box_iou", values(CORNERS), values(CORNERS))

for options in (
    {},
    {"overlap_thresh": 0.1},
    {"overlap_thresh": 0.9},
    {"overlap_thresh": 0.5, "valid_thresh": 0.1},
    {"overlap_thresh": 0.5, "topk": 3},
    {"overlap_thresh": 0.5, "id_index": 0},
    {"overlap_thresh": 0.5, "id_index": 0, "force_suppress": True},
    {"overlap_thresh": 0.5, "id_index": 0, "background_id": 0},
    {"overlap_thresh": 0.5, "out_format": "center"},
):
    family.call("nd.contrib.box_nms", boxes(SCORED), coord_start=2, score_index=1, **options)
family.call("nd.contrib.box_nms", values(SCORED), coord_start=2, score_index=1)
family.call("nd.contrib.box_non_maximum_suppression", boxes(SCORED), coord_start=2, score_index=1)
family.call("nd.contrib.box_nms", boxes(SCORED, "float64"), coord_start=2, score_index=1, overlap_thresh=0.5)

for ascending in (False, True):
    for threshold in (0.2, 0.6):
        scores = values([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]])
        family.call("nd.contrib.bipartite_matching", scores, threshold=threshold, is_ascend=ascending, grad=False)
family.call("nd.contrib.bipartite_matching", uniform(2, 3, 4), threshold=0.1, topk=2, grad=False)

for layout in ("center", "corner"):
    family.call("nd.contrib.box_decode", normal(2, 4, 4, scale=0.3), boxes(CORNERS), format=layout, grad=False)
family.call(
    "nd.contrib.box_decode", normal(1, 4, 4), boxes(CORNERS), std0=0.1, std1=0.1, std2=0.2, std3=0.2, grad=False
)
family.call("nd.contrib.box_decode", normal(1, 4, 4, scale=3), boxes(CORNERS), clip=0.5, grad=False)
family.expression(
    "nd.contrib.box_encode(x, y, z, w, nd.array([0, 0, 0, 0]), nd.array([0.1, 0.1, 0.2, 0.2]))",
    values([[1.0, 0.0, 1.0, -1.0]]),
    integers(1, 4, high=2),
    boxes(CORNERS),
    boxes(CORNERS[:2]),
    grad=False,
)

for options in (
    {"pooled_size": (2, 2), "spatial_scale": 1.0, "sample_ratio": 2},
    {"pooled_size": (3, 2), "spatial_scale": 0.5, "sample_ratio": 1},
    {"pooled_size": (2, 2), "spatial_scale": 1.0},
    {"pooled_size": (2, 2), "spatial_scale": 1.0, "sample_ratio": 2, "aligned": True},
):
    family.call("nd.contrib.ROIAlign", distinct(2, 2, 6, 6, step=0.125), values(ROIS), grad=(0,), **options)
family.call(
    "nd.contrib.ROIAlign",
    normal(2, 8, 6, 6),
    values(ROIS),
    grad=(0,),
    pooled_size=(2, 2),
    spatial_scale=1.0,
    sample_ratio=2,
    position_sensitive=True,
)
