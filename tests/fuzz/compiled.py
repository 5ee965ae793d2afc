"""Random functions of arrays, called plainly and compiled: both must leave the same bits everywhere.

A :class:`Case` is plain data that follows from a seed: the statements of a function, its result, and how it is called
four times (fresh arrays, the same ones again, views of each other, gradient buffers, recorded arrays, ...). Every number
in a case is taken modulo the number of choices, so any part of a case is a case as well, and :func:`shrink` can drop
parts freely. :func:`outcome` runs a case in a world of its own and returns everything that can be seen afterwards:
results, arguments, outside arrays, gradients, the random stream, and what a later write to any of them changes.

Sums are taken of small whole numbers wherever the order of additions may differ (two ``record()`` scopes of one
function, see docs/decisions/0007), so the comparison is exact in all cases.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import random
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd, settings

from . import Counts

__all__ = ["WAYS", "Case", "compare", "describe", "outcome", "random_case", "run", "shrink"]

#: statements, the frequent ones several times
_KINDS = (
    *("binary", "binary", "binary", "unary", "number", "pure", "row", "slice", "reshape", "detach", "reread"),
    *("write", "write_part", "write_number", "add_number", "add_array", "multiply", "write_through", "copyto"),
    *("random", "backward", "backward", "backward_add", "recorded", "grad", "grad_read", "grad_read", "grad_change"),
    *("loss", "paused", "heads", "cast", "empty", "scalar", "concat", "outside_row", "fresh", "out"),
)
#: how an argument of a call is made
_SOURCES = (
    *(
        "fresh",
        "fresh",
        "fresh",
        "fresh",
        "again",
        "again",
        "same",
        "view_of_other",
        "overlap",
        "whole_view",
        "detached",
    ),
    *("outside", "outside_view", "grad_of_other", "outside_grad", "pending", "recorded", "changed_view", "overwritten"),
)
_REQUESTS = ("none", "write", "write", "add", "null", "shared")
#: what happens between two calls
_BETWEEN = (
    "nothing",
    "nothing",
    "nothing",
    "attach",
    "add",
    "change",
    "view",
    "change_arguments",
    "request",
    "write_grad",
)
_SHAPES = ((2, 3), (2, 3), (2, 3), (3,), (1, 2), (4,), (0, 2))
_CALLS = 4


@dataclasses.dataclass(frozen=True)
class Call:
    """One call: a source for each argument, and what happens around it."""

    sources: tuple[tuple[str, str, int], ...]
    between: tuple[str, int]
    is_read: bool
    touched: int


@dataclasses.dataclass(frozen=True)
class Case:
    """A random function and its calls."""

    seed: int
    shapes: tuple[tuple[int, ...], ...]
    statements: tuple[tuple[str, int, int, int], ...]
    results: tuple[int, ...]
    nesting: int
    calls: tuple[Call, ...]
    is_recorded: bool
    is_np: bool
    is_exact: bool


def random_case(seed: int) -> Case:
    """Return the case of a seed."""
    draw = random.Random(seed)
    count = draw.choice((1, 2, 2, 2, 3))
    shape = draw.choice(_SHAPES)
    statements = tuple(
        [
            (draw.choice(_KINDS), draw.randrange(12), draw.randrange(12), draw.randrange(12))
            for _ in range(draw.choice((1, 2, 2, 3, 3, 4, 5, 7)))
        ]
    )
    is_recorded = draw.random() < 0.3
    simple = draw.random() < 0.4
    requests = [draw.choice(_REQUESTS) for _ in range(count)]

    def source(number: int) -> tuple[str, str, int]:
        kind = "fresh" if simple else draw.choice(_SOURCES)
        request = requests[number] if draw.random() < 0.8 else draw.choice(_REQUESTS)
        return kind, request, draw.randrange(12)

    calls = tuple(
        [
            Call(
                tuple([source(number) for number in range(count)]),
                ("nothing" if simple and draw.random() < 0.7 else draw.choice(_BETWEEN), draw.randrange(12)),
                draw.random() < 0.7,
                draw.randrange(24),
            )
            for _ in range(_CALLS)
        ]
    )
    scopes = sum([kind in ("recorded", "backward", "backward_add", "grad", "loss", "heads") for kind, *_ in statements])
    return Case(
        seed,
        tuple([shape if draw.random() < 0.8 else draw.choice(_SHAPES) for _ in range(count)]),
        statements,
        tuple([draw.randrange(16) for _ in range(draw.choice((0, 1, 1, 2, 2, 3)))]),
        draw.randrange(4),
        calls,
        is_recorded,
        draw.random() < 0.15,
        scopes + is_recorded > 1 or draw.random() < 0.2,
    )


# -- the function


class World:
    """The arrays that a function uses without getting them, and all that happens around its calls."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.space = mx.np if case.is_np else nd
        self.numbers = np.random.default_rng(case.seed)
        self.w, self.c, self.v = [self.array(case.shapes[0]) for _ in range(3)]
        self.row = self.v[0:1]
        self.w.attach_grad("add" if case.seed % 3 == 0 else "write")
        self.arguments: list[Any] = []
        self.held: list[Any] = []
        self.earlier: list[list[Any]] = []

    def array(self, shape: tuple[int, ...]) -> Any:
        """Return an array of new numbers."""
        whole = self.numbers.integers(-3, 4, size=shape)
        values = whole if self.case.is_exact else whole + self.numbers.normal(size=shape)
        return self.space.array(values, dtype="float32")

    # -- statements

    def _pair(self, x: Any, y: Any) -> Any:
        """Return a mixture of two arrays of any shapes, in the shape of the first."""
        if x.shape == y.shape and x.dtype == y.dtype:
            return self._bounded(x * y - y)
        return self._bounded(x * self._total(y).astype(x.dtype) + 1)

    def _total(self, x: Any) -> Any:
        """Return the sum of an array in the shape (1,)."""
        return x.sum().reshape((1,)) if x.shape and 0 not in x.shape else self.space.ones((1,))

    def _bounded(self, x: Any) -> Any:
        if self.case.is_exact:
            return x.clip(-8, 8)
        return x.tanh() if not self.case.is_np else mx.np.tanh(x)

    def _loss(self, x: Any, y: Any) -> Any:
        mixed = self._pair(x, self.w if y.shape != self.w.shape else y) * 2
        return (mixed * self._total(y) + self._bounded(x)).sum()

    def __call__(self, *arguments: Any) -> Any:
        """Run the statements and return the result."""
        pool = [*arguments, self.w, self.c, self.row]
        for kind, first, second, third in self.case.statements:
            x, y = pool[first % len(pool)], pool[second % len(pool)]
            if kind == "pure":
                pool.append(self._pair(pool[third % len(arguments)], y))
            else:
                pool.extend(getattr(self, f"_do_{kind}")(x, y, third) or ())
        results = [pool[number % len(pool)] for number in self.case.results]
        return self._nest(results)

    def _nest(self, results: list[Any]) -> Any:
        if not results:
            return None
        if self.case.nesting == 0 and len(results) == 1:
            return results[0]
        if self.case.nesting == 1:
            return tuple(results)
        if self.case.nesting == 2 and not isinstance(self, _BlockWorld):
            return {"first": results[0], "rest": results[1:]}
        return results

    def _do_binary(self, x: Any, y: Any, third: int) -> Any:
        return [self._pair(x, y)]

    def _do_unary(self, x: Any, y: Any, third: int) -> Any:
        return [self._bounded(x)]

    def _do_number(self, x: Any, y: Any, third: int) -> Any:
        return [x * (third % 3) + 1]

    def _do_row(self, x: Any, y: Any, third: int) -> Any:
        return [x[third % x.shape[0]]] if x.shape and x.shape[0] else None

    def _do_slice(self, x: Any, y: Any, third: int) -> Any:
        return [x[0:1]] if x.shape else None

    def _do_reshape(self, x: Any, y: Any, third: int) -> Any:
        return [x.reshape((-1,))] if x.size else None

    def _do_detach(self, x: Any, y: Any, third: int) -> Any:
        return [x.detach()]

    def _do_reread(self, x: Any, y: Any, third: int) -> Any:
        if not x.shape:
            return None
        view = x[0:1]
        x += 1
        return [view]

    def _do_write(self, x: Any, y: Any, third: int) -> None:
        x[:] = self._pair(x, y)

    def _do_write_part(self, x: Any, y: Any, third: int) -> None:
        if x.shape and x.shape[0]:
            x[third % x.shape[0]] = self._total(y).astype(x.dtype).reshape((1,) * max(1, len(x.shape) - 1))

    def _do_write_number(self, x: Any, y: Any, third: int) -> None:
        x[:] = third % 4

    def _do_add_number(self, x: Any, y: Any, third: int) -> None:
        x += third % 3

    def _do_add_array(self, x: Any, y: Any, third: int) -> None:
        if x.shape == y.shape and x.dtype == y.dtype:
            x += y

    def _do_multiply(self, x: Any, y: Any, third: int) -> None:
        x *= 2 if third % 2 else -1

    def _do_write_through(self, x: Any, y: Any, third: int) -> Any:
        if not x.shape or not x.shape[0]:
            return None
        view = x[third % x.shape[0]]
        view[:] = third % 5
        return [view] if third % 2 else None

    def _do_copyto(self, x: Any, y: Any, third: int) -> None:
        if x.shape == y.shape and x is not y:
            x.copyto(y)

    def _do_random(self, x: Any, y: Any, third: int) -> Any:
        drawn = self.space.random.uniform(0, 4, x.shape) if x.size else x
        return [x + (drawn.astype("int32").astype(x.dtype) if self.case.is_exact else drawn)]

    def _do_backward(self, x: Any, y: Any, third: int) -> Any:
        with autograd.record():
            loss = self._loss(x, y)
        loss.backward(retain_graph=third % 4 == 0)
        return [loss]

    def _do_backward_add(self, x: Any, y: Any, third: int) -> Any:
        with autograd.record():
            loss = self._pair(x, y)
        loss.backward(self.space.ones_like(loss))
        return [x.grad] if x.grad is not None else None

    def _do_loss(self, x: Any, y: Any, third: int) -> None:
        """Differentiate something that may have been recorded before."""
        x.backward()

    def _do_heads(self, x: Any, y: Any, third: int) -> None:
        with autograd.record():
            heads = [self._pair(x, self.w), self._pair(y, x)]
        autograd.backward(heads, retain_graph=bool(third % 2))

    def _do_recorded(self, x: Any, y: Any, third: int) -> Any:
        with autograd.record():
            return [self._pair(x, y)]

    def _do_grad(self, x: Any, y: Any, third: int) -> Any:
        variables = [array for array in (x, self.w) if array.grad is not None]
        with autograd.record():
            loss = self._loss(x, self.w)
        return autograd.grad(loss, variables[: 1 + third % 2])

    def _do_grad_read(self, x: Any, y: Any, third: int) -> Any:
        return None if x.grad is None else [x.grad]

    def _do_grad_change(self, x: Any, y: Any, third: int) -> None:
        grad = x.grad
        if grad is None:
            return
        if third % 3 == 0:
            grad[:] = 0
        elif third % 3 == 1:
            grad += third
        elif x.shape == y.shape and x.dtype == y.dtype:
            grad[:] = y

    def _do_paused(self, x: Any, y: Any, third: int) -> Any:
        with autograd.pause():
            return [self._pair(x, y)]

    def _do_cast(self, x: Any, y: Any, third: int) -> Any:
        return [x.astype("float64" if third % 2 else "float32")]

    def _do_empty(self, x: Any, y: Any, third: int) -> Any:
        return [self.space.zeros((0, 2)) * 2, x[0:0]] if self.case.is_np and x.shape else None

    def _do_scalar(self, x: Any, y: Any, third: int) -> Any:
        return [x.sum()] if x.size else None

    def _do_concat(self, x: Any, y: Any, third: int) -> Any:
        if x.shape != y.shape or x.dtype != y.dtype or not x.shape:
            return None
        return [mx.np.concatenate([x, y]) if self.case.is_np else nd.concat(x, y, dim=0)]

    def _do_outside_row(self, x: Any, y: Any, third: int) -> Any:
        outside = (self.w, self.c, self.v)[third % 3]
        return [outside[0:1]]

    def _do_fresh(self, x: Any, y: Any, third: int) -> Any:
        return [self.space.ones(x.shape) * 2]

    def _do_out(self, x: Any, y: Any, third: int) -> None:
        if x.shape == y.shape and x.dtype == y.dtype and x.size and not self.case.is_np:
            nd.broadcast_add(x, y, out=y)

    # -- around the calls

    def make_arguments(self, call: Call) -> list[Any]:
        """Return the arguments of a call."""
        made: list[Any] = []
        for shape, (kind, request, number) in zip(self.case.shapes, call.sources, strict=True):
            array = self._argument(kind, shape, made, number)
            if request != "none" and kind not in ("outside", "again", "same", "grad_of_other", "outside_grad"):
                self._attach(array, request, made)
            if kind == "overwritten" and array.grad is not None:
                with autograd.record():
                    array *= 2
            made.append(array)
        return made

    def _attach(self, array: Any, request: str, made: list[Any]) -> None:
        if request != "shared":
            array.attach_grad(request)
            return
        grads = [other.grad for other in (*made, self.w) if other.grad is not None and other.shape == array.shape]
        grad = grads[0] if grads else self.space.zeros(array.shape)
        autograd.mark_variables([array], [grad], ["write"])

    def _argument(self, kind: str, shape: tuple[int, ...], made: list[Any], number: int) -> Any:
        before = [array for row in self.earlier for array in row if array.shape == shape]
        others = [array for array in (*made, *before, self.v) if array.shape == shape]
        outside = [array for array in (self.w, self.c, self.v) if array.shape == shape]
        if kind == "again" and before:
            return before[number % len(before)]
        if kind == "same" and made:
            return made[number % len(made)]
        if kind == "outside" and outside:
            return outside[number % len(outside)]
        if kind == "outside_view" and outside and 0 not in shape:
            return outside[number % len(outside)].reshape(shape)
        if kind in ("grad_of_other", "outside_grad"):
            owners = others if kind == "grad_of_other" else outside
            grads = [array.grad for array in owners if array.grad is not None]
            if grads:
                return grads[number % len(grads)]
        array = self.array(shape)
        if kind == "whole_view" and others and 0 not in shape:
            return others[number % len(others)].reshape(shape)
        if kind == "view_of_other" and others and shape[0]:
            return others[number % len(others)][0 : shape[0]]
        if kind == "overlap" and shape[0]:
            base = self.array((shape[0] + 1, *shape[1:]))
            made.append(base[1:])
            self.earlier.append([base, made.pop()])
            return base[: shape[0]]
        if kind == "changed_view" and shape[0]:
            base = self.array((shape[0] + 1, *shape[1:]))
            view = base[1:]
            base += 1
            self.earlier.append([base])
            return view
        if kind == "detached" and others:
            return others[number % len(others)].detach()
        if kind == "pending":
            return array * 2
        if kind == "recorded":
            with autograd.record():
                return array * self.w if array.shape == self.w.shape else array * self._total(self.w)
        return array

    def happen(self, what: str, number: int) -> None:
        """Change something between two calls."""
        outside = (self.w, self.c, self.v)[number % 3]
        last = self.earlier[-1] if self.earlier else []
        if what == "attach":
            outside.attach_grad(("write", "add", "null")[number % 3])
        elif what == "request":
            self.w.attach_grad(("add", "null", "write")[number % 3])
        elif what == "add":
            outside += 1
        elif what == "change":
            outside[:] = self.array(outside.shape)
        elif what == "view":
            self.held.append(outside[0:1])
        elif what == "change_arguments":
            for array in last:
                array += 1
        elif what == "write_grad" and self.w.grad is not None:
            self.w.grad[:] = 3

    def seen(self, results: list[Any]) -> list[Any]:
        """Return everything that can be seen, as plain data."""
        arrays = [*results, *self.arguments, self.w, self.c, self.v, self.row, *self.held]
        grads = [array.grad for array in arrays]
        fresh = [0 if array.grad is None else array._fresh_grad for array in arrays]
        return [*map(_bits, arrays), *map(_bits, grads), fresh]


