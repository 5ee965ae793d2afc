"""Provide mx.init: initializers, which fill parameters before training.

An initializer takes a description (:class:`InitDesc`: the name of a parameter with attributes) and an array to fill.
The attribute ``__init__`` of a parameter selects its own initializer. For all others the end of the name decides:
the initializer draws weights, biases and betas become 0, and gammas become 1.
"""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import registry
from .core.base.docstrings import complete_classes
from .core.base.foreign_names import unknown_name
from .ndarray import random
from .ndarray.array import NDArray
from .ndarray.creation import zeros
from .ndarray.params import load

__all__ = [
    "Bilinear",
    "Constant",
    "FusedRNN",
    "InitDesc",
    "Initializer",
    "LSTMBias",
    "Load",
    "MSRAPrelu",
    "Mixed",
    "Normal",
    "One",
    "Orthogonal",
    "Uniform",
    "Xavier",
    "Zero",
    "alias",
    "create",
    "register",
]

_logger = logging.getLogger(__name__)


class InitDesc(str):
    """Hold the name of a parameter, its attributes and the initializer of the whole network."""

    __slots__ = ("attrs", "global_init")

    attrs: dict[str, Any]
    global_init: Any

    def __new__(cls, name: str, attrs: dict[str, Any] | None = None, global_init: Any = None) -> InitDesc:
        """Return a description of the parameter `name`."""
        description = super().__new__(cls, name)
        description.attrs = attrs or {}
        description.global_init = global_init
        return description


def _root_mean_square(array: NDArray) -> str:
    return str(float(np.sqrt(np.mean(np.square(array.asnumpy().astype(np.float64))))))


