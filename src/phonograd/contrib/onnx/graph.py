"""Graph: an ONNX graph under construction, and the view of a call that its mapping function gets."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.base.dtypes import BFLOAT16, as_array_dtype
from ...core.base.errors import MXNetError, nearest
from ...core.graph.interface import Onnx
from ...core.graph.operator import REGISTRY, Operator

__all__ = ["FORMS", "MAPPINGS", "Call", "Graph", "Mapping", "mapping_of", "maps", "maps_form"]

#: the exported operator set version: the first with LayerNormalization
OPSET = 17

#: the file format version that belongs to it
IR_VERSION = 8

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an operator to translate."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    """The names of its inputs."""
    shapes: tuple[tuple[int, ...], ...]
    """Their shapes."""
    dtype: np.dtype[Any]
    """The dtype of the first input, or of the output where there are no inputs."""
    output_shapes: tuple[tuple[int, ...], ...]
    output_dtype: np.dtype[Any]
    parameters: dict[str, Any]
    """Parameters by name, converted, with their defaults."""
    argument_names: tuple[str, ...]
    """The declared names of the inputs."""
    dtypes: tuple[np.dtype[Any], ...] = ()
    """The dtypes of the inputs."""

    def __getitem__(self, parameter: str) -> Any:
        return self.parameters[parameter]

    @property
    def data(self) -> str:
        """The first input."""
        return self.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        return self.shapes[0]

    def axis(self, axis: int) -> int:
        """Return an axis of the first input, counted from the front."""
        return axis + len(self.shape) if axis < 0 else axis

    def refuse(self, what: str) -> MXNetError:
        """Return the error for an unsupported call."""
        return MXNetError(f"ONNX export: operator {self.operator} ({self.name}) {what}, which cannot be exported")


Mapping = Callable[["Graph", Call], "str | Sequence[str]"]
FormMapping = Callable[["Graph", Call, Onnx], "str | Sequence[str]"]

#: mapping functions of individual operators, by name in the registry
MAPPINGS: dict[str, Mapping] = {}
#: mapping functions of forms, which declarations name (``onnx=``)
FORMS: dict[str, FormMapping] = {}


def maps_form(form: str) -> Callable[[FormMapping], FormMapping]:
    """Register a function to map all operators whose declarations name a form."""

    def decorate(function: FormMapping) -> FormMapping:
        FORMS[form] = function
        return function

    return decorate


def mapping_of(declared: Operator) -> Mapping | None:
    """Return the mapping of an operator: its own, that of its declared form, or that of its broadcasting form.

    >>> from phonograd.contrib.onnx import mappings
    >>> mapping_of(REGISTRY["exp"]) is None, mapping_of(REGISTRY["_contrib_arange_like"]) is None
    (False, True)
    """
    if declared.name in MAPPINGS:
        return MAPPINGS[declared.name]
    node = declared.onnx
    if node is not None and node.writes:
        write = FORMS[node.form]
        return lambda graph, call: write(graph, call, node)
    if declared.form_of is None:
        return None
    whole, kind = declared.form_of
    mapping = mapping_of(whole)
    return mapping if mapping is None or kind == "equal_shapes" else _with_number(mapping, kind)


def _with_number(mapping: Mapping, kind: str) -> Mapping:
    """Return the mapping of an operator between an array and a number, from that between two arrays."""

    def write(graph: Graph, call: Call) -> str | Sequence[str]:
        number = graph.scalar(call["scalar"], call.dtype)
        inputs = (number, call.data) if kind == "number_first" else (call.data, number)
        return mapping(graph, dataclasses.replace(call, inputs=inputs))

    return write


def maps(*names: str) -> Callable[[Mapping], Mapping]:
    """Register a function to map operators."""

    def decorate(function: Mapping) -> Mapping:
        for name in names:
            if name not in REGISTRY:
                raise ValueError(f"there is no operator {name!r}{nearest(name, list(REGISTRY))}")
            canonical = REGISTRY[name].name
            if canonical in MAPPINGS:
                raise ValueError(f"operator {canonical} has two mappings")
            MAPPINGS[canonical] = function
        return function

    return decorate


class Graph:
    """Nodes and constants, with a name for each value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        #: constant arrays of the model, by name: parameters and values computed from them
        self.constants: dict[str, Array] = {}
        self._shared: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._scope = ""

    def enter(self, name: str) -> None:
        """Name the following values after a call."""
        self._scope = name

    def reserve(self, name: str) -> None:
        """Reserve a name that is already in use."""
        self._taken.add(name)

    def new_name(self, hint: str) -> str:
        """Return an unused name."""
        candidates = itertools.chain([hint], (f"{hint}_{number}" for number in itertools.count(1)))
        name = next(candidate for candidate in candidates if candidate not in self._taken)
        self._taken.add(name)
        return name

    def constant(self, value: Any, dtype: Any = None, name: str | None = None) -> str:
        """Return the name of a constant; equal small constants share one."""
        array = np.asarray(value, dtype)
        key = (array.tobytes(), array.dtype, array.shape) if name is None and array.size <= 64 else None
        found = self._shared.get(key) if key is not None else None
        if found is not None:
            return found
        made = self.new_name(name or f"{self._scope}_constant")
        self.constants[made] = array
        if key is not None:
            self._shared[key] = made
        return made

    def integers(self, *values: int) -> str:
        """Return the name of a constant vector of integers: shapes, axes and so on."""
        return self.constant(values, np.int64)

    def add(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node with one output and return its name."""
        return self.add_several(operator, inputs, 1, **attributes)[0]

    def add_several(self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Add a node and return the names of its outputs."""
        from onnx import helper

        names = [self.new_name(f"{self._scope}_{operator.lower()}") for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=names[0], **given))
        return names

    # -- shared by many mappings

    def cast(self, value: str, dtype: Any) -> str:
        """Convert a value to a dtype."""
        return self.add("Cast", [value], to=element_type(as_array_dtype(dtype)))

    def transpose(self, value: str, axes: Sequence[int]) -> str:
        """Permute the axes of a value; a constant is permuted immediately."""
        if value in self.constants:
            return self.constant(self.constants[value].transpose(axes), name=f"{value}_transposed")
        return self.add("Transpose", [value], perm=list(axes))

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Reshape a value; 0 keeps an extent and -1 is inferred."""
        return self.add("Reshape", [value, self.integers(*shape)])

    def scalar(self, value: float, dtype: Any) -> str:
        """Return the name of a number."""
        return self.constant(value, dtype)


def element_type(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of a dtype."""
    from onnx import TensorProto, helper

    return int(TensorProto.BFLOAT16 if dtype == BFLOAT16 else helper.np_dtype_to_tensor_dtype(dtype))


def tensor_of(array: Array, name: str) -> Any:
    """Return an array as ONNX stores it."""
    from onnx import helper, numpy_helper

    # np.ascontiguousarray would add an axis to numbers
    array = np.asarray(array, order="C")
    if array.dtype == BFLOAT16:
        return helper.make_tensor(name, element_type(BFLOAT16), array.shape, array.tobytes(), raw=True)
    return numpy_helper.from_array(array, name)
