"""Provide Block: a part of a network, with parameters and child blocks.

Takes parameters from ``gluon.parameter``; hands the base class to all layers, and to :mod:`.hybrid`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, TypeVar

from ... import initializer
from ...core.base.docstrings import complete_classes
from ...core.base.files import write_atomically
from ...core.base.foreign_names import OF_BLOCKS, ForeignName, advise_arguments
from ...core.events import LISTENING, MODULE, begin
from ...ndarray.params import load
from ...ndarray.params import save as save_arrays
from ..parameter import Parameter, ParameterDict
from ..text import brief_list, indented
from .checkpoint import run_checkpointed
from .naming import BlockScope
from .nesting import flatten_arrays

__all__ = ["Block", "HookHandle"]

Own = TypeVar("Own", bound="Block")
Handle = TypeVar("Handle", bound="HookHandle")

#: the listeners to begin and end of blocks
_LISTENERS = LISTENING[MODULE]


class HookHandle:
    """Represent a registered hook; ``detach()`` or the end of a ``with`` block removes the hook."""

    def __init__(self) -> None:
        self._hooks: dict[Any, Callable[..., Any]] | None = None

    def attach(self: Handle, hooks_dict: dict[Any, Callable[..., Any]], hook: Callable[..., Any]) -> Handle:
        """Register a hook in a dictionary, and return the handle."""
        assert self._hooks is None, "The same handle cannot be attached twice."
        if not callable(hook):
            raise TypeError(f"a hook must be a function, not {hook!r}")
        self._hooks = hooks_dict
        hooks_dict[self] = hook
        return self

    def detach(self) -> None:
        """Remove the hook; a second call has no effect."""
        if self._hooks is not None:
            self._hooks.pop(self, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()


class Block:
    """Base class of networks and layers. A subclass overrides ``forward``.

    Blocks and parameters that are set as attributes become children and parameters of the block. Create them inside
    :meth:`name_scope` to give them the prefix of the block.

    Parameters
    ----------
    prefix
        The prefix of the names of its parameters. None makes one from the name of the class and a number.
    params
        The parameters of another block to share.

    >>> import phonograd as mx
    >>> from phonograd.gluon import Block, nn
    >>> class Net(Block):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.hidden = nn.Dense(3, activation="relu")
    ...             self.output = nn.Dense(2)
    ...
    ...     def forward(self, x):
    ...         return self.output(self.hidden(x))
    >>> net = Net(prefix="net_")
    >>> net.initialize()
    >>> net(mx.nd.ones((5, 4))).shape
    (5, 2)
    >>> list(net.collect_params())
    ['net_dense0_weight', 'net_dense0_bias', 'net_dense1_weight', 'net_dense1_bias']
    """

    #: whether the backward pass recomputes intermediate values instead of keeping them
    _is_checkpointed = False

    @advise_arguments
    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        if prefix is not None and not isinstance(prefix, str):
            raise TypeError(
                f"the first argument of {type(self).__name__} is a prefix for names, not {prefix!r}. "
                "Add blocks with net.add(*blocks)."
            )
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = BlockScope(self)
        self._children: dict[str, Block] = {}
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: dict[HookHandle, Callable[..., Any]] = {}
        self._forward_pre_hooks: dict[HookHandle, Callable[..., Any]] = {}

    def __repr__(self) -> str:
        blocks = [
            f"  ({key}): {indented(repr(block), 2)}" for key, block in vars(self).items() if isinstance(block, Block)
        ]
        return f"{type(self).__name__}(\n" + "\n".join(blocks) + "\n)"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not isinstance(getattr_static(self, name, None), ForeignName)]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, Block)) and "_children" not in vars(self):
            raise AttributeError(
                f"{type(self).__name__}.__init__ must call super().__init__(**kwargs) before it sets {name!r}"
            )
        existing = getattr(self, name, None)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            raise TypeError(
                f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not allowed."
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            assert name not in self._reg_params, (
                f"Overriding Parameter attribute {name} is not allowed. If you want to share parameters between "
                "blocks, please set 'params' at Block construction instead."
            )
            self._reg_params[name] = value
        super().__setattr__(name, value)

    # -- names

    def _alias(self) -> str:
        """Return the base of the names of blocks of this class."""
        return type(self).__name__.lower()

    @property
    def prefix(self) -> str:
        """The prefix of the names of all parameters and children."""
        return self._prefix

    @property
    def name(self) -> str:
        """The name: the prefix without its last underscore."""
        return self._name

    def name_scope(self) -> BlockScope:
        """Return the scope that prefixes the names of children and parameters created in it."""
        return self._scope

    # -- parameters and children

    @property
    def params(self) -> ParameterDict:
        """The parameters of this block, without those of its children."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return the parameters of this block and all its children, or those whose names match `select`.

        ``collect_params('.*weight|.*bias')`` returns all weights and biases.
        """
        self._warn_about_containers()
        found = ParameterDict(self._params.prefix)
        pattern = re.compile(select) if select else None
        found.update({k: p for k, p in self.params.items() if pattern is None or pattern.match(k)})
        for child in self._children.values():
            found.update(child.collect_params(select=select))
        return found

    def _warn_about_containers(self) -> None:
        children = set(self._children.values())
        for key, value in vars(self).items():
            is_container = isinstance(value, (list, tuple, dict)) and not key.startswith("__") and key != "_children"
            if is_container and _has_unregistered(value, children):
                warnings.warn(
                    f'"{type(self).__name__}.{key}" is an unregistered container with Blocks. Note that Blocks '
                    "inside the list, tuple or dict will not be registered automatically. Make sure to register "
                    "them using register_child() or switching to nn.Sequential/nn.HybridSequential instead. ",
                    stacklevel=3,
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Return all parameters by their paths of attributes."""
        start = prefix + "." if prefix else ""
        found = {start + key: parameter for key, parameter in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(start + name))
        return found

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child; blocks that are set as attributes are children already."""
        self._children[str(len(self._children)) if name is None else name] = block

    def apply(self: Own, fn: Callable[[Block], Any]) -> Own:
        """Call a function with each descendant and with this block, and return this block."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def initialize(
        self,
        init: Any = initializer.Uniform(),  # noqa: B008 - it is never changed
        ctx: Any = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize all parameters; `init` fills those without an initializer of their own."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Compile all children that are hybrid blocks (:meth:`HybridBlock.hybridize`), or stop compiling them."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def checkpoint(self: Own, active: bool = True) -> Own:
        """Recompute intermediate values of this block in the backward pass instead of keeping them; return the block.

        Only the inputs and outputs stay in memory between the passes, at the cost of one more forward pass of the
        block. Results and gradients are identical to the last bit, random masks included, and moving statistics are
        updated once. All other side effects of the Python code happen twice. A checkpoint has no effect inside captured
        functions (``mx.compile``). A hybridized block around it runs its own Python code; the block itself may be
        hybridized.

        >>> import phonograd as mx
        >>> net = mx.gluon.nn.Sequential()
        >>> for _ in range(3):
        ...     stage = mx.gluon.nn.HybridSequential()
        ...     stage.add(mx.gluon.nn.Dense(8, activation="tanh"), mx.gluon.nn.Dropout(0.5))
        ...     net.add(stage.checkpoint())
        """
        self._is_checkpointed = active
        return self

    def _has_checkpoints(self) -> bool:
        """Return whether this block or one of its descendants is checkpointed."""
        return self._is_checkpointed or any([child._has_checkpoints() for child in self._children.values()])

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype."""
        for child in self._children.values():
            child.cast(dtype)
        for parameter in self.params.values():
            parameter.cast(dtype)

    # -- files

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write all parameters to a ``.params`` file, by their paths of attributes.

        `deduplicate` writes a parameter once if several blocks share it.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            last = {parameter: name for name, parameter in params.items()}
            params = {name: parameter for parameter, name in last.items()}
        save_arrays(filename, {name: parameter._reduce() for name, parameter in params.items()})

    def save_params(self, filename: str) -> None:
        """Write all parameters to a ``.params`` file in the older format: by name, without the prefix of the block."""
        warnings.warn(
            "save_params is deprecated. Please use save_parameters. Note that if you want load from SymbolBlock later, "
            "please use export instead.",
            stacklevel=2,
        )
        try:
            self.collect_params().save(filename, strip_prefix=self.prefix)
        except ValueError as error:
            message = f"{error}\nsave_params is deprecated. Using save_parameters may resolve this error."
            raise ValueError(message) from error

    def load_parameters(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read all parameters from a ``.params`` file, in the format of :meth:`save_parameters` or :meth:`save_params`.

        See :meth:`ParameterDict.load` for the arguments.
        """
        loaded: Any = load(filename)
        params = self._collect_params_with_prefix()
        if not loaded and not params:
            return
        assert isinstance(loaded, dict), f"the arrays in file '{filename}' have no names"
        if not any(["." in name for name in loaded]):
            self.collect_params().load(
                filename, ctx, allow_missing, ignore_extra, self.prefix, cast_dtype, dtype_source
            )
            return
        names = defaultdict(list)
        for name, parameter in params.items():
            names[parameter].append(name)
        for name, parameter in () if allow_missing else params.items():
            assert any([other in loaded for other in names[parameter]]), (
                f"Parameter '{name}' is missing in file '{filename}', which contains parameters: {brief_list(loaded)}. "
                "Set allow_missing=True to ignore missing parameters."
            )
        for name, array in loaded.items():
            if name in params:
                try:
                    params[name]._check_load(array, ctx, cast_dtype, dtype_source)
                except AssertionError as error:
                    raise AssertionError(f"{error} (file '{filename}')") from None
            elif not ignore_extra:
                raise ValueError(
                    f"Parameter '{name}' loaded from file '{filename}' is not present in ParameterDict, which contains "
                    f"parameters {brief_list(params)}. Set ignore_extra=True to ignore. "
                )
        # all arrays fit: none is replaced before that
        for name, array in loaded.items():
            if name in params:
                params[name]._load_init(array, ctx, cast_dtype, dtype_source)

    def load_params(
        self, filename: str, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False
    ) -> None:
        """Read all parameters from a ``.params`` file: the older name of :meth:`load_parameters`."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Write the tree of blocks to ``<prefix>-model.json`` and the parameters to ``<prefix>-model.params``."""
        model: dict[str, Any] = {}
        self._describe(model, iter(range(1 << 30)))
        write_atomically(prefix + "-model.json", [json.dumps(model).encode("utf-8")])
        self.save_parameters(prefix + "-model.params")

    def _describe(self, structure: dict[str, Any], numbers: Any) -> None:
        """Add this block and its children to a tree of names."""
        children: dict[str, str] = {}
        own: dict[str, Any] = {"orig_name": self.name, **self._description(), "children": children}
        structure[f"{type(self).__name__.lower()}{next(numbers)}"] = own
        for key, child in self._children.items():
            children[child.name] = key
            child._describe(own, numbers)

    def _description(self) -> dict[str, Any]:
        return {}

    def load(self, prefix: str) -> None:
        """Read names and parameters that :meth:`save` wrote into a block of the same structure."""
        path = prefix + "-model.json"
        try:
            with open(path, encoding="utf-8") as file:
                names = list(self._saved_names(json.load(file), iter(range(1 << 30))))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} does not describe this network: {error}") from None
        self.load_parameters(prefix + "-model.params")
        for block, name in names:
            block._name = name

    def _saved_names(self, structure: Any, numbers: Any) -> Iterator[tuple[Block, str]]:
        """Yield the blocks of the tree with the names that a file has for them."""
        key = f"{type(self).__name__.lower()}{next(numbers)}"
        own = structure.get(key) if isinstance(structure, dict) else None
        if not isinstance(own, dict) or not isinstance(own.get("orig_name"), str):
            raise ValueError(f"The saved model has no block {key} here: its network has a different structure")
        yield self, own["orig_name"]
        for child in self._children.values():
            yield from child._saved_names(own, numbers)

    # -- computing

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(block, inputs)`` before each forward pass; return a handle that removes the hook."""
        return HookHandle().attach(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(block, inputs, output)`` after each forward pass; return a handle that removes the hook."""
        return HookHandle().attach(self._forward_hooks, hook)

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """Call ``callback(name, operator, array)`` for the operators of all hybridized children.

        See :meth:`HybridBlock.register_op_hook <phonograd.gluon.HybridBlock.register_op_hook>`.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def __call__(self, *args: Any) -> Any:
        """Return the result of ``forward``, with the hooks called before and after it."""
        entry = begin(MODULE, self._name, tuple(flatten_arrays(args))) if _LISTENERS else None
        try:
            for hook in tuple(self._forward_pre_hooks.values()):
                hook(self, args)
            result = run_checkpointed(self, args) if self._is_checkpointed else self.forward(*args)
            for hook in tuple(self._forward_hooks.values()):
                hook(self, args, result)
        except BaseException as error:
            if entry is not None:
                entry.__exit__(type(error), error, error.__traceback__)
            raise
        if entry is not None:
            entry.set_outputs(*flatten_arrays(result))
            entry.end()
        return result

    if TYPE_CHECKING:
        # a subclass chooses the arguments
        forward: Callable[..., Any]
    else:

        def forward(self, *args: Any) -> Any:
            """Return the outputs of the block for its inputs. A subclass overrides this method."""
            raise NotImplementedError(f"{type(self).__name__} has no forward(self, ...)")

    def summary(self, *inputs: Any, timed: bool = False) -> None:
        """Print a table of the blocks in the order in which the inputs pass through them.

        For each block it lists the shapes and memory of the outputs, the parameters, and the arithmetic operations
        without those of its children. `timed` adds milliseconds of kernels. A kernel that computes operators of several
        blocks counts for each of them in equal parts.
        """
        from .summary import summarize

        print(summarize(self, inputs, timed))  # noqa: T201 - the purpose of this method


def _has_unregistered(value: Any, children: set[Block]) -> bool:
    """Return whether nested containers hold blocks that are not children."""
    if isinstance(value, Block):
        return value not in children
    if isinstance(value, dict):
        return any([_has_unregistered(part, children) for part in value.values()])
    return isinstance(value, (list, tuple)) and any([_has_unregistered(part, children) for part in value])


for _name, _instead in OF_BLOCKS.items():
    setattr(Block, _name, ForeignName(_name, _instead))

complete_classes(globals())
