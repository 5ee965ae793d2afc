"""Turn trees of plain values and records into optimizer states, and check every value on the way.

The readers of both formats (:mod:`.pickles` and :mod:`.states`) hand over trees. A record names a class: an array, a
number of NumPy, an optimizer or a learning rate scheduler. All other classes are errors. An object gets only
attributes that its class has, each with a value of the right type; nothing is set on a class, and no code of the file
runs. :func:`fit_states` compares states with the weights that they belong to.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import autograd, lr_scheduler
from ..core.base.dtypes import CODES
from ..core.base.errors import MXNetError, format_shape, nearest
from ..ndarray import array as make_array
from ..ndarray.array import NDArray
from ..ndarray.params import SparseRecord, unpack_record
from ..ndarray.sparse import from_record
from ..numpy.multiarray import as_np
from .optimizer import Optimizer
from .pickles import Record, Reference

__all__ = ["ARRAYS", "Restorer", "fit_states", "is_number"]

#: MXNet's array classes, by name, with the modules in which versions of MXNet define them
ARRAYS = {
    "NDArray": ("mxnet.ndarray.ndarray", "mxnet.ndarray"),
    "RowSparseNDArray": ("mxnet.ndarray.sparse",),
    "CSRNDArray": ("mxnet.ndarray.sparse",),
    "ndarray": ("mxnet.numpy.multiarray", "mxnet.numpy"),
}
_BYTES = {Reference("builtins", "bytearray"), Reference("__builtin__", "bytearray")}
_ENCODE = Reference("_codecs", "encode")
_DICTIONARY = Reference("collections", "OrderedDict")
_SCALARS = {Reference("numpy.core.multiarray", "scalar"), Reference("numpy._core.multiarray", "scalar")}
_DTYPE = Reference("numpy", "dtype")
#: arguments with which a scheduler of the library can be made, so that its attributes are known
_SAMPLES: dict[str, Any] = {"MultiFactorScheduler": [1]}
#: containers in containers; MXNet's files have 4 levels
_DEEPEST = 24
#: how often a file may refer to the same container, on average for each of its bytes
_MOST_REPEATS = 16

_CONTAINERS = (list, tuple, dict, set, frozenset)


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or NumPy, and not a boolean."""
    if isinstance(value, np.generic):
        return value.dtype.kind in "fiu"
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_ours(kind: type[Any]) -> bool:
    """Return whether the library defines a class."""
    return kind.__module__.startswith("phonograd.")


def _template_of(kind: type[Any]) -> dict[str, Any] | None:
    """Return the attributes that objects of a class of the library have, with typical values; else None."""
    if not _is_ours(kind):
        return None
    if issubclass(kind, Optimizer):
        return {name: value for name, value in vars(kind()).items() if name != "param_dict"}
    made: object = kind() if kind is lr_scheduler.LRScheduler else kind(_SAMPLES.get(kind.__name__, 1))
    return vars(made)


# -- the types of attributes


def _is_index(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 0)


def _maps(value: Any, key: Callable[[Any], bool], item: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all([key(k) and item(v) for k, v in value.items()])


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_counts(value: Any) -> bool:
    return _maps(value, _is_index, _is_count)


def _is_factors(value: Any) -> bool:
    return _maps(value, _is_index, is_number)


def _is_symbol_facts(value: Any) -> bool:
    """Return whether a value is the attributes and the arguments of a symbol, or empty."""
    if not isinstance(value, tuple) or len(value) not in (0, 2):
        return False
    if not value:
        return True
    texts = isinstance(value[1], list) and all([isinstance(name, str) for name in value[1]])
    return texts and _maps(value[0], _is_text, lambda facts: _maps(facts, _is_text, _is_text))


def _is_sum_of_gradients(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"cum_grad", "num_cums"}
        and (isinstance(value["cum_grad"], NDArray) or is_number(value["cum_grad"]))
        and _is_count(value["num_cums"])
    )


def _is_steps(value: Any) -> bool:
    """Return whether a value is the step of a scheduler, or a list of increasing steps."""
    if isinstance(value, list):
        return bool(value) and all([_is_count(n) and n >= 1 for n in value]) and sorted(set(value)) == value
    return is_number(value) and value >= 1


