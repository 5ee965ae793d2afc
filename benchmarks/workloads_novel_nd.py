"""Define programs that are new in every step, in MXNet's interface, for phonograd and for MXNet itself.

Each function returns a step that is given its number. Equal numbers are equal programs in all libraries
(:func:`random_for`), and no two numbers are the same program. A step ends when its results are in memory.
"""

import itertools
import random

#: operators of one array, by their names in ``mx.nd`` and in ``torch``
UNARY = {
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "sin": "sin",
    "cos": "cos",
    "arctan": "atan",
    "relu": "relu",
    "square": "square",
    "abs": "abs",
    "expm1": "expm1",
    "erf": "erf",
}
#: operators of two arrays, by their names in ``mx.nd`` and in ``torch``
BINARY = {
    "broadcast_add": "add",
    "broadcast_sub": "sub",
    "broadcast_mul": "mul",
    "broadcast_maximum": "maximum",
    "broadcast_minimum": "minimum",
    "broadcast_hypot": "hypot",
}
CHAIN = 12


def random_for(name, number):
    """Return the random numbers that determine a step."""
    return random.Random(f"{name} {number}")


def chain_of(draw):
    """Return a random chain: the name of a unary or binary operator for each link."""
    return [draw.choice([*UNARY, *BINARY]) for _ in range(CHAIN)]


def random_tree(draw, words, leaves):
    """Return a random binary tree of words: a word, or a pair of trees."""
    trees = [draw.randrange(words) for _ in range(leaves)]
    while len(trees) > 1:
        place = draw.randrange(len(trees) - 1)
        trees[place : place + 2] = [(trees[place], trees[place + 1])]
    return trees[0]


def _variables(mx, shapes, scale=0.05):
    chance = random.Random(0)
    arrays = []
    for shape in shapes:
        size = 1
        for extent in shape:
            size *= extent
        arrays.append(mx.nd.array([chance.gauss(0, scale) for _ in range(size)]).reshape(shape))
        arrays[-1].attach_grad()
    return arrays


def new_chains(mx, shape=(16, 32)):
    """a random chain of 12 operators on 16 x 32 numbers, another one in each step, and backward"""
    nd, autograd = mx.nd, mx.autograd
    x, w = _variables(mx, [shape, shape], 1.0)

    def step(number):
        chain = chain_of(random_for("chains", number))
        with autograd.record():
            y = x
            for name in chain:
                function = getattr(nd, name)
                y = function(y) if name in UNARY else function(y, w)
            loss = y.sum()
        loss.backward()
        x.grad.wait_to_read()
        w.grad.wait_to_read()

    return step


def new_shapes(mx):
    """`mean((tanh(x w + b) - y)^2)` and backward, with another shape in each step"""
    nd, autograd = mx.nd, mx.autograd

    def step(number):
        draw = random_for("shapes", number)
        rows, columns, units = draw.randint(2, 200), draw.randint(2, 200), draw.randint(2, 200)
        x, y = nd.ones((rows, columns)), nd.ones((rows, units))
        w, b = nd.ones((columns, units)) * 0.01, nd.zeros((units,))
        w.attach_grad()
        b.attach_grad()
        with autograd.record():
            loss = nd.mean(nd.square(nd.tanh(nd.dot(x, w) + b) - y))
        loss.backward()
        w.grad.wait_to_read()
        b.grad.wait_to_read()

    return step


def notebook(mx, lines=8):
    """8 lines of a notebook that are never the same: an expression each, whose value is read"""
    nd = mx.nd
    (x,) = _variables(mx, [(5, 4)], 1.0)

    def step(number):
        draw = random_for("notebook", number)
        value = x.detach()
        for _ in range(lines):
            first, second = draw.sample(sorted(UNARY), 2)
            value = getattr(nd, first)(value) * 0.5 + getattr(nd, second)(x)
            value.asnumpy()

    return step


def _tree_network(mx, words, hidden):
    """Return the function that runs LSTM cells along a tree."""
    nd = mx.nd
    table, weight, bias = _variables(mx, [(words, hidden), (2 * hidden, 4 * hidden), (4 * hidden,)])

    def state(tree):
        if isinstance(tree, int):
            return table[tree : tree + 1], table[tree : tree + 1] * 0
        (left, left_cell), (right, right_cell) = state(tree[0]), state(tree[1])
        gates = nd.dot(nd.concat(left, right, dim=1), weight) + bias
        entrance, keep, outlet, candidate = nd.split(gates, num_outputs=4, axis=1)
        cell = nd.sigmoid(entrance) * nd.tanh(candidate) + nd.sigmoid(keep) * (left_cell + right_cell)
        return nd.sigmoid(outlet) * nd.tanh(cell), cell

    return state


def trees(mx, leaves=20, words=100, hidden=64):
    """LSTM cells along another random tree of 20 words in each step, 64 units, and backward"""
    nd, autograd = mx.nd, mx.autograd
    state = _tree_network(mx, words, hidden)

    def step(number):
        with autograd.record():
            out, _ = state(random_tree(random_for("trees", number), words, leaves))
            loss = (out * out).sum()
        loss.backward()
        nd.waitall()

    return step


