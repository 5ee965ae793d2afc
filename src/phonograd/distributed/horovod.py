"""Horovod's interface for MXNet (``import horovod.mxnet as hvd``), over the group of this process.

``phonograd run``, ``phonograd launch`` and :func:`phonograd.install_as_mxnet` provide this module as ``horovod.mxnet``.
Takes and returns NDArrays; :func:`phonograd.distributed.world` is the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import autograd
from ..core.array.handle import make_concrete
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError
from ..gluon.parameter import DeferredInitializationError, Parameter, ParameterDict
from ..gluon.trainer import Trainer
from ..kvstore.base import name_keys
from ..ndarray.array import NDArray
from ..optimizer import Optimizer
from .arrays import add_up
from .arrays import broadcast as broadcast_arrays
from .world import local_rank, local_size, rank, size, world

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "DistributedTrainer",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allreduce",
    "allreduce_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "grouped_allreduce",
    "grouped_allreduce_",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "rank",
    "shutdown",
    "size",
]

Average, Sum, Min, Max, Product = "average", "sum", "min", "max", "product"


def init(comm: Any = None) -> None:
    """Find the group of this process.

    Parameters
    ----------
    comm
        Must be None: the group is all processes that were launched together.
    """
    if comm:
        raise ValueError("init(comm) is not supported: use mx.distributed.use(world().split(...)) before init()")
    world()


def shutdown() -> None:
    """Do nothing: the group ends with the program."""


def is_initialized() -> bool:
    """Return True: the group is found at first use."""
    return True


def mpi_threads_supported() -> bool:
    """Return True: every MPI that is used supports threads."""
    return True


def mpi_enabled() -> bool:
    """Return True: MPI connects the processes."""
    return True


mpi_built = mpi_enabled


def is_homogeneous() -> bool:
    """Return whether all machines have the same number of processes."""
    sizes = world().all_gather(np.array([local_size()]), "is_homogeneous")
    return len({int(each[0]) for each in sizes}) == 1


def cross_rank() -> int:
    """Return the number of this machine."""
    return rank() // local_size()


def cross_size() -> int:
    """Return the number of machines, if all have the same number of processes."""
    return size() // local_size()


def barrier() -> None:
    """Wait until all processes have called it."""
    world().barrier()


class Compression:
    """The ways to send arrays. Half precision takes half of the bytes, and rounds each term of a sum."""

    none = None
    fp16 = np.float16


def _check(tensor: Any) -> NDArray:
    if not isinstance(tensor, NDArray):
        raise TypeError(f"an NDArray is needed, not {type(tensor)}")
    return tensor


def _reduce(tensors: list[NDArray], average: bool, name: str, operation: str | None) -> list[NDArray]:
    """Return the reductions of arrays over all processes."""
    operation = operation or (Average if average else Sum)
    group = world()
    with autograd.pause():
        if operation in (Average, Sum):
            sums = add_up(group, [_check(tensor) for tensor in tensors], name)
            if group.size == 1:
                return [total.copy() for total in sums]
            return [total / group.size for total in sums] if operation == Average else sums
        values = group.all_reduce([_check(tensor).asnumpy() for tensor in tensors], operation, name)
        return [make_concrete(value, tensor.context) for value, tensor in zip(values, tensors)]


def allreduce(
    tensor: NDArray,
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: str | None = None,
) -> NDArray:
    """Return the average (or another reduction) of an array over all processes.

    >>> import phonograd as mx
    >>> allreduce(mx.nd.array([1.0, 2.0])).asnumpy().tolist()
    [1.0, 2.0]
    """
    with autograd.pause():
        given = tensor if prescale_factor == 1.0 else tensor * prescale_factor
        result = _reduce([given], average, name or "allreduce", op)[0]
        return result if postscale_factor == 1.0 else result * postscale_factor


def allreduce_(tensor: NDArray, average: bool = True, name: str | None = None, priority: int = 0, **kwargs: Any) -> Any:
    """Replace an array by its average (or another reduction) over all processes, and return it."""
    with autograd.pause():
        tensor[:] = allreduce(tensor, average, name, priority, **kwargs)
    return tensor


def grouped_allreduce(
    tensors: list[NDArray], average: bool = True, name: str | None = None, priority: int = 0, op: str | None = None
) -> list[NDArray]:
    """Return the averages (or other reductions) of arrays over all processes."""
    return _reduce(list(tensors), average, name or "grouped_allreduce", op)


def grouped_allreduce_(tensors: list[NDArray], *args: Any, **kwargs: Any) -> list[NDArray]:
    """Replace arrays by their averages (or other reductions) over all processes, and return them."""
    with autograd.pause():
        for tensor, result in zip(tensors, grouped_allreduce(tensors, *args, **kwargs)):
            tensor[:] = result
    return tensors


def allgather(tensor: NDArray, name: str | None = None, priority: int = 0) -> NDArray:
    """Return the arrays of all processes, one below the other."""
    parts = world().all_gather(np.atleast_1d(_check(tensor).asnumpy()), name or "allgather")
    gathered: NDArray = make_concrete(np.concatenate(parts), tensor.context)
    return gathered


def broadcast(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> NDArray:
    """Return the array of one process."""
    with autograd.pause():
        return broadcast_arrays(world(), [_check(tensor)], root_rank, name or "broadcast")[0].copy()


def broadcast_(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> NDArray:
    """Replace an array by that of one process, and return it."""
    with autograd.pause():
        tensor[:] = broadcast(tensor, root_rank, name, priority)
    return tensor


def alltoall(tensor: NDArray, splits: Any = None, name: str | None = None, priority: int = 0) -> Any:
    """Send parts of an array to all processes, and return the received parts, one below the other.

    Parameters
    ----------
    tensor
        The array; its first axis is divided.
    splits
        The number of rows for each process. Without it all get the same number. With it, the numbers of received rows
        are returned, too.
    """
    group = world()
    value = _check(tensor).asnumpy()
    if splits is None:
        if len(value) % group.size:
            raise MXNetError(f"alltoall: {len(value)} rows cannot be divided by {group.size} processes; give splits")
        counts = [len(value) // group.size] * group.size
    else:
        counts = [int(count) for count in (splits.asnumpy() if isinstance(splits, NDArray) else splits)]
        if len(counts) != group.size or sum(counts) != len(value):
            raise MXNetError(f"alltoall: splits {counts} do not divide {len(value)} rows among {group.size} processes")
    received = group.all_to_all(np.split(value, np.cumsum(counts)[:-1]), name or "alltoall")
    result = make_concrete(np.concatenate(received), tensor.context)
    if splits is None:
        return result
    return result, make_concrete(np.array([len(part) for part in received], np.int32), tensor.context)


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return an object of one process that consists of numbers, texts, lists and dictionaries."""
    import json

    text = json.dumps(obj) if rank() == root_rank else ""
    return json.loads(world().gather_texts(text, name or "broadcast_object")[root_rank])


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: str | None = None) -> None:
    """Replace parameters by those of one process.

    Parameters
    ----------
    params
        The result of ``net.collect_params()``, or arrays by name. Parameters whose shapes are unknown are replaced
        when they are initialized.
    root_rank
        The process whose values are taken.
    prefix
        A name for this call.
    """
    if not isinstance(params, (Mapping, ParameterDict)):
        raise ValueError(f"invalid params of type: {type(params)}")
    arrays: list[NDArray] = []
    for _, value in sorted(params.items()):
        if not isinstance(value, Parameter):
            arrays.append(value)
            continue
        try:
            arrays += value.list_data()
        except DeferredInitializationError:
            _broadcast_when_initialized(value, root_rank)
    with autograd.pause():
        for array, value in zip(arrays, broadcast_arrays(world(), arrays, root_rank, prefix or "broadcast_parameters")):
            array[:] = value


