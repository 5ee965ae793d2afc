"""Provide Trainer: an optimizer applied to parameters (``mxnet.gluon.Trainer``).

Takes parameters from blocks, optimizers from ``optimizer`` and stores from ``kvstore``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from .. import kvstore as stores
from .. import optimizer as optimizers
from ..core.base.devices import Context
from ..core.base.docstrings import complete_classes
from ..core.base.files import write_atomically
from ..core.base.foreign_names import OF_BLOCKS, ForeignName, advise_arguments
from ..kvstore.base import is_distributed
from .parameter import Parameter, ParameterDict

__all__ = ["Trainer"]


class Trainer:
    """Update parameters by their gradients.

    Parameters
    ----------
    params
        The parameters: ``net.collect_params()``, or a list of parameters.
    optimizer
        An optimizer, or its name.
    optimizer_params
        The arguments of an optimizer that is given by name.
    kvstore
        The store that adds up gradients of several contexts or processes ('dist_sync'), or its type. One context in one
        process needs no store.
    compression_params
        The compression of gradients, for stores of other libraries that support it.
    update_on_kvstore
        Whether the store updates the parameters. None lets it do so if it can, and belongs to this process alone.

    >>> import phonograd as mx
    >>> from phonograd import autograd, gluon
    >>> net = gluon.nn.Dense(1, in_units=1, use_bias=False)
    >>> net.initialize("ones")
    >>> trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    >>> with autograd.record():
    ...     loss = net(mx.nd.array([[1.0], [3.0]]))
    >>> loss.backward()
    >>> trainer.step(batch_size=2)
    >>> net.weight.data().asnumpy().tolist()
    [[0.0]]
    """

    zero_grad = ForeignName("zero_grad", OF_BLOCKS["zero_grad"])

    @advise_arguments
    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: dict[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: dict[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        order: list[str] = []
        if isinstance(params, (dict, ParameterDict)):
            order = list(params.keys())
            params = [params[name] for name in sorted(order)]
        if not isinstance(params, (list, tuple)):
            raise ValueError(
                f"First argument must be a list or dict of Parameters, got {type(params)}."
                f"{' Write net.collect_params().' if hasattr(params, 'collect_params') else ''}"
            )
        self._params: list[Parameter] = []
        self._param2idx: dict[str, int] = {}
        for parameter in params:
            if not isinstance(parameter, Parameter):
                raise ValueError(f"First argument must be a list or dict of Parameters, got list of {type(parameter)}.")
            self._param2idx[parameter.name] = len(self._params)
            self._params.append(parameter)
            parameter._set_trainer(self)
        # blocks list parameters in the order of the forward pass, and gradients become final in the opposite one
        numbers = {name: number for number, name in enumerate(sorted(order))}
        self._forward_order = [numbers[name] for name in order] or list(range(len(self._params)))
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._optimizer = self._make_optimizer(optimizer, {} if optimizer_params is None else optimizer_params)
        self._updaters = [optimizers.get_updater(self._optimizer) for _ in self._contexts]
        self._scale = self._optimizer.rescale_grad
        #: how mixed precision scales losses (:mod:`phonograd.contrib.amp`), and the scale without it
        self._amp_loss_scaler: Any = None
        self._amp_original_scale = self._scale
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._reset_kvstore()

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for parameter in self._params:
            own = parameter.list_ctx()
            assert contexts is None or contexts == own, (
                "All Parameters must be initialized on the same set of contexts, but Parameter "
                f"{parameter.name} is initialized on {own} while previous Parameters are initialized on {contexts}."
            )
            contexts = own
        return contexts or []

    def _make_optimizer(self, optimizer: Any, arguments: dict[str, Any]) -> optimizers.Optimizer:
        if not isinstance(arguments, Mapping):
            raise TypeError(
                f"optimizer_params must be a dictionary such as {{'learning_rate': 0.1}}, not {arguments!r}"
            )
        by_number = dict(enumerate(self._params))
        if not isinstance(optimizer, optimizers.Optimizer):
            return optimizers.create(optimizer, param_dict=by_number, **arguments)
        assert not arguments, "optimizer_params must be None if optimizer is an instance of Optimizer instead of str"
        optimizer.param_dict = by_number
        return optimizer

    # -- the store

    def _reset_kvstore(self) -> None:
        self._kv_initialized = False
        self._kvstore: Any = None
        self._update_on_kvstore = False
        self._params_to_init = list(self._params)

    def _note_new_data(self, parameter: Parameter) -> None:
        """Start with a new store if a parameter has been assigned values that differ from the stored ones."""
        if self._kv_initialized and self._update_on_kvstore and parameter not in self._params_to_init:
            self._reset_kvstore()

    def _prepare(self) -> None:
        """Create the store, and add parameters that it does not hold yet."""
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _init_params(self) -> None:
        """Add parameters to the store that it does not hold yet, if they are initialized."""
        later: list[Parameter] = []
        wanted = set(map(id, self._params_to_init))
        for number, parameter in enumerate(self._params):
            if id(parameter) not in wanted:
                continue
            if parameter._deferred_init is not None:
                later.append(parameter)
            elif self._kvstore is not None:
                arrays = parameter._check_and_get(parameter._data, list)
                self._kvstore.broadcast(number, arrays[0], arrays)
        self._params_to_init = later

    def _init_kvstore(self) -> None:
        wanted, on_store = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        sparse_weights = any([parameter._stype != "default" for parameter in self._params])
        sparse_grads = any([parameter._grad_stype != "default" for parameter in self._params])
        if sparse_weights and on_store is False:
            raise ValueError("Cannot set update_on_kvstore=False when sparse weights are present.")
        if wanted is None or isinstance(wanted, stores.KVStoreBase):
            self._kvstore = wanted
        elif len(self._contexts) > 1 or sparse_weights or is_distributed(wanted):
            self._kvstore = stores.create(wanted)
        if self._kvstore is not None:
            if self._compression_params:
                self._kvstore.set_gradient_compression(self._compression_params)
            can = self._kvstore.is_capable("optimizer")
            if on_store and not can:
                raise ValueError(f"Please set update_on_kvstore=False when training with {type(self._kvstore)}")
            if on_store is None:
                # a store of several processes is in all of them, so the trainer can update as well, without copies
                on_store = can and not isinstance(self._kvstore, stores.DistributedKVStore)
                # only the rows of sparse gradients travel, not whole weights
                on_store = on_store and (sparse_weights or not sparse_grads)
            self._update_on_kvstore = bool(on_store)
            if self._update_on_kvstore:
                self._kvstore.set_optimizer(self._optimizer)
        self._kv_initialized = True

    # -- learning rates

    @property
    def optimizer(self) -> optimizers.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> Any:
        """The current learning rate."""
        return self._optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, lr: NoReturn) -> None:
        raise AttributeError(f"write trainer.set_learning_rate({lr})")

    def set_learning_rate(self, lr: float) -> None:
        """Change the learning rate."""
        self._optimizer.set_learning_rate(lr)

    # -- updates

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update all parameters once: add up the gradients of all contexts, and divide them by `batch_size`.

        Parameters
        ----------
        batch_size
            The number of samples in the sums of gradients.
        ignore_stale_grad
            Whether to skip parameters without a new gradient. Otherwise such parameters raise an error.
        """
        self._optimizer.rescale_grad = self._scale / batch_size
        self._prepare()
        self._check_initialized()
        self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Add up the gradients of all contexts, without an update."""
        self._prepare()
        self._check_separate("allreduce_grads()")
        self._check_initialized()
        self._allreduce_grads()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update all parameters once by the gradients that :meth:`allreduce_grads` added up."""
        self._prepare()
        self._check_separate("update()")
        self._check_initialized()
        self._optimizer.rescale_grad = self._scale / batch_size
        self._update(ignore_stale_grad)

    def _check_initialized(self) -> None:
        """Raise an error if a parameter waits for a forward pass to determine its shape."""
        for parameter in self._params_to_init:
            if parameter.grad_req != "null":
                parameter._check_and_get(parameter._data, list)

    def _check_separate(self, method: str) -> None:
        assert not self._update_on_kvstore, (
            f"{method} when parameters are updated on kvstore is not supported. Try setting `update_on_kvstore` to "
            "False when creating trainer."
        )

    def _allreduce_grads(self) -> None:
        if self._kvstore is None:
            return
        stored_together = isinstance(self._kvstore, (stores.KVStore, stores.Horovod))
        order = self._forward_order if stored_together else range(len(self._params))
        numbers = [number for number in order if self._params[number].grad_req != "null"]
        if not numbers:
            return
        used = [self._params[number] for number in numbers]
        grads = [parameter.list_grad() for parameter in used]
        out = [parameter._check_and_get(parameter._data, list) for parameter in used]
        if stored_together:
            # one call: several processes then add up gradients while others are still computed
            self._kvstore.pushpull(numbers, grads, out=out if self._update_on_kvstore else None)
            return
        for number, grad, arrays in zip(numbers, grads, out):
            self._kvstore.pushpull(number, grad, out=arrays if self._update_on_kvstore else None, priority=-number)

    def _update(self, ignore_stale_grad: bool) -> None:
        if self._amp_loss_scaler is not None and self._amp_loss_scaler.has_overflow(self._params):
            # parameters, states and counts of updates stay as they are
            for parameter in self._params:
                if parameter.grad_req != "null":
                    for array in parameter._check_and_get(parameter._data, list):
                        array._fresh_grad = False
            return
        updates: list[list[tuple[Any, Any, Any]]] = [[] for _ in self._updaters]
        for number, parameter in enumerate(self._params):
            if parameter.grad_req == "null":
                continue
            arrays = parameter._check_and_get(parameter._data, list)
            for array in () if ignore_stale_grad else arrays:
                if not array._fresh_grad:
                    raise UserWarning(
                        f"Gradient of Parameter `{parameter.name}` on context {array.context} has not been updated by "
                        "backward since last `step`. This could mean a bug in your model that made it only use a "
                        "subset of the Parameters (Blocks) for this iteration. If you are intentionally only using a "
                        "subset, call step with ignore_stale_grad=True to suppress this warning and skip updating of "
                        "Parameters with stale gradient"
                    )
            if self._update_on_kvstore:
                continue
            for update, array, grad in zip(updates, arrays, parameter.list_grad()):
                if array._fresh_grad:
                    update.append((number, grad, array))
                    array._fresh_grad = False
        for updater, update in zip(self._updaters, updates):
            if update:
                updater(*zip(*update))

    # -- files

    def save_states(self, fname: str) -> None:
        """Write the optimizer and its states to a file.

        The file has the format safetensors. With the setting ``states_format="mxnet"`` it has the format of MXNet.
        """
        self._prepare()
        if self._update_on_kvstore:
            assert not self._params_to_init, (
                "Cannot save trainer states when some parameters are not yet initialized in kvstore."
            )
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        else:
            write_atomically(fname, [self._updaters[0].get_states(dump_optimizer=True)])

    def load_states(self, fname: str) -> None:
        """Read the optimizer and its states from a file, which :meth:`save_states` or MXNet wrote.

        The whole file is checked first; an error leaves the trainer as it was.

        Raises
        ------
        MXNetError
            If the file is damaged, or does not fit the parameters; the message names the file and the place.
        """
        self._prepare()
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore._updater.optimizer
        else:
            with open(fname, "rb") as file:
                data = file.read()
            weights = {
                number: parameter._check_and_get(parameter._data, list)[0]
                for number, parameter in enumerate(self._params)
                if parameter._data is not None
            }
            # each context has arrays of its own
            loaded = [updater._read_states(data, fname, weights) for updater in self._updaters]
            for updater, states in zip(self._updaters, loaded):
                updater._install(states)
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


complete_classes(globals())