#: attributes whose type does not follow from their typical value: the check, and the text for the error
_SPECIAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "lr_scheduler": (lambda v: v is None or isinstance(v, lr_scheduler.LRScheduler), "a scheduler or None"),
    "lr": (lambda v: v is None or is_number(v), "a number or None"),
    "lr_mult": (_is_factors, "numbers by index or name"),
    "wd_mult": (_is_factors, "numbers by index or name"),
    "begin_num_update": (_is_count, "an integer from 0"),
    "num_update": (_is_count, "an integer from 0"),
    "_all_index_update_counts": (lambda v: _maps(v, _is_count, _is_counts), "counts by device and index"),
    "_index_update_count": (_is_counts, "counts by index"),
    "idx2name": (lambda v: _maps(v, _is_index, _is_text), "names by index"),
    "sym_info": (_is_symbol_facts, "the attributes and arguments of a symbol"),
    "cumgrads": (lambda v: _maps(v, _is_index, _is_sum_of_gradients), "sums of gradients by index"),
    "weight_previous": (lambda v: _maps(v, _is_index, lambda a: isinstance(a, NDArray)), "arrays by index"),
    "step": (_is_steps, "a number of updates from 1, or a list of increasing ones"),
    "count": (_is_count, "an integer from 0"),
    "cur_step_ind": (_is_count, "an integer from 0"),
    "warmup_steps": (_is_count, "an integer from 0"),
    "max_update": (lambda v: _is_count(v) and v >= 1, "an integer from 1"),
    "max_steps": (lambda v: is_number(v) and v != 0, "a number other than 0"),
    "warmup_mode": (lambda v: v in ("linear", "constant"), "'linear' or 'constant'"),
}


def _problem_of(name: str, value: Any, typical: Any) -> str | None:
    """Return the expected kind of value if an attribute has another one."""
    if name in _SPECIAL:
        check, wanted = _SPECIAL[name]
        same_kind = name != "step" or isinstance(value, list) == isinstance(typical, list)
        return None if same_kind and check(value) else wanted
    if isinstance(typical, (bool, np.bool_)):
        # MXNet's files have 0 and 1 as well, if a script passed these
        return None if isinstance(value, (bool, np.bool_)) or value in (0, 1) else "a boolean"
    if isinstance(typical, str):
        return None if isinstance(value, str) else "a text"
    # None is the value of limits that are not set
    return None if value is None or is_number(value) or isinstance(value, bool) else "a number or None"


# -- from trees to objects


class Restorer:
    """Make the objects of one tree. Values that occur twice in the tree are made once, so they stay shared."""

    def __init__(self, size: int) -> None:
        #: by the identity of a part of the tree: the object, and how many values it would have if nothing were shared
        self._made: dict[int, tuple[Any, int]] = {}
        self._underway: set[int] = set()
        self._most = _MOST_REPEATS * size + 1_000

    def states(self, tree: Any) -> dict[Any, Any]:
        """Return the states of weights by index."""
        made = self.restore(tree, "the states")
        if not isinstance(made, dict):
            raise MXNetError(f"the states are of type {type(made).__name__}, not a dictionary")
        for index, state in made.items():
            if not _is_index(index):
                raise MXNetError(f"the states have the key {index!r}, which is neither an integer nor a text")
            if not (state is None or isinstance(state, (NDArray, list, tuple, dict))):
                raise MXNetError(f"the state of weight {index!r} is of type {type(state).__name__}, not arrays")
        return made

    def optimizer(self, tree: Any) -> Optimizer:
        """Return an optimizer."""
        made = self.restore(tree, "the optimizer")
        if not isinstance(made, Optimizer):
            raise MXNetError(f"the optimizer is of type {type(made).__name__}")
        return made

    def restore(self, tree: Any, place: str, depth: int = 0) -> Any:
        """Return the object of a part of a tree; `place` names it in errors."""
        return self._restore(tree, place, depth)[0]

    def _restore(self, tree: Any, place: str, depth: int) -> tuple[Any, int]:
        if not isinstance(tree, (Record, *_CONTAINERS)):
            if isinstance(tree, (Reference, bytes)):
                raise MXNetError(f"{place}: {tree if isinstance(tree, Reference) else 'bytes'} is not a value")
            return tree, 1
        key = id(tree)
        if key in self._made:
            return self._made[key]
        if key in self._underway:
            raise MXNetError(f"{place} contains itself")
        if depth > _DEEPEST:
            raise MXNetError(f"{place} is nested more than {_DEEPEST} times")
        self._underway.add(key)
        size = 1
        if isinstance(tree, Record):
            made: Any = self._record(tree, place, depth)
        elif isinstance(tree, dict):
            made, size = self._dictionary(tree, place, depth)
        elif isinstance(tree, (list, tuple)):
            parts = [self._restore(part, f"{place}[{number}]", depth + 1) for number, part in enumerate(tree)]
            made, size = type(tree)([part for part, _ in parts]), 1 + sum([part for _, part in parts])
        else:
            made, size = type(tree)(tree), 1 + len(tree)
        if size > self._most:
            raise MXNetError(f"{place} refers to the same values too often")
        self._underway.discard(key)
        self._made[key] = made, size
        return made, size

    def _dictionary(self, tree: dict[Any, Any], place: str, depth: int) -> tuple[dict[Any, Any], int]:
        made, size = {}, 1
        for key, value in tree.items():
            made[key], part = self._restore(value, f"{place}[{key!r}]", depth + 1)
            size += part
        return made, size

    def _record(self, record: Record, place: str, depth: int) -> Any:
        function = record.function
        if function.module in ARRAYS.get(function.name, ()):
            return _restore_array(record, place)
        if function in _SCALARS:
            return _restore_scalar(record, place)
        if function == _DICTIONARY and record.arguments == () and record.state is None:
            return self._dictionary(record.items or {}, place, depth)[0]
        kind = _class_of(function)
        if kind is None:
            raise MXNetError(
                f"{place} refers to {function}, which is neither an array nor a registered optimizer or learning rate "
                "scheduler; if it is one of yours, import its module first"
            )
        if record.arguments != () or record.items is not None:
            raise MXNetError(f"{place} is a {function} that is not made of attributes alone")
        if not isinstance(record.state, dict) or not all([isinstance(name, str) for name in record.state]):
            raise MXNetError(f"{place} is a {function} whose attributes are not values by name")
        owner = f"{place} ({kind.__name__})"
        attributes = {
            name: self.restore(value, f"attribute {name!r} of {owner}", depth + 1)
            for name, value in record.state.items()
        }
        return _make_object(kind, attributes, owner)