class Initializer:
    """Base class of initializers. A subclass overrides ``_init_weight(name, arr)``, which fills an array.

    >>> import phonograd as mx
    >>> weight = mx.nd.empty((2, 2))
    >>> mx.init.Constant(3)(mx.init.InitDesc("dense0_weight"), weight)
    >>> weight.asnumpy().tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] | None = None

    def set_verbosity(self, verbose: bool = False, print_func: Callable[[NDArray], str] | None = None) -> Initializer:
        """Log each initialization with a statistic of the values from now on, and return the initializer."""
        self._verbose = verbose
        self._print_func = print_func or _root_mean_square
        return self

    def _verbose_print(self, desc: str, init: Any, arr: NDArray) -> None:
        if self._verbose and self._print_func is not None:
            _logger.info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    def dumps(self) -> str:
        """Return the name and arguments of the initializer as JSON, which :func:`create` accepts."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__

    def __call__(self, desc: str, arr: NDArray) -> None:
        """Fill an array according to its description."""
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        own = desc.attrs.get("__init__", "")
        if own:
            create(own)._init_weight(desc, arr)
            self._verbose_print(desc, own, arr)
            return
        for ending, fill in (
            ("weight", self._init_weight),
            ("bias", self._init_bias),
            ("gamma", self._init_gamma),
            ("beta", self._init_beta),
            ("min", self._init_zero),
            ("max", self._init_one),
            ("weight_quantize", self._init_quantized_weight),
            ("bias_quantize", self._init_quantized_bias),
        ):
            if desc.endswith(ending):
                fill(desc, arr)
                self._verbose_print(desc, ending, arr)
                return
        self._init_default(desc, arr)

    def _legacy_init(self, name: str, arr: NDArray) -> None:
        """Fill an array by its plain name, with the endings of names in symbolic networks."""
        warnings.warn(
            "Calling initializer with init(str, NDArray) has been deprecated. "
            "Please use init(mx.init.InitDesc(...), NDArray) instead.",
            DeprecationWarning,
            stacklevel=3,
        )
        if not isinstance(name, str):
            raise TypeError("name must be string")
        if not isinstance(arr, NDArray):
            raise TypeError("arr must be NDArray")
        if name.startswith("upsampling"):
            self._init_bilinear(name, arr)
            return
        localization = name.startswith("stn_loc")
        for ending, fill in (
            ("bias", self._init_loc_bias if localization else self._init_bias),
            ("gamma", self._init_gamma),
            ("beta", self._init_beta),
            ("weight", self._init_zero if localization else self._init_weight),
            ("moving_mean", self._init_zero),
            ("moving_var", self._init_one),
            ("moving_inv_var", self._init_zero),
            ("moving_avg", self._init_zero),
            ("min", self._init_zero),
            ("max", self._init_one),
        ):
            if name.endswith(ending):
                fill(name, arr)
                return
        self._init_default(name, arr)

    def _init_bilinear(self, name: str, arr: NDArray) -> None:
        if len(arr.shape) < 4:
            raise ValueError(f"Bilinear initializer needs four axes, but {name} has shape {arr.shape}")
        height, width = arr.shape[2:4]
        half = math.ceil(width / 2)
        center = (2 * half - 1 - half % 2) / (2 * half)
        rows = 1 - np.abs(np.arange(height) / half - center)
        columns = 1 - np.abs(np.arange(width) / half - center)
        arr[:] = np.broadcast_to(np.outer(rows, columns), arr.shape).astype(arr.dtype)

    def _init_loc_bias(self, _: str, arr: NDArray) -> None:
        assert arr.shape[0] == 6
        arr[:] = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])

    def _init_zero(self, _: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_one(self, _: str, arr: NDArray) -> None:
        arr[:] = 1

    def _init_bias(self, _: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_gamma(self, _: str, arr: NDArray) -> None:
        arr[:] = 1

    def _init_beta(self, _: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotImplementedError("Must override it")

    def _init_quantized_bias(self, _: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_quantized_weight(self, _: str, arr: NDArray) -> None:
        arr[:] = random.randint(-127, 127, arr.shape, dtype="int32").astype(arr.dtype)

    def _init_default(self, name: str, _: NDArray) -> None:
        raise ValueError(
            f'Unknown initialization pattern for {name}. Default initialization is now limited to "weight", "bias", '
            '"gamma" (1.0), and "beta" (0.0). Please use mx.sym.Variable(init=mx.init.*) to set initialization pattern'
        )


_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


def register(klass: Any) -> Any:
    """Register an initializer class under its lower-case name, and return it."""
    return _register(klass)


class Load:
    """Copy values from a dictionary or a ``.params`` file; another initializer fills all other parameters."""

    def __init__(self, param: str | Mapping[str, NDArray], default_init: Any = None, verbose: bool = False) -> None:
        loaded: Any = load(param) if isinstance(param, str) else param
        assert isinstance(loaded, Mapping)
        self.param = {name[4:] if name.startswith(("arg:", "aux:")) else name: array for name, array in loaded.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill an array by its name."""
        if name in self.param:
            found = self.param[name]
            assert arr.shape == found.shape, (
                f"Parameter {name} cannot be initialized from loading. "
                f"Shape mismatch, target {arr.shape} vs loaded {found.shape}"
            )
            arr[:] = found
        else:
            assert self.default_init is not None, (
                f"Cannot Initialize {name}. Not found in loaded param and no default Initializer is provided."
            )
            self.default_init(name, arr)
        if self.verbose:
            _logger.info("Initialized %s by %s", name, "loading" if name in self.param else "default")


class Mixed:
    """Select an initializer by the first pattern that matches the name of a parameter."""

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Any]) -> None:
        assert len(patterns) == len(initializers)
        self.map = [(re.compile(pattern), init) for pattern, init in zip(patterns, initializers)]

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill an array by its name."""
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at the end with a '
            "default initializer."
        )


@register
@alias("zeros")
class Zero(Initializer):
    """Fill parameters with 0."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, _: str, arr: NDArray) -> None:
        arr[:] = 0


@register
@alias("ones")
class One(Initializer):
    """Fill parameters with 1."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, _: str, arr: NDArray) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """Fill parameters with a number, or with an array of their shape."""

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, _: str, arr: NDArray) -> None:
        arr[:] = self.value

    def dumps(self) -> str:
        """Return the initializer as JSON, with the value as nested lists."""
        value = self.value.asnumpy() if isinstance(self.value, NDArray) else self.value
        plain = value if np.isscalar(value) else np.asarray(value).tolist()
        return json.dumps([type(self).__name__.lower(), {"value": plain}])


def _fill_uniform(arr: NDArray, scale: float) -> None:
    arr[:] = random.uniform(-scale, scale, arr.shape, dtype=arr.dtype, ctx=arr.ctx)


def _fill_normal(arr: NDArray, sigma: float) -> None:
    arr[:] = random.normal(0, sigma, arr.shape, dtype=arr.dtype, ctx=arr.ctx)


@register
class Uniform(Initializer):
    """Draw from the uniform distribution over [-scale, scale)."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, _: str, arr: NDArray) -> None:
        _fill_uniform(arr, self.scale)


@register
class Normal(Initializer):
    """Draw from the normal distribution with mean 0 and standard deviation `sigma`."""

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, _: str, arr: NDArray) -> None:
        _fill_normal(arr, self.sigma)


@register
class Orthogonal(Initializer):
    """Draw a random matrix with orthonormal rows or columns, and multiply it by `scale` (Saxe et al. 2013).

    A matrix with more rows than columns has orthonormal columns, any other matrix orthonormal rows.
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, _: str, arr: NDArray) -> None:
        matrix = arr.shape[0], math.prod(arr.shape[1:])
        if self.rand_type == "uniform":
            drawn = random.uniform(-1.0, 1.0, matrix)
        elif self.rand_type == "normal":
            drawn = random.normal(0.0, 1.0, matrix)
        else:
            raise ValueError(f"rand_type must be 'uniform' or 'normal', not {self.rand_type!r}")
        left, _values, right = np.linalg.svd(drawn.asnumpy(), full_matrices=False)
        arr[:] = self.scale * (left if left.shape == matrix else right).reshape(arr.shape)


@register
class Xavier(Initializer):
    """Draw weights at a scale that preserves the variance of signals across layers (Glorot and Bengio 2010).

    The scale is ``sqrt(magnitude / factor)``.

    Parameters
    ----------
    rnd_type
        'uniform' over [-scale, scale), or 'gaussian' with this standard deviation.
    factor_type
        The factor: the number of inputs ('in'), of outputs ('out'), or their mean ('avg'). A convolution multiplies
        it by the size of its window.
    magnitude
        The numerator.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        if len(arr.shape) < 2:
            raise ValueError(f"Xavier initializer cannot be applied to vector {name}. It requires at least 2D.")
        window = math.prod(arr.shape[2:])
        fan_out, fan_in = arr.shape[0] * window, arr.shape[1] * window
        factors = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError("Incorrect factor type")
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            _fill_uniform(arr, scale)
        elif self.rnd_type == "gaussian":
            _fill_normal(arr, scale)
        else:
            raise ValueError("Unknown random type")


@register
class MSRAPrelu(Xavier):
    """Draw normal weights at a scale for layers with leaky rectifiers (He et al. 2015).

    `slope` is the slope of the rectifier for negative inputs; see :class:`Xavier` for `factor_type`.
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """Fill the weight of a transposed convolution so that it upsamples by bilinear interpolation."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        self._init_bilinear(name, arr)


@register
class LSTMBias(Initializer):
    """Fill the biases of an LSTM cell: `forget_bias` for the forget gate (the second quarter), 0 elsewhere."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, _: str, arr: NDArray) -> None:
        quarter = arr.shape[0] // 4
        values = np.zeros(arr.shape, arr.dtype)
        values[quarter : 2 * quarter] = self.forget_bias
        arr[:] = values


_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


@register
class FusedRNN(Initializer):
    """Fill each weight and bias in the flat parameter vector of the RNN operator by another initializer."""

    def __init__(
        self,
        init: Any,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        made = create(init) if isinstance(init, str) else init
        super().__init__(
            init=None if made is None else made.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        if mode not in _GATES:
            raise ValueError(f"mode must be one of {', '.join(_GATES)}, not {mode!r}")
        self._init = made
        self._rows = num_hidden * _GATES[mode]
        self._num_hidden = num_hidden
        self._directions = 2 if bidirectional else 1
        self._num_layers = num_layers
        self._mode = mode
        self._forget_bias = forget_bias

    def _pieces(self, size: int) -> list[tuple[str, tuple[int, ...]]]:
        """Return the name and shape of each weight, then of each bias, in the order of the vector."""
        rows, hidden, directions = self._rows, self._num_hidden, self._directions
        later = (self._num_layers - 1) * directions * rows * (hidden * directions + hidden + 2)
        inputs = (size - later) // (directions * rows) - hidden - 2
        weights, biases = [], []
        for layer in range(self._num_layers):
            for direction in "lr"[:directions]:
                width = inputs if layer == 0 else hidden * directions
                for part, columns in (("i2h", width), ("h2h", hidden)):
                    weights.append((f"{direction}{layer}_{part}_weight", (rows, columns)))
                    biases.append((f"{direction}{layer}_{part}_bias", (rows,)))
        return [*weights, *biases]

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        parts = []
        general = self._init if self._init is not None else getattr(desc, "global_init", None)
        for name, shape in self._pieces(arr.size):
            filled = zeros(shape, dtype=arr.dtype)
            if general is None:
                raise ValueError(f"FusedRNN has no initializer for {name}: give it one as init=")
            general(InitDesc(name), filled)
            part = filled.asnumpy()
            if self._mode == "lstm" and name.endswith("bias"):
                # the order of the gates is input, forget, cell, output
                part[self._num_hidden : 2 * self._num_hidden] = self._forget_bias
            parts.append(part.reshape(-1))
        arr[:] = np.concatenate(parts).reshape(arr.shape)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise unknown_name(__name__, name, __all__)


complete_classes(globals())