class _BlockWorld(World):
    """A world in which the function is the ``hybrid_forward`` of a block."""


def _bits(array: Any) -> Any:
    if array is None:
        return None
    values = array.asnumpy()
    return type(array).__name__, str(values.dtype), values.shape, values.tobytes()


class _Block(gluon.HybridBlock):
    """A block that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, *arguments: Any) -> Any:
        return self.function(*arguments)


class _PlainBlock(_Block):
    """A hybridized block whose calls are never repeated; views among its outputs become arrays of their own."""

    _keeps_arrays = True


# -- running cases


def _as_block(world: World, block_class: type[_Block]) -> Callable[..., Any]:
    block = block_class(world)
    block.hybridize()
    return block


#: how a function is called: (the world, the plain function, the compiled function)
WAYS: dict[str, tuple[type[World], Callable[[World], Any], Callable[[World], Any]]] = {
    "compile": (World, lambda world: world.__call__, lambda world: mx.compile(world.__call__)),
    "hybridize": (
        _BlockWorld,
        lambda world: _as_block(world, _PlainBlock),
        lambda world: _as_block(world, _Block),
    ),
}


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return _flat(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in _flat(part)]
    return [] if value is None else [value]


def outcome(case: Case, way: str, is_compiled: bool) -> list[Any]:
    """Return everything that can be seen during and after the calls of a case."""
    world_class, plain, compiled = WAYS[way]
    seen: list[Any] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is called each time", RuntimeWarning)
        world = world_class(case)
        function = (compiled if is_compiled else plain)(world)
        mx.random.seed(case.seed)
        for call in case.calls:
            try:
                seen.extend(_call(world, function, call))
            except (mx.MXNetError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
                seen.append(type(error).__name__)
            if call.is_read:
                seen.append(world.seen([]))
        seen.append(world.seen([]))
        seen.append(nd.random.uniform(shape=(2,)).asnumpy().tobytes())
    return seen


def _call(world: World, function: Callable[..., Any], call: Call) -> Iterator[Any]:
    world.happen(*call.between)
    world.arguments = world.make_arguments(call)
    if world.case.is_recorded:
        with autograd.record():
            results = _flat(function(*world.arguments))
            loss = (world.w * 0).sum()
            for array in results:
                loss = loss + world._total(array).astype("float32").reshape(loss.shape)
        loss.backward()
    else:
        results = _flat(function(*world.arguments))
    world.earlier.append(world.arguments)
    if call.is_read:
        yield world.seen(results)
    # a write to any array shows in those that share its memory, and in no other
    arrays = [*results, *world.arguments, world.w, world.c, world.v]
    touched = arrays[call.touched % len(arrays)]
    if touched.size:
        touched += 1
        yield world.seen(results)


def compare(case: Case, way: str) -> bool:
    """Return whether a case does the same whether it is compiled or not."""
    return outcome(case, way, False) == outcome(case, way, True)


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a smaller case that fails as well: statements, results and calls are dropped as long as it does."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller(case):
            if fails(smaller):
                case, is_smaller = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for name in ("statements", "results", "calls"):
        parts = getattr(case, name)
        for number in range(len(parts)):
            yield dataclasses.replace(case, **{name: parts[:number] + parts[number + 1 :]})
    if case.is_recorded:
        yield dataclasses.replace(case, is_recorded=False)
    for number, call in enumerate(case.calls):
        simple = [dataclasses.replace(call, between=("nothing", 0)), dataclasses.replace(call, is_read=True)]
        for place, (kind, request, _) in enumerate(call.sources):
            plain = ("fresh", request, 0), (kind, "none", 0)
            simple += [
                dataclasses.replace(call, sources=(*call.sources[:place], source, *call.sources[place + 1 :]))
                for source in plain
            ]
        for other in simple:
            if other != call:
                yield dataclasses.replace(case, calls=(*case.calls[:number], other, *case.calls[number + 1 :]))


def describe(case: Case) -> str:
    """Return a case as text for a message."""
    lines = [f"seed {case.seed}, shapes {case.shapes}, results {case.results}, nesting {case.nesting}"]
    lines.append(f"recorded {case.is_recorded}, np {case.is_np}, exact {case.is_exact}")
    lines += [f"  {statement}" for statement in case.statements]
    lines += [f"  call {call}" for call in case.calls]
    return "\n".join(lines)


def run(budget_seconds: float, seed: int = 0) -> Counts:
    """Compare cases for some seconds, in every way and with both executors, and return what was tried and failed."""
    counts, end, first = Counts(), time.monotonic() + budget_seconds, 1_000_000 * seed
    executors = ["reference", "native"] if importlib.util.find_spec("llvmlite") else ["reference"]
    for number in itertools.count(first):
        case = random_case(number)
        counts.add("functions")
        # native code is compiled for each new graph: every eighth function is enough
        for executor in executors if number % 8 == 0 else executors[:1]:
            with settings.override(executor=executor, node_limit=100_000_000):
                for way in WAYS:
                    counts.add("calls", 2 * len(case.calls))
                    if not compare(case, way):
                        small = shrink(case, lambda smaller, way=way: not compare(smaller, way))
                        counts.fail(f"{way}, {executor}:\n{describe(small)}")
        if time.monotonic() > end:
            break
    return counts
