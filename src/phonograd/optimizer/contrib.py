"""Provide the optimizers of ``mxnet.optimizer.contrib``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ndarray
from ..core.base.docstrings import complete_classes
from ..core.ops.update import update_rules as rules
from ..ndarray.array import NDArray
from ..ndarray.creation import zeros
from .optimizer import Optimizer, UpdateStep, assign_all, register

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .optimizer import RateArguments

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """Apply :class:`~phonograd.optimizer.AdaGrad` with one learning rate for each row of a matrix."""

    def __init__(self, eps: float = 1e-05, **kwargs: Unpack[RateArguments]) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros for the sum of squares of each row."""
        assert len(weight.shape) == 2, f"GroupAdaGrad updates matrices, not arrays of shape {weight.shape}"
        return zeros((weight.shape[0], 1), ctx=weight.context, stype=weight.stype)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        assert step.wd == 0, "Weight decay is not supported for GroupAdaGrad"
        return (step.lr,)

    def _is_lazy(self, weight: NDArray) -> bool:
        # there is no weight decay, so a gradient of zero changes nothing
        return True

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, lr: Any) -> None:
        grad = self._prepare_gradient(grad, scale)
        assign_all((weight, state), rules.group_adagrad(ndarray, weight, grad, state, lr, self.float_stable_eps))


complete_classes(globals())
