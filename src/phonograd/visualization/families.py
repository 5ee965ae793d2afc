"""Families of operators, and the colours they are drawn in."""

from __future__ import annotations

__all__ = ["ARGUMENT", "colour_of"]

ARGUMENT = "#8dd3c7"
_OTHERS = "#fccde5"

#: names of operators without underscores and in small letters, by colour
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
    # ends
    "#b3de69": "softmax softmaxoutput logsoftmax softmin softmaxactivation softmaxcrossentropy "
    "linearregressionoutput maeregressionoutput logisticregressionoutput svmoutput makeloss",
}
_COLOUR_OF = {name: colour for colour, names in _FAMILIES.items() for name in names.split()}


def colour_of(operator: str) -> str:
    """Return the colour of an operator's family.

    >>> colour_of("Convolution") == colour_of("FullyConnected") != colour_of("exp")
    True
    """
    plain = operator.replace("_contrib", "").replace("_", "").lower()
    return _COLOUR_OF.get(plain, _OTHERS)
