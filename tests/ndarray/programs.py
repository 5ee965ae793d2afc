"""Random programs with mutation and views, run on the library and on a NumPy model of what they mean.

The model knows nothing of graphs. Its memory holds, beside each element, the derivative of that element with respect to
every element of every variable (a dual number), and views are windows on that memory. The rules it encodes:

- what is computed while recording carries derivatives, what is computed otherwise has none;
- a view made while recording passes derivatives on, one made otherwise does not until it is written to while recording;
- a write while recording replaces elements and their derivatives; a write otherwise replaces elements only, and makes a
  variable start anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import note
from hypothesis import strategies as st

import phonograd as mx
from phonograd import autograd, nd

Array = np.ndarray[Any, Any]

SHAPES = [(3,), (2, 3), (1, 3), (2, 1), (4,), (2, 2, 3), (6,), (1,), (3, 2)]
MOST_ARRAYS = 8


class Step(NamedTuple):
    """One statement: what to do, and numbers that choose its operands."""

    kind: str
    a: int
    b: int
    c: int
    number: float


class Dual:
    """Values with the derivative of each with respect to all elements of all variables."""

    def __init__(self, values: Array, derivatives: Array, marked: bool | None) -> None:
        self.values = values
        self.derivatives = derivatives
        #: whether it depends on a variable; None if that depends on how expressions are simplified
        self.marked = marked


class Memory:
    """Elements and their derivatives; for a variable, the derivatives it starts with."""

    def __init__(self, content: Dual, seeds: Array | None = None) -> None:
        self.values = np.array(content.values, np.float64).reshape(-1)
        self.derivatives = np.array(content.derivatives).reshape(self.values.size, -1)
        self.seeds = seeds
        self.marked = True if seeds is not None else content.marked

    @property
    def size(self) -> int:
        return int(self.values.size)


class Window:
    """An array of the model: a contiguous piece of memory in a shape."""

    def __init__(self, memory: Memory, start: int, shape: tuple[int, ...], linked: bool = True) -> None:
        self.memory, self.start, self.shape, self.linked = memory, start, shape, linked

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + math.prod(self.shape))

    @property
    def whole(self) -> bool:
        return math.prod(self.shape) == self.memory.size

    @property
    def values(self) -> Array:
        return self.memory.values[self.place].reshape(self.shape)

    def read(self, recording: bool) -> Dual:
        """Return what an operator sees that uses this array."""
        derivatives = self.memory.derivatives[self.place].reshape(*self.shape, -1)
        marked: bool | None = self.memory.marked
        if not recording or not self.linked:
            derivatives, marked = np.zeros_like(derivatives), False
        elif marked and not self.whole:
            marked = None
        return Dual(self.values.copy(), derivatives.copy(), marked)

    def write(self, content: Dual, recording: bool) -> None:
        """Replace the elements; derivatives too if recording."""
        memory = self.memory
        memory.values[self.place] = np.broadcast_to(content.values, self.shape).reshape(-1)
        if not recording:
            if memory.seeds is not None:
                memory.derivatives[:] = memory.seeds
            return
        self.linked = True
        if self.whole and memory.seeds is not None and content.marked is False:
            memory.derivatives[:] = memory.seeds
            return
        width = memory.derivatives.shape[1]
        wanted = (*self.shape, width)
        memory.derivatives[self.place] = np.broadcast_to(content.derivatives, wanted).reshape(-1, width)
        if self.whole:
            memory.marked = True if memory.seeds is not None else content.marked
        elif memory.marked is not True:
            memory.marked = None if content.marked is None or memory.marked is None else content.marked


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array], Callable[[Array], Array]]] = {
    "sin": (nd.sin, np.sin, np.cos),
    "tanh": (nd.tanh, np.tanh, lambda v: 1 - np.tanh(v) ** 2),
    "negative": (nd.negative, np.negative, lambda v: -np.ones_like(v)),
    "copy": (lambda x: x.copy(), np.array, np.ones_like),
}
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
}


def unary(name: str, x: Dual) -> Dual:
    _, function, slope = UNARY[name]
    return Dual(function(x.values), x.derivatives * slope(x.values)[..., None], x.marked)


def _either(a: bool | None, b: bool | None) -> bool | None:
    return True if a or b else None if a is None or b is None else False


def binary(name: str, x: Dual, y: Dual) -> Dual:
    values = BINARY[name][1](x.values, y.values)
    width = x.derivatives.shape[-1]

    def spread(part: Dual) -> Array:
        missing = values.ndim - part.values.ndim
        whole: Array = part.derivatives.reshape((1,) * missing + part.derivatives.shape)
        return whole

    left, right = spread(x), spread(y)
    if name == "sub":
        right = -right
    if name == "mul":
        left, right = left * y.values[..., None], right * x.values[..., None]
    derivatives = np.broadcast_to(left + right, (*values.shape, width))
    return Dual(values, derivatives, _either(x.marked, y.marked))


class Machine:
    """Runs a program on both sides; :meth:`check` compares them."""

    def __init__(self, variable_shapes: list[tuple[int, ...]]) -> None:
        self.width = sum(math.prod(shape) for shape in variable_shapes)
        self.recording = False
        self.scopes: list[Any] = []
        self.real: list[Any] = []
        self.model: list[Window] = []
        self.variables: list[tuple[Any, slice]] = []
        self.weights = np.random.RandomState(7)
        first = 0
        for shape in variable_shapes:
            size = math.prod(shape)
            values = self.weights.uniform(-1, 1, shape)
            seeds = np.zeros((size, self.width))
            seeds[:, first : first + size] = np.eye(size)
            array = nd.array(values, dtype="float64")
            array.attach_grad()
            self.real.append(array)
            self.model.append(Window(Memory(Dual(values, seeds, True), seeds), 0, shape))
            self.variables.append((array, slice(first, first + size)))
            first += size

    def run(self, steps: list[Step]) -> None:
        """Run every statement, then compare all values and the gradients of a sum over all arrays."""
        try:
            for step in steps:
                note(f"{step.kind}({step.a}, {step.b}, {step.c}, {step.number}) of {[m.shape for m in self.model]}")
                getattr(self, "do_" + step.kind)(step)
                self.shorten(step)
            self.check()
            self.do_backward(Step("backward", 0, 0, 0, 1.0))
        finally:
            for scope in reversed(self.scopes):
                scope.__exit__(None, None, None)

    def check(self) -> None:
        for real, model in zip(self.real, self.model):
            assert real.shape == model.shape
            np.testing.assert_allclose(real.asnumpy(), model.values, rtol=1e-9, atol=1e-12)

    def shorten(self, step: Step) -> None:
        """Forget an array when there are many, but never a variable."""
        if len(self.real) > MOST_ARRAYS + len(self.variables):
            self.do_drop(step)

    # -- helpers

    def zeros(self, values: Array) -> Dual:
        return Dual(values, np.zeros((*values.shape, self.width)), False)

    def add(self, real: Any, content: Dual) -> None:
        self.real.append(real)
        self.model.append(Window(Memory(content), 0, tuple(content.values.shape)))

    def pick(self, number: int) -> int:
        return number % len(self.real)

    def view(self, index: int, real: Any, start: int, shape: tuple[int, ...]) -> None:
        base = self.model[index]
        self.real.append(real)
        self.model.append(Window(base.memory, base.start + start, shape, base.linked and self.recording))

    def constant(self, shape: tuple[int, ...], step: Step) -> Array:
        return np.random.RandomState(step.c).uniform(-1, 1, shape)

    def writable(self, window: Window, content: Dual) -> bool:
        """Return whether the meaning of a write does not depend on how expressions are simplified."""
        return not (self.recording and window.memory.seeds is not None and window.whole and content.marked is None)

    # -- statements

    def do_create(self, step: Step) -> None:
        values = self.constant(SHAPES[step.a % len(SHAPES)], step)
        self.add(nd.array(values, dtype="float64"), self.zeros(values))

    def do_full(self, step: Step) -> None:
        shape = SHAPES[step.a % len(SHAPES)]
        self.add(nd.full(shape, step.number, dtype="float64"), self.zeros(np.full(shape, step.number)))

    def do_unary(self, step: Step) -> None:
        index, name = self.pick(step.a), list(UNARY)[step.b % len(UNARY)]
        self.add(UNARY[name][0](self.real[index]), unary(name, self.model[index].read(self.recording)))

    def do_binary(self, step: Step) -> None:
        a, b, name = self.pick(step.a), self.pick(step.b), list(BINARY)[step.c % len(BINARY)]
        x, y = self.model[a].read(self.recording), self.model[b].read(self.recording)
        try:
            values = BINARY[name][1](x.values, y.values)
        except ValueError:
            return
        if np.abs(values).max() < 100:
            self.add(BINARY[name][0](self.real[a], self.real[b]), binary(name, x, y))

    def do_scalar(self, step: Step) -> None:
        index, name = self.pick(step.a), list(BINARY)[step.c % len(BINARY)]
        operator, number = BINARY[name][0], self.zeros(np.asarray(step.number))
        x = self.model[index].read(self.recording)
        if step.b % 2:
            self.add(operator(self.real[index], step.number), binary(name, x, number))
        else:
            self.add(operator(step.number, self.real[index]), binary(name, number, x))

    def do_slice(self, step: Step) -> None:
        index = self.pick(step.a)
        window = self.model[index]
        extent = window.shape[0]
        first = step.b % extent
        last = first + 1 + step.c % (extent - first)
        row = math.prod(window.shape[1:])
        self.view(index, self.real[index][first:last], first * row, (last - first, *window.shape[1:]))

    def do_item(self, step: Step) -> None:
        index = self.pick(step.a)
        window = self.model[index]
        place = step.b % window.shape[0]
        row = math.prod(window.shape[1:])
        self.view(index, self.real[index][place], place * row, window.shape[1:] or (1,))

    def do_reshape(self, step: Step) -> None:
        index = self.pick(step.a)
        size = math.prod(self.model[index].shape)
        shapes = [shape for shape in [*SHAPES, (size,), (1, size), (size, 1)] if math.prod(shape) == size]
        shape = shapes[step.b % len(shapes)]
        self.view(index, self.real[index].reshape(shape), 0, shape)

    def do_detach(self, step: Step) -> None:
        index = self.pick(step.a)
        self.view(index, self.real[index].detach(), 0, self.model[index].shape)
        self.model[-1].linked = False

    def do_strided(self, step: Step) -> None:
        index = self.pick(step.a)
        window = self.model[index]
        key = (Ellipsis, slice(None, None, (2, -1, -2)[step.b % 3]))
        if window.shape[-1] > 2:
            # one selected element would be a view
            self.gathered(index, key)

    def do_fancy(self, step: Step) -> None:
        index = self.pick(step.a)
        extent = self.model[index].shape[0]
        self.gathered(index, ([step.b % extent, step.c % extent, step.b % extent],))

    def gathered(self, index: int, key: Any) -> None:
        x = self.model[index].read(self.recording)
        inner = (*key, *[slice(None)] * (x.values.ndim - 1)) if key[0] is not Ellipsis else key
        derivatives = x.derivatives[(*inner, slice(None))]
        self.add(self.real[index][key], Dual(x.values[key], derivatives, x.marked))

    def do_transpose(self, step: Step) -> None:
        index = self.pick(step.a)
        x = self.model[index].read(self.recording)
        if x.values.ndim > 1:
            axes = tuple(range(x.values.ndim))[::-1]
            moved = np.transpose(x.derivatives, (*axes, x.values.ndim))
            self.add(self.real[index].T, Dual(x.values.T, moved, x.marked))

    def do_sum(self, step: Step) -> None:
        index = self.pick(step.a)
        x = self.model[index].read(self.recording)
        total = Dual(x.values.sum(0, keepdims=True), x.derivatives.sum(0, keepdims=True), x.marked)
        self.add(self.real[index].sum(axis=0, keepdims=True), total)

    def do_inplace(self, step: Step) -> None:
        a, b = self.pick(step.a), self.pick(step.b)
        window, value = self.model[a], self.model[b].read(self.recording)
        if not self.fits(a, b):
            return
        name = list(BINARY)[step.c % len(BINARY)]
        content = binary(name, window.read(self.recording), value)
        if np.abs(content.values).max() > 100 or not self.writable(window, content):
            return
        target = self.real[a]
        if name == "add":
            target += self.real[b]
        elif name == "sub":
            target -= self.real[b]
        else:
            target *= self.real[b]
        assert target is self.real[a]
        window.write(content, self.recording)

    def fits(self, a: int, b: int) -> bool:
        """Return whether array b broadcasts to the shape of array a."""
        try:
            return np.broadcast_shapes(self.model[a].shape, self.model[b].shape) == self.model[a].shape
        except ValueError:
            return False

    def do_inplace_scalar(self, step: Step) -> None:
        index = self.pick(step.a)
        window, target = self.model[index], self.real[index]
        name = ("add", "mul")[step.c % 2]
        content = binary(name, window.read(self.recording), self.zeros(np.asarray(step.number)))
        if np.abs(content.values).max() > 100 or not self.writable(window, content):
            return
        if name == "add":
            target += step.number
        else:
            target *= step.number
        window.write(content, self.recording)

    def do_fill(self, step: Step) -> None:
        index = self.pick(step.a)
        self.real[index][:] = step.number
        self.model[index].write(self.zeros(np.asarray(step.number)), self.recording)

    def do_fill_numpy(self, step: Step) -> None:
        index = self.pick(step.a)
        values = self.constant(self.model[index].shape, step)
        self.real[index][:] = values
        self.model[index].write(self.zeros(values), self.recording)

    def do_assign(self, step: Step) -> None:
        a, b = self.pick(step.a), self.pick(step.b)
        window, value = self.model[a], self.model[b].read(self.recording)
        if self.fits(a, b) and self.writable(window, value):
            self.real[a][:] = self.real[b]
            window.write(value, self.recording)

    def do_assign_rows(self, step: Step) -> None:
        self.assigned(step, lambda extent: ([step.b % extent, (step.b + 1 + step.c) % extent],))

    def do_assign_strided(self, step: Step) -> None:
        self.assigned(step, lambda extent: (slice(step.b % 2, None, 2),))

    def do_assign_item(self, step: Step) -> None:
        self.assigned(step, lambda extent: (step.b % extent,))

    def assigned(self, step: Step, key_of: Callable[[int], Any]) -> None:
        """Write a number or recorded values into a part, through the array itself."""
        index = self.pick(step.a)
        window = self.model[index]
        key = key_of(window.shape[0])
        content = window.read(self.recording)
        part = content.values[key]
        if part.size == 0:
            return
        source = self.pick(step.c)
        value = self.model[source].read(self.recording)
        inner = (*key, *[slice(None)] * (window.values.ndim - 1), slice(None))
        if value.values.shape == part.shape and source != index:
            merged = _either(content.marked, value.marked)
            if part.size == content.values.size:
                merged = None if merged else merged
            changed = Dual(content.values.copy(), content.derivatives.copy(), merged)
            changed.values[key] = value.values
            changed.derivatives[inner] = value.derivatives
            if not self.writable(window, changed):
                return
            self.real[index][key] = self.real[source]
        else:
            changed = Dual(content.values.copy(), content.derivatives.copy(), content.marked)
            if part.size == content.values.size:
                changed.marked = None if content.marked else False
            changed.values[key] = step.number
            changed.derivatives[inner] = 0
            if not self.writable(window, changed):
                return
            self.real[index][key] = step.number
        window.write(changed, self.recording)

    def do_out(self, step: Step) -> None:
        a, b = self.pick(step.a), self.pick(step.b)
        if self.model[a].shape != self.model[b].shape:
            return
        name = ("sin", "tanh", "negative")[step.c % 3]
        content = unary(name, self.model[b].read(self.recording))
        if self.writable(self.model[a], content):
            assert UNARY[name][0].__call__(self.real[b], out=self.real[a]) is self.real[a]  # type: ignore[call-arg]
            self.model[a].write(content, self.recording)

    def do_copyto(self, step: Step) -> None:
        a, b = self.pick(step.a), self.pick(step.b)
        content = self.model[b].read(self.recording)
        if a != b and self.model[a].shape == self.model[b].shape and self.writable(self.model[a], content):
            assert self.real[b].copyto(self.real[a]) is self.real[a]
            self.model[a].write(content, self.recording)

    def do_look(self, step: Step) -> None:
        index = self.pick(step.a)
        assert repr(self.real[index]).startswith("\n")
        np.testing.assert_allclose(self.real[index].asnumpy(), self.model[index].values, rtol=1e-9, atol=1e-12)

    def do_wait(self, step: Step) -> None:
        nd.waitall()

    def do_drop(self, step: Step) -> None:
        droppable = len(self.real) - len(self.variables)
        if droppable:
            index = len(self.variables) + step.a % droppable
            del self.real[index], self.model[index]

    def do_record(self, step: Step) -> None:
        if len(self.scopes) < 3:
            scope = autograd.record() if step.a % 3 else autograd.pause()
            scope.__enter__()
            self.scopes.append(scope)
            self.recording = autograd.is_recording()

    def do_leave(self, step: Step) -> None:
        if self.scopes:
            self.scopes.pop().__exit__(None, None, None)
            self.recording = autograd.is_recording()

    def do_backward(self, step: Step) -> None:
        """Compare the gradients of a weighted sum over all arrays; the record stays."""
        self.compare_gradients(retain_graph=True)

    def do_finish(self, step: Step) -> None:
        """Compare gradients and let the record go, and all views: what is left are plain arrays and variables."""
        self.compare_gradients(retain_graph=False)
        keep = [index for index, array in enumerate(self.real) if array._root is None]
        self.real[:] = [self.real[index] for index in keep]
        self.model[:] = [self.model[index] for index in keep]
        for window in self.model:
            memory = window.memory
            memory.derivatives[:] = 0 if memory.seeds is None else memory.seeds
            memory.marked = memory.seeds is not None

    def compare_gradients(self, retain_graph: bool) -> None:
        weights = [self.weights.uniform(-1, 1, window.shape) for window in self.model]
        with autograd.record():
            parts = [(array * nd.array(w, dtype="float64")).sum() for array, w in zip(self.real, weights)]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
        for array, _ in self.variables:
            # a variable whose value was replaced by another one's is not reached, and its buffer not written
            array.grad[:] = 0
        total.backward(retain_graph=retain_graph)
        expected = np.zeros(self.width)
        for window, weight in zip(self.model, weights):
            expected += (window.read(True).derivatives * weight[..., None]).reshape(-1, self.width).sum(0)
        for array, place in self.variables:
            found = array.grad.asnumpy().reshape(-1)
            np.testing.assert_allclose(found, expected[place], rtol=1e-7, atol=1e-9)


#: every statement, those that make programs interesting more than once
KINDS = [name[3:] for name in dir(Machine) if name.startswith("do_")]
KINDS += ["record", "record", "slice", "item", "reshape", "inplace", "inplace", "assign", "assign_item", "binary"]

STEPS = st.builds(
    Step,
    st.sampled_from(KINDS),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from([0.5, -1.5, 2.0, 0.0, -0.25]),
)


def run(shapes: list[tuple[int, ...]], steps: list[Step]) -> None:
    """Run a program on both sides and compare."""
    mx.waitall()
    Machine(shapes).run(steps)
