"""SVRGModule: a module whose gradients have less variance than those of single batches (Johnson and Zhang, 2013).

A second module keeps a snapshot of the parameters. The gradient of a batch is the gradient at the parameters, minus
the gradient of the same batch at the snapshot, plus the mean gradient of all batches at the snapshot. Takes forward and
backward passes from :mod:`phonograd.module`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ...core.base.devices import cpu
from ...core.base.docstrings import complete_classes
from ...module import Module
from ...ndarray.array import NDArray
from ...symbol import Symbol

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """Train a symbol by stochastic variance-reduced gradients.

    Parameters
    ----------
    symbol, data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names, group2ctxs
        As for :class:`phonograd.module.Module`.
    compression_params
        As for :class:`phonograd.module.Module`.
    update_freq
        The number of epochs after which ``fit`` takes the next snapshot of the parameters.
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Any = cpu(),  # noqa: B008 - MXNet's default
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
        update_freq: int | None = None,
    ) -> None:
        common = (data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names, group2ctxs)
        super().__init__(symbol, *common, compression_params)
        meaning = "to represent the frequency for calculating full gradients"
        if not isinstance(update_freq, int):
            raise TypeError(f"update_freq in SVRGModule must be an integer {meaning}")
        if update_freq <= 0:
            raise ValueError(f"update_freq in SVRGModule must be a positive integer {meaning}")
        self.update_freq = update_freq
        #: the module with the snapshot of the parameters
        self._mod_aux = Module(symbol, *common, compression_params)
        #: the mean gradients of all batches at the snapshot, for each device
        self._param_dict: list[dict[str, NDArray]] | None = None
        self._ctx_len = len(self._context)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind both modules to inputs of other shapes."""
        super().reshape(data_shapes, label_shapes)
        self._mod_aux.reshape(data_shapes, label_shapes)

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Bind the module and, for training, the one with the snapshot."""
        arguments = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module, grad_req)
        super().bind(*arguments)
        if for_training:
            self._mod_aux.bind(*arguments)

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimizer, and arrays for the mean gradients."""
        super().init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        if self._param_dict is None or force_init:
            self._param_dict = self._zeros()

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs, in training also at the snapshot."""
        super().forward(data_batch, is_train)
        if (self.for_training if is_train is None else is_train) and self._mod_aux.params_initialized:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients, also at the snapshot."""
        super().backward(out_grads)
        if self._mod_aux.params_initialized:
            self._mod_aux.backward(out_grads)

    @staticmethod
    def _gradients(module: Module) -> list[dict[str, NDArray]]:
        """Return the gradients of a module on each device, by the names of parameters."""
        return [
            {name: grad for name in module._param_names if (grad := executor.grad_dict.get(name)) is not None}
            for executor in module._require_bound("gradients").execs
        ]

    def _zeros(self) -> list[dict[str, NDArray]]:
        """Return zeros like all gradients."""
        return [{name: grad.zeros_like() for name, grad in grads.items()} for grads in self._gradients(self)]

    def update(self) -> None:
        """Reduce the variance of the gradients, and update the parameters."""
        self._update_svrg_gradients()
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """Take a snapshot of the parameters, and compute its mean gradient over all batches."""
        self._mod_aux.init_params(
            arg_params=self.get_params()[0], aux_params=self.get_params()[1], force_init=True, allow_extra=True
        )
        sums = self._zeros()
        train_data.reset()
        count, pad = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            for totals, grads in zip(sums, self._gradients(self._mod_aux), strict=True):
                for name, grad in grads.items():
                    totals[name] += grad
            count, pad = count + 1, batch.pad or 0
        whole = count - pad / train_data.batch_size
        self._param_dict = [{name: total / whole for name, total in totals.items()} for totals in sums]
        train_data.reset()

    def _svrg_grads_update_rule(
        self,
        g_curr_batch_curr_weight: NDArray,
        g_curr_batch_special_weight: NDArray,
        g_special_weight_all_batch: NDArray,
    ) -> NDArray:
        """Return the first gradient, changed in place: minus the second, plus the third."""
        g_curr_batch_curr_weight -= g_curr_batch_special_weight
        g_curr_batch_curr_weight += g_special_weight_all_batch
        return g_curr_batch_curr_weight

    def _update_svrg_gradients(self) -> None:
        """Reduce the variance of all gradients."""
        if self._param_dict is None or not self._mod_aux.params_initialized:
            return
        on_devices = zip(self._gradients(self), self._gradients(self._mod_aux), self._param_dict, strict=True)
        for grads, special, means in on_devices:
            for name, grad in grads.items():
                self._svrg_grads_update_rule(grad, special[name], means[name])

    def _train_epoch(self, epoch: int, train_data: Any, *rest: Any) -> None:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        super()._train_epoch(epoch, train_data, *rest)


complete_classes(globals())
