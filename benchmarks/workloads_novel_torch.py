"""Define the programs of :mod:`workloads_novel_nd` for PyTorch, run eagerly."""

import itertools
import random

from workloads_novel_nd import BINARY, UNARY, chain_of, random_for, random_tree


def _variables(torch, shapes, scale=0.05):
    chance = random.Random(0)
    arrays = []
    for shape in shapes:
        size = 1
        for extent in shape:
            size *= extent
        array = torch.tensor([chance.gauss(0, scale) for _ in range(size)]).reshape(shape).clone()
        arrays.append(array.requires_grad_())
    return arrays


def _clear(parameters):
    for parameter in parameters:
        parameter.grad = None


def new_chains(torch, shape=(16, 32)):
    x, w = _variables(torch, [shape, shape], 1.0)

    def step(number):
        _clear((x, w))
        y = x
        for name in chain_of(random_for("chains", number)):
            y = getattr(torch, UNARY[name])(y) if name in UNARY else getattr(torch, BINARY[name])(y, w)
        y.sum().backward()

    return step


def new_shapes(torch):
    def step(number):
        draw = random_for("shapes", number)
        rows, columns, units = draw.randint(2, 200), draw.randint(2, 200), draw.randint(2, 200)
        x, y = torch.ones((rows, columns)), torch.ones((rows, units))
        w, b = torch.ones((columns, units)) * 0.01, torch.zeros((units,))
        w.requires_grad_()
        b.requires_grad_()
        loss = torch.mean(torch.square(torch.tanh(x @ w + b) - y))
        loss.backward()

    return step


def notebook(torch, lines=8):
    (x,) = _variables(torch, [(5, 4)], 1.0)

    def step(number):
        draw = random_for("notebook", number)
        value, plain = x.detach(), x.detach()
        for _ in range(lines):
            first, second = draw.sample(sorted(UNARY), 2)
            value = getattr(torch, UNARY[first])(value) * 0.5 + getattr(torch, UNARY[second])(plain)
            value.numpy()

    return step


def _tree_network(torch, words, hidden):
    table, weight, bias = parameters = _variables(torch, [(words, hidden), (2 * hidden, 4 * hidden), (4 * hidden,)])

    def state(tree):
        if isinstance(tree, int):
            return table[tree : tree + 1], table[tree : tree + 1] * 0
        (left, left_cell), (right, right_cell) = state(tree[0]), state(tree[1])
        gates = torch.cat((left, right), 1) @ weight + bias
        entrance, keep, outlet, candidate = gates.chunk(4, 1)
        cell = torch.sigmoid(entrance) * torch.tanh(candidate) + torch.sigmoid(keep) * (left_cell + right_cell)
        return torch.sigmoid(outlet) * torch.tanh(cell), cell

    return state, parameters


def trees(torch, leaves=20, words=100, hidden=64):
    state, parameters = _tree_network(torch, words, hidden)

    def step(number):
        _clear(parameters)
        out, _ = state(random_tree(random_for("trees", number), words, leaves))
        (out * out).sum().backward()

    return step


def forest(torch, count=32, leaves=20, words=100, hidden=64):
    state, parameters = _tree_network(torch, words, hidden)

    def step(number):
        draw = random_for("forest", number)
        _clear(parameters)
        loss = 0
        for _ in range(count):
            out, _ = state(random_tree(draw, words, draw.randint(leaves // 2, leaves)))
            loss = loss + (out * out).sum()
        loss.backward()

    return step


def predictions(torch, count=32, leaves=20, words=100, hidden=64):
    state, _ = _tree_network(torch, words, hidden)

    def step(number):
        draw = random_for("predictions", number)
        with torch.inference_mode():
            found = [state(random_tree(draw, words, draw.randint(leaves // 2, leaves)))[0] for _ in range(count)]
            return [out.numpy() for out in found]

    return step


def ragged(torch, batch=16, hidden=64):
    weight, bias = parameters = _variables(torch, [(2 * hidden, 4 * hidden), (4 * hidden,)])

    def step(number):
        _clear(parameters)
        length = random_for("ragged", number).randint(10, 60)
        data = torch.ones((length, batch, hidden))
        state, cell = torch.zeros((batch, hidden)), torch.zeros((batch, hidden))
        for place in range(length):
            gates = torch.cat((data[place], state), 1) @ weight + bias
            entrance, keep, outlet, candidate = gates.chunk(4, 1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(entrance) * torch.tanh(candidate)
            state = torch.sigmoid(outlet) * torch.tanh(cell)
        (state * state).sum().backward()

    return step


def varbatch(torch):
    sizes = (784, 256, 128, 10)
    pairs = list(itertools.pairwise(sizes))
    parameters = _variables(torch, [shape for one, two in pairs for shape in ((one, two), (two,))])

    def step(number):
        _clear(parameters)
        batch = random_for("varbatch", number).randint(1, 256)
        h, label = torch.ones((batch, 784)), torch.zeros((batch,), dtype=torch.int64)
        for layer in range(3):
            h = h @ parameters[2 * layer] + parameters[2 * layer + 1]
            if layer < 2:
                h = torch.relu(h)
        loss = -torch.log_softmax(h, 1).gather(1, label[:, None])
        loss.sum().backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.01 / batch * parameter.grad

    return step


def search(torch, words=200, hidden=64, length=12):
    table, mix, out = [
        array.detach() for array in _variables(torch, [(words, hidden), (hidden, hidden), (hidden, words)], 0.3)
    ]

    def step(number):
        draw = random_for("search", number)
        state, scores = torch.zeros((1, hidden)), torch.zeros((1, 1))
        word = torch.zeros((1,), dtype=torch.int64)
        for _ in range(length):
            width = draw.randint(2, 40)
            state = torch.tanh(state @ mix + table[word])
            total = (scores + torch.log_softmax(state @ out, 1)).reshape(-1)
            best = torch.topk(total, width).indices
            scores = total[best].reshape(-1, 1)
            row = best // words
            word = best - row * words
            state = state[row]
        scores.numpy()

    return step


def control(torch, size=20):
    def step(number):
        draw = random_for("control", number)
        x = torch.ones((size,)) * draw.uniform(0.5, 2)
        x.requires_grad_()
        rate, best = 0.1, float("inf")
        powers = [draw.randint(1, 4) for _ in range(3)]
        for _ in range(20):
            x.grad = None
            loss = 0
            for power in powers:
                loss = loss + (torch.cos(x) ** power).sum()
            loss.backward()
            now = loss.item()
            with torch.no_grad():
                if now < best:
                    best = now
                    x -= rate * x.grad
                else:
                    rate = rate / 2
                    x += rate * x.grad
        x.detach().numpy()

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
