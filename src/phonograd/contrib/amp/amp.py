"""Mixed precision: casts in front of operators, loss scaling, and conversion of networks.

Takes ``Operator.precision`` from the registry. :func:`init` gives each operator a rule that converts the inputs of
users' calls with ``amp_cast``; the casts are nodes like all others, so kernels fuse them and symbols show them. The
trainer asks its :class:`.loss_scaler.LossScaler` before each update.

>>> from phonograd import autograd, gluon, nd
>>> from phonograd.contrib import amp
>>> amp.init("bfloat16")
>>> net = gluon.nn.Dense(1, in_units=1)
>>> net.initialize("ones")
>>> trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
>>> amp.init_trainer(trainer)
>>> with autograd.record():
...     with amp.scale_loss(net(nd.ones((1, 1))), trainer) as loss:
...         autograd.backward(loss)
>>> trainer.step(1)
>>> net.weight.data().asnumpy().tolist()
[[0.5]]
>>> amp.amp.reset()
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...core.base.dtypes import BFLOAT16, CODES, FLOAT16, FLOAT32, DType, as_array_dtype, name_of
from ...core.base.errors import MXNetError, nearest
from ...core.graph.node import FORGOTTEN, UNLEARNED, Node
from ...core.graph.operator import REGISTRY, Operator
from ...gluon import HybridBlock, SymbolBlock, Trainer
from ...module import BucketingModule
from ...optimizer import Optimizer
from ...symbol import Symbol
from ...symbol.build import InputCasts, set_input_casts
from ...symbol.calls import known_operator
from ...symbol.entry import Entry, Head
from . import lists
from .conversion import with_casts
from .lists import conditional_names, precision_of, recorded
from .loss_scaler import LossScaler

__all__ = [
    "convert_bucketing_module",
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "lists",
    "scale_loss",
    "unscale",
]

#: MXNet's name of the dtype
bfloat16 = BFLOAT16

#: whether :func:`init` was called; other libraries read it
_amp_initialized = False
#: the scale of output layers, and of the first trainer
_loss_scaler: LossScaler | None = None
#: whether a trainer has that scale
_amp_loss_scale_initialized = False

Conditions = Sequence[tuple[str, str, Sequence[str]]]


def _target(dtype: Any) -> DType:
    try:
        found = as_array_dtype(dtype)
    except TypeError:
        found = FLOAT32
    if found not in (FLOAT16, BFLOAT16):
        raise ValueError(f"mixed precision takes target_dtype 'float16' or 'bfloat16', not {dtype!r}")
    return found


class _Lists:
    """The precision of each operator, from the registry and from the lists of a call."""

    def __init__(self, low: Sequence[str] | None, conditional: Conditions | None, wide: Sequence[str] | None) -> None:
        for condition in conditional or ():
            _check_condition(condition)
        self._low = None if low is None else _operators(low)
        self._wide = None if wide is None else _operators(wide)
        pairs = conditional_names() if conditional is None else conditional
        given = [*(low or ()), *(wide or ()), *[name for name, *_ in conditional or ()]]
        for name in given:
            if given.count(name) > 1:
                raise ValueError(f"mixed precision: the operator {name!r} is in two lists; name it in one of them")
        self.conditions = {
            declared: (parameter, tuple(values)) for name, parameter, values in pairs for declared in _operators([name])
        }

    def precision(self, declared: Operator) -> str:
        """Return the precision in which an operator runs."""
        if self._low is not None and declared in self._low:
            return "low"
        if self._wide is not None and declared in self._wide:
            return "float32"
        found = precision_of(declared)
        replaced = (found == "low" and self._low is not None) or (found == "float32" and self._wide is not None)
        return "" if replaced else found

    def precision_of_call(self, declared: Operator, attributes: Mapping[str, str]) -> str:
        """Return the precision in which an operator runs with some parameters, given as text."""
        condition = self.conditions.get(declared)
        if condition is not None and attributes.get(condition[0]) in condition[1]:
            return "float32"
        return self.precision(declared)


def _check_condition(condition: Any) -> None:
    """Raise an error if a condition is not one that some operator can meet."""
    if isinstance(condition, str) or len(condition) != 3 or isinstance(condition[2], str):
        raise TypeError(
            f"conditional_fp32_ops has tuples (operator, parameter, list of values), not {condition!r}; for example "
            "('Activation', 'act_type', ['softrelu'])"
        )
    name, parameter, _ = condition
    for declared in _operators([name]):
        if parameter not in declared.parameter_names:
            hint = nearest(parameter, list(declared.parameter_names))
            raise MXNetError(f"conditional_fp32_ops: the operator {name!r} has no parameter {parameter!r}{hint}")


def _operators(names: Sequence[str]) -> set[Operator]:
    """Return the operators of some names; names of MXNet's lists that do not exist here are left out."""
    if isinstance(names, str):
        raise TypeError(f"mixed precision takes lists of operator names, not {names!r}; write [{names!r}]")
    for name in names:
        if name not in REGISTRY and name not in _names_of_mxnet():
            raise MXNetError(f"mixed precision: there is no operator {name!r}{nearest(name, list(REGISTRY))}")
    return {REGISTRY[name] for name in names if name in REGISTRY}


