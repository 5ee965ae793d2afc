"""Operator: the one declaration of an operation, and the registry of all of them.

A declaration is a NumPy function with MXNet's signature. Positional arguments are input arrays (a default of None makes
one optional, ``*data`` takes any number), keyword-only arguments are parameters with their types and defaults (see
:mod:`phonograd.core.graph.parameters`), the docstring is the documentation and the body is the reference, which
defines the result. Shape rule, gradient and kernel lowering are declared beside it::

    @operator(aliases=("SwapAxis",))
    def swapaxes(data: Array, *, dim1: int = 0, dim2: int = 0) -> Array:
        '''Return the array with two axes exchanged.'''
        return np.swapaxes(data, dim1, dim2)


    @swapaxes.infer
    def swapaxes_shape(data: Node, *, dim1: int, dim2: int) -> Spec: ...


    @swapaxes.gradient
    def swapaxes_grad(out_grad: Node, out: Node, data: Node, *, dim1: int, dim2: int) -> Node:
        return swapaxes(out_grad, dim1=dim1, dim2=dim2)

The lowering (``lowering=`` beside the aliases) says how kernels compute the operator; see
:mod:`phonograd.core.lower.lowering`. Where there is none, NumPy evaluates the reference between two kernels.

A gradient rule takes the gradient of the output, the output, the inputs, and those parameters it names; it returns one
node per input (or one node for one input), None meaning zero. It uses operators only, so every order of derivative
exists. For an operator with several outputs the first two arguments are tuples (a missing output gradient is None).

A *composite* operator's body works on nodes instead of arrays: it is written with other operators, and shape rule,
gradient and evaluation follow from them.

Two names have a meaning of their own: an input called ``counter`` makes the operator random (the library passes the
position in the random stream), and a parameter called ``training`` receives the training flag. Neither is visible to
users.

The declaration also holds what other parts of the library need to know of an operator, as strings and small records, so
that no other file lists operators by name. A new operator is at home everywhere as soon as it is declared:

==============  ======================================================================================================
``method``      True if it is a method of arrays
``numpy``       its names in mx.np, which has it with NumPy's rules; the first is that of NumPy's own function
``npx``         its names in mx.npx
``answers``     NumPy's functions of the same meaning and arguments: ``numpy.sum(x)`` of an array of mx.nd calls it
``in_files``    its names in symbol files, where these differ from its own; the first is written, all are read
``python``      the word of Python's special methods for it: ``__sub__`` of arrays is what says ``python="sub"``
``of_numbers``  what ``nd.add(1, 2)`` returns, for an operator either of whose operands may be a number
``onnx``        the node of ONNX that computes the same: a name, or :class:`~phonograd.core.graph.interface.Onnx`
``quantizes``   the operator that it computes on quantized arrays: a :class:`~phonograd.core.graph.interface.Quantizes`
``family``      the kind of operator, by which pictures choose colors; by default the module of the declaration
``is_loss``     whether its gradient ignores that of its output, and exists without one
``keeps_zero``  whether a sparse array gives a sparse one, as in MXNet: zero stays zero
``moves``       whether it only chooses, places or converts elements, so that no arithmetic is counted
``sizes``       the parameters that count elements; what is learned of a call holds for others, as it does for extents
==============  ======================================================================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.devices import Context
from ..base.dtypes import DType
from ..base.errors import MXNetError, TooLarge
from ..base.hot import hot, slotted, untracked
from ..base.signals import Signal
from .interface import Interface, Onnx, Quantizes
from .node import (
    Node,
    Shape,
    TensorType,
    check_size,
    creation_facts,
    inferred_type,
    new_node,
    of_one_call,
    statistics,
    tensor_type,
    type_of,
)
from .parameters import REQUIRED, Parameter, attributes_of, reject_unknown
from .recipes import Recipes, are_repeated, types_of
from .templates import Templates

if TYPE_CHECKING:
    from ..lower.lowering import Lowering

__all__ = [
    "DECLARED",
    "NAMES",
    "REGISTRY",
    "Array",
    "Operator",
    "Spec",
    "composite",
    "declare",
    "items_of",
    "label_results",
    "nothing",
    "operator",
    "single",
]

Array = np.ndarray[Any, Any]
Spec = tuple[Shape, DType]
Nodes = tuple[Node, ...]

#: every operator by each of its names
REGISTRY: dict[str, Operator] = {}
#: operators by the names that they have elsewhere: ``NAMES["npx"]["batch_norm"]``
NAMES: dict[str, dict[str, Operator]] = {
    place: {} for place in ("numpy", "npx", "answers", "in_files", "onnx", "quantizes", "with_scalars")
}
#: emitted with the name and the declaration of every operator that is declared
DECLARED: Signal[[str, Operator]] = Signal()


@slotted
class Operator:
    """The declaration of an operation; calling it with nodes returns the node (or nodes) of its result."""

    # the attributes that hot functions read; all others are in the dictionary
    __slots__ = (
        "__dict__",
        "__weakref__",
        "accepted_parameters",
        "autocast",
        "calls",
        "composite",
        "gradient_rule",
        "input_names",
        "is_loss",
        "is_view",
        "marks",
        "numbers",
        "recipes",
        "required_inputs",
        "several",
        "table",
        "variadic",
    )

    #: the type of its arrays in signatures
    array_name = "NDArray"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        aliases: tuple[str, ...] = (),
        infer: Callable[..., Any] | None = None,
        gradient: Callable[..., Any] | None = None,
        composite: bool = False,
        visible: Callable[..., int] | int | None = None,
        effects: Callable[..., dict[int, Node]] | None = None,
        method: bool = False,
        numpy: str = "",
        npx: str = "",
        answers: str = "",
        in_files: str = "",
        python: str = "",
        of_numbers: Callable[[Any, Any], Any] | None = None,
        onnx: str | Onnx | None = None,
        quantizes: Quantizes | None = None,
        family: str = "",
        keeps_zero: bool = False,
        moves: bool = False,
        sizes: tuple[str, ...] = (),
        precision: str = "",
        cost: float | Callable[[Node], float] = 1.0,
        marks: bool | None = None,
        is_view: bool = False,
        is_loss: bool = False,
        with_scalars: str | None = None,
        direct: Callable[..., Any] | None = None,
        lowering: Lowering | None = None,
        interface: Interface | None = None,
    ) -> None:
        self.name = name or function.__name__
        self.aliases = aliases
        self.function = function
        self.composite = composite
        self.infer_rule = infer
        self.gradient_rule = gradient
        #: the call that is its gradient, if it is one, and the function of arrays with one more axis in front, if any
        self.adjoint_rule: Callable[..., Any] | None = None
        self.stacked_rule: Callable[..., Any] | None = None
        #: how kernels compute it; None leaves it to NumPy
        self.lowering = lowering
        self.effects = effects
        self.method = method
        #: what is known of it elsewhere; the module says what each means
        self.numpy = numpy
        self.npx = npx
        self.answers = answers
        self.in_files = in_files
        self.python = python
        self.of_numbers = of_numbers
        self.onnx = Onnx(onnx) if isinstance(onnx, str) else onnx
        self.quantizes = quantizes
        self.family = family or str(function.__module__).rpartition(".")[2]
        self.keeps_zero = keeps_zero
        self.moves = moves
        #: its dtype in mixed-precision training: "low" (16 bits are enough and save time), "float32", or "widest" (that
        #: of its widest input); anything else takes its inputs as they are
        self.precision = precision
        #: the values of a parameter for which it needs float32: ``("act_type", ("softrelu",))``
        self.float32_when: tuple[str, tuple[str, ...]] | None = None
        #: how mixed precision converts the inputs of users' calls, by nodes and attributes; None: not at all
        self.autocast: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]] | None = None
        #: its forms by kind, for an operator of two operands: ``equal_shapes``, ``number_last`` and ``number_first``
        self.forms: dict[str, Operator] = {}
        #: the operator that it is a form of, and the kind
        self.form_of: tuple[Operator, str] | None = None
        self.cost = cost
        self.marks = marks
        self.is_view = is_view
        #: whether its gradient does not depend on that of its output, which may be missing
        self.is_loss = is_loss
        #: a NumPy function that equals the reference, without the cost of another call; with parameters, returns one
        self.direct = direct
        self.visible = visible
        #: how it appears in symbols
        self.interface = interface or Interface()
        #: name of the function of two operands, either of which may be a number (``nd.add`` for ``broadcast_add``)
        self.with_scalars = with_scalars
        #: what the function of an operator returns for numbers alone; None refuses them
        self.on_numbers: Callable[..., Any] | None = None
        #: what an array becomes beside a number, which takes its dtype; None leaves all but truth values as they are
        self.beside_numbers: Callable[[Node], Node] | None = None
        #: what is asked about keywords that are no parameters: it returns whether they mean nothing, or raises
        self.tolerates: Callable[[str, Any], bool] | None = None
        # as written: :mod:`.documentation` completes it when a public function is made
        self.__doc__ = function.__doc__ or ""
        self._read_signature(function, sizes)
        if numpy and (len(self.input_names) != 1 or self.parameters):
            raise ValueError(f"{self.name}: numpy= is for functions of one array; declare others in phonograd.numpy")
        self._accepted: dict[Callable[..., Any], tuple[tuple[str, int], ...]] = {}
        #: nodes by (inputs, attributes): where equal expressions become one object
        self.table: dict[Any, Node | Nodes] = {}
        #: results by the arguments exactly as users passed them: one look-up per repeated call
        self.calls, self.several = dict[Any, Any](), dict[Any, Any]()
        #: not empty if machine code computes some calls at once, without nodes
        self.at_once: list[bool] = []
        #: attributes by parameters as users passed them
        self.arguments: dict[Any, tuple[Any, ...]] = {}
        #: the nodes of the body of a composite, those of the gradient rule, and the latter for leaves as gradients
        self.body_templates, self.gradient_templates, self.leaf_gradient_templates = [Templates() for _ in range(3)]
        #: whether attributes are positions, new in most calls: then no template of its body is kept
        self.has_new_attributes = False
        #: attributes by the number of arrays and the parameters of calls that were checked
        self.accepted_parameters: dict[Any, tuple[Any, ...]] = {}
        #: what nodes of calls of one kind have in common
        self.recipes = Recipes()
        #: what calls change in their arguments, by (inputs, attributes)
        self.consequences: dict[Any, Any] = {}

    def _read_signature(self, function: Callable[..., Any], sizes: tuple[str, ...]) -> None:
        names: list[str] = []
        parameters: list[Parameter] = []
        self.variadic = False
        self.required_inputs = 0
        #: the number of arrays that a call must have
        self.required_arrays = 0
        for argument in inspect.signature(function).parameters.values():
            if argument.kind is argument.VAR_POSITIONAL:
                self.variadic = True
                names.append(argument.name)
            elif argument.kind is argument.KEYWORD_ONLY:
                default = REQUIRED if argument.default is argument.empty else argument.default
                parameters.append(Parameter(argument.name, str(argument.annotation), default))
            else:
                names.append(argument.name)
                if argument.default is argument.empty:
                    self.required_inputs += 1
                    self.required_arrays += argument.name != "counter"
        self.input_names = tuple(names)
        self.parameters = tuple(parameters)
        self.parameter_names = tuple(parameter.name for parameter in parameters)
        self.random = "counter" in self.input_names
        self.training = "training" in self.parameter_names
        #: which of the parameters are data, each with its kind
        self.numbers = tuple((place, p.kind) for place, p in enumerate(parameters) if p.is_data)
        #: which of them count elements
        self.sizes = tuple(self.parameter_names.index(name) for name in sizes)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def __reduce__(self) -> Any:
        return REGISTRY.__getitem__, (self.name,)

    # -- the parts of a declaration, as decorators

    def infer(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the shape and dtype rule: ``(inputs..., parameters...) -> (shape, dtype)`` or a list of them."""
        self.infer_rule = rule
        return rule

    def gradient(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the gradient rule."""
        self.gradient_rule = rule
        return rule

    def stacked(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the function of arrays with one more axis in front: several calls at once.

        It moves elements and computes nothing, and may return None for shapes for which that is not possible.
        """
        self.stacked_rule = rule
        return rule

    def become_form(self, whole: Operator, kind: str) -> None:
        """Declare this to be a form of an operator of two operands; ``forms`` has the kinds."""
        whole.forms[kind] = self
        self.form_of = (whole, kind)

    @property
    def differentiable(self) -> bool:
        """Return whether gradients pass through (a zero gradient counts)."""
        return self.composite or self.gradient_rule is not None

    # -- making nodes

    def __call__(self, *inputs: Any, **parameters: Any) -> Any:
        """Return the node of the result, or a tuple of nodes for several outputs.

        Where the operator takes numbers beside arrays (``add(x, 1)``), a number becomes a constant of the other
        operand's dtype.
        """
        if self.with_scalars is not None:
            inputs = _promote(inputs)
        return self.apply(inputs, self.attributes_of(parameters) if self.parameters or parameters else ())

    def attributes_of(self, given: dict[str, Any]) -> tuple[Any, ...]:
        """Return the attributes of a call: every parameter in order, converted, with defaults filled in."""
        return attributes_of(self.name, self.parameters, given)

    def reject_unknown(self, given: Iterable[str]) -> None:
        """Raise for the first name in ``given`` that is no parameter."""
        reject_unknown(self.name, self.parameters, given)

    def more_descriptions(self) -> Mapping[str, str]:
        """Return descriptions of arguments, by name, that take precedence over the shared ones."""
        return {}

    @hot
    def apply(self, inputs: tuple[Node | None, ...], attributes: tuple[Any, ...]) -> Any:
        """Return the interned result for input nodes and attributes in canonical form."""
        if not self.variadic and len(inputs) != len(self.input_names):
            inputs = self._complete(inputs)
        key = (inputs, attributes)
        found = self.table.get(key)
        if found is None:
            found = self.table.setdefault(untracked(key), self._make(untracked(inputs), attributes))
        return found

    def _complete(self, inputs: tuple[Node | None, ...]) -> tuple[Node | None, ...]:
        count, most = len(inputs), len(self.input_names)
        if count < self.required_inputs or count > most:
            expected = self.required_inputs if count < self.required_inputs else most
            raise MXNetError(f"Operator {self.name} expects {expected} inputs, but got {count} instead.")
        return inputs + (None,) * (most - count)

    @hot
    def _make(self, inputs: tuple[Node | None, ...], attributes: tuple[Any, ...]) -> Any:
        if self.composite:
            return self._expand(inputs, attributes)
        known = self.recipes.by_type.get(types_of(self.is_view, inputs, attributes))
        if known is None:
            return self._make_new(inputs, attributes)
        statistics.nodes += 1
        line, gradient_of = creation_facts()
        recipe = None if self.is_view or are_repeated(inputs) else known
        made = new_node(self, inputs, attributes, known.type, line, gradient_of, recipe)  # type: ignore[arg-type]
        return made if made.outputs is None else items_of(made)

    @hot
    def _make_new(self, inputs: tuple[Node | None, ...], attributes: tuple[Any, ...]) -> Node | Nodes:
        """Return the node (or nodes) of a call whose kind is new, and remember the kind."""
        spec = self._infer(inputs, attributes)
        sources: Any = inputs
        if None in inputs:
            sources = untracked(tuple([ABSENT() if node is None else node for node in inputs]))
        type_, recipe = inferred_type(self, sources, spec), None
        if sources is inputs:
            known = self.recipes.remember_types(types_of(self.is_view, inputs, attributes), attributes, type_)
            recipe = None if self.is_view or are_repeated(inputs) else known
        statistics.nodes += 1
        line, gradient_of = creation_facts()
        made = new_node(self, sources, attributes, type_, line, gradient_of, recipe)
        return made if made.outputs is None else items_of(made)

    @hot
    def source(self, attributes: tuple[Any, ...], shape: Shape, dtype: DType, context: Context) -> Node:
        """Return the interned node of this operator without inputs."""
        key = ((), attributes)
        found = self.table.get(key)
        if found is None:
            check_size(shape, dtype, self.name)
            statistics.nodes += 1
            line, gradient_of = creation_facts()
            type_ = tensor_type(shape, dtype, context, self.marks is True, None)
            found = self.table.setdefault(untracked(key), new_node(self, (), attributes, type_, line, gradient_of))
        return found  # type: ignore[return-value]

    @hot
    def result_type(self, inputs: Nodes, attributes: tuple[Any, ...]) -> TensorType:
        """Return the type of the result of this operator, which is not a composite, for some inputs."""
        types = types_of(self.is_view, inputs, attributes)
        known = self.recipes.by_type.get(types)
        if known is None:
            given = tuple([None if node.operator is _ABSENT else node for node in inputs])
            spec = self._infer(given, attributes)
            known = self.recipes.remember_types(types, attributes, inferred_type(self, inputs, spec))
        return known.type

    def _infer(self, inputs: tuple[Node | None, ...], attributes: tuple[Any, ...]) -> Any:
        if self.infer_rule is None:
            first = inputs[0]
            assert first is not None, f"operator {self.name} needs a shape rule"
            return first.shape, first.dtype
        if not attributes:
            return self.infer_rule(*inputs)
        return self.infer_rule(*inputs, **self.accepted(self.infer_rule, attributes))

    def _expand(self, inputs: tuple[Node | None, ...], attributes: tuple[Any, ...]) -> Node | Nodes:
        parameters = dict(zip(self.parameter_names, attributes, strict=True))

        def rule(given: Iterable[Node | None]) -> Any:
            return self.function(*given, **parameters)

        with of_one_call():
            # attributes that are leaves are another kind of call in each trace
            is_new = self.numbers or self.has_new_attributes
            if not is_new and (template := self.body_templates.find(inputs, attributes, rule)) is not None:
                result = template.apply(inputs)
            else:
                try:
                    result = self.function(*inputs, **parameters)
                except TooLarge as error:
                    raise error.inside(self.name) from None
        call = (self, tuple([node for node in inputs if node is not None]), attributes)
        return label_results(result, call)  # type: ignore[no-any-return]

    def accepted(self, rule: Callable[..., Any], attributes: tuple[Any, ...]) -> dict[str, Any]:
        """Return those of the attributes that a rule names among its keyword arguments."""
        places = self._accepted.get(rule) if attributes else ()
        if places is None:
            arguments = inspect.signature(rule).parameters.values()
            takes_all = any([argument.kind is argument.VAR_KEYWORD for argument in arguments])
            named = {argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY}
            places = self._accepted[rule] = tuple(
                [(name, place) for place, name in enumerate(self.parameter_names) if takes_all or name in named]
            )
        return {name: attributes[place] for name, place in places}

    # -- using nodes

    def reference(self, attributes: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the NumPy function of this operator with its attributes bound."""
        if not attributes:
            return self.direct or self.function
        named = dict(zip(self.parameter_names, attributes, strict=True))
        return self.direct(**named) if self.direct else partial(self.function, **named)


def _promote(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    if all([type(value) is Node for value in inputs]):
        return inputs
    dtype = next(value.dtype for value in inputs if isinstance(value, Node))
    return tuple([v if isinstance(v, Node) else Node.arithmetic["constant"](v, dtype) for v in inputs])


def nothing(*arguments: Any) -> None:
    """Return None: the gradient rule of operators whose gradient is zero everywhere."""


def operator(**facts: Any) -> Callable[[Callable[..., Any]], Operator]:
    """Declare an operator whose body computes on NumPy arrays; see the module for an example."""

    def decorate(function: Callable[..., Any]) -> Operator:
        return declare(Operator(function, **facts))

    return decorate


def composite(**facts: Any) -> Callable[[Callable[..., Any]], Operator]:
    """Declare an operator whose body is written with other operators, on nodes."""

    def decorate(function: Callable[..., Any]) -> Operator:
        return declare(Operator(function, composite=True, **facts))

    return decorate


def declare(declared: Operator) -> Operator:
    """Put an operator into the registry under all its names, here and elsewhere."""
    elsewhere = {
        "numpy": declared.numpy,
        "npx": declared.npx,
        "answers": declared.answers,
        "in_files": declared.in_files,
        "onnx": declared.onnx.name if declared.onnx is not None and declared.onnx.reads else "",
        "quantizes": declared.quantizes.name if declared.quantizes is not None else "",
        "with_scalars": declared.with_scalars or "",
    }
    for place, names in elsewhere.items():
        for name in names.split():
            if name in NAMES[place]:
                raise ValueError(f"two operators are called {name!r} ({place})")
            NAMES[place][name] = declared
    for name in (declared.name, *declared.aliases):
        if name in REGISTRY:
            raise ValueError(f"two operators are called {name!r}")
        REGISTRY[name] = declared
        DECLARED.emit(name, declared)
    return declared


def single(nodes: Any) -> Node:
    """Return the only node of a result (for callers that know there is one)."""
    assert isinstance(nodes, Node)
    return nodes


# -- the three structural operators that declarations themselves need


def _absent() -> None:
    """Stand for an optional input that was not given."""


def _item(whole: Any, *, index: int) -> Any:
    """Return one output of an operator that has several."""
    return whole[index]


def _composite(data: Any, *, label: Any, index: int) -> Any:
    """Return the value of a composite operator; remembers which call it was."""
    return data


_ABSENT = declare(Operator(_absent, infer=lambda: ((), np.dtype("float32")), gradient=nothing))
_ITEM = declare(Operator(_item))
_COMPOSITE = declare(Operator(_composite, gradient=lambda out_grad, out, data: out_grad, is_view=True))


class _Absent:
    operator = _ABSENT

    def __call__(self) -> Node:
        return single(_ABSENT.apply((), ()))


ABSENT = _Absent()


@hot
def items_of(whole: Node) -> Nodes:
    """Return the nodes of the outputs of an operator with several."""
    line, gradient_of, table = whole.origin, whole.gradient_of, _ITEM.table
    found = []
    for index, type_ in enumerate(type_of(whole).items):
        inputs, attributes = untracked((whole,)), (index,)
        key = untracked((inputs, attributes))
        item = table.get(key)
        if item is None:
            statistics.nodes += 1
            item = table.setdefault(key, new_node(_ITEM, inputs, attributes, type_, line, gradient_of, None))
        found.append(item)
    return untracked(tuple(found))  # type: ignore[arg-type]


@hot
def label_results(result: Any, call: tuple[Operator, Nodes, tuple[Any, ...]]) -> Any:
    """Return the node (or nodes) of the outputs of a composite operator, which name the call."""
    (line, gradient_of), table = creation_facts(), _COMPOSITE.table
    found, is_one = [], isinstance(result, Node)
    for index, node in enumerate((result,) if is_one else result):
        inputs, attributes = untracked((node,)), untracked((call, index))
        key = untracked((inputs, attributes))
        label: Any = table.get(key)
        if label is None:
            statistics.nodes += 1
            label = new_node(_COMPOSITE, inputs, attributes, node.type or type_of(node), line, gradient_of, None)
            label.call = call
            label = table.setdefault(key, label)
        found.append(label)
    return found[0] if is_one else untracked(tuple(found))


def item_operator() -> Operator:
    """Return the operator that selects one output; the gradient pass and the planner treat it themselves."""
    return _ITEM
