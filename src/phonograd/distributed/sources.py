"""Sources: the parameters and optimizer states of a trainer or a module, as elastic training keeps and transfers them.

Takes what users give to :class:`phonograd.distributed.elastic.State`; hands arrays and updaters to it. Trainers and
modules are recognized by their methods, because their packages are above this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..core.base.errors import MXNetError
from ..ndarray.array import NDArray

__all__ = ["Source", "make_source"]


class Source(Protocol):
    """One trainer or module."""

    def prepare(self) -> None:
        """Raise unless all arrays exist."""

    def arrays(self) -> Iterator[NDArray]:
        """Yield the arrays of parameters, and the values of stores that update them."""

    def weights(self) -> dict[Any, NDArray]:
        """Return the arrays of parameters by their numbers in the optimizer."""

    def updater(self) -> Any:
        """Return the updater, which has the states of the optimizer."""


def make_source(trained: Any) -> Source:
    """Return the source for a trainer, an Estimator or a Module."""
    trainer = getattr(trained, "trainer", trained)
    if hasattr(trainer, "allreduce_grads"):
        return _TrainerSource(trainer)
    if hasattr(trained, "init_optimizer") and hasattr(trained, "_updater"):
        return _ModuleSource(trained)
    raise TypeError(
        f"a state takes gluon.Trainer, Estimator or mod.Module, or a list of them, not {type(trained).__name__}"
    )


class _TrainerSource:
    """A trainer."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def prepare(self) -> None:
        self._trainer._prepare()
        missing = [parameter.name for parameter in self._trainer._params_to_init]
        if missing:
            raise MXNetError(
                f"elastic training needs initialized parameters, but the shape of {missing[0]} is unknown: call "
                "the network once before run()"
            )

    def arrays(self) -> Iterator[NDArray]:
        for number, parameter in enumerate(self._trainer._params):
            yield parameter.data()
            if self._trainer._update_on_kvstore:
                yield self._trainer._kvstore._values[number]

    def weights(self) -> dict[Any, NDArray]:
        return {number: parameter.data() for number, parameter in enumerate(self._trainer._params)}

    def updater(self) -> Any:
        trainer = self._trainer
        return trainer._kvstore._updater if trainer._update_on_kvstore else trainer._updaters[0]


class _ModuleSource:
    """A module with one context."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def prepare(self) -> None:
        module = self._module
        if not (module.binded and module.params_initialized and module.optimizer_initialized):
            raise MXNetError(
                "elastic training needs a module with parameters: call bind(), init_params() and "
                "init_optimizer(kvstore='dist_sync') before run()"
            )
        if len(module._exec_group.execs) != 1:
            raise MXNetError("elastic training needs a module with one context: each process has its own")

    def arrays(self) -> Iterator[NDArray]:
        executor = self._module._exec_group.execs[0]
        for name in self._module._param_names:
            yield executor.arg_dict[name]
        yield from executor.aux_dict.values()

    def weights(self) -> dict[Any, NDArray]:
        executor = self._module._exec_group.execs[0]
        return {number: executor.arg_dict[name] for name, number in self._module._numbers.items()}

    def updater(self) -> Any:
        return self._module._updater
