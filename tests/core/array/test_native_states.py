"""Machine code and Python functions leave the same state: random programs run through both, compared after each step.

The Python functions are the definition. What is compared is everything that later steps depend on: the slots of the
traces, their leaves and gradient targets in order, and the fields of the arrays. Expressions are interned, so equal
nodes are one object in both runs.
"""

import random
from contextlib import contextmanager

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.array import binary, call
from phonograd.core.base import settings
from phonograd.core.base.errors import MXNetError
from phonograd.core.plan import cache
from phonograd.core.trace import novelty
from phonograd.core.trace.owner import MACHINE_CODE
from phonograd.core.trace.tape import Origin
from phonograd.core.trace.trace import LOCAL

from . import machine_code

pytest.importorskip("llvmlite")
native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
if not native_call.possible():
    pytest.skip("this interpreter runs calls in Python", allow_module_level=True)


@pytest.fixture(autouse=True)
def compiled():
    machine_code.install()
    with settings.override(executor="native"):
        yield
    autograd.set_recording(False)
    LOCAL.trace.flush(end=True)


@contextmanager
def only_python():
    """Let Python functions do everything, while machine code is installed."""
    with pytest.MonkeyPatch.context() as patch:
        # machine code leaves each call to Python while this is set
        patch.setattr(settings.active, "attentive", True)
        for name in ("live_handles", "settle", "write"):
            patch.setattr(MACHINE_CODE, name, None)
        yield


