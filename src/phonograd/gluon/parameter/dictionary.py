"""Provide ParameterDict: parameters by name, created on demand, shared, saved and loaded.

Takes parameters from :mod:`.parameter`; hands dictionaries to blocks and trainers.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from ... import initializer
from ...core.base.devices import Context
from ...core.base.docstrings import complete_classes
from ...core.base.dtypes import as_array_dtype
from ...ndarray.array import NDArray
from ...ndarray.params import load, save
from ..text import brief_list, indented
from .parameter import Constant, Parameter

__all__ = ["ParameterDict"]

_NAMING = (
    "For more info on naming, please see https://mxnet.io/api/python/docs/tutorials/packages/gluon/blocks/naming.html"
)


class ParameterDict:
    """Hold parameters by name, in the order of their creation.

    Parameters
    ----------
    prefix
        The prefix of the names of all parameters that :meth:`get` creates.
    shared
        Another dictionary, which :meth:`get` searches before it creates a parameter.

    >>> import phonograd as mx
    >>> params = mx.gluon.ParameterDict("net_")
    >>> params.get("weight", shape=(2, 3))
    Parameter net_weight (shape=(2, 3), dtype=<class 'numpy.float32'>)
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        lines = [indented(f"  {parameter}", 2) for parameter in self.values()]
        return f"{self._prefix + ' ' if self._prefix else ''}(\n" + "\n".join(lines) + "\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __bool__(self) -> bool:
        # as in MXNet: an empty dictionary is true, too
        return True

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        """Return all pairs of name and parameter."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Return all names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Return all parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """The prefix of the names of all parameters that this dictionary creates."""
        return self._prefix

    # -- creating parameters

    def _get_impl(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """Return the parameter ``prefix + name`` of this or the shared dictionary, or create it from `kwargs`.

        An existing parameter must have the requested attributes. The request fills in unknown extents of its shape.
        """
        name = self.prefix + name
        parameter = self._get_impl(name)
        if parameter is None:
            parameter = self._params[name] = Parameter(name, **kwargs)
            return parameter
        for key, wanted in kwargs.items():
            existing = getattr(parameter, key, None)
            if existing is None:
                setattr(parameter, key, wanted)
            elif key == "shape" and (shape := _merge_shapes(wanted, existing)) is not None:
                parameter._shape = shape
            elif key == "dtype" and as_array_dtype(wanted) == as_array_dtype(existing):
                continue
            else:
                assert wanted is None or wanted == existing, (
                    f"Cannot retrieve Parameter '{name}' because desired attribute does not match with stored for "
                    f"attribute '{key}': desired '{wanted}' vs stored '{existing}'."
                )
        return parameter

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """Return the constant ``prefix + name`` of this or the shared dictionary, or create it from `value`."""
        name = self.prefix + name
        parameter = self._get_impl(name)
        if parameter is None:
            if value is None:
                raise KeyError(
                    f"No constant named '{name}'. Please specify value if you want to create a new constant."
                )
            parameter = self._params[name] = Constant(name, value)
        elif value is not None:
            assert isinstance(parameter, Constant), f"Parameter '{name}' already exists but it is not a constant."
            wanted = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
            assert np.array_equal(parameter.value.asnumpy(), wanted), (
                f"Constant '{name}' already exists but it's value doesn't match new value"
            )
        return parameter

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Add all parameters of another dictionary; a name must not stand for two different parameters."""
        for name, parameter in other.items():
            assert self._params.get(name, parameter) is parameter, (
                f"Cannot update self with other because they have different Parameters with the same name '{name}'"
            )
        self._params.update(other.items())

    # -- all parameters at once

    def initialize(
        self,
        init: Any = initializer.Uniform(),  # noqa: B008 - it is never changed
        ctx: Any = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize all parameters; `init` fills those without an initializer of their own."""
        if verbose:
            init.set_verbosity(verbose=verbose)
        for parameter in self.values():
            parameter.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for parameter in self.values():
            parameter.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other contexts."""
        for parameter in self.values():
            parameter.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Return the contexts of all parameters."""
        return list(dict.fromkeys([context for parameter in self.values() for context in parameter.list_ctx()]))

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters: ``setattr('grad_req', 'null')`` freezes them."""
        for parameter in self.values():
            setattr(parameter, name, value)

    # -- files

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write all parameters to a ``.params`` file, with `strip_prefix` removed from their names."""
        arrays = {}
        for parameter in self.values():
            if not parameter.name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name '{parameter.name}' "
                    f"does not start with '{strip_prefix}'. this may be due to your Block shares parameters from other "
                    f"Blocks or you forgot to use 'with name_scope()' when creating child blocks. {_NAMING}"
                )
            arrays[parameter.name[len(strip_prefix) :]] = parameter._reduce()
        save(filename, arrays)

    def load(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters from a ``.params`` file.

        Parameters
        ----------
        filename
            The path of the file.
        ctx
            The contexts of parameters that are not initialized yet.
        allow_missing
            Whether parameters may be missing from the file.
        ignore_extra
            Whether the file may contain other parameters.
        restore_prefix
            The prefix to add to the names in the file.
        cast_dtype
            Whether dtypes may differ.
        dtype_source
            The dtype to keep if they differ: that of the parameter ('current') or of the file ('saved').
        """
        for name in self.keys() if restore_prefix else ():
            assert name.startswith(restore_prefix), (
                f"restore_prefix is '{restore_prefix}' but Parameters name '{name}' does not start with "
                f"'{restore_prefix}'. {_NAMING}"
            )
        # a file without arrays has no names, and is the file of a block without parameters
        loaded = load(filename) or {}
        assert isinstance(loaded, dict), f"the arrays in file {filename} have no names"
        self.load_dict(loaded, ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set parameters from a dictionary of arrays, as :meth:`load` does from a file."""
        source = f"file: {filename}" if filename else "param_dict"
        arrays = {
            restore_prefix + (name[4:] if name.startswith(("arg:", "aux:")) else name): array
            for name, array in param_dict.items()
        }
        for name in () if allow_missing else self.keys():
            assert name in arrays, (
                f"Parameter '{name[len(restore_prefix) :]}' is missing in {source}, which contains parameters: "
                f"{brief_list(arrays)}. Please make sure source and target networks have the same prefix.{_NAMING}"
            )
        for name, array in arrays.items():
            if name in self._params:
                try:
                    self._params[name]._check_load(array, ctx, cast_dtype, dtype_source)
                except AssertionError as error:
                    raise AssertionError(f"{error} ({source})") from None
            else:
                assert ignore_extra, (
                    f"Parameter '{name[len(restore_prefix) :]}' loaded from {source} is not present in ParameterDict, "
                    f"choices are: {brief_list(self._params)}. Set ignore_extra to True to ignore. Please make sure "
                    f"source and target networks have the same prefix.{_NAMING}"
                )
        # all arrays fit: none is replaced before that
        for name, array in arrays.items():
            if name in self._params:
                self._params[name]._load_init(array, ctx, cast_dtype, dtype_source)


def _merge_shapes(wanted: Any, existing: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return one shape with the known extents of two; None if they contradict each other."""
    extents = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    if len(extents) != len(existing):
        return None
    if any([one != other and one > 0 and other > 0 for one, other in zip(extents, existing)]):
        return None
    return tuple([other if one in (0, -1) else one for one, other in zip(extents, existing)])


complete_classes(globals())
