"""Modules: symbols with parameters, an optimizer and a training loop (``mxnet.module``).

>>> import phonograd as mx
>>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
>>> module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
>>> data = mx.io.NDArrayIter(mx.nd.array([[1, 0], [0, 1]] * 8), mx.nd.array([0, 1] * 8), batch_size=4)
>>> module.fit(data, num_epoch=5, optimizer_params={"learning_rate": 1.0})
>>> module.score(data, "acc")
[('accuracy', 1.0)]
"""

from __future__ import annotations

from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = [
    "BaseModule",
    "BucketingModule",
    "Module",
    "PythonLossModule",
    "PythonModule",
    "SequentialModule",
]
