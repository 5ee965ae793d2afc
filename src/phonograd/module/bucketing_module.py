"""BucketingModule: one network for inputs of different lengths, with one symbol per length."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import ndarray
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError
from ..io import DataBatch
from ..model import load_params
from ..ndarray import NDArray
from ..symbol import Symbol
from ..symbol import load as load_symbol
from .base_module import Arrays, BaseModule, Binding, Metric, Values, need
from .module import Module

__all__ = ["BucketingModule"]

#: return the symbol, the names of data and the names of labels for a bucket
Generator = Callable[[Any], tuple[Symbol, Sequence[str], Sequence[str]]]


class BucketingModule(BaseModule):
    """Run the symbol for each ``batch.bucket_key``; all symbols share their parameters.

    Parameters
    ----------
    sym_gen
        Returns the symbol, the names of data and the names of labels for a key.
    default_bucket_key
        The key of the bucket that has all parameters: the longest.
    logger, context, work_load_list, fixed_param_names, state_names, group2ctxs, compression_params
        As in :class:`~phonograd.module.Module`.

    >>> import phonograd as mx
    >>> def layers(key):
    ...     data = mx.sym.sum(mx.sym.var("data"), axis=1)
    ...     return mx.sym.FullyConnected(data, num_hidden=2, name="fc"), ("data",), None
    >>> module = BucketingModule(layers, default_bucket_key=10)
    >>> module.bind([("data", (2, 10, 3))], for_training=False)
    >>> module.init_params()
    >>> module.forward(mx.io.DataBatch([mx.nd.ones((2, 5, 3))], bucket_key=5, provide_data=[("data", (2, 5, 3))]))
    >>> module.get_outputs()[0].shape
    (2, 2)
    """

    _has_parameters = True

    def __init__(
        self,
        sym_gen: Generator,
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Any = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ) -> None:
        super().__init__(logger)
        if default_bucket_key is None:
            raise AssertionError("BucketingModule needs a default_bucket_key, the key of the largest bucket")
        self._sym_gen = sym_gen
        self._default_bucket_key = default_bucket_key
        self._options = {
            "logger": logger,
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
        }
        self._buckets: dict[Any, Module] = {}
        self._symbols: dict[Any, Symbol] = {}
        self._curr_bucket_key: Any = None
        self._grad_req: Any = "write"
        self._monitor: Any = None
        self._loaded: tuple[Arrays, Arrays] | None = None
        self._make_module(default_bucket_key)

    def _make_module(self, key: Any) -> Module:
        """Create a module for a bucket."""
        symbol, data_names, label_names = self._sym_gen(key)
        return Module(self._symbols.get(key, symbol), data_names, label_names, **self._options)

    @property
    def _curr_module(self) -> Module | None:
        """The module of the current bucket, or None before ``bind``."""
        return self._buckets.get(self._curr_bucket_key)

    @property
    def _current(self) -> Module:
        need(self.binded, "BucketingModule", "bind")
        return self._buckets[self._curr_bucket_key]

    # -- inputs and outputs

    @property
    def data_names(self) -> Sequence[str]:
        """The names of the inputs of the current bucket."""
        return self._current.data_names if self.binded else list(self._sym_gen(self._default_bucket_key)[1] or [])

    @property
    def output_names(self) -> Sequence[str]:
        """The names of the outputs of the current bucket."""
        return self._current.output_names if self.binded else self._sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> Any:
        """The names and shapes of the inputs of the current bucket."""
        return self._current.data_shapes

    @property
    def label_shapes(self) -> Any:
        """The names and shapes of the labels of the current bucket, or None."""
        return self._current.label_shapes

    @property
    def output_shapes(self) -> Any:
        """The names and shapes of the outputs of the current bucket."""
        return self._current.output_shapes

    @property
    def symbol(self) -> Symbol:
        """The symbol of the current bucket."""
        found: Symbol = self._current.symbol
        return found

    # -- buckets

    def _check_binding(self, wanted: Binding) -> None:
        if wanted.shared_module is not None:
            raise AssertionError("shared_module for BucketingModule is not supported")

    def _bind(self, wanted: Binding) -> None:
        """Bind the default bucket; other buckets are bound by their first batch."""
        kept = self.get_params() if self.binded and self.params_initialized else self._loaded
        self.for_training, self.inputs_need_grad = wanted.for_training, wanted.inputs_need_grad
        self._grad_req = wanted.grad_req
        module = self._make_module(self._default_bucket_key)
        module.bind(*wanted._replace(force_rebind=False))
        self._buckets = {self._default_bucket_key: module}
        self._curr_bucket_key = self._default_bucket_key
        self.binded = True
        if kept is not None:
            self.set_params(*kept)
            self._loaded = None

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Switch to another bucket; a new bucket is bound to inputs of the given shapes."""
        need(self.binded, "switch_bucket", "bind")
        if bucket_key not in self._buckets:
            default = self._buckets[self._default_bucket_key]
            module = self._make_module(bucket_key)
            unknown = sorted(set(module._param_names) - set(default._param_names))
            if unknown:
                raise MXNetError(
                    f"bucket {bucket_key!r} has the parameters {', '.join(unknown)}, which the default bucket "
                    f"{self._default_bucket_key!r} lacks: the default bucket must have all parameters"
                )
            module.bind(
                data_shapes, label_shapes, self.for_training, self.inputs_need_grad, False, default, self._grad_req
            )
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            self._buckets[bucket_key] = module
        self._curr_bucket_key = bucket_key

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Bind the bucket of the next batch if it is new."""
        self._need_params("prepare")
        before = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_bucket_key = before

    # -- parameters

    def get_params(self) -> tuple[Arrays, Arrays]:
        """Return copies of the parameters and of the auxiliary states, by name."""
        self._need_params("get_params")
        return self._buckets[self._default_bucket_key].get_params()

    def _init_params(self, wanted: Values) -> None:
        need(self.binded, "init_params", "bind")
        self._buckets[self._default_bucket_key].init_params(*wanted)
        for module in self._buckets.values():
            module.params_initialized = True

    def get_states(self, merge_multi_context: bool = True) -> list[NDArray]:
        """Return the states of the current bucket."""
        self._need_params("get_states")
        return self._current.get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states of the current bucket to arrays, or to one number."""
        self._need_params("set_states")
        self._current.set_states(states, value)

    def _init_optimizer(self, kvstore: Any, optimizer: Any, optimizer_params: Any, force_init: bool) -> None:
        # the default bucket numbers the parameters of all buckets
        default = self._buckets[self._default_bucket_key]
        default.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not default:
                module.borrow_optimizer(default)

    # -- batches

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch in its bucket."""
        self._need_params("forward")
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._current.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last batch."""
        self._need_params("backward")
        self._current.backward(out_grads)

    def update(self) -> None:
        """Update the parameters with the gradients of the last batch."""
        self._need_params("update")
        need(self.optimizer_initialized, "update", "init_optimizer")
        self._current.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last batch."""
        self._need_params("get_outputs")
        return self._current.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the inputs."""
        self._need_params("get_input_grads")
        return self._current.get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Metric, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and the outputs of the last batch."""
        self._current.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor of the values of all buckets."""
        need(self.binded, "install_monitor", "bind")
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    # -- files

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write parameters to ``prefix-0001.params`` and the symbol of each bucket to ``prefix-<key>-symbol.json``.

        The keys, which must be integers, are written to ``prefix.buckets``.
        """
        self._need_params("save_checkpoint")
        if not all([isinstance(key, int) for key in self._buckets]):
            raise MXNetError(f"save_checkpoint: bucket keys must be integers, not {list(self._buckets)}")
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        ndarray.save(f"{prefix}.buckets", ndarray.array(list(self._buckets), dtype="int32"))
        self.save_params(f"{prefix}-{epoch:04d}.params")

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: Generator | None = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> BucketingModule:
        """Load a checkpoint; ``bind`` sets the parameters."""
        keys: Any = ndarray.load(f"{prefix}.buckets")
        symbols = {int(key): load_symbol(f"{prefix}-{int(key)}-symbol.json") for key in keys[0].asnumpy()}
        return BucketingModule.load_dict(symbols, sym_gen, default_bucket_key, *load_params(prefix, epoch), **kwargs)

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Any, Any] | None = None,
        sym_gen: Generator | None = None,
        default_bucket_key: Any = None,
        arg_params: Arrays | None = None,
        aux_params: Arrays | None = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """Create a module with given parameters; ``bind`` sets them.

        ``sym_dict`` maps keys to symbols that replace those of ``sym_gen``.
        """
        if sym_gen is None:
            raise AssertionError("sym_gen is required to create a BucketingModule")
        if default_bucket_key is None:
            raise AssertionError("default_bucket_key is required to create a BucketingModule")
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        module._symbols = dict(sym_dict or {})
        module._loaded = (dict(arg_params or {}), dict(aux_params or {}))
        module.params_initialized = True
        return module


complete_classes(globals())
