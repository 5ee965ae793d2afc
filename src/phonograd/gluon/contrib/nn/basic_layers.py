"""Provide parallel containers, pixel shuffling, and batch normalization over several devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import autograd, ndarray
from ....core.base.docstrings import complete_classes
from ....core.base.dtypes import HALVES
from ....distributed.communicator import Communicator
from ....distributed.functions import AllReduce
from ....distributed.world import world
from ....ndarray.array import NDArray
from ...block import Block, HybridBlock
from ...nn import BatchNorm, HybridSequential, Sequential
from ...parameter import ParameterDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...block.naming import BlockArguments

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
    "SparseEmbedding",
    "SyncBatchNorm",
]


class Concurrent(Sequential):
    """Run blocks in parallel on the same input and concatenate their outputs along `axis`."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:
        """Return the concatenated outputs of all blocks."""
        return ndarray.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """Run hybrid blocks in parallel on the same input and concatenate their outputs along `axis`."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the concatenated outputs of all blocks."""
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """Return the input unchanged: a skip connection in :class:`HybridConcurrent`."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the input."""
        return x


class SparseEmbedding(Block):
    """Map integer indices to vectors, with a row_sparse weight and gradient."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": True}
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            grad_stype="row_sparse",
            stype="row_sparse",
        )

    def forward(self, x: Any) -> Any:
        """Return the vectors of the indices in the input."""
        return ndarray.Embedding(x, self.weight.row_sparse_data(x), name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{0}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


class SyncBatchNorm(BatchNorm):
    """Apply :class:`~phonograd.gluon.nn.BatchNorm` with the statistics of all processes that train together.

    Outputs, gradients and running statistics are those of one process with the whole batch, up to rounding. The shares
    of the batch may have different sizes. Channels are the second axis. All processes must call the layer equally
    often. `num_devices` has no effect: it is the number of processes.
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(
            axis=1,
            momentum=momentum,
            epsilon=epsilon,
            center=center,
            scale=scale,
            use_global_stats=use_global_stats,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            running_mean_initializer=running_mean_initializer,
            running_variance_initializer=running_variance_initializer,
            in_channels=in_channels,
            **kwargs,
        )
        self._kwargs = {
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
            "ndev": 1 if num_devices is None else num_devices,
            "key": self.prefix,
        }

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        """Return the normalized input."""
        group = world()
        if (
            group.size > 1
            and autograd.is_training()
            and not self._kwargs["use_global_stats"]
            and isinstance(x, NDArray)
        ):
            return self._normalize_together(group, x, gamma, beta, running_mean, running_var)
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def _normalize_together(self, group: Communicator, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
        """Return the input normalized with the statistics of all processes, and update the running ones."""
        given, x = x, x.astype("float32") if x._dtype in HALVES else x
        axes = (0, *range(2, x.ndim))
        beside = (1, -1, *[1] * (x.ndim - 2))
        count = ndarray.full((1,), x.size // x.shape[1], ctx=x.context, dtype=x.dtype)
        sums = AllReduce(group, f"{self.name}: sums")(ndarray.concat(x.sum(axis=axes), count, dim=0))
        number = sums[-1:].detach()
        batch_mean = sums[:-1] / number
        centered = x - batch_mean.reshape(beside)
        squares = AllReduce(group, f"{self.name}: squares")((centered * centered).sum(axis=axes))
        batch_variance = squares / number
        factor = 1 / ndarray.sqrt(batch_variance + self._kwargs["eps"])
        if not self._kwargs["fix_gamma"]:
            factor = factor * gamma
        momentum = self._kwargs["momentum"]
        with autograd.pause():
            for running, batch in ((mean, batch_mean), (variance, batch_variance)):
                running[:] = running * momentum + batch.detach() * (1 - momentum)
        return (centered * factor.reshape(beside) + beta.reshape(beside)).astype(given.dtype)


class _PixelShuffle(HybridBlock):
    """Move elements from channels to spatial axes: each axis grows by its factor, channels shrink by their product."""

    _axes: int

    def __init__(self, factor: Any) -> None:
        super().__init__()
        factors = (factor,) * self._axes if isinstance(factor, (int, float)) else tuple(factor)
        assert len(factors) == self._axes, f"wrong length {len(factors)}"
        self._factors = tuple([int(extent) for extent in factors])

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the input with fewer channels and longer spatial axes."""
        # (N, C·f1·…·fn, L1, …, Ln) -> (N, C, f1, …, fn, L1, …, Ln) -> (N, C, L1, f1, …, Ln, fn)
        axes = self._axes
        for position, factor in enumerate(reversed(self._factors)):
            x = F.reshape(x, shape=(0, -4, -1, factor, *[0] * (axes + position)))
        order = [axis for number in range(axes) for axis in (2 + axes + number, 2 + number)]
        x = F.transpose(x, axes=(0, 1, *order))
        return F.reshape(x, shape=(0, 0, *[-3] * axes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"


class PixelShuffle1D(_PixelShuffle):
    """Move elements from channels to the width of inputs of shape (batch, channels, width)."""

    _axes = 1

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors[0]})"


class PixelShuffle2D(_PixelShuffle):
    """Move elements from channels to the height and width of inputs of shape (batch, channels, height, width)."""

    _axes = 2


class PixelShuffle3D(_PixelShuffle):
    """Move elements from channels to the three spatial axes of inputs (batch, channels, depth, height, width)."""

    _axes = 3


complete_classes(globals())