def _class_of(reference: Reference) -> type[Any] | None:
    """Return the optimizer or scheduler class of a reference, or None."""
    module, name = reference.module, reference.name
    found: Any = None
    if module.startswith(("mxnet.optimizer", "phonograd.optimizer")):
        found = Optimizer.opt_registry.get(name.lower())
    elif module in ("mxnet.lr_scheduler", "phonograd.lr_scheduler"):
        found = getattr(lr_scheduler, name) if name in lr_scheduler.__all__ else None
    elif module in sys.modules:
        # A class of the running program, which has imported it already. vars() runs no code of the module.
        found = vars(sys.modules[module]).get(name)
    is_class = isinstance(found, type) and issubclass(found, (Optimizer, lr_scheduler.LRScheduler))
    return found if is_class else None


def _make_object(kind: type[Any], attributes: dict[str, Any], owner: str) -> Any:
    """Return an object of a class with attributes, each of which is checked."""
    base = Optimizer if issubclass(kind, Optimizer) else lr_scheduler.LRScheduler
    own = _template_of(kind)
    typical = own if own is not None else _template_of(base) or {}
    for name, value in attributes.items():
        if name in typical:
            wanted = _problem_of(name, value, typical[name])
            if wanted is not None:
                raise MXNetError(f"attribute {name!r} of {owner} is {_brief(value)}, not {wanted}")
        elif own is not None:
            raise MXNetError(f"{owner} has no attribute {name!r}{nearest(name, list(own))}")
        elif not name.isidentifier() or name.startswith("__") or _is_method(kind, name):
            raise MXNetError(f"{owner} cannot have an attribute {name!r}")
    missing = {} if own is None else {name: value for name, value in own.items() if name not in attributes}
    state = {**attributes, **missing}
    made: Any = object.__new__(kind)
    if isinstance(made, Optimizer):
        counts = state.get("_all_index_update_counts")
        if isinstance(counts, dict):
            # the counts of the current device are one of these dictionaries, not a copy
            current = state.get("_index_update_count")
            shared = [each for each in counts.values() if each is current]
            state["_index_update_count"] = shared[0] if shared else counts.setdefault(0, {})
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        vars(made).update(state)
    return made


def _is_method(kind: type[Any], name: str) -> bool:
    """Return whether a class has a method or property of a name, whose place a value must not take."""
    found = inspect.getattr_static(kind, name, None)
    return callable(found) or hasattr(type(found), "__get__")


