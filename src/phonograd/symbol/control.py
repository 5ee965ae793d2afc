"""Control flow: ``sym.contrib.foreach``, ``while_loop`` and ``cond``. The body becomes a graph inside one entry.

The Python function is called once, with variables, and returns the graph. Outside values that it uses become inputs of
the loop. :mod:`.loops` computes such entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..attribute import AttrScope
from ..core.graph.operator import REGISTRY
from .build import build, function_of, single_head, var
from .entry import NULL, Entry, Head, entries_of, text_of
from .graph import Group, Symbol

__all__ = ["cond", "foreach", "while_loop"]

_MARK = "__subgraph_name__"
_numbers: Counter[str] = Counter()


def _unique(name: str) -> str:
    _numbers[name] += 1
    return f"{name}{_numbers[name] - 1}"


def _flatten(value: Any, what: str) -> list[Symbol]:
    if isinstance(value, Symbol):
        return [value]
    if isinstance(value, (list, tuple)):
        return [symbol for item in value for symbol in _flatten(item, what)]
    raise AssertionError(f"{what} must be (nested) list of Symbol, but got {value} of type {type(value)}")


def _like(pattern: Any, symbols: Sequence[Symbol]) -> Any:
    """Return symbols nested like a pattern."""
    remaining = iter(symbols)

    def rebuild(part: Any) -> Any:
        return next(remaining) if isinstance(part, Symbol) else [rebuild(item) for item in part]

    return rebuild(pattern)


def _inner_variables(symbols: Sequence[Symbol]) -> list[Symbol]:
    """Return the variables that represent outside values within a body."""
    heads = [single_head(symbol, "a loop") for symbol in symbols]
    return [var(f"{entry.name}-{index}") for entry, index in heads]


def _own(symbol: Symbol, mark: str, always: bool = False) -> Symbol:
    """Return an output of a body as a separate value; a value from outside is copied."""
    entry = single_head(symbol, mark)[0]
    if not always and not entry.is_argument and entry.attributes.get(_MARK) == mark:
        return symbol
    copy: Symbol = function_of(REGISTRY["identity"], "identity")(symbol)
    return copy


class _Body:
    """The graph of a body, cut where values come from outside."""

    def __init__(self, outputs: Sequence[Symbol], mark: str, variables: Sequence[Symbol] = ()) -> None:
        self._inner = {variable._heads[0][0] for variable in variables}
        self.heads: list[Head] = []
        #: outside values, by their names inside
        self.outside: dict[str, Head] = {}
        if outputs:
            self._cut(Group(list(outputs))._heads, mark)
        #: the names of all inputs, in the order of appearance
        self.names = list(dict.fromkeys([entry.name for entry in entries_of(self.heads) if entry.is_argument]))

    def _cut(self, heads: Sequence[Head], mark: str) -> None:
        made: dict[Entry, Entry] = {}
        cut: dict[str, Entry] = {}

        def inner(head: Head) -> Head:
            entry, index = head
            if entry in made:
                return made[entry], index
            if entry.is_argument:
                # includes variables that the body makes: a layer's weight is the same in all steps
                if entry not in self._inner:
                    self.outside[entry.name] = head
                return entry, index
            name = entry.output_names()[index]
            self.outside[name] = head
            return cut.setdefault(name, Entry(NULL, name, {}, [])), 0

        for entry in entries_of(heads):
            if not entry.is_argument and entry.attributes.get(_MARK) == mark:
                inputs = [inner(source) for source in entry.inputs]
                attributes = dict(entry.attributes)
                made[entry] = Entry(entry.operator, entry.name, attributes, inputs, entry.outputs, entry.subgraphs)
        self.heads = [inner(head) for head in heads]


class _Inputs:
    """The distinct inputs of an entry with inner graphs."""

    def __init__(self) -> None:
        self.heads: list[Head] = []

    def add(self, head: Head) -> int:
        """Return the position of a value among the inputs."""
        if head not in self.heads:
            self.heads.append(head)
        return self.heads.index(head)

    def symbols(self) -> list[Symbol]:
        """Return the inputs in order."""
        return [Symbol([head]) for head in self.heads]


def foreach(body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach") -> tuple[Any, Any]:
    """Return the stacked outputs and final states of ``body(slice, states)`` run over the first axis of data.

    >>> import phonograd as mx
    >>> step = lambda x, s: (x + s, x + s)
    >>> outputs, state = mx.sym.contrib.foreach(step, mx.sym.var("x"), mx.sym.var("s"))
    >>> outputs.eval(x=mx.nd.array([[1], [2], [3]]), s=mx.nd.zeros((1,)))[0].reshape(-1)
    <BLANKLINE>
    [1. 3. 6.]
    <NDArray 3 @cpu(0)>
    """
    arrays, states = _flatten(data, "foreach input"), _flatten(init_states, "foreach states")
    mark = _unique(name)
    with AttrScope(**{_MARK: mark}):
        elements, starts = _inner_variables(arrays), _inner_variables(states)
        outputs, following = body(_like(data, elements), _like(init_states, starts))
        flat = _flatten(outputs, "foreach output")
        flat_states = _flatten(following, "foreach loop_vars")
        if len(flat_states) != len(states):
            raise AssertionError(f"foreach: the body returns {len(flat_states)} states, expected {len(states)}")
        shown = {symbol.name for symbol in flat}
        results = [_own(symbol, mark) for symbol in flat]
        # a state that is also an output becomes a separate value
        results += [_own(symbol, mark, always=symbol.name in shown) for symbol in flat_states]
    graph = _Body(results, mark, [*elements, *starts])
    locations: dict[str, list[int]] = {}
    for what, variables in (("data", elements), ("state", starts)):
        for variable in variables:
            if variable.name not in graph.names:
                raise AssertionError(f"the {what} arrays have to be used in the loop body")
        locations[what] = [graph.names.index(str(variable.name)) for variable in variables]
    remaining = [graph.names.index(inside) for inside in graph.outside]
    inputs = [*arrays, *states, *[Symbol([head]) for head in graph.outside.values()]]
    parameters = {
        "num_args": len(inputs) + 1,
        "num_outputs": len(results),
        "num_out_data": len(flat),
        "in_data_locs": locations["data"],
        "in_state_locs": locations["state"],
        "remain_locs": remaining,
    }
    whole = _loop("_foreach", inputs, parameters, (graph.heads,))
    return _like(outputs, list(whole)[: len(flat)]), _like(following, list(whole)[len(flat) :])


def _loop(
    operator: str, inputs: Sequence[Symbol], parameters: dict[str, Any], graphs: tuple[list[Head], ...]
) -> Symbol:
    texts = {key: text_of(value) for key, value in parameters.items()}
    return build(operator, operator, inputs, texts, subgraphs=graphs)


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """Return stacked step outputs (padded with zeros to ``max_iterations``) and final variables of a while loop."""
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    try:
        limit = int(max_iterations)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert max_iteration to python int: {max_iterations!r}") from None
    single = isinstance(loop_vars, Symbol)
    variables = _flatten(loop_vars, "while_loop loop_vars")
    if not variables:
        raise ValueError("loop_vars should contain at least one element")
    test_mark, step_mark = _unique(f"{name}_cond"), _unique(f"{name}_func")
    with AttrScope(**{_MARK: test_mark}):
        inside = _inner_variables(variables)
        test = _Body([_own(cond(*inside), test_mark)], test_mark, inside)
    with AttrScope(**{_MARK: step_mark}):
        inside = _inner_variables(variables)
        outputs, following = func(*inside)
        outputs = [] if outputs is None else outputs
        flat, flat_vars = _flatten(outputs, "while_loop output"), _flatten(following, "while_loop loop_vars")
        if len(flat_vars) != len(variables):
            raise ValueError(
                f"The length of loop_vars should be consistent during the loop: {len(variables)} and {len(flat_vars)}"
            )
        results = [_own(symbol, step_mark) for symbol in (*flat, *flat_vars)]
        step = _Body(results, step_mark, inside)
    starts = {str(variable.name): start._heads[0] for variable, start in zip(inside, variables, strict=True)}
    inputs = _Inputs()
    test_places = [inputs.add(starts.get(n) or test.outside[n]) for n in test.names]
    step_places = [inputs.add(starts.get(n) or step.outside[n]) for n in step.names]
    for variable in inside:
        if variable.name not in step.names:
            raise AssertionError(f"the loop variable {variable.name} has to be used in the loop body")
    parameters = {
        "num_args": len(inputs.heads) + 2,
        "num_outputs": len(results),
        "num_out_data": len(flat),
        "max_iterations": limit,
        "cond_input_locs": test_places,
        "func_input_locs": step_places,
        "func_var_locs": [step.names.index(str(variable.name)) for variable in inside],
    }
    whole = list(_loop("_while_loop", inputs.symbols(), parameters, (test.heads, step.heads)))
    final = whole[len(flat) :]
    return _like(outputs, whole[: len(flat)]), final[0] if single else _like(following, final)


def cond(pred: Symbol, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """Return the outputs of ``then_func()`` or ``else_func()``; the condition decides at evaluation."""
    graphs: list[_Body] = []
    patterns: list[Any] = []
    parts: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("pred", lambda: pred),
        ("then", then_func),
        ("else", else_func),
    )
    for part, function in parts:
        mark = _unique(f"{name}_{part}")
        with AttrScope(**{_MARK: mark}):
            pattern = function()
            results = [_own(symbol, mark) for symbol in _flatten(pattern, "cond outputs")]
        patterns.append(pattern)
        graphs.append(_Body(results, mark))
    chosen, other = (len(graph.heads) for graph in graphs[1:])
    if chosen != other:
        raise ValueError(f"Number of outputs differs in then-branch and else-branch: {chosen} and {other}")
    inputs = _Inputs()
    places = [[inputs.add(graph.outside[inside]) for inside in graph.names] for graph in graphs]
    parameters = {
        "num_args": len(inputs.heads) + 3,
        "num_outputs": chosen,
        "cond_input_locs": places[0],
        "then_input_locs": places[1],
        "else_input_locs": places[2],
    }
    whole = _loop("_cond", inputs.symbols(), parameters, tuple([graph.heads for graph in graphs]))
    return _like(patterns[1], list(whole))