def _broadcast_when_initialized(parameter: Parameter, root_rank: int) -> None:
    """Replace a parameter by that of one process as soon as it has a shape."""
    initialize = parameter._init_impl

    def initialize_and_replace(*args: Any, **kwargs: Any) -> Any:
        result = initialize(*args, **kwargs)
        for array in parameter.list_data():
            broadcast_(array, root_rank, f"initialization of {parameter.name}")
        return result

    parameter._init_impl = initialize_and_replace  # type: ignore[method-assign]


class DistributedOptimizer(Optimizer):
    """Average the gradients of all processes, and update with another optimizer.

    Parameters
    ----------
    optimizer
        The optimizer that updates.
    gradient_predivide_factor
        Gradients are divided by this number before they are added up, and by the rest of the size afterwards.
    num_groups
        Accepted for compatibility, without effect: gradients are added up in buckets.
    """

    def __init__(self, optimizer: Optimizer, gradient_predivide_factor: float = 1.0, num_groups: int = 0) -> None:
        object.__setattr__(self, "_optimizer", optimizer)
        object.__setattr__(self, "_predivide", gradient_predivide_factor)
        # averages: sums are divided by the number of processes
        self._optimizer.rescale_grad *= gradient_predivide_factor / size()

    def __getattr__(self, item: str) -> Any:
        return getattr(self.__dict__["_optimizer"], item)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._optimizer, name, value)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """Return the state of the other optimizer."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def _add_up(self, index: Any, grad: Any) -> Any:
        several = isinstance(index, (list, tuple))
        grads = list(grad) if several else [grad]
        if self._predivide != 1.0:
            grads = [each / self._predivide for each in grads]
        sums = _reduce(grads, False, f"gradients {index}", None)
        return sums if several else sums[0]

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update weights by gradients of all processes."""
        self._optimizer.update(index, weight, self._add_up(index, grad), state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update weights by gradients of all processes, with states in higher precision."""
        self._optimizer.update_multi_precision(index, weight, self._add_up(index, grad), state)

    def set_learning_rate(self, lr: float) -> None:
        """Change the learning rate."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """Set factors of the learning rate by parameter."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """Set factors of the weight decay by parameter."""
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(Trainer):
    """A trainer that averages the gradients of all processes.

    Parameters
    ----------
    params, optimizer, optimizer_params
        The arguments of :class:`phonograd.gluon.Trainer`.
    compression
        ``Compression.fp16`` sends gradients in half precision.
    gradient_predivide_factor
        Gradients are divided by this number before they are added up, and by the rest of the size afterwards.
    prefix
        Accepted for compatibility, without effect.
    num_groups
        Accepted for compatibility, without effect: gradients are added up in buckets.
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: dict[str, Any] | None = None,
        compression: Any = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            raise ValueError("DistributedTrainer averages gradients itself: give the optimizer of DistributedOptimizer")
        if compression not in (Compression.none, Compression.fp16):
            raise ValueError(f"compression must be Compression.none or Compression.fp16, not {compression!r}")
        super().__init__(params, optimizer, optimizer_params, kvstore=None)
        self._scale *= gradient_predivide_factor / size()
        self._predivide = gradient_predivide_factor
        self._compression = compression

    def _allreduce_grads(self) -> None:
        if size() == 1:
            return
        ordered = [self._params[number] for number in self._forward_order]
        used = [parameter for parameter in ordered if parameter.grad_req != "null"]
        grads = [grad for parameter in used for grad in parameter.list_grad()]
        with autograd.pause():
            sent = [grad / self._predivide for grad in grads] if self._predivide != 1.0 else list(grads)
            if self._compression is not None:
                sent = [each.astype(self._compression) for each in sent]
            for grad, total in zip(
                grads, add_up(world(), sent, f"gradients of {name_keys([one.name for one in used])}")
            ):
                grad[:] = total.astype(grad.dtype) if self._compression is not None else total


complete_classes(globals())