def forest(mx, count=32, leaves=20, words=100, hidden=64):
    """a minibatch of 32 random trees of 10 to 20 words in each step, one after the other, and one backward pass"""
    nd, autograd = mx.nd, mx.autograd
    state = _tree_network(mx, words, hidden)

    def step(number):
        draw = random_for("forest", number)
        with autograd.record():
            loss = 0
            for _ in range(count):
                out, _ = state(random_tree(draw, words, draw.randint(leaves // 2, leaves)))
                loss = loss + (out * out).sum()
        loss.backward()
        nd.waitall()

    return step


def predictions(mx, count=32, leaves=20, words=100, hidden=64):
    """a minibatch of 32 random trees of 10 to 20 words in each step, one after the other, without gradients"""
    state = _tree_network(mx, words, hidden)

    def step(number):
        draw = random_for("predictions", number)
        found = [state(random_tree(draw, words, draw.randint(leaves // 2, leaves)))[0] for _ in range(count)]
        return [out.asnumpy() for out in found]

    return step


def ragged(mx, batch=16, hidden=64):
    """an LSTM over 10 to 60 steps, another number in each step, batch 16, 64 units, and backward"""
    nd, autograd = mx.nd, mx.autograd
    weight, bias = _variables(mx, [(2 * hidden, 4 * hidden), (4 * hidden,)])

    def step(number):
        length = random_for("ragged", number).randint(10, 60)
        data = nd.ones((length, batch, hidden))
        with autograd.record():
            state, cell = nd.zeros((batch, hidden)), nd.zeros((batch, hidden))
            for place in range(length):
                gates = nd.dot(nd.concat(data[place], state, dim=1), weight) + bias
                entrance, keep, outlet, candidate = nd.split(gates, num_outputs=4, axis=1)
                cell = nd.sigmoid(keep) * cell + nd.sigmoid(entrance) * nd.tanh(candidate)
                state = nd.sigmoid(outlet) * nd.tanh(cell)
            loss = (state * state).sum()
        loss.backward()
        nd.waitall()

    return step


def varbatch(mx):
    """784-256-128-10 perceptron, one step of descent on a batch of another size (1 to 256) in each step"""
    nd, autograd = mx.nd, mx.autograd
    sizes = (784, 256, 128, 10)
    parameters = _variables(mx, [shape for one, two in itertools.pairwise(sizes) for shape in ((one, two), (two,))])

    def step(number):
        batch = random_for("varbatch", number).randint(1, 256)
        data, label = nd.ones((batch, 784)), nd.zeros((batch,))
        with autograd.record():
            h = data
            for layer in range(3):
                h = nd.dot(h, parameters[2 * layer]) + parameters[2 * layer + 1]
                if layer < 2:
                    h = nd.relu(h)
            loss = -nd.pick(nd.log_softmax(h), label)
        loss.backward()
        for parameter in parameters:
            parameter -= 0.01 / batch * parameter.grad
        nd.waitall()

    return step


def search(mx, words=200, hidden=64, length=12):
    """a beam search of 12 words over a recurrent network, with a beam of another width in each position"""
    nd = mx.nd
    table, mix, out = _variables(mx, [(words, hidden), (hidden, hidden), (hidden, words)], 0.3)

    def step(number):
        draw = random_for("search", number)
        state, scores = nd.zeros((1, hidden)), nd.zeros((1, 1))
        word = nd.zeros((1,))
        for _ in range(length):
            width = draw.randint(2, 40)
            state = nd.tanh(nd.dot(state, mix) + nd.take(table, word))
            total = nd.reshape(scores + nd.log_softmax(nd.dot(state, out)), (-1,))
            best = nd.topk(total, k=width, ret_typ="indices")
            scores = nd.reshape(nd.take(total, best), (-1, 1))
            row = nd.floor(best / words)
            word = best - row * words
            state = nd.take(state, row)
        scores.asnumpy()

    return step


def control(mx, size=20):
    """20 steps of descent, each accepted or halved by looking at the loss, on another polynomial in each step"""
    nd, autograd = mx.nd, mx.autograd

    def step(number):
        draw = random_for("control", number)
        x = nd.ones((size,)) * draw.uniform(0.5, 2)
        x.attach_grad()
        rate, best = 0.1, float("inf")
        powers = [draw.randint(1, 4) for _ in range(3)]
        for _ in range(20):
            with autograd.record():
                loss = 0
                for power in powers:
                    loss = loss + (nd.cos(x) ** power).sum()
            loss.backward()
            now = loss.asscalar()
            if now < best:
                best = now
                x -= rate * x.grad
            else:
                rate = rate / 2
                x += rate * x.grad
        x.asnumpy()

    return step


WORKLOADS = {
    "new-chains": new_chains,
    "new-shapes": new_shapes,
    "notebook": notebook,
    "trees": trees,
    "forest": forest,
    "predictions": predictions,
    "ragged": ragged,
    "varbatch": varbatch,
    "search": search,
    "control": control,
}
