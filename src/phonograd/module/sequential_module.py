"""SequentialModule: a chain of modules; the outputs of each are the inputs of the next."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..core.base.docstrings import complete_classes
from ..io import DataBatch, DataDesc
from .base_module import Arrays, BaseModule, Binding, Metric, Values, need

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """Run modules in a chain: the outputs of each are the inputs of the next.

    >>> import phonograd as mx
    >>> first = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="first")
    >>> second = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    >>> chain = SequentialModule()
    >>> chain = chain.add(mx.mod.Module(first, label_names=[]))
    >>> chain = chain.add(mx.mod.Module(second), take_labels=True, auto_wiring=True)
    >>> chain.bind([("data", (4, 5))], [("softmax_label", (4,))])
    >>> chain.output_shapes
    [('softmax_output', (4, 2))]
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger)
        self._modules: list[BaseModule] = []
        self._facts: list[dict[str, Any]] = []
        self._data_shapes: Any = None
        self._label_shapes: Any = None

    def add(self, module: BaseModule, **kwargs: Any) -> SequentialModule:
        """Append a module and return the chain.

        Parameters
        ----------
        take_labels
            Whether the module gets the labels of a batch.
        auto_wiring
            Whether to match the outputs of the previous module by order and not by name.
        """
        known = (self.META_TAKE_LABELS, self.META_AUTO_WIRING)
        for key in kwargs:
            if key not in known:
                raise AssertionError(f"Unknown meta {key!r}, a typo? Known are {', '.join(known)}")
        self._modules.append(module)
        self._facts.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    def _nonempty(self) -> list[BaseModule]:
        need(bool(self._modules), "SequentialModule", "add")
        return self._modules

    # -- inputs and outputs

    @property
    def data_names(self) -> Sequence[str]:
        """The names of the inputs."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> Sequence[str]:
        """The names of the outputs."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> Any:
        """The names and shapes of the inputs."""
        need(self.binded, "data_shapes", "bind")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        """The names and shapes of the labels, or None."""
        need(self.binded, "label_shapes", "bind")
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """The names and shapes of the outputs."""
        need(self.binded, "output_shapes", "bind")
        return self._modules[-1].output_shapes

    # -- preparing

    def _bind(self, wanted: Binding) -> None:
        wanted.check_training()
        if wanted.shared_module is not None:
            raise AssertionError("Shared module is not supported")
        modules = self._nonempty()
        self.for_training, self.inputs_need_grad = wanted.for_training, wanted.inputs_need_grad
        self._label_shapes = None
        shapes = wanted.data_shapes
        for place, (module, facts) in enumerate(zip(modules, self._facts, strict=True)):
            labels = wanted.label_shapes if facts.get(self.META_TAKE_LABELS) else None
            if labels is not None:
                self._label_shapes = labels
            if facts.get(self.META_AUTO_WIRING):
                shapes = _rename(shapes, module.data_names)
            # all modules but the first pass gradients back
            passes = wanted.inputs_need_grad or (wanted.for_training and place > 0)
            own = wanted._replace(data_shapes=shapes, label_shapes=labels, inputs_need_grad=passes)
            module.bind(**own._asdict())
            shapes = module.output_shapes
        self.binded = True

    def get_params(self) -> tuple[Arrays, Arrays]:
        """Return copies of the parameters and of the auxiliary states of all modules, by name."""
        self._need_params("get_params")
        arguments: Arrays = {}
        states: Arrays = {}
        for module in self._modules:
            own, own_states = module.get_params()
            arguments.update(own)
            states.update(own_states)
        return arguments, states

    def _init_params(self, wanted: Values) -> None:
        """Set the parameters of all modules; parameter names must be unique."""
        need(self.binded, "init_params", "bind")
        owners: dict[str, int] = {}
        for place, module in enumerate(self._modules):
            # the arrays are for all modules, so each module ignores those of the others
            module.init_params(*wanted._replace(allow_extra=True))
            for names in module.get_params():
                for name in names:
                    if owners.setdefault(name, place) != place:
                        raise AssertionError(
                            f"Duplicated parameter names: {name!r} in layer {place} ({type(module).__name__}) is "
                            f"already used in layer {owners[name]}"
                        )

    def _init_optimizer(self, kvstore: Any, optimizer: Any, optimizer_params: Any, force_init: bool) -> None:
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)

    # -- batches

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch, module by module."""
        self._need_params("forward")
        data, described = data_batch.data, getattr(data_batch, "provide_data", None)
        for place, module in enumerate(self._modules):
            shapes = described if place == 0 else [DataDesc(*each) for each in self._modules[place - 1].output_shapes]
            if shapes is not None and self._facts[place].get(self.META_AUTO_WIRING):
                shapes = _rename(shapes, module.data_names)
            batch = DataBatch(
                list(data),
                getattr(data_batch, "label", None),
                getattr(data_batch, "pad", None),
                getattr(data_batch, "index", None),
                getattr(data_batch, "bucket_key", None),
                shapes,
                getattr(data_batch, "provide_label", None),
            )
            module.forward(batch, is_train)
            data = module.get_outputs()

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last batch, from the last module to the first."""
        self._need_params("backward")
        for place in range(len(self._modules) - 1, -1, -1):
            self._modules[place].backward(out_grads)
            if place:
                out_grads = self._modules[place].get_input_grads()

    def update(self) -> None:
        """Update the parameters of all modules."""
        self._need_params("update")
        need(self.optimizer_initialized, "update", "init_optimizer")
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last module."""
        self._need_params("get_outputs")
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the first module's inputs."""
        self._need_params("get_input_grads")
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Metric, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and the outputs of modules that take labels."""
        self._need_params("update_metric")
        for module, facts in zip(self._modules, self._facts, strict=True):
            if facts.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor of the values of all modules."""
        need(self.binded, "install_monitor", "bind")
        for module in self._modules:
            module.install_monitor(mon)


def _rename(shapes: Any, names: Sequence[str]) -> list[DataDesc]:
    """Rename shapes to the names of a module's inputs, in order."""
    if len(shapes) != len(names):
        raise AssertionError(f"auto_wiring: {len(shapes)} outputs do not match the inputs {', '.join(names)}")
    found = [each if isinstance(each, DataDesc) else DataDesc(*each) for each in shapes]
    return [DataDesc(name, each.shape, each.dtype, each.layout) for name, each in zip(names, found, strict=True)]


complete_classes(globals())
