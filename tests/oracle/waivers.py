"""Where this library is known to differ from MXNet 1.9.1, and why.

Keys are case identifiers, ``family/name``; ``~`` stands for any text. Each waiver names the parts of the outcome it
excuses. A waiver that ``differs`` fails its test once nothing differs any more, so that none outlives its reason. One
that is ``undefined`` is for answers of MXNet that nobody should rely on, or for questions it refuses and an answer to
which takes nothing away: there nothing is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiver:
    """A difference that is meant."""

    reason: str
    parts: tuple[str, ...] = ("value", "gradient")
    undefined: bool = False


def differs(reason: str, *cases: str, parts: tuple[str, ...] = ("value", "gradient")) -> dict[str, Waiver]:
    """Return waivers for cases that must differ."""
    return dict.fromkeys(cases, Waiver(reason, parts))


def undefined(reason: str, *cases: str) -> dict[str, Waiver]:
    """Return waivers for cases that are not compared."""
    return dict.fromkeys(cases, Waiver(reason, undefined=True))


GRADIENT, MUTATION = ("gradient",), ("mutation",)

EXTENSIONS = {
    **differs(
        "the gradient where the input is not a number, or where there is no derivative, is zero",
        "activation/Activation-11f64-act_type=relu-special",
        "elementwise/relu-7f~-special",
        "elementwise/smooth_l1-7f~-special",
        "loss/MAERegressionOutput-1x2f32-1x2f32-equal",
        parts=GRADIENT,
    ),
    **differs(
        "a label per row serves for data of any rank",
        "loss/SoftmaxOutput-2x3x4f32-2f32-flattened",
    ),
    **undefined(
        "arithmetic between arrays of booleans, which MXNet refuses",
        "arithmetic/x ~ y-2b-2b",
        "arithmetic/x ** y-2b-2b",
        "comparison/broadcast_~-4b-4b",
    ),
    **undefined(
        "Python's operators and protocols that MXNet's arrays lack",
        "arithmetic/+x-2x3f32",
        "arithmetic/x @ y-2x3f32-3x2f32",
        "arithmetic/x // 2-2x3f32",
        "ndarray_methods/float(x)-~",
        "ndarray_methods/int(x)-~",
        "ndarray_methods/x.item()-~",
        "ndarray_methods/x.tolist()-~",
        "ndarray_methods/x.foo = 1-2x3f32",
        "shape/x.transpose(1, 0, 2)-2x3x4f32",
    ),
    **differs(
        "arrays without axes and empty arrays work",
        "creation/nd.zeros(())",
        "creation/nd.zeros((0, 2))",
        "creation/nd.ones(())",
        "creation/nd.ones((0, 2))",
        "indexing/x[[]]-3x4x5f32",
        "indexing/x[[]] = 7-3x4x5f32",
        "random/nd.random.randn().shape",
        "shape/tile-2x3f32-reps=(0,)",
    ),
    **differs(
        "negative axes are accepted",
        "reduction/cumsum-2x3x4f32-axis=-1",
        "shape/transpose-2x3x4f32-axes=(-1,0,1)",
        "shape/flip-2x3x4f32-axis=-1",
        "shape/reverse-2x3x4f32-axis=-1",
        "shape/broadcast_ax~-1x2x1f32-axis=-1-size=3",
    ),
    **undefined(
        "a dtype or layout that MXNet does not support on the CPU",
        "convolution/Convolution-1x5x5x2f32-3x3x3x2f32-3f32-kernel=(3,3)-num_filter=3-layout=NHWC",
        "creation/nd.arange(4, dtype='bool')",
        "creation/nd.eye(3, dtype='bool')",
        "creation/nd.linspace(0, 1, 5, dtype='bool')",
        "indexing/sort-2x4f16-axis=1",
        "indexing/argsort-2x4f16-axis=1",
        "linalg/linalg.gemm2-2x3f16-3x2f16",
        "linear_algebra/dot-2x3f16-3x4f16",
        "linear_algebra/batch_dot-2x2x3f16-2x3x4f16",
        "linear_algebra/FullyConnected-2x3f16-4x3f16-4f16-num_hidden=4",
        "reduction/norm-3x4f32-out_dtype=float64",
        "reduction/norm-3x4f16-out_dtype=float32",
    ),
    **undefined(
        "a gradient where MXNet has registered none",
        "indexing/batch_take-3x4f32-3i32",
        "linear_algebra/khatri_rao-2x3f32-4x3f32-differentiated",
        "random/nd.~shuffle(x)-1f32-single",
        "reduction/argmax_channel-2x3f32",
        "reduction/multi_sum_sq-2x3f32-num_arrays=1-differentiated",
    ),
    **differs("MXNet cannot reduce over so many axes", "shape/~tile-2x3f32-reps=(2,2,2,2)"),
    **undefined("pooling windows that lie in the padding", "pooling/Pooling-1x2x5x5f32-kernel=(2,2)-pad=(2,2)-~"),
}

ACCIDENTS = {
    **differs(
        "MXNet's momentum depends on whether the weight is written in place; here it is always that of the usual call",
        "updates/nag_mom_update-~-wd=0.05~",
        parts=MUTATION,
    ),
    **differs(
        "MXNet leaves the rescaled gradient in the array of the gradient",
        "updates/adamw_update rescale_grad=2.0-~",
        "updates/adamw_update rescale_grad=mx.nd.array([0.5])-~",
        parts=MUTATION,
    ),
    **differs(
        "MXNet forgets to update the float32 copy of the weight",
        "updates/mp_lamb_update_phase2-~",
        parts=MUTATION,
    ),
    **differs(
        "MXNet's derivative of selu for negative x is lambda * (y + alpha) instead of y + lambda * alpha",
        "activation/LeakyReLU-~-act_type=selu~",
        parts=GRADIENT,
    ),
    **differs(
        "in predict mode MXNet differentiates rrelu with a mask it never computed",
        "activation/nd.LeakyReLU(x, act_type='rrelu'~",
        parts=GRADIENT,
    ),
    **differs("MXNet divides zero by zero: everything is dropped", "activation/Dropout-3x4f32-p=1.0-train"),
    **differs(
        "MXNet normalizes over the last axis and differentiates over the second",
        "softmax/SoftmaxActivation-2x3x4f32",
        parts=GRADIENT,
    ),
    **differs(
        "MXNet multiplies by the output where it means the head gradient",
        "loss/SoftmaxOutput-4x3f32-4f32-out_grad=True",
        parts=GRADIENT,
    ),
    **differs(
        "the derivative of a product is exact where elements are zero or infinite; MXNet divides by them",
        "reduction/prod-3x3f32-axis=1-nan",
        "reduction/~prod-2x2f32-axis=1-inf",
        "reduction/~prod-2x3f32-axis=1-zeros",
        parts=GRADIENT,
    ),
    **differs(
        "MXNet forgets the change from corners to centers on the way back",
        "detection/contrib.box_nms-1x6x6f32-coord_start=2-score_index=1-overlap_thresh=0.5-out_format=center",
        parts=GRADIENT,
    ),
    **differs("MXNet's nansum loses infinities", "reduction/nansum-2x2f32-axis=1-inf"),
    **differs("MXNet sums the squares of integers wrongly", "reduction/norm-3x4i32"),
    **differs(
        "the derivative of a constant is zero, at zero too",
        "arithmetic/x ** 0-8f32",
        "arithmetic/x ** 0-5f32",
        parts=GRADIENT,
    ),
    **differs(
        "MXNet calls the derivative at a singular matrix zero", "linalg/linalg.det-2x2f32-singular", parts=GRADIENT
    ),
    **differs("in MXNet sort without an axis cannot be recorded", "indexing/sort-3x5f32"),
    **differs(
        "scalars reach integers exactly; in MXNet they pass through double precision",
        "arithmetic/x + 9007199254740993-2i64",
        "indexing/x[~] = 9007199254740993-2i64",
        parts=("value", "mutation"),
    ),
    **differs("in MXNet x[True] reads one row and writes all of them", "indexing/x[True] = ~", parts=MUTATION),
    **differs("MXNet takes a width that does not divide by 3", "contrib/~selfatt_qk-3x1x10f32-heads=1"),
    **differs(
        "MXNet's CPU kernels ignore these parameters of RNN",
        "recurrent/~lstm_state_clip_min=-0.1~",
        "recurrent/~use_sequence_length=True~",
    ),
    **undefined(
        "MXNet with oneDNN and without do not agree on NaN",
        "activation/Activation-11f32-act_type=relu-special",
        "activation/LeakyReLU-11f32-act_type=leaky-special",
        "activation/LeakyReLU-11f32-act_type=elu-special",
    ),
    **undefined(
        "poles, where MXNet's sign depends on the dtype",
        "elementwise/gamma-7f~-special",
        "elementwise/gammaln-~-special",
        "elementwise/gammaln-~-boundary",
        "elementwise/gammaln-~-huge",
    ),
    **undefined("values outside the domain, cast to integers", "elementwise/erfinv-4i32-positive"),
    **undefined("the order of NaN is unspecified in MXNet", "indexing/~sort-4f32-axis=0-~-nan"),
    **undefined(
        "infinite logits: MXNet leaves zeros, infinities and even finite numbers beside the NaN",
        "softmax/~softmax-3x3f32-broken",
        "softmax/log_softmax-2x3f32-masked",
        "softmax/softmin-3x3f32-broken",
    ),
    **undefined(
        "the mean of a window that holds nothing but padding",
        "pooling/Pooling-1x2x4x4x3f32-pool_type=avg-pooling_convention=full-count_include_pad=False-~",
    ),
    **undefined(
        "nd.reshape that loses elements: MXNet refuses it only on the way back",
        "shape/reshape-2x3x4f32-shape=(-2,1,1)-reverse=True",
    ),
}

RECORDING = {
    **differs(
        "in-place changes are legal while recording",
        "ndarray_methods/~x += 1-3f32-in place",
        "shape/nd.concatenate([x, y])-2x3f32-1x3f32",
        "shape/nd.concatenate([x, y], axis=1)-2x3f32-2x1f32",
    ),
    **differs("an array attached with 'null' keeps its buffer", "ndarray_methods/x.attach_grad('null')~"),
    **differs(
        "moving statistics are updated by the forward pass, in MXNet by backward",
        "normalization/BatchNorm-2x3x3x2f32-3f32-3f32-3f32-3f32-train-value",
        parts=MUTATION,
    ),
}

ERRORS = {
    **differs(
        "an unknown dtype is refused in the same way everywhere",
        "creation/nd.zeros((2,), dtype='uint16')",
        "creation/nd.zeros((2,), dtype='complex64')",
        "random/nd.random.uniform(0, 1, shape=(2,), dtype='zzz')",
    ),
    **undefined(
        "MXNet trips over an assertion or a failed inference of its own",
        "creation/nd.zeros(None)",
        "creation/nd.ones(None)",
        "indexing/x[2:1] = 7-3x4x5f32",
        "random/nd.random.uniform(x, 3)-2f32",
        "shape/nd.concatenate([x, y], axis=1)-2x3f32-3x1f32",
    ),
    **undefined(
        "the class of this error is another one in MXNet when recording",
        "shape/.reshape-2x3x4f32-(1,-2)",
        "shape/.reshape-2x3x4f32-(2,2)",
        "shape/.reshape-2x3x4f32-(7,-1)",
        "shape/.reshape-2x3x4f32--2-1-1-reverse=True",
    ),
    **undefined(
        "a mean of areas that is a half, before it is rounded to a byte, depends on the order of summation",
        "image/image.resize-8x6x3u8-size=5-interp=3",
    ),
    **undefined(
        "the method refuses what the function accepts",
        "shape/.broadcast_to-1x3f32-shape=(2,0)",
        "shape/.broadcast_like-1x~-lhs_axes=~",
    ),
}

QUANTIZATION = {
    **differs(
        "the range of a product of uint8 data counts 255 levels of the data, in MXNet 127; sums are equal",
        "quantization/contrib.quantized_conv-~u8-~-no_bias=True",
    ),
    **differs(
        "an int8 bias is converted to the units of the sums, which MXNet's convolution does not do",
        "quantization/contrib.quantized_conv-2x12x5x5u8-8x12x3x3i8-8i8-~",
    ),
    **differs("int8 data can be convolved", "quantization/contrib.quantized_conv-2x12x5x5i8-~"),
    **differs(
        "uint8 data stays uint8; MXNet calls the same bytes int8",
        "quantization/contrib.quantize_v2-2x3u8-~",
        "quantization/contrib.quantized_act-2x12x5x5u8-~",
    ),
    **differs(
        "the axis of quantized_batch_norm is the one that is given; MXNet takes the second one",
        "quantization/contrib.quantized_batch_norm-2x4x3x4~-~-axis=-1-~",
    ),
    **differs(
        "numbers in a range of zero width are zeros; MXNet divides by zero",
        "quantization/contrib.quantize_v2-3x5f32-min_calib_range=0.0-max_calib_range=0.0-~",
        "quantization/contrib.requantize-3x5i32-~-min_calib_range=0.0-max_calib_range=0.0-~",
    ),
    **differs(
        "a uint8 operand of a sum without calibration is not clamped to int8 first",
        "quantization/contrib.quantized_elemwise_add-2x12x5x5i8-2x12x5x5u8-1f32-1f32-1f32-1f32",
        "quantization/contrib.quantized_elemwise_add-2x12x5x5u8-2x12x5x5i8-1f32-1f32-1f32-1f32",
    ),
}

WAIVERS: dict[str, Waiver] = {**EXTENSIONS, **ACCIDENTS, **RECORDING, **ERRORS, **QUANTIZATION}


def expression(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern."""
    return re.compile(".*".join(map(re.escape, pattern.split("~"))))


PATTERNS = [(expression(pattern), waiver) for pattern, waiver in WAIVERS.items() if "~" in pattern]


def waiver_of(identifier: str) -> Waiver | None:
    """Return the waiver of a case, or None."""
    if identifier in WAIVERS:
        return WAIVERS[identifier]
    return next((waiver for pattern, waiver in PATTERNS if pattern.fullmatch(identifier)), None)
