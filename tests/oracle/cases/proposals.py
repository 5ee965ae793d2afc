"""Cases of proposals of regions."""

from __future__ import annotations

from typing import Any

from ..case import Family, normal, uniform, values

family = Family("proposals", tolerance="product")

SMALL: dict[str, Any] = {"scales": (2.0, 4.0), "ratios": (0.5, 1.0, 2.0), "rpn_min_size": 4, "threshold": 0.5}


def maps(batch: int, anchors: int) -> tuple[Any, Any]:
    """Return probabilities and shifts for as many anchors."""
    return uniform(batch, 2 * anchors, 3, 4), normal(batch, 4 * anchors, 3, 4, scale=0.2)


INFO = values([[48.0, 64.0, 1.0]])
for function in ("Proposal", "MultiProposal"):
    for options in (
        {"rpn_pre_nms_top_n": 40, "rpn_post_nms_top_n": 8},
        {"rpn_pre_nms_top_n": 12, "rpn_post_nms_top_n": 20},
        {"rpn_pre_nms_top_n": 30, "rpn_post_nms_top_n": 5, "output_score": True},
        {"rpn_pre_nms_top_n": 30, "rpn_post_nms_top_n": 5, "iou_loss": True},
        {"rpn_pre_nms_top_n": 30, "rpn_post_nms_top_n": 5, "feature_stride": 12},
    ):
        family.call(f"nd.contrib.{function}", *maps(1, 6), INFO, grad=False, **{**SMALL, **options})
    family.call(f"nd.contrib.{function}", *maps(1, 12), INFO, grad=False, rpn_pre_nms_top_n=30, rpn_post_nms_top_n=4)
    family.call(f"nd.contrib.{function}", *maps(1, 5), INFO, grad=False, **SMALL)
TWO = values([[48.0, 64.0, 1.0], [40.0, 50.0, 1.5]])
CHOICE = {"rpn_pre_nms_top_n": 25, "rpn_post_nms_top_n": 6, "output_score": True}
family.call("nd.contrib.MultiProposal", *maps(2, 6), TWO, grad=False, **SMALL, **CHOICE)
family.call("nd.contrib.Proposal", *maps(2, 6), TWO, grad=False, **SMALL, **CHOICE)
