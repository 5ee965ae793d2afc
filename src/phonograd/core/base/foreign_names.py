"""Names that users of PyTorch, NumPy and JAX type, and the words for them here.

Errors about unknown names ask this table first: ``nn.Linear`` is no misspelling, so no similar name is its meaning.
:func:`unknown_name` serves modules, :class:`ForeignName` the attributes of arrays and blocks, and
:func:`advise_arguments` the arguments of classes.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import nearest

__all__ = ["ARGUMENTS", "OF_ARRAYS", "OF_BLOCKS", "ForeignName", "advise_arguments", "explain_name", "unknown_name"]

Function = TypeVar("Function", bound=Callable[..., Any])

#: the expression here, by a name elsewhere; a name means the same in all modules
_MEANINGS = {
    "BCELoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)",
    "BCEWithLogitsLoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss()",
    "CosineAnnealingLR": "mx.lr_scheduler.CosineScheduler(max_update)",
    "CrossEntropyLoss": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "Linear": "gluon.nn.Dense(units)",
    "MSELoss": "gluon.loss.L2Loss(), which is half of it",
    "Module": "gluon.Block or gluon.HybridBlock",
    "ModuleList": "gluon.nn.Sequential()",
    "MultiStepLR": "mx.lr_scheduler.MultiFactorScheduler(step, factor)",
    "ReLU": "gluon.nn.Activation('relu')",
    "Sigmoid": "gluon.nn.Activation('sigmoid')",
    "Softmax": "mx.nd.softmax(x, axis=-1)",
    "StepLR": "mx.lr_scheduler.FactorScheduler(step, factor)",
    "Tanh": "gluon.nn.Activation('tanh')",
    "Tensor": "mx.nd.array(values)",
    "cat": "mx.nd.concat(*arrays, dim=axis)",
    "cuda": "mx.context.num_gpus(), which is 0: phonograd computes on the CPU",
    "enable_grad": "mx.autograd.record()",
    "from_numpy": "mx.nd.array(values)",
    "functional": "mx.nd",
    "no_grad": "mx.autograd.pause()",
    "optim": "gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})",
    "rand": "mx.nd.random.uniform(shape=shape)",
    "randn": "mx.nd.random.randn(*shape)",
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

#: the expression here, by an attribute of layers and trainers elsewhere
OF_BLOCKS = {
    "add_module": "net.register_child(block, name)",
    "cuda": "net.collect_params().reset_ctx(ctx); phonograd computes on the CPU",
    "eval": "net(x) outside of mx.autograd.record(), which predicts",
    "fit": "a loop with mx.autograd.record(), or gluon.contrib.estimator.Estimator",
    "load_state_dict": "net.load_parameters(filename)",
    "named_parameters": "net.collect_params().items()",
    "parameters": "net.collect_params()",
    "state_dict": "net.save_parameters(filename)",
    "to": "net.collect_params().reset_ctx(ctx) or net.cast(dtype)",
    "train": "with mx.autograd.record(): ..., which trains",
    "zero_grad": "net.collect_params().zero_grad(); only grad_req='add' needs it",
}

#: the arguments here, by the name of an argument elsewhere
ARGUMENTS = {
    "axis": ("dim",),
    "bias": ("use_bias", "no_bias"),
    "collate_fn": ("batchify_fn",),
    "device": ("ctx",),
    "dim": ("axis", "axes"),
    "drop_last": ("last_batch",),
    "in_features": ("in_units",),
    "learning_rate": ("optimizer_params",),
    "lr": ("learning_rate",),
    "num_features": ("in_channels",),
    "out_channels": ("channels", "num_filter"),
    "out_features": ("units", "num_hidden"),
    "p": ("rate",),
    "padding": ("pad",),
    "rate": ("p",),
    "size": ("shape",),
    "stride": ("strides",),
    "weight_decay": ("wd",),
}


def unknown_name(module: str, name: str, known: list[str]) -> AttributeError:
    """Return the error about an unknown name of a module.

    >>> unknown_name("phonograd.optimizer", "adam", ["Adam"])
    AttributeError("module 'phonograd.optimizer' has no attribute 'adam' (did you mean 'Adam'?)")
    """
    # Python itself asks for names such as __path__
    advice = "" if name.startswith("__") else explain_name(name, known)
    return AttributeError(f"module {module!r} has no attribute {name!r}{advice}")


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


_UNEXPECTED = re.compile(r"\(\) got an unexpected keyword argument '(\w+)'")


def advise_arguments(method: Function) -> Function:
    """Make a method that creates an instance name the nearest argument of its class in errors about unknown ones.

    The class may be a subclass that passes its keywords on: ``nn.Dense(3, bias=False)``.
    """

    @functools.wraps(method)
    def create(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except TypeError as error:
            found = _UNEXPECTED.search(str(error))
            if found is None or found[1] not in kwargs:
                raise
            known = list(inspect.signature(type(self)).parameters)
            raise TypeError(
                f"{type(self).__name__} got an unexpected keyword argument {found[1]!r}{nearest(found[1], known)}"
            ) from None

    return create  # type: ignore[return-value]
