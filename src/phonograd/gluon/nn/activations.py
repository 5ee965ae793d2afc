"""Provide activation functions as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import initializer
from ...core.base.docstrings import complete_classes
from ..block import HybridBlock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..block.naming import BlockArguments

__all__ = ["ELU", "GELU", "SELU", "Activation", "LeakyReLU", "PReLU", "Swish"]


class Activation(HybridBlock):
    """Apply an activation without parameters: 'relu', 'sigmoid', 'tanh', 'softrelu' or 'softsign'."""

    def __init__(self, activation: str, **kwargs: Unpack[BlockArguments]) -> None:
        # the base class asks for `_alias` first
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the activation of the input."""
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """Apply the leaky rectifier: ``x`` where it is positive, ``alpha * x`` elsewhere."""

    def __init__(self, alpha: float, **kwargs: Unpack[BlockArguments]) -> None:
        assert alpha >= 0, "Slope coefficient for LeakyReLU must be no less than 0."
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the activation of the input."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """Apply the parametric rectifier: ``x`` where it is positive, ``alpha * x`` elsewhere, with a learned `alpha`.

    `in_channels` is 1 for one slope for all channels, or the number of channels for one slope each.
    """

    def __init__(
        self,
        alpha_initializer: Any = initializer.Constant(0.25),  # noqa: B008 - it is never changed
        in_channels: int = 1,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=alpha_initializer)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:
        """Return the activation of the input."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """Apply the exponential linear unit: ``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere."""

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[BlockArguments]) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the activation of the input."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """Apply the scaled exponential linear unit, which preserves mean 0 and variance 1 (Klambauer et al. 2017)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the activation of the input."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """Apply the Gaussian error linear unit: ``x * Φ(x)`` (Hendrycks and Gimpel 2016).

    ``Φ`` is the cumulative distribution function of the standard normal distribution.
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the activation of the input."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """Apply the Swish function: ``x * sigmoid(beta * x)``."""

    def __init__(self, beta: float = 1.0, **kwargs: Unpack[BlockArguments]) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the activation of the input."""
        return x * F.sigmoid(self._beta * x, name="fwd")


complete_classes(globals())
