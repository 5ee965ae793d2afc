"""Parameters outside of their range are refused with MXNet's error, where a result would have no meaning."""

import re

import pytest

import phonograd as mx
from phonograd import nd

MAPS = nd.ones((1, 4, 4, 4))
REGIONS = nd.array([[0, 0, 0, 2, 2]])
BOXES = nd.ones((1, 3, 6))
WEIGHT = nd.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nd.ROIPooling(MAPS, REGIONS, (2, 2), 1.5), "value 1.5 for Parameter spatial_scale exceed bound [0,1]"),
        (lambda: nd.contrib.ROIAlign(MAPS, REGIONS, (2, 2), -1), "Parameter spatial_scale exceed bound"),
        (
            lambda: nd.contrib.PSROIPooling(MAPS, REGIONS, spatial_scale=2, output_dim=1, pooled_size=2),
            "Parameter spatial_scale exceed bound",
        ),
        (lambda: nd.SoftmaxOutput(WEIGHT, WEIGHT[:, 0], smooth_alpha=2), "Parameter smooth_alpha exceed bound [0,1]"),
        (lambda: nd.Dropout(WEIGHT, p=2), "value 2 for Parameter p exceed bound [0,1]"),
        (lambda: nd.contrib.MultiBoxPrior(MAPS, offsets=(2, 2)), "Parameter offsets exceed bound"),
        (lambda: nd.contrib.box_nms(BOXES, coord_start=1), "score_index: 1 conflict with coordinates: (1, 4)"),
        (lambda: nd.contrib.box_nms(BOXES, id_index=2), "id_index: 2 conflict with coordinates"),
        (lambda: nd.contrib.box_nms(BOXES, id_index=1), "id_index: 1 conflict with score_index"),
        (lambda: nd.ftml_update(*[WEIGHT] * 5, lr=0.1, t=1, beta1=2), "Parameter beta1 exceed bound [0,1]"),
    ],
)
def test_parameters_outside_of_their_range_are_refused(call, text):
    with pytest.raises(mx.MXNetError, match=re.escape(text)):
        call()
