"""mx.npx: operators of neural networks and others that NumPy does not have, for arrays of mx.np.

They are the operators of ``mx.nd`` under MXNet's names; what is computed from arrays of ``mx.np`` is one. Names are
looked up when they are first used.

>>> from phonograd import np, npx
>>> npx.relu(np.array([-1.0, 2.0]))
array([0., 2.])
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core.array.call import function_of
from ..core.base.devices import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from ..core.base.errors import nearest
from ..core.graph.operator import REGISTRY
from ..core.trace.rng import seed
from ..core.trace.trace import waitall
from ..numpy.multiarray import ndarray as _ndarray
from ..util import get_cuda_compute_capability, is_np_array, is_np_shape, reset_np, set_np

__all__ = [
    "Context",
    "cpu",
    "cpu_pinned",
    "current_context",
    "get_cuda_compute_capability",
    "gpu",
    "is_np_array",
    "is_np_shape",
    "num_gpus",
    "reset_np",
    "seed",
    "set_np",
    "waitall",
]

#: operators by their names here
OPERATORS = {
    "activation": "Activation",
    "arange_like": "_contrib_arange_like",
    "batch_dot": "batch_dot",
    "batch_flatten": "Flatten",
    "batch_norm": "BatchNorm",
    "box_decode": "_contrib_box_decode",
    "box_encode": "_contrib_box_encode",
    "box_iou": "_contrib_box_iou",
    "box_nms": "_contrib_box_nms",
    "bipartite_matching": "_contrib_bipartite_matching",
    "broadcast_like": "broadcast_like",
    "cast": "Cast",
    "convolution": "Convolution",
    "ctc_loss": "CTCLoss",
    "deconvolution": "Deconvolution",
    "deformable_convolution": "_contrib_DeformableConvolution",
    "dropout": "Dropout",
    "embedding": "Embedding",
    "erf": "erf",
    "erfinv": "erfinv",
    "fully_connected": "FullyConnected",
    "gamma": "gamma",
    "gammaln": "gammaln",
    "gather_nd": "gather_nd",
    "group_norm": "GroupNorm",
    "hard_sigmoid": "hard_sigmoid",
    "instance_norm": "InstanceNorm",
    "l2_normalization": "L2Normalization",
    "layer_norm": "LayerNorm",
    "leaky_relu": "LeakyReLU",
    "log_softmax": "log_softmax",
    "modulated_deformable_convolution": "_contrib_ModulatedDeformableConvolution",
    "multibox_detection": "_contrib_MultiBoxDetection",
    "multibox_prior": "_contrib_MultiBoxPrior",
    "multibox_target": "_contrib_MultiBoxTarget",
    "one_hot": "one_hot",
    "pick": "pick",
    "pooling": "Pooling",
    "relu": "relu",
    "reshape_like": "reshape_like",
    "rnn": "RNN",
    "roi_align": "_contrib_ROIAlign",
    "roi_pooling": "ROIPooling",
    "scatter_nd": "scatter_nd",
    "sequence_last": "SequenceLast",
    "sequence_mask": "SequenceMask",
    "sequence_reverse": "SequenceReverse",
    "shape_array": "shape_array",
    "sigmoid": "sigmoid",
    "slice": "slice",
    "slice_axis": "slice_axis",
    "slice_like": "slice_like",
    "smooth_l1": "smooth_l1",
    "softmax": "softmax",
    "softmin": "softmin",
    "stop_gradient": "BlockGrad",
    "topk": "topk",
    "upsampling": "UpSampling",
}

#: what is no single operator, by the module it stands in
_ELSEWHERE = {
    "cond": "..ndarray.control",
    "foreach": "..ndarray.control",
    "gpu_memory_info": "..context",
    "index_add": ".functions",
    "index_update": ".functions",
    "load": ".files",
    "masked_log_softmax": ".functions",
    "masked_softmax": ".functions",
    "nonzero": ".functions",
    "reshape": ".functions",
    "save": ".files",
    "savez": ".files",
    "while_loop": "..ndarray.control",
}
_MODULES = ("image", "random")


def __getattr__(name: str) -> Any:
    if name in OPERATORS:
        value: Any = function_of(REGISTRY[OPERATORS[name]], name, _ndarray)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name in _ELSEWHERE:
        value = getattr(importlib.import_module(_ELSEWHERE[name], __name__), name)
    else:
        raise AttributeError(f"module 'phonograd.npx' has no attribute {name!r}{nearest(name, __dir__())}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *OPERATORS, *_ELSEWHERE, *_MODULES})
