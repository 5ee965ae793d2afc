"""Losses as operators: output layers with their own gradient, and cross entropy.

The output layers (``SoftmaxOutput``, ``LinearRegressionOutput``, ...) return a prediction. The gradient of their data
is the gradient of a loss against the label; they ignore the incoming gradient. That gradient is an ordinary
expression, so it can be differentiated further.
"""

from __future__ import annotations

import math
from typing import Literal

from ...base.errors import MXNetError, check_bounds, format_shape
from ...base.settings import has_mxnet_bug
from ...graph.interface import Interface, Onnx, Partial, is_known, merge, same_shapes
from ...graph.node import Node, Shape
from ...graph.operator import composite, single
from ...graph.partial_shapes import first_results
from ...graph.shapes import without
from ..math.arithmetic import maximum
from ..math.broadcasting import broadcast, sum_to
from ..math.comparison import greater, not_equal
from ..math.elementary import identity, relu, sigmoid, sign
from ..math.gradient_control import depending_on, with_gradient
from ..math.primitives import cast, permute, reshape_to, select
from ..math.structural import constant, full
from ..reduce.reduction import sum_axes
from ..shape.indexing import one_hot
from .softmax import demand_floating, log_softmax_along, softmax_along

__all__: list[str] = []


def _label_shape_error(name: str, given: Shape, expected: Shape, hint: str = "") -> MXNetError:
    return MXNetError(
        f"Shape inconsistent, Provided = {format_shape(given)}, inferred shape={format_shape(expected)} for label in "
        f"operator {name}{hint}"
    )


def _output_layer(out: Node, data: Node, label: Node, grad: Node, multiply: bool = False) -> Node:
    """Return the prediction with the gradient of its loss; the label's gradient is zero."""
    return depending_on(with_gradient(out, data, grad, multiply), [label])


# -- classification


