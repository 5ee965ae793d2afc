"""Provide the base class of optimizers: learning rates, weight decay, counts of updates, and the registry.

Takes arrays from ``ndarray`` and update rules from ``core.ops.update``. Hands ``Optimizer`` to the other modules of
this package and to ``Updater``.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar

from .. import ndarray
from ..core.array.call import write
from ..core.array.handle import node_in, record_or_detach
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import HALVES, name_of
from ..core.base.errors import nearest
from ..core.ops.update.update_rules import add_weight_decay, clip_to_limit, rescale, rescale_and_clip
from ..core.trace.trace import LOCAL, ready_trace
from ..ndarray.array import NDArray, concrete
from ..ndarray.creation import zeros
from ..ndarray.sparse import label_storage, touched_rows
from ..ndarray.sparse_rows import change_rows

__all__ = ["Optimizer", "Test", "UpdateStep", "assign", "assign_all", "create", "register", "zeros_like"]

Class = TypeVar("Class", bound="type[Optimizer]")


def __getattr__(name: str) -> Any:
    """Return a name of the package: MXNet defines all optimizers in this module."""
    package = sys.modules[__name__.rpartition(".")[0]]
    if name in getattr(package, "__all__", ()):
        return getattr(package, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class OptimizerArguments(TypedDict, total=False):
    """The keywords that optimizers with a default learning rate pass on to :class:`Optimizer`."""

    rescale_grad: float
    param_idx2name: dict[Any, str] | None
    wd: float
    clip_gradient: float | None
    lr_scheduler: Any
    sym: Any
    begin_num_update: int
    multi_precision: bool
    param_dict: dict[Any, Any] | None


class RateArguments(OptimizerArguments, total=False):
    """The keywords that all other optimizers pass on."""

    learning_rate: float | None


class UpdateStep(NamedTuple):
    """Hold the numbers of one update of one weight."""

    lr: float
    """The learning rate."""
    wd: float
    """The weight decay."""
    number: int
    """The number of the update, from 1."""


def zeros_like(weight: NDArray, dtype: Any = None) -> NDArray:
    """Return zeros with the shape and context of a weight, and its dtype unless `dtype` is given."""
    return zeros(weight.shape, ctx=weight.context, dtype=weight.dtype if dtype is None else dtype)


def assign(target: NDArray, value: NDArray) -> None:
    """Assign a value of the same shape and dtype: ``target[:] = value``, faster."""
    trace = ready_trace()
    write(target, record_or_detach(node_in(value, trace), trace), trace)


def assign_all(targets: Sequence[NDArray], values: Sequence[NDArray]) -> None:
    """Assign the results of an update rule (:mod:`..core.ops.update.update_rules`) to a weight and its states."""
    for target, value in zip(targets, values, strict=True):
        assign(target, value)


class Optimizer:
    """Base class of optimizers. A subclass overrides ``create_state`` and ``update``.

    Parameters
    ----------
    rescale_grad
        The factor of gradients; trainers set it to ``1 / batch_size``.
    param_idx2name
        The names of parameters by index.
    wd
        Weight decay: the fraction of each weight that is added to its gradient.
    clip_gradient
        The limit to which gradients are clipped; None for no limit.
    learning_rate
        The learning rate. The default is that of the scheduler, or 0.01 without a scheduler.
    lr_scheduler
        A scheduler of :mod:`phonograd.lr_scheduler`.
    sym
        A symbol whose variables may carry the attributes ``__lr_mult__`` and ``__wd_mult__``.
    begin_num_update
        The number of earlier updates.
    multi_precision
        Whether to keep float32 copies of float16 and bfloat16 weights and update these.
    param_dict
        Parameters by index, which provide ``lr_mult`` and ``wd_mult``.
    """

    opt_registry: dict[str, type[Optimizer]] = {}
    #: whether the float32 copy of a weight is the first part of its state
    _copy_first = True
    #: whether the update of a row depends on that row alone
    _by_rows = True

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: dict[Any, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: Any = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: dict[Any, Any] | None = None,
    ) -> None:
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None and learning_rate is None:
            learning_rate = 0.01
        self.lr = learning_rate
        if lr_scheduler is not None and learning_rate is not None and lr_scheduler.base_lr != learning_rate:
            warnings.warn(
                "learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer.",
                UserWarning,
                stacklevel=3,
            )
            lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        names = param_idx2name or {}
        assert isinstance(names, dict), "param_idx2name should be a dict of param indexes to names."
        self.idx2name = dict(names)
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict or {}
        self.allow_np_array = False
        self.set_lr_mult({})
        self.set_wd_mult({})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "param_dict"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, param_dict={})

    # -- by name

    @staticmethod
    def register(klass: Class) -> Class:
        """Register an optimizer class under its lower-case name, and return it."""
        assert isinstance(klass, type), f"only classes can be registered, not {klass!r}"
        name = klass.__name__.lower()
        old = Optimizer.opt_registry.get(name)
        if old is not None and old is not klass:
            warnings.warn(
                f"WARNING: New optimizer {klass.__module__}.{klass.__name__} is overriding existing optimizer "
                f"{old.__module__}.{old.__name__}",
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Return a new optimizer by its name.

        >>> Optimizer.create_optimizer("sgd", momentum=0.9).momentum
        0.9
        """
        known = Optimizer.opt_registry
        if name.lower() not in known:
            raise ValueError(f"Cannot find optimizer {name}{nearest(name.lower(), list(known))}")
        chosen = known[name.lower()]
        for argument in ("lr", "weight_decay"):
            if argument in kwargs and argument not in inspect.signature(chosen).parameters:
                instead = {"lr": "learning_rate", "weight_decay": "wd"}[argument]
                raise TypeError(f"{name} has no argument {argument!r} (did you mean {instead!r}?)")
        return chosen(**kwargs)

    # -- learning rates and weight decay

    @property
    def learning_rate(self) -> Any:
        """The current learning rate."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)

    def set_learning_rate(self, lr: float) -> None:
        """Change the learning rate. Raise UserWarning if the optimizer has a scheduler."""
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined. Note that set_learning_rate can mutate the "
                "value of the learning rate of the optimizer only when the LRScheduler of the optimizer is undefined."
            )
        self.lr = lr

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """Raise DeprecationWarning: :meth:`set_lr_mult` replaces this method."""
        raise DeprecationWarning("set_lr_scale was removed: use set_lr_mult")

    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None:
        """Set factors of the learning rate, by index or name of parameters."""
        self.lr_mult = {**self._from_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None:
        """Set factors of weight decay, by index or name of parameters.

        Without a factor of its own, a parameter has weight decay if it is a weight or a gamma.
        """
        others = {name: 0.0 for name in self.idx2name.values() if not name.endswith(self._decaying_endings())}
        self.wd_mult = {**others, **self._from_symbol("__wd_mult__"), **args_wd_mult}

    def _decaying_endings(self) -> tuple[str, ...]:
        """Return the endings of the names of parameters with weight decay."""
        return "_weight", "_gamma"

    def _from_symbol(self, attribute: str) -> dict[Any, float]:
        if not self.sym_info:
            return {}
        attributes, names = self.sym_info
        return {name: float(attributes[name][attribute]) for name in names if attribute in attributes.get(name, {})}

    def _multiplier(self, index: Any, attribute: str, own: dict[Any, float]) -> float:
        if index in self.param_dict:
            return float(getattr(self.param_dict[index], attribute))
        if index in own:
            return own[index]
        return own.get(self.idx2name.get(index), 1.0)

    def _get_lr(self, index: Any) -> float:
        return float(self.learning_rate) * self._multiplier(index, "lr_mult", self.lr_mult)

    def _get_wd(self, index: Any) -> float:
        return self.wd * self._multiplier(index, "wd_mult", self.wd_mult)

    def _get_lrs(self, indices: Any) -> list[float]:
        return [self._get_lr(index) for index in indices]

    def _get_wds(self, indices: Any) -> list[float]:
        return [self._get_wd(index) for index in indices]

    # -- counting

    def _set_current_context(self, device_id: int) -> None:
        """Count the updates of each device separately."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any) -> None:
        """Count one update of a parameter, or of each parameter in a list."""
        counts = self._index_update_count
        for each in index if isinstance(index, (list, tuple)) else [index]:
            counts[each] = counts.get(each, self.begin_num_update) + 1
            self.num_update = max(counts[each], self.num_update)

    def _step(self, index: Any) -> UpdateStep:
        """Count the next update of a parameter, and return its numbers."""
        self._update_count(index)
        return UpdateStep(self._get_lr(index), self._get_wd(index), self._index_update_count[index])

    # -- gradients

    def _limit(self) -> float | None:
        """Return the limit of gradients, or None for no limit, which 0 and -1 mean, too."""
        limit = self.clip_gradient
        return limit if limit is not None and limit > 0 else None

    def _prepare_gradient(self, grad: NDArray, scale: Any) -> NDArray:
        """Return the rescaled, then clipped gradient."""
        found: NDArray = rescale_and_clip(ndarray, grad, scale, self._limit())
        return found

    def _prepare_gradient_with_decay(self, grad: NDArray, scale: Any, wd: Any, weight: NDArray) -> NDArray:
        """Return the rescaled gradient with weight decay, then clipped."""
        found: NDArray = clip_to_limit(ndarray, add_weight_decay(rescale(grad, scale), wd, weight), self._limit())
        return found

    # -- updating

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the state that the optimizer keeps for a weight; None for no state."""
        return None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the state of a weight, with a float32 copy of a 16-bit weight if `multi_precision` is set."""
        if weight._dtype in HALVES and not self.multi_precision:
            warnings.warn(
                f"Accumulating with {name_of(weight._dtype)} in optimizer can lead to poor accuracy or "
                f"slow convergence. Consider using "
                "multi_precision=True option of the optimizer",
                stacklevel=2,
            )
        return self._new_state(index, weight)

    def _new_state(self, index: Any, weight: NDArray) -> Any:
        """Return the state of a weight as :meth:`create_state_multi_precision` does, without its warning."""
        if weight._dtype in HALVES and self.multi_precision:
            copy = weight.astype("float32")
            state = self.create_state(index, copy)
            return (copy, state) if self._copy_first else (state, copy)
        return self.create_state(index, weight)

    def _rates(self, step: UpdateStep) -> tuple[float | None, ...]:
        """Return the numbers of one update that may change from update to update; None for one without effect."""
        return step.lr, step.wd or None

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, *rates: Any) -> None:
        """Update a weight and its state by a gradient times `scale`.

        Numbers that change from update to update are arguments, and may be 0-d arrays. So the update can be
        replayed without running this code (:mod:`phonograd.optimizer.repetition`).
        """
        raise NotImplementedError(f"{type(self).__name__} has no update(self, index, weight, grad, state)")

    def _scale(self) -> float | None:
        return None if self.rescale_grad == 1.0 else self.rescale_grad

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight and its state by a gradient, or each weight of a list."""
        if isinstance(index, (list, tuple)):
            for each in zip(index, weight, grad, state, strict=True):
                self.update(*each)
            return
        self._change(weight, grad, state, self._scale(), *self._rates(self._step(index)))

    def _change(self, weight: NDArray, grad: NDArray, state: Any, *rates: Any) -> None:
        """Update a weight as :meth:`_apply` does; if lazy, change only the rows of a row_sparse gradient."""
        if grad.stype != "row_sparse" or not self._is_lazy(weight):
            self._apply(weight, grad, state, *rates)
            return
        held = [weight, *(state if isinstance(state, (list, tuple)) else [state])]
        arrays = [array for array in held if array is not None]
        rows = weight.shape[0]
        if self._by_rows and LOCAL.trace.allows_shortcuts and all([array.shape[:1] == (rows,) for array in arrays]):
            self._change_rows(grad, state, arrays, *rates)
            return
        whole = label_storage(grad, "default")
        touched = touched_rows(whole)
        before = [(array, array.copy()) for array in arrays]
        self._apply(weight, whole, state, *rates)
        for array, old in before:
            assign(array, ndarray.where(touched, array, old))

    def _change_rows(self, grad: Any, state: Any, arrays: list[NDArray], *rates: Any) -> None:
        """Update the rows of a weight and of its state that a gradient has, as arrays of their own.

        If the other rows would stay as they are anyway, the update may be an expression of all: no array of rows is
        made, and it is computed with the backward pass.
        """
        whole = grad._as_sum() if self._keeps_rows(state, *rates) else None
        if whole is not None:
            self._apply(arrays[0], whole, state, *rates)
            return
        record = grad._to_storage()
        rows = concrete(record.data, arrays[0].context)

        def change(parts: list[NDArray]) -> None:
            part_of = {id(array): part for array, part in zip(arrays, parts, strict=True)}
            if isinstance(state, (list, tuple)):
                self._apply(parts[0], rows, type(state)([part_of.get(id(each)) for each in state]), *rates)
            else:
                self._apply(parts[0], rows, part_of.get(id(state)), *rates)

        change_rows(arrays, record.indices[0], change)

    def _keeps_rows(self, state: Any, scale: float | None, *rates: float | None) -> bool:
        """Return whether a gradient of zeros changes no bit of a weight: a lazy update then need not leave rows out."""
        return False

    def _is_lazy(self, weight: NDArray) -> bool:
        """Return whether a row_sparse gradient leaves the other rows of the weight and state unchanged."""
        return bool(getattr(self, "lazy_update", False))

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight through its float32 copy, if it has one, or each weight of a list."""
        if isinstance(index, (list, tuple)):
            for each in zip(index, weight, grad, state, strict=True):
                self.update_multi_precision(*each)
            return
        if not self.multi_precision or weight._dtype not in HALVES:
            self.update(index, weight, grad, state)
            return
        copy, own = state if self._copy_first else reversed(state)
        self.update(index, copy, grad.astype("float32"), own)
        assign(weight, copy.astype(weight.dtype))


register = Optimizer.register
create = Optimizer.create_optimizer


@register
class Test(Optimizer):
    """Add gradients to weights, and copy the weight to the state: an optimizer for tests."""

    __test__ = False  # keep pytest from collecting it

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeros."""
        return zeros_like(weight)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any, scale: Any, *rates: Any) -> None:
        assign(weight, weight + rescale(grad, scale))
        assign(state, weight)


complete_classes(globals())
