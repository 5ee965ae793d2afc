"""Why calls and inference of symbols differ from MXNet 1.9.1.

Places of calls are ``path kind change``: ``Convolution nd parameter:pad=(1, 1)``. A reason has regular expressions that
match whole places, and the ways in which the outcomes may differ (see :func:`.compare.direction`).
"""

from __future__ import annotations

from typing import NamedTuple


class Reason(NamedTuple):
    """Why some calls differ."""

    text: str
    ways: str
    places: tuple[str, ...]


REASONS: list[Reason] = []

_COUNTS_UNKNOWN = "MXNet computes with 0 where an extent is unknown"

#: operators with less inferred than in MXNet in some trials, and why
INFERENCE = {
    "Concat": _COUNTS_UNKNOWN,
    "concat": _COUNTS_UNKNOWN,
    "Pad": _COUNTS_UNKNOWN,
    "pad": _COUNTS_UNKNOWN,
    "RNN": _COUNTS_UNKNOWN,
    "stack": "MXNet infers a shape for inputs that cannot be stacked",
    "UpSampling": "MXNet does not look at the extents of later inputs",
    "Crop": "MXNet assumes float32, and does not look at the extents of later inputs",
    "contrib.MultiBoxPrior": "MXNet assumes float32",
    "contrib.box_decode": "MXNet does not look at the number of anchors",
    "contrib.index_copy": "the shapes of the other inputs are needed",
    "ctc_loss": "the lengths of labels are needed",
    "multi_sum_sq": "MXNet gives all arrays the dtype of the result",
}