def _class_layout(data: Node, multi_output: bool, preserve_shape: bool) -> tuple[Shape, Shape]:
    """Return a data shape with the classes along axis 1, and the matching shape of the labels."""
    if multi_output and data.ndim > 1:
        batch, classes = data.shape[:2]
        positions = data.size // (batch * classes) if batch * classes else 0
        return (batch, classes, positions), (batch, *data.shape[2:])
    if preserve_shape or data.ndim <= 2:
        classes = data.shape[-1] if data.ndim else 1
        return (data.size // classes if classes else 0, classes), data.shape[:-1]
    batch = data.shape[0]
    return (batch, data.size // batch if batch else 0), (batch,)


@composite(aliases=("Softmax",))
def SoftmaxOutput(
    data: Node,
    label: Node,
    *,
    grad_scale: float = 1.0,
    ignore_label: float = -1.0,
    multi_output: bool = False,
    use_ignore: bool = False,
    preserve_shape: bool = False,
    normalization: Literal["batch", "null", "valid"] = "null",
    out_grad: bool = False,
    smooth_alpha: float = 0.0,
) -> Node:
    """Return the softmax of the data; its gradient is that of the cross entropy with the label.

    Parameters
    ----------
    data
        Scores. Classes are along the last axis, with ``multi_output`` along axis 1. Without ``preserve_shape`` and
        ``multi_output``, all axes but the first are flattened.
    label
        The index of the correct class of each row or position, or an array of probabilities in the shape of data.
    grad_scale
        Factor of the gradient.
    ignore_label, use_ignore
        With ``use_ignore``, rows with the label ``ignore_label`` have a zero gradient.
    normalization
        Divisor of the gradient. ``batch``: the number of labels; ``valid``: the number of labels other than
        ``ignore_label``; ``null``: with ``multi_output`` the number of positions, else 1.
    out_grad
        Multiply the gradient by the incoming gradient, element by element.
    smooth_alpha
        Probability moved from the correct class to all other classes (label smoothing).
    """
    demand_floating(data.dtype, "SoftmaxOutput")
    check_bounds("SoftmaxOutput", "smooth_alpha", smooth_alpha)
    work, label_shape = _class_layout(data, multi_output, preserve_shape)
    soft = softmax_along(reshape_to(data, work), 1)
    out = reshape_to(soft, data.shape)
    if label.shape == data.shape:
        grad = (out - cast(label, data.dtype)) * grad_scale
        return _output_layer(out, data, label, grad, out_grad)
    rows = without(work, (1,))
    flat = multi_output and label.shape[:1] == work[:1] and label.size == math.prod(rows)
    if label.shape != label_shape and not flat:
        hint = "" if multi_output or data.ndim <= 2 else ". Use preserve_shape=True for a label at every position"
        raise _label_shape_error("SoftmaxOutput", label.shape, label_shape, hint)
    labels = reshape_to(label, rows)
    classes = work[1]
    if multi_output and smooth_alpha and has_mxnet_bug("smooth_alpha"):
        smooth_alpha = 0.0
    others = smooth_alpha / (classes - 1) if classes > 1 else 0.0
    target = single(one_hot(labels, depth=classes, on_value=1 - smooth_alpha, off_value=others, dtype=data.dtype))
    if len(work) == 3:
        target = permute(target, (0, 2, 1))
    grad = soft - target
    valid = single(not_equal(labels, constant(ignore_label, labels.dtype)))
    if use_ignore:
        grad = select(reshape_to(valid, (work[0], 1, *work[2:])), grad, 0)
    if normalization == "valid":
        count = sum_to(cast(valid, data.dtype), ())
        grad = grad * (grad_scale / single(maximum(count, constant(1, data.dtype))))
    else:
        divisor = label.size if normalization == "batch" else work[2] if len(work) == 3 else 1
        grad = grad * (grad_scale / max(divisor, 1))
    return _output_layer(out, data, label, reshape_to(grad, data.shape), out_grad)


@composite()
def SVMOutput(
    data: Node,
    label: Node,
    *,
    margin: float = 1.0,
    regularization_coefficient: float = 1.0,
    use_linear: bool = False,
) -> Node:
    """Return the data; its gradient is that of the one-versus-all hinge loss.

    The loss of the correct class is ``max(0, margin - score)``, that of every other class ``max(0, margin + score)``;
    both are squared unless ``use_linear``. ``regularization_coefficient`` scales the gradient.
    """
    demand_floating(data.dtype, "SVMOutput")
    if data.ndim == 0 or label.shape != data.shape[:-1]:
        raise _label_shape_error("SVMOutput", label.shape, data.shape[:-1])
    signs = single(one_hot(label, depth=data.shape[-1], on_value=1, off_value=-1, dtype=data.dtype))
    missing = margin - signs * data
    if use_linear:
        grad = signs * single(greater(missing, constant(0, data.dtype))) * -regularization_coefficient
    else:
        grad = signs * single(relu(missing)) * (-2 * regularization_coefficient)
    return _output_layer(single(identity(data)), data, label, grad)


@composite()
def softmax_cross_entropy(data: Node, label: Node) -> Node:
    """Return the sum over rows of the cross entropy of scores (a matrix) and class indices.

    Notes
    -----
    Compatibility: MXNet takes probabilities below 1e-8 as 1e-8; here the logarithm is exact.
    """
    demand_floating(data.dtype, "softmax_cross_entropy")
    if data.ndim != 2:
        raise MXNetError(f"SoftmaxCrossEntropy only accept 2D data, got {format_shape(data.shape)}")
    if label.shape != data.shape[:1]:
        raise MXNetError(
            f"data label shape mismatch: {format_shape(data.shape)} and {format_shape(label.shape)} in operator "
            f"softmax_cross_entropy, which takes one label for each row"
        )
    right = single(one_hot(label, depth=data.shape[1], dtype=data.dtype))
    terms = select(right, log_softmax_along(data, 1), 0)
    return depending_on(-reshape_to(sum_axes(terms, (0, 1)), (1,)), [label])


# -- regression


def _regression(out: Node, data: Node, label: Node, error: Node, grad_scale: float) -> Node:
    outputs = label.size // label.shape[0] if label.ndim and label.shape[0] else 1
    return _output_layer(out, data, label, error * (grad_scale / max(outputs, 1)))


def _regression_label(name: str, data: Node, label: Node) -> Node:
    demand_floating(data.dtype, name)
    if data.size != label.size:
        raise _label_shape_error(name, label.shape, data.shape)
    return cast(reshape_to(label, data.shape), data.dtype)


@composite(aliases=("_sparse_LinearRegressionOutput",))
def LinearRegressionOutput(data: Node, label: Node, *, grad_scale: float = 1.0) -> Node:
    """Return the data; its gradient is that of half the squared error, divided by the outputs per sample."""
    error = data - _regression_label("LinearRegressionOutput", data, label)
    return _regression(single(identity(data)), data, label, error, grad_scale)


@composite(aliases=("_sparse_MAERegressionOutput",))
def MAERegressionOutput(data: Node, label: Node, *, grad_scale: float = 1.0) -> Node:
    """Return the data; its gradient is that of the absolute error, divided by the outputs per sample."""
    error = single(sign(data - _regression_label("MAERegressionOutput", data, label)))
    return _regression(single(identity(data)), data, label, error, grad_scale)


@composite(aliases=("_sparse_LogisticRegressionOutput",))
def LogisticRegressionOutput(data: Node, label: Node, *, grad_scale: float = 1.0) -> Node:
    """Return the sigmoid of the data; its gradient is that of the cross entropy, divided by the outputs per sample."""
    target = _regression_label("LogisticRegressionOutput", data, label)
    out = single(sigmoid(data))
    return _regression(out, data, label, out - target, grad_scale)


@composite(onnx=Onnx("Identity", reads=False))
def MakeLoss(
    data: Node,
    *,
    grad_scale: float = 1.0,
    valid_thresh: float = 0.0,
    normalization: Literal["batch", "null", "valid"] = "null",
) -> Node:
    """Return the data as a loss: its gradient is ``grad_scale``, and the incoming gradient is ignored.

    ``normalization`` divides the gradient by the number of rows (``batch``: all axes but the last) or by the number of
    elements above ``valid_thresh`` (``valid``).
    """
    demand_floating(data.dtype, "MakeLoss")
    if normalization == "valid":
        above = single(greater(data, constant(valid_thresh, data.dtype)))
        grad = grad_scale / single(maximum(sum_to(above, ()), constant(1, data.dtype)))
        return with_gradient(single(identity(data)), data, broadcast(grad, data.shape))
    rows = data.size // data.shape[-1] if data.ndim and data.shape[-1] else 1
    scale = grad_scale / max(rows, 1) if normalization == "batch" else grad_scale
    return with_gradient(single(identity(data)), data, full(data.shape, scale, data.dtype, data.context))


# -- symbol declarations


def _class_labels(
    inputs: list[Partial], outputs: list[Partial], *, multi_output: bool, preserve_shape: bool
) -> list[Partial]:
    data = merge(inputs[0], outputs[0])
    label = inputs[1]
    if data is None or is_known(label):
        return [data, label]
    if multi_output and len(data) > 1:
        expected: Partial = (data[0], math.prod(data[2:]))
    else:
        expected = data[:-1] if preserve_shape else data[:1]
    # labels may also have the shape of the data, and other forms
    return [data, merge(label, expected) if label is None or len(label) == len(expected or ()) else label]


def _row_labels(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    data = merge(inputs[0], outputs[0])
    return [data, None if data is None else data[:1]]


def _regression_labels(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    data, label = merge(inputs[0], outputs[0]), inputs[1]
    if data is None or label is not None:
        return [data, label]
    return [data, data[:1] if len(data) == 2 and data[1] == 1 else data]


SoftmaxOutput.interface = Interface(shapes=_class_labels, results=first_results)
SVMOutput.interface = Interface(shapes=_row_labels, results=first_results)
LinearRegressionOutput.interface = Interface(shapes=_regression_labels, results=first_results)
MAERegressionOutput.interface = LogisticRegressionOutput.interface = LinearRegressionOutput.interface
MakeLoss.interface = Interface(shapes=same_shapes)


# -- precision in mixed-precision training

for _declared in (
    LinearRegressionOutput,
    LogisticRegressionOutput,
    MAERegressionOutput,
    MakeLoss,
    SVMOutput,
    SoftmaxOutput,
    softmax_cross_entropy,
):
    _declared.precision = "float32"