def _brief(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, (int, float, str)) else f"of type {type(value).__name__}"


def _restore_bytes(tree: Any, place: str) -> bytes:
    """Return the bytes of a record: those of a bytearray, or text in latin-1 (protocols 0 to 2)."""
    if isinstance(tree, bytes):
        return tree
    if isinstance(tree, Record) and tree.state is None and tree.items is None:
        inner = tree.arguments
        if tree.function in _BYTES and len(inner) == 1:
            return _restore_bytes(inner[0], place)
        encoded = tree.function in _BYTES or tree.function == _ENCODE
        if encoded and len(inner) == 2 and isinstance(inner[0], str) and inner[1] in ("latin1", "latin-1"):
            try:
                return inner[0].encode("latin-1")
            except UnicodeError:
                pass  # the error below names the place
    raise MXNetError(f"{place} has no bytes")


def _restore_array(record: Record, place: str) -> NDArray:
    state = record.state
    if (
        record.arguments != (None,)
        or record.items is not None
        or not isinstance(state, dict)
        or set(state) != {"handle"}
    ):
        raise MXNetError(f"{place} is an array without values")
    try:
        values = unpack_record(_restore_bytes(state["handle"], place))
    except MXNetError as error:
        raise MXNetError(f"{place}: {error}") from None
    if isinstance(values, SparseRecord):
        return from_record(values)
    made: NDArray = make_array(values, dtype=values.dtype)
    return as_np(made) if record.function.name == "ndarray" else made


def _restore_scalar(record: Record, place: str) -> np.generic:
    """Return a number of NumPy: a call of ``scalar(dtype, bytes)``, where the dtype is a record, too."""
    if len(record.arguments) == 2 and record.state is None and isinstance(record.arguments[0], Record):
        kind, data = record.arguments
        names = kind.arguments[:1]
        if kind.function == _DTYPE and names and isinstance(names[0], str):
            dtype = next((known for known in CODES if known.str[1:] == names[0]), None)
            order = kind.state[1] if isinstance(kind.state, tuple) and len(kind.state) > 1 else "<"
            stored = _restore_bytes(data, place)
            if dtype is not None and order in ("<", "|") and len(stored) == dtype.itemsize:
                if dtype.kind == "b":
                    return np.bool_(stored != b"\0")
                number: np.generic = dtype.type(np.frombuffer(stored, dtype.newbyteorder("<"))[0])
                return number
    raise MXNetError(f"{place} is not a number")


# -- states and weights


def fit_states(optimizer: Optimizer, states: Mapping[Any, Any], weights: Mapping[Any, NDArray]) -> dict[Any, Any]:
    """Return the states in the dtypes that an optimizer of the library keeps for the weights.

    States of other weights are not checked, nor are those of optimizers that a program defines itself.

    Raises
    ------
    MXNetError
        If the optimizer keeps states of other shapes; the message names the state.
    """
    fitted = dict(states)
    if not _is_ours(type(optimizer)):
        return fitted
    with autograd.pause():
        for index, weight in weights.items():
            if index in states:
                expected = optimizer._new_state(index, weight)
                fitted[index] = _fit(expected, states[index], f"the state of weight {index!r}", type(optimizer))
    return fitted


def _fit(expected: Any, found: Any, place: str, owner: type[Optimizer]) -> Any:
    if isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)) and len(found) == len(expected):
        parts = zip(expected, found)
        return type(found)([_fit(wanted, part, f"{place}[{n}]", owner) for n, (wanted, part) in enumerate(parts)])
    if _form(expected) != _form(found):
        raise MXNetError(f"{place} is {_form(found)}, but {owner.__name__} needs {_form(expected)}")
    if isinstance(expected, NDArray):
        # States are dense here, also those of sparse weights. Only now the weight bounds the size of a dense one.
        dense = found if found.stype == "default" else found.tostype("default")
        return dense if dense.dtype == expected.dtype else dense.astype(expected.dtype)
    return found


def _form(state: Any) -> str:
    """Return the kind of a state as a text: the shape of an array, the length of a row."""
    if isinstance(state, NDArray):
        return f"an array of shape {format_shape(state.shape)}"
    if isinstance(state, (list, tuple)):
        return f"a row of {len(state)}"
    return "None" if state is None else f"of type {type(state).__name__}"