@functools.cache
def _names_of_mxnet() -> set[str]:
    """Return all names in MXNet's lists."""
    values = [value for found in recorded().values() for value in found.values()]
    return {name for value in values for name in value if isinstance(name, str)}


def _cast(node: Any, dtype: DType, sources: tuple[DType, ...]) -> Any:
    if not isinstance(node, Node) or node.dtype == dtype or node.dtype not in sources:
        return node
    return REGISTRY["amp_cast"].apply((node,), (dtype,))


def _to_low(target: DType) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]:
    return lambda nodes, attributes: tuple([_cast(node, target, (FLOAT32,)) for node in nodes])


def _to_float32(target: DType) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]:
    return lambda nodes, attributes: tuple([_cast(node, FLOAT32, (target,)) for node in nodes])


def _to_widest(target: DType) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]:
    def convert(nodes: tuple[Any, ...], attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        if not any([isinstance(node, Node) and node.dtype == FLOAT32 for node in nodes]):
            return nodes
        return tuple([_cast(node, FLOAT32, (target,)) for node in nodes])

    return convert


_RULES = {"low": _to_low, "float32": _to_float32, "widest": _to_widest}


def _conditionally(declared: Operator, condition: tuple[str, tuple[str, ...]], target: DType) -> Callable[..., Any]:
    place, convert = declared.parameter_names.index(condition[0]), _to_float32(target)
    return lambda nodes, attributes: (
        convert(nodes, attributes) if attributes and attributes[place] in condition[1] else nodes
    )


def _scaled(
    convert: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]] | None, scaler: LossScaler
) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]:
    """Return the rule of an output layer, whose gradient does not depend on the scaled loss: it is scaled itself."""

    def scale(nodes: tuple[Any, ...], attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        data, *others = nodes if convert is None else convert(nodes, attributes)
        return (scaler.scale_gradient(data), *others)

    return scale


def _install(rules: Mapping[Operator, Callable[..., Any]]) -> None:
    """Give operators their rules, and forget the calls that were made with others."""
    for declared in set(REGISTRY.values()):
        declared.autocast = rules.get(declared)
    _forget_calls()


def _forget_calls() -> None:
    for declared in set(REGISTRY.values()):
        declared.calls.clear()
        declared.several.clear()
        declared.accepted_parameters.clear()
        declared.consequences.clear()
    # the machine code of calls remembers recent ones, too
    FORGOTTEN.emit()
    UNLEARNED.emit()


def _symbol_casts(lists: _Lists, target: DType) -> InputCasts:
    """Return the function that adds casts to the inputs of new symbols."""

    def cast(head: Head, dtype: DType) -> Head:
        source = head[0]
        if source.operator == "amp_cast" and source.attributes["dtype"] == name_of(dtype):
            return head
        name = f"{source.name}_amp_cast_{name_of(dtype)}" + (f"_{head[1]}" if head[1] else "")
        return Entry("amp_cast", name, {"dtype": name_of(dtype)}, [head]), 0

    outputs = _operators(list_loss_output_functions(target))

    def casts(
        operator: str, name: str, attributes: Mapping[str, str], heads: list[Head], auxiliary: frozenset[int]
    ) -> list[Head]:
        declared = known_operator(operator)
        if declared in outputs:
            logging.warning("%s does not support dynamic loss scaling in symbolic execution.", operator)
        precision = "" if declared is None else lists.precision_of_call(declared, attributes)
        if precision == "widest" and len(heads) > 1:
            joined = Entry("amp_multicast", f"{name}_amp_multicast", {"num_outputs": str(len(heads))}, heads)
            return [(joined, output) for output in range(len(heads))]
        if precision not in ("low", "float32"):
            return heads
        dtype = target if precision == "low" else FLOAT32
        return [head if place in auxiliary else cast(head, dtype) for place, head in enumerate(heads)]

    return casts


def init(
    target_dtype: Any = "float16",
    target_precision_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    fp32_ops: Sequence[str] | None = None,
) -> None:
    """Run operators in mixed precision from now on, in all threads.

    Call it before networks and symbols are created. A second call changes nothing. From now on, gradients of output
    layers such as SoftmaxOutput are multiplied by the loss scale of the first trainer, in addition to ``grad_scale``.

    Parameters
    ----------
    target_dtype
        'float16' or 'bfloat16'.
    target_precision_ops, fp32_ops
        Names of the operators that run in 16 bits, and in float32. By default their declarations say it, for both types
        alike. ``list_lp16_ops(target_dtype)`` and ``list_fp32_ops(target_dtype)`` are MXNet's choice; that for bfloat16
        has no other operators in 16 bits than Convolution and FullyConnected.
    conditional_fp32_ops
        Operators that run in float32 for some values of a parameter: (operator, parameter, values).
    """
    global _amp_initialized, _loss_scaler
    target = _target(target_dtype)
    if _amp_initialized:
        return
    lists = _Lists(target_precision_ops, conditional_fp32_ops, fp32_ops)
    rules: dict[Operator, Callable[..., Any]] = {}
    for declared in set(REGISTRY.values()):
        precision = lists.precision(declared)
        if declared in lists.conditions:
            rules[declared] = _conditionally(declared, lists.conditions[declared], target)
        elif precision:
            rules[declared] = _RULES[precision](target)
    _loss_scaler = LossScaler()
    _loss_scaler.changed.connect(_forget_calls)
    for declared in _operators(list_loss_output_functions(target)):
        rules[declared] = _scaled(rules.get(declared), _loss_scaler)
    _install(rules)
    set_input_casts(_symbol_casts(lists, target))
    _amp_initialized = True


def reset() -> None:
    """End mixed precision: operators take their inputs as they are. MXNet has no such function."""
    global _amp_initialized, _loss_scaler, _amp_loss_scale_initialized
    _install({})
    set_input_casts(None)
    _amp_initialized = _amp_loss_scale_initialized = False
    _loss_scaler = None


# -- loss scaling


def _trainer(value: Any) -> Trainer:
    if isinstance(value, Trainer):
        return value
    if isinstance(value, Optimizer):
        raise TypeError("mixed precision works with a Gluon Trainer, not with an optimizer alone")
    raise TypeError(f"optimizer_or_trainer should be a Gluon Trainer, instead is {type(value)}")


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Let a trainer scale losses, and skip the steps whose gradients overflow."""
    global _amp_loss_scale_initialized
    trainer = _trainer(optimizer_or_trainer)
    if _loss_scaler is None:
        raise AssertionError("mixed precision is not initialized: call amp.init() first")
    if trainer._update_on_kvstore or trainer._kvstore_params["update_on_kvstore"]:
        raise MXNetError(
            "a store that updates parameters cannot skip steps: create the Trainer with update_on_kvstore=False"
        )
    trainer._amp_loss_scaler = LossScaler() if _amp_loss_scale_initialized else _loss_scaler
    trainer._amp_original_scale = trainer._scale
    _amp_loss_scale_initialized = True


@contextlib.contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """Yield the loss, or the list of losses, times the scale; the trainer divides gradients by it."""
    trainer = _trainer(optimizer_or_trainer)
    scaler = trainer._amp_loss_scaler
    if scaler is None:
        raise AssertionError("the trainer does not scale losses: call amp.init_trainer(trainer) first")
    trainer._scale = trainer._amp_original_scale / scaler.loss_scale
    if isinstance(loss, (list, tuple)):
        yield [each * scaler.loss_scale for each in loss]
    else:
        yield loss * scaler.loss_scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients of a trainer by the scale now, for example to clip them before ``step``."""
    trainer = _trainer(optimizer_or_trainer)
    for parameter in trainer._params:
        if parameter._grad is not None:
            for grad in parameter.list_grad():
                grad[:] *= trainer._scale
    trainer._scale = 1.0


# -- conversion of networks


def convert_symbol(
    sym: Symbol,
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    data_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """Return a symbol with ``amp_cast`` and ``amp_multicast`` in front of its operators, whose outputs are float32.

    Parameters
    ----------
    sym
        The network; its variables are float32.
    target_dtype
        'float16' or 'bfloat16'.
    target_dtype_ops, fp32_ops, conditional_fp32_ops
        Operators that run in 16 bits, in float32, and in float32 for some values of a parameter; see :func:`init`.
    excluded_sym_names
        Layers that run in float32.
    data_names
        Variables that are inputs of the network, not parameters; by default all.
    cast_optional_params
        Whether parameters that only 16-bit operators read become 16-bit variables.
    """
    if not isinstance(sym, Symbol):
        raise TypeError(f"convert_symbol takes a Symbol, not {type(sym)}")
    target = _target(target_dtype)
    lists = _Lists(target_dtype_ops, conditional_fp32_ops, fp32_ops)
    excluded, names = set(excluded_sym_names or ()), [entry.name for entry in sym._entries()]
    for name in sorted(excluded - set(names)):
        raise MXNetError(f"excluded_sym_names: the network has no layer {name!r}{nearest(name, names)}")
    inputs = sym.list_inputs()
    parameters = set(inputs) - set(inputs if data_names is None else data_names) if cast_optional_params else set()
    return with_casts(sym, target, lists.precision_of_call, excluded, parameters)


def convert_model(
    sym: Symbol,
    arg_params: dict[str, Any],
    aux_params: dict[str, Any],
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
    """Return a symbol with casts, and the parameters; see :func:`convert_symbol`.

    With ``cast_optional_params`` the parameters that only 16-bit operators read are stored in 16 bits.
    """
    lists = (target_dtype_ops, fp32_ops, conditional_fp32_ops)
    data_names = [name for name in sym.list_inputs() if name not in arg_params and name not in aux_params]
    converted = convert_symbol(
        sym, target_dtype, *lists, excluded_sym_names, data_names, cast_optional_params=cast_optional_params
    )
    target, stated = _target(target_dtype), converted.attr_dict()
    low = {name for name in arg_params if stated.get(name, {}).get("__dtype__") == str(CODES[target])}
    arg_params = {name: array.astype(target) if name in low else array for name, array in arg_params.items()}
    return converted, arg_params, dict(aux_params)


def convert_hybrid_block(
    block: HybridBlock,
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    ctx: Any = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """Return a block with casts that shares no parameters with a hybridized block, for inference."""
    if not isinstance(block, HybridBlock):
        raise TypeError(f"convert_hybrid_block takes a HybridBlock, not {type(block)}; convert its hybrid parts")
    if not block._cached_graph:
        raise RuntimeError("call block.hybridize() and run the block once, so that its inputs are known")
    inputs, sym = block._cached_graph
    states = set(sym.list_auxiliary_states())
    arrays = {name: parameter._reduce() for name, parameter in block.collect_params().items()}
    arg_params = {name: array for name, array in arrays.items() if name not in states}
    aux_params = {name: array for name, array in arrays.items() if name in states}
    lists = (target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, cast_optional_params)
    converted, arg_params, aux_params = convert_model(sym, arg_params, aux_params, target_dtype, *lists)
    made = SymbolBlock(converted, inputs)
    for name, parameter in made.collect_params().items():
        value = {**arg_params, **aux_params}[name]
        parameter.cast(value.dtype)
        parameter._load_init(value, ctx or block.collect_params()[name].list_ctx())
    return made


def convert_bucketing_module(
    bucketing_mod: BucketingModule,
    target_dtype: Any = "float16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> BucketingModule:
    """Return a module whose buckets have casts, with the parameters of another one; bind it before use.

    The buckets that exist are converted, and the symbols of later ones as they are made.
    """
    if not isinstance(bucketing_mod, BucketingModule):
        raise TypeError(f"convert_bucketing_module takes a BucketingModule, not {type(bucketing_mod)}")
    if not (bucketing_mod.binded and bucketing_mod.params_initialized):
        raise MXNetError("convert_bucketing_module: the module has no parameters yet; call bind and init_params first")
    lists = (target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names)
    symbols: dict[Any, Symbol] = {}
    arg_params, aux_params = bucketing_mod.get_params()
    found = arg_params, aux_params
    for key, module in bucketing_mod._buckets.items():
        symbols[key], *found = convert_model(  # type: ignore[assignment]
            module.symbol, arg_params, aux_params, target_dtype, *lists, cast_optional_params
        )

    def generate(key: Any) -> tuple[Any, Any, Any]:
        symbol, data_names, label_names = bucketing_mod._sym_gen(key)
        if key not in symbols:
            symbol = convert_symbol(symbol, target_dtype, *lists)
        return symbols.get(key, symbol), data_names, label_names

    default = bucketing_mod._default_bucket_key
    return BucketingModule.load_dict(symbols, generate, default, *found, **bucketing_mod._options)


# -- lists


def _recorded(dtype: Any, float16: str, bfloat16: str | None = None) -> Any:
    """Return one of MXNet's lists for a dtype."""
    if _target(dtype) == FLOAT16:
        return getattr(lists.symbol_fp16, float16)
    return getattr(lists.symbol_bf16, bfloat16 or float16)


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """Return the operators that MXNet runs in 16 bits.

    >>> list_lp16_ops("float16")
    ['Convolution', 'Deconvolution', 'FullyConnected', 'RNN']
    """
    found: list[str] = _recorded(target_dtype, "FP16_FUNCS", "BF16_FUNCS")
    return found


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """Return the operators that MXNet runs in float32."""
    found: list[str] = _recorded(target_dtype, "FP32_FUNCS")
    return found


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """Return the operators that take their inputs as they are in MXNet."""
    found: list[str] = _recorded(target_dtype, "FP16_FP32_FUNCS", "BF16_FP32_FUNCS")
    return found


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """Return the operators that MXNet runs in the widest dtype of their inputs."""
    found: list[str] = _recorded(target_dtype, "WIDEST_TYPE_CASTS")
    return found


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """Return the operators that run in float32 for some values of a parameter: (operator, parameter, values)."""
    found: list[tuple[str, str, list[str]]] = _recorded(target_dtype, "CONDITIONAL_FP32_FUNCS")
    return found


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """Return the operators whose gradient is that of a loss, and which have a factor for it."""
    found: list[str] = _recorded(target_dtype, "LOSS_OUTPUT_FUNCTIONS")
    return found


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """Return the 16-bit operators whose parameters stay float32, with the names of these inputs; None for float16."""
    return None if _target(target_dtype) == FLOAT16 else lists.symbol_bf16.BF16_USE_FP32_PARAMS