class Program:
    """A run of a random program: its arrays by number, and the steps that it has done."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.arrays = {}
        self.count = 0
        self.steps = []

    def add(self, *arrays):
        for array in arrays:
            self.arrays[self.count] = array
            self.count += 1

    def pick(self):
        number = self.random.choice(list(self.arrays))
        return number, self.arrays[number]

    def step(self):
        kinds = [kind for kind in dir(self) if kind.startswith("do_")]
        name = self.random.choice(kinds) if len(self.arrays) > 2 else "do_make"
        try:
            outcome = getattr(self, name)()
        except (MXNetError, ValueError, TypeError) as error:
            outcome = f"{type(error).__name__}: {error}"
        self.steps.append(f"{name} {outcome}")

    # -- steps; each makes the same random choices in every run, if the state is the same

    def do_make(self):
        dtype = self.random.choice(["float32"] * 15 + ["int32"])
        context = self.random.choice([mx.cpu()] * 15 + [mx.cpu(1)])
        array = nd.array([self.random.randrange(1, 9) for _ in range(4)], dtype=dtype, ctx=context)
        kind = self.random.randrange(3)
        if kind == 0 and dtype == "float32":
            array.attach_grad(self.random.choice(["write", "add"]))
        self.add(array)
        return self.count - 1, dtype, context, kind

    do_make_again = do_make

    def do_operate(self):
        (i, x), (j, y), word = self.pick(), self.pick(), self.random.choice(["__add__", "__mul__", "__sub__"])
        self.add(getattr(x, word)(y))
        return i, j, word

    do_operate_again = do_operate_twice = do_operate

    def do_operate_with_number(self):
        (i, x), word = self.pick(), self.random.choice(["__add__", "__mul__", "__rsub__", "__gt__"])
        number = self.random.choice([2, 2.0, 0.5, 0.0, -0.0])
        self.add(getattr(x, word)(number))
        return i, word, number

    def do_function(self):
        (i, x), word = self.pick(), self.random.choice(["tanh", "square", "identity", "negative"])
        self.add(getattr(nd, word)(x))
        return i, word

    def do_pass_on(self):
        # the result is the node of the argument
        i, x = self.pick()
        self.add(mx.np.transpose(x))
        return i

    do_pass_on_again = do_pass_on

    def do_function_of_two(self):
        (i, x), (j, y), form = self.pick(), self.pick(), self.random.randrange(4)
        calls = [
            lambda: nd.broadcast_maximum(x, y),
            lambda: nd.broadcast_maximum(lhs=x, rhs=y),
            lambda: nd.broadcast_maximum(rhs=y, lhs=x),
            lambda: nd.broadcast_maximum(x, rhs=y),
        ]
        self.add(calls[form]())
        return i, j, form

    def do_parameters(self):
        (i, x), form = self.pick(), self.random.randrange(6)
        calls = [
            lambda: nd.clip(x, a_min=-1, a_max=3),
            lambda: nd.clip(x, a_min=0.0, a_max=3),
            lambda: nd.sum(x, axis=0, keepdims=True),
            lambda: nd.clip(x, -1, 3),
            lambda: nd.clip(x, 0.0, a_max=3),
            lambda: nd.sum(x, 0, True),
        ]
        self.add(calls[form]())
        return i, form

    def do_split(self):
        i, x = self.pick()
        parts = nd.split(x, num_outputs=2, axis=0)
        self.add(nd.concat(*parts, dim=0), *parts[: self.random.randrange(2)])
        return i

    def do_change(self):
        (i, x), (j, y), word = self.pick(), self.pick(), self.random.choice(["__iadd__", "__imul__", "__isub__"])
        getattr(x, word)(y)
        return i, j, word

    def do_change_by_number(self):
        (i, x), number = self.pick(), self.random.choice([2, 0.5])
        x *= number
        return i, number

    do_change_again = do_change

    def do_assign(self):
        (i, x), (j, y) = self.pick(), self.pick()
        x[:] = y
        return i, j

    def do_update(self):
        i, x = self.pick()
        if x.grad is not None:
            x -= 0.5 * x.grad
        return i, x.grad is not None

    def do_view(self):
        (i, x), stop = self.pick(), self.random.choice([1, 4])
        self.add(x[0:stop])
        return i, stop

    def do_drop(self):
        i, _ = self.pick()
        del self.arrays[i]
        return i

    def do_switch(self):
        autograd.set_recording(not autograd.is_recording())
        return autograd.is_recording()

    def do_differentiate(self):
        i, x = self.pick()
        x.backward(retain_graph=self.random.random() < 0.3)
        return i

    def do_read(self):
        i, x = self.pick()
        return i, x.asnumpy().tolist()

    def do_flush(self):
        LOCAL.trace.flush(end=self.random.random() < 0.5)


class Snapshot:
    """The state of a program, in a form that another run can be compared with."""

    def __init__(self, program):
        self.numbers = {id(array): number for number, array in program.arrays.items()}
        grads = {n: a._variable.grad for n, a in program.arrays.items() if a._variable is not None}
        self.numbers |= {id(grad): f"gradient of {n}" for n, grad in grads.items()}
        self.owners = {id(a._variable): n for n, a in program.arrays.items() if a._variable is not None}
        self.memory = {id(a._buffer): n for n, a in program.arrays.items() if a._buffer is not None}
        self.traces = {id(LOCAL.trace): LOCAL.trace}
        arrays = [*program.arrays.items(), *[(f"gradient of {n}", grad) for n, grad in grads.items()]]
        self.state = {f"array {n}": self.array(array) for n, array in arrays}
        described = 0
        while described < len(self.traces):
            self.state[f"trace {described}"] = self.trace(list(self.traces.values())[described])
            described += 1

    def node(self, node):
        return None if node is None else (node.serial, node.operator.name, node.attributes)

    def place(self, found):
        """Return a trace by the order in which the state refers to it."""
        if found is None:
            return None
        self.traces.setdefault(id(found), found)
        return list(self.traces).index(id(found))

    def array(self, array):
        extras = array._extras
        return {
            "class": type(array).__name__,
            "trace": self.place(array._trace),
            "node": self.node(array._node),
            "buffer": None if array._buffer is None else array._buffer.tolist(),
            "extras": None if extras is None else self.extras(extras),
        }

    def extras(self, extras):
        return {
            "variable": None if extras.variable is None else self.target(extras.variable),
            "fresh": getattr(extras.variable, "fresh", None),
            "root": None if extras.root is None else self.handle(extras.root),
            "region": extras.region,
            "views": self.references(extras.views),
            "told": self.references(extras.told),
            "context": extras.context,
            "readonly": extras.readonly,
        }

    def references(self, references):
        return None if references is None else [self.handle(view) for r in references if (view := r()) is not None]

    def handle(self, handle):
        return self.numbers.get(id(handle), ("unknown", self.node(handle._node)))

    def target(self, target):
        if isinstance(target, Origin):
            return "origin", self.place(target.trace), self.node(target.node)
        return type(target).__name__, self.owners.get(id(target), "unknown")

    def leaf(self, data):
        return self.memory.get(id(data), np.asarray(data).tolist())

    def trace(self, found):
        places = {id(data): place for place, data in enumerate(found.leaves)}
        return {
            "handles": [self.handle(handle) for handle in found.handles],
            "leaves": [self.leaf(data) for data in found.leaves],
            "bound": [(places.get(key), self.node(node)) for key, node in found.bound.items()],
            "scalars": [(key, self.node(node)) for key, node in found.scalars.items()],
            "targets": [self.target(target) for target in found.targets],
            "slots": [(self.target(target), number) for target, number in found.slots.items()],
            "made": [(self.node(node), count) for node, count in found.made.items()],
            "siblings": [self.node(node) for node in found.tape.siblings],
            "survivors": [self.handle(handle) for r in found.tape.survivors if (handle := r()) is not None],
            "values": [self.node(node) for node in found.values],
            "failed": [self.node(node) for node in found.failed],
            "others": (found.ended, found.flushes, found.created, found.prune_at, found.repeats, found.tape.lent),
        }


@pytest.fixture(autouse=True)
def graphs_only(monkeypatch):
    """Make nodes of all calls, although all programs are new, and forget none."""
    monkeypatch.setattr(novelty, "MANY_NEW", 1 << 30)
    # a plan keeps other values than the first evaluation, and when it is made depends on the load
    monkeypatch.setattr(cache, "planning_ns", lambda *_: 1 << 60)
    with settings.override(node_limit=1 << 30):
        yield


def run(seed, steps):
    """Return the states of a program after each step, with the steps themselves."""
    autograd.set_recording(False)
    LOCAL.trace.flush(end=True)
    program, states = Program(seed), []
    for _ in range(steps):
        program.step()
        states.append(Snapshot(program).state)
    return program.steps, states


@pytest.mark.parametrize("seed", range(40))
def test_states_are_those_of_the_python_functions(seed):
    with only_python():
        expected_steps, expected = run(seed, 40)
    # calls are looked up from the second time on
    for _ in range(2):
        steps, states = run(seed, 40)
        for number, (step, state) in enumerate(zip(steps, states, strict=True)):
            done = "\n".join(expected_steps[: number + 1])
            assert step == expected_steps[number], done
            assert state == expected[number], done


def test_programs_use_machine_code(monkeypatch):
    """Many calls of the programs above are no calls of Python functions: the comparison compares something."""
    python = []
    for module, name in ((binary, "operate"), (call, "_recall")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=original: (python.append(f), f(*a))[1])
    whole = rest = 0
    for seed in range(10):
        with only_python():
            run(seed, 40)
            whole += len(python)
        run(seed, 40)
        python.clear()
        run(seed, 40)
        rest += len(python)
        python.clear()
    assert rest < 0.6 * whole, (rest, whole)


def test_a_result_that_is_its_argument_is_a_record_of_its_own():
    w = nd.array([1.0, 2.0])
    w.attach_grad()
    nodes = []
    for _ in range(3):
        with autograd.record():
            first, second = w * 2, w * 2
            passed, direct = mx.np.transpose(second), mx.np.transpose(w)
        nodes.append([array._node for array in (first, second, passed, direct)])
        for head in (second, passed, direct):
            head.backward()
        with pytest.raises(MXNetError, match="retain_graph"):
            passed.backward()
        LOCAL.trace.flush(end=True)
    assert [[node.serial for node in row] for row in nodes[1:]] == [[node.serial for node in nodes[0]]] * 2
    assert len(set(nodes[0])) == 4
