"""Names that users of PyTorch, NumPy and JAX type, and the words for them here.

Errors about unknown names ask this table first: ``nn.Linear`` is no misspelling, so no similar name is its meaning.
:func:`explain_name` serves modules, :class:`ForeignName` the attributes of arrays.
"""

from __future__ import annotations

from typing import Any

from .errors import nearest

__all__ = ["OF_ARRAYS", "ForeignName", "explain_name"]

#: the expression here, by a name elsewhere; a name means the same in all modules
_MEANINGS = {
    "BCELoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)",
    "BCEWithLogitsLoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss()",
    "CrossEntropyLoss": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "Linear": "gluon.nn.Dense(units)",
    "MSELoss": "gluon.loss.L2Loss(), which is half of it",
    "Module": "gluon.Block or gluon.HybridBlock",
    "ModuleList": "gluon.nn.Sequential()",
    "ReLU": "gluon.nn.Activation('relu')",
    "Sigmoid": "gluon.nn.Activation('sigmoid')",
    "Softmax": "mx.nd.softmax(x, axis=-1)",
    "Tanh": "gluon.nn.Activation('tanh')",
    "Tensor": "mx.nd.array(values)",
    "cat": "mx.nd.concat(*arrays, dim=axis)",
    "cuda": "mx.context.num_gpus(), which is 0: phonograd computes on the CPU",
    "enable_grad": "mx.autograd.record()",
    "from_numpy": "mx.nd.array(values)",
    "functional": "mx.nd",
    "no_grad": "mx.autograd.pause()",
    "optim": "gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})",
    "tensor": "mx.nd.array(values)",
    "unsqueeze": "mx.nd.expand_dims(x, axis)",
}

#: the expression here, by an attribute of arrays elsewhere
OF_ARRAYS = {
    "cpu": "x.as_in_context(mx.cpu())",
    "cuda": "x.as_in_context(ctx); phonograd computes on the CPU",
    "numpy": "x.asnumpy()",
    "permute": "x.transpose(axes)",
    "requires_grad": "x.attach_grad()",
    "requires_grad_": "x.attach_grad()",
    "to": "x.as_in_context(ctx) or x.astype(dtype)",
    "unsqueeze": "x.expand_dims(axis)",
    "view": "x.reshape(shape)",
}


def explain_name(name: str, known: list[str]) -> str:
    """Return the end of an error about an unknown name of a module: its meaning here, or the nearest known name.

    >>> explain_name("Linear", ["Lambda"]), explain_name("dense", ["Dense"])
    (': write gluon.nn.Dense(units)', " (did you mean 'Dense'?)")
    """
    if name in _MEANINGS and name.lower() not in [one.lower() for one in known]:
        return f": write {_MEANINGS[name]}"
    return nearest(name, known)


class ForeignName:
    """An attribute that arrays of other libraries have; reading it raises AttributeError with the word for it here."""

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead

    def __get__(self, array: Any, owner: type[Any]) -> Any:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}: write {self._instead}")
