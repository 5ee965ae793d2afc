"""Provide dense layers, embeddings, dropout, functions as layers, and sequential containers.

Takes blocks and parameters from ``gluon.block`` and ``gluon.parameter``. Re-exports the layers of
:mod:`.normalization`, as MXNet's module of this name does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ... import ndarray
from ...core.base.docstrings import complete_classes
from ..block import Block, HybridBlock
from ..parameter import Parameter, ParameterDict
from ..text import indented
from .activations import Activation
from .normalization import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..block.naming import BlockArguments

__all__ = [
    "BatchNorm",
    "BatchNormReLU",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "HybridLambda",
    "HybridSequential",
    "InstanceNorm",
    "Lambda",
    "LayerNorm",
    "Sequential",
]

Stack = TypeVar("Stack", "Sequential", "HybridSequential")


def _describe_children(stack: Block) -> str:
    lines = [f"  ({key}): {indented(repr(block), 2)}" for key, block in stack._children.items()]
    return f"{type(stack).__name__}(\n" + "\n".join(lines) + "\n)"


def _select_children(stack: Stack, key: Any) -> Any:
    layers = list(stack._children.values())[key]
    if not isinstance(layers, list):
        return layers
    part = type(stack)(prefix=stack._prefix)
    with part.name_scope():
        part.add(*layers)
    return part


def _require_block(value: Any) -> None:
    """Raise for a value that is no block, such as a class or a list."""
    if isinstance(value, type):
        raise TypeError(f"add takes blocks, not the class {value.__name__}: write {value.__name__}(...)")
    if isinstance(value, (list, tuple)):
        raise TypeError("add takes blocks one by one: write net.add(*blocks)")


class Sequential(Block):
    """Run blocks one after another: each block takes the output of the previous one.

    >>> import phonograd as mx
    >>> from phonograd.gluon import nn
    >>> net = nn.Sequential()
    >>> net.add(nn.Dense(10, activation="relu"), nn.Dense(2))
    >>> net.initialize()
    >>> net(mx.nd.ones((3, 4))).shape
    (3, 2)
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def add(self, *blocks: Block) -> None:
        """Append blocks to the end of the container."""
        for block in blocks:
            _require_block(block)
            self.register_child(block)

    def forward(self, x: Any) -> Any:
        """Return the output of the last block."""
        for block in self._children.values():
            x = block(x)
        return x

    __repr__ = _describe_children
    __getitem__ = _select_children

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._children.values())

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Compile the children that are hybrid blocks, or stop compiling them."""
        if self._children and all([isinstance(child, HybridBlock) for child in self._children.values()]):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider using "
                "HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(HybridBlock):
    """Run hybrid blocks one after another: each block takes the output of the previous one."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def add(self, *blocks: HybridBlock) -> None:
        """Append blocks to the end of the container."""
        for block in blocks:
            _require_block(block)
            self.register_child(block)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the output of the last block."""
        for block in self._children.values():
            x = block(x)
        return x

    __repr__ = _describe_children
    __getitem__ = _select_children

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._children.values())


class Dense(HybridBlock):
    """Apply a fully connected layer and an optional activation: ``activation(x · weightᵀ + bias)``.

    Parameters
    ----------
    units
        The number of output features.
    activation
        The name of an activation function. None applies no activation.
    use_bias
        Whether to add a bias.
    flatten
        Whether to flatten all axes of the input but the first into one. Otherwise the layer transforms only the last
        axis.
    dtype
        The dtype of weight and bias.
    weight_initializer, bias_initializer
        The initializers of weight and bias.
    in_units
        The number of input features; 0 to infer it in the first forward pass.
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        self._flatten = flatten
        with self.name_scope():
            self._units = units
            self._in_units = in_units
            self.weight = self.params.get(
                "weight", shape=(units, in_units), init=weight_initializer, dtype=dtype, allow_deferred_init=True
            )
            self.bias: Parameter | None = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=(units,), init=bias_initializer, dtype=dtype, allow_deferred_init=True
                )
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def _infer_quickly(self, x: Any) -> bool:
        self.weight.shape = self._units, math.prod(x.shape[1:]) if self._flatten else x.shape[-1]
        return True

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """Return the activation of ``x · weightᵀ + bias``."""
        result = F.FullyConnected(
            x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd"
        )
        return result if self.act is None else self.act(result)

    def __repr__(self) -> str:
        units, inputs = self.weight.shape or (0, 0)
        return f"{type(self).__name__}({inputs or None} -> {units}, {self.act or 'linear'})"


class Dropout(HybridBlock):
    """Set each element to 0 with probability `rate` during training, and scale the others by ``1 / (1 - rate)``.

    Parameters
    ----------
    rate
        The probability of setting an element to 0.
    axes
        The axes along which all elements share one random decision.
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), **kwargs: Unpack[BlockArguments]) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the input with random elements set to 0; in predict mode, the input itself."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Map integer indices to vectors: row `i` of the weight matrix is the vector of index `i`.

    Parameters
    ----------
    input_dim
        The number of rows: indices are below it.
    output_dim
        The length of the vectors.
    dtype
        The dtype of the vectors.
    weight_initializer
        The initializer of the weight matrix.
    sparse_grad
        Whether the gradient is a row_sparse array that holds only the rows of the indices in the input.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": sparse_grad,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        """Return the vectors of the indices in the input."""
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{0}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


class Flatten(HybridBlock):
    """Flatten all axes of the input but the first into one."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the input with two axes."""
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """Wrap a function of arrays, or an operator given by its name, as a block."""

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            assert hasattr(ndarray, function), f"Function name {function} is not found in ndarray."
            self._func_impl: Callable[..., Any] = getattr(ndarray, function)
        elif callable(function):
            self._func_impl = function
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def forward(self, *args: Any) -> Any:
        """Return the result of the function."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """Wrap a function such as ``lambda F, x: F.relu(x)``, or an operator given by its name, as a hybrid block."""

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            assert hasattr(ndarray, function), f"Function name {function} is not found in symbol/ndarray."
            self._func: Callable[..., Any] | None = None
            self._func_name = function
        elif callable(function):
            self._func = function
            self._func_name = function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        """Return the result of the function."""
        if self._func is None:
            return getattr(F, self._func_name)(x, *args)
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


complete_classes(globals())
