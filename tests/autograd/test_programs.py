"""Random programs that change arrays through views, in several records and traces, against differences in NumPy.

A program is a list of steps drawn from a seed. It runs twice: on NDArrays, recorded and differentiated, and on NumPy
arrays, where views and in-place changes are what they are. The derivative of the second along a random direction must
be the gradient of the first.
"""

import random

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.trace.trace import LOCAL

SIZE = 6


class Recorded:
    """What the steps of a program mean on NDArrays."""

    tanh, sin, square = staticmethod(nd.tanh), staticmethod(nd.sin), staticmethod(nd.square)

    @staticmethod
    def copy(array):
        return array.copy()

    @staticmethod
    def square_into(array, out):
        nd.square(array, out=out)

    @staticmethod
    def detached(array):
        return array.detach().copy()

    @staticmethod
    def event(kind):
        if kind == "end":
            LOCAL.trace.flush(end=True)
        elif kind == "look":
            (nd.ones((1,)) * 3).wait_to_read()
        elif kind == "record again":
            autograd.set_recording(False)
            autograd.set_recording(True)


class Plain:
    """What the steps of a program mean on NumPy arrays."""

    tanh, sin, square = np.tanh, np.sin, np.square

    @staticmethod
    def copy(array):
        return array.copy()

    @staticmethod
    def square_into(array, out):
        np.copyto(out, np.square(array))

    @staticmethod
    def detached(array):
        return array.copy()

    @staticmethod
    def event(kind):
        pass


def run(seed, machine, x, constant, constants_of_detached):
    """Return the weighted sum of everything a program has made."""
    choose = random.Random(seed)
    # everything is recorded: a variable that is overwritten by a constant would be a variable with another value
    slots = [x, constant + x * 0.1, machine.copy(x)]
    detached = []

    def part():
        start = choose.randrange(SIZE - 1)
        return slice(start, start + 2)

    def same_shape():
        first = choose.choice(slots)
        return first, choose.choice([s for s in slots if s.shape == first.shape])

    for _ in range(choose.randrange(6, 16)):
        step = choose.randrange(13)
        a, b = same_shape()
        where = part() if a.shape == (SIZE,) else slice(None)
        if step == 0:
            slots.append(a * b)
        elif step == 1:
            slots.append(machine.tanh(a) - b)
        elif step == 2:
            a += machine.sin(b)
        elif step == 3:
            a *= 0.5
        elif step == 4:
            slots.append(a[where])
        elif step == 5:
            a[where] = b[where] * 0.7
        elif step == 6:
            a[where] *= machine.tanh(b[where])
        elif step == 7 and a.shape == (SIZE,):
            slots.append(a.reshape((2, 3)))
        elif step == 8:
            machine.square_into(b, a)
        elif step == 9 and a.shape == (SIZE,):
            a[[0, 2, 4]] = b[[1, 3, 5]] * a[[0, 2, 4]]
        elif step == 10:
            detached.append(machine.detached(a))
            # what was cut off does not depend on x: the differences must see it as it was at the middle
            kept = constants_of_detached[len(detached) - 1] if constants_of_detached else detached[-1]
            slots.append(a * kept)
        elif step == 11 and len(slots) > 3:
            slots.pop(choose.randrange(3, len(slots)))
        machine.event(choose.choice(["none", "none", "look", "end", "record again"]))
    total = 0.0
    for slot in slots:
        total = total + (slot * choose.uniform(-1, 1)).sum()
    return total, detached


def difference(seed, point, direction, constant):
    """Return the derivative of a program along a direction, by differences."""
    _, middle = run(seed, Plain, point.copy(), constant.copy(), None)

    def value(step):
        return run(seed, Plain, point + step * direction, constant.copy(), middle)[0]

    near = value(1e-4) - value(-1e-4)
    far = value(2e-4) - value(-2e-4)
    return (8 * near - far) / 12e-4


@pytest.mark.parametrize("seed", range(150))
def test_gradients_of_random_programs(seed):
    generator = np.random.default_rng(seed)
    point, direction, constant = generator.normal(size=(3, SIZE)) * 0.8
    x = nd.array(point, dtype="float64")
    x.attach_grad()
    with autograd.record():
        loss, _ = run(seed, Recorded, x, nd.array(constant, dtype="float64"), None)
    expected = difference(seed, point, direction, constant)
    (slope,) = autograd.grad(loss, x, create_graph=True)
    assert float((slope * nd.array(direction, dtype="float64")).sum()) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    loss.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), slope.asnumpy())
    assert float(loss) == pytest.approx(run(seed, Plain, point.copy(), constant.copy(), None)[0], rel=1e-12, abs=1e-12)
