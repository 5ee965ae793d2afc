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


def _parameters(operators: str, names: str = r"\w+") -> str:
    return rf"({operators}) \w+ parameter:({names})=.*"


_EQUAL = r"-?[\d.]+\.0|np\.float\d+\(-?\d+(\.0)?\)|True|False|np\.bool_\(True\)|\((-?\d+\.\d+,? ?)+\)"

REASONS = [
    Reason("values that are equal in Python mean the same call", "accepts", (rf".* parameter:\w+=({_EQUAL})",)),
    Reason("one-dimensional arrays are tuples", "accepts", (r".* parameter:\w+=np\.array\(\[.*\]\)",)),
    Reason("white space around numbers means nothing", "accepts", (r".* parameter:\w+=' 2 '",)),
    Reason("None means the default of a shape", "accepts", (r".* parameter:\w+='?None'?",)),
    Reason(
        "more dtypes are computed",
        "accepts",
        (r".* inputs:(float16|float64|int32) (all|last)", _parameters(".*", r"\w*dtype")),
    ),
    Reason(
        "what is known is inferred, where MXNet raises because an input is unknown",
        "accepts",
        (
            r".* sym inputs:(drop last|by name)",
            r"contrib\.BilinearResize2D sym parameter:mode='like'",
            _parameters(r"\S*(ctc_loss|CTCLoss)", r"use_\w+_lengths"),
            r"contrib\.DeformablePSROIPooling sym parameter:no_trans=.*",
        ),
    ),
    Reason(
        "these parameters do not change the result, and MXNet checks them",
        "accepts",
        (
            _parameters("multi_all_finite", "num_arrays"),
            _parameters(r"contrib\.(Modulated)?DeformableConvolution", "layout|im2col_step"),
        ),
    ),
    Reason(
        "MXNet needs two extents where these have a meaning with one",
        "accepts",
        (
            _parameters("Deconvolution", "target_shape"),
            _parameters("Crop", "offset"),
            _parameters(r"contrib\.MultiBoxPrior", "steps"),
        ),
    ),
    Reason("empty slices are empty arrays", "accepts", (_parameters("crop|slice", "begin|end"),)),
    Reason("negative axes count from the end", "accepts", (r".* parameter:(axis|axes)=.*-.*",)),
    Reason(
        "an extent of zero in a symbol is an unknown extent",
        "accepts",
        (r".* sym parameter:(num_filter|kernel|input_dim|output_dim|num_hidden|num_layers|state_size)=.*\b0\b.*",),
    ),
    Reason(
        "keywords mean nothing to operators without parameters",
        "accepts",
        (r"(contrib\.is\w+|linalg\S*|contrib\.boolean_mask) .* keyword:.*",),
    ),
    Reason("arrays are of any rank, and of any number", "accepts", (r"(image\.\w+|LRN|multi_\w+) \w+ inputs:.*",)),
    Reason("MXNet's labels must have the shape of the data", "accepts", (r"\w*RegressionOutput .* inputs:.*",)),
    Reason(
        "an operator has one meaning, whatever its storage",
        "accepts",
        (_parameters("contrib.SparseEmbedding"), _parameters("dot", "forward_stype")),
    ),
    Reason("same pooling works for all kinds", "accepts", (_parameters("Pooling", "pooling_convention|pad|kernel"),)),
    Reason(
        "sizes, strides, factors and positions that do not exist are refused; MXNet wraps them around, reads memory that "
        "does not belong to the array, or leaves elements out",
        "refuses differs",
        (
            _parameters(r"Correlation|LRN|BatchNorm|Pooling|Pooling_v1|Convolution_v1|Convolution|Deconvolution"),
            _parameters(r"contrib\.(\w*Deformable\w+|\w*PSROIPooling|\w*Proposal|MultiBox\w+|AdaptiveAvgPooling2D)"),
            _parameters(r"contrib\.(interleaved\w+|index_array|boolean_mask|BilinearResize2D)"),
            _parameters(
                r"im2col|col2im|image\.\w+|GridGenerator|GroupNorm|Dropout|norm|broadcast_ax\w+|cumsum|box_nms"
            ),
            _parameters("Reshape|reshape", r"\w*shape"),
            _parameters(r"contrib\.box_n\S*", "topk"),
            _parameters("contrib.arange_like", "repeat"),
            _parameters("Crop", "offset"),
            r"(BatchNorm|im2col|linalg\S+|contrib\.BilinearResize2D) .* inputs:.* axis last",
        ),
    ),
    Reason(
        "a wrong parameter is refused, also one that MXNet does not look at in this call",
        "refuses",
        (
            r"\w*RegressionOutput .* (parameter|keyword|inputs):.*",
            _parameters("log_softmax|softmin", "use_length"),
            r"tile \w+ parameter:reps='?None'?",
            _parameters("Cast|cast|log_softmax|softmax|softmin|amp_cast", "dtype"),
            r"contrib\.(isnan|boolean_mask) .* (inputs|keyword):.*",
        ),
    ),
    Reason(
        "None is float32; MXNet makes float64 of it",
        "differs",
        (_parameters(r"Cast|cast|argsort|topk|one_hot|log_softmax|softmax|softmin|(random|sample)_\w+", "dtype"),),
    ),
    Reason("the context is not written to files", "differs accepts", (_parameters(r"\S+", "ctx"),)),
    Reason(
        "MXNet refuses symbols of updates, and states of other shapes",
        "accepts",
        (r"\S*_update\S* sym .*", r"\S*_update\S* nd inputs:.*"),
    ),
    Reason(
        "a shape of a layer's parameters, or a rank, that does not fit is refused; MXNet reads some of the extents",
        "refuses",
        (
            r"(FullyConnected|GroupNorm|InstanceNorm|contrib\.SyncBatchNorm|lamb_update_phase2) \w+ inputs:.* axis last",
            r"(col2im|khatri_rao|stack|contrib\.(AdaptiveAvgPooling2D|MultiBoxPrior|allclose|box_decode)) \w+ inputs:.* axis last",
        ),
    ),
    Reason(
        "a grid of one point is its center, where MXNet divides by zero; its target_shape has two extents",
        "differs refuses",
        (_parameters("SpatialTransformer", "target_shape"),),
    ),
    Reason("the inputs are counted", "accepts", (r"UpSampling nd inputs:drop last",)),
    Reason("C++ leaves open which byte a negative number becomes", "differs", (_parameters("amp_cast", "dtype"),)),
    Reason(
        "MXNet has no symbols of these, or infers no shape",
        "accepts",
        (r"(contrib\.is\w+|fill_element_0index) sym .*",),
    ),
    Reason("no integer is infinite", "differs", (r"contrib\.is\w+ nd inputs:int32 \w+",)),
    Reason(
        "integers are not normalized, which MXNet rounds to zero", "refuses", (r"image\.normalize nd inputs:int32 .*",)
    ),
    Reason("no shape is a number", "accepts", (r"random_\w+ nd parameter:shape=.*",)),
    Reason("None means all axes", "differs", (_parameters("slice_like", "axes"),)),
    Reason("indices keep all of their axes", "differs", (r"unravel_index \w+ inputs:.* axis last",)),
    Reason(
        "empty arrays work",
        "accepts",
        (r"tile nd parameter:reps=.*\b0\b.*", r".* parameter:shape=.*\b0\b.*", r".* parameter:shape=-7"),
    ),
    Reason(
        "parameters outside of their range are refused",
        "refuses",
        (_parameters(r"(random|sample)_\w+", "k|p|mu|lam|alpha|beta|scale|low|high"),),
    ),
    Reason(
        "points outside of the array and shapes that contradict each other are refused",
        "refuses",
        (_parameters("scatter_nd|sample_multinomial", "shape"), r"sample_\w+ sym inputs:.* axis last"),
    ),
    Reason("a pair is no dtype", "refuses", (r".* parameter:dtype=\(.*\)",)),
    Reason("a number is drawn if there is no shape", "differs", (r"random_\w+ sym parameter:shape='?None'?",)),
    Reason("more is inferred", "differs", (r"(random_pdf_\w+|[Rr]eshape) sym inputs:drop last",)),
]

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
