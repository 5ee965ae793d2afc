"""Families of operators and their colors."""

from __future__ import annotations

__all__ = ["ARGUMENT", "color_of"]

ARGUMENT = "#8dd3c7"
_OTHERS = "#fccde5"

#: lower-case names of operators without underscores, by color
_FAMILIES = {
    # products with weights
    "#fb8072": "convolution deconvolution fullyconnected dot batchdot embedding rnn linalggemm linalggemm2",
    # activations
    "#ffffb3": "activation leakyrelu relu sigmoid tanh softsign softrelu hardsigmoid gelu elu selu",
    # normalizations
    "#bebada": "batchnorm layernorm instancenorm groupnorm l2normalization lrn",
    # pooling and reductions
    "#80b1d3": "pooling roipooling adaptiveavgpooling2d sum mean max min prod norm argmax argmin sumaxis",
    # changes of shape
    "#fdb462": "concat flatten reshape transpose expanddims squeeze slicechannel split stack slice sliceaxis "
    "slicelike pad tile repeat swapaxis swapaxes broadcastto broadcastlike broadcastaxis reverse flip reshapelike "
    "cast slicestep viewflat blockgrad take gathernd onehot",
    # outputs and losses
    "#b3de69": "softmax softmaxoutput logsoftmax softmin softmaxactivation softmaxcrossentropy "
    "linearregressionoutput maeregressionoutput logisticregressionoutput svmoutput makeloss",
}
_COLOUR_OF = {name: color for color, names in _FAMILIES.items() for name in names.split()}


def color_of(operator: str) -> str:
    """Return the color of an operator's family.

    >>> color_of("Convolution") == color_of("FullyConnected") != color_of("exp")
    True
    """
    plain = operator.replace("_contrib", "").replace("_", "").lower()
    return _COLOUR_OF.get(plain, _OTHERS)
