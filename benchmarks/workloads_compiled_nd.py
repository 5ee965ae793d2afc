"""Define whole steps inside ``mx.compile``, for a comparison with ``jax.jit``: both libraries compile the whole step."""


def _parameters(mx, *shapes):
    arrays = [mx.nd.random.normal(scale=0.05, shape=shape) for shape in shapes]
    for array in arrays:
        array.attach_grad()
    return arrays


def small50(mx, size=10):
    """25 times `tanh(y * w)` on 10 numbers, and backward"""
    nd, autograd = mx.nd, mx.autograd
    x, w = nd.ones((size,)), nd.ones((size,)) * 0.5
    w.attach_grad()

    @mx.compile
    def train(x, w):
        with autograd.record():
            y = x
            for _ in range(25):
                y = nd.tanh(y * w)
        y.backward()

    def step():
        train(x, w)
        w.grad.wait_to_read()

    return step


def regression(mx, rows=64, columns=32):
    """linear regression, 64 x 32, one step of descent"""
    nd, autograd = mx.nd, mx.autograd
    x, y = nd.ones((rows, columns)), nd.ones((rows, 1))
    w, b = _parameters(mx, (columns, 1), (1,))

    @mx.compile
    def train(x, y, w, b):
        with autograd.record():
            loss = nd.mean(nd.square(nd.dot(x, w) + b - y))
        loss.backward()
        for parameter in (w, b):
            parameter -= 0.01 * parameter.grad

    def step():
        train(x, y, w, b)
        w.wait_to_read()

    return step


def elem4m(mx, size=4_000_000):
    """`sigmoid(x * w + 1) * tanh(x) + exp(-x * x)` on 4 million numbers, and backward"""
    nd, autograd = mx.nd, mx.autograd
    x, w = nd.random.normal(shape=(size,)), nd.random.normal(shape=(size,))
    x.attach_grad()
    w.attach_grad()

    @mx.compile
    def train(x, w):
        with autograd.record():
            y = (nd.sigmoid(x * w + 1) * nd.tanh(x) + nd.exp(-x * x)).sum()
        y.backward()

    def step():
        train(x, w)
        x.grad.wait_to_read()
        w.grad.wait_to_read()

    return step


def cross_entropy(mx, batch=128, classes=10_000):
    """softmax cross-entropy over 128 x 10,000, and backward"""
    nd, autograd = mx.nd, mx.autograd
    scores, label = nd.random.normal(shape=(batch, classes)), nd.arange(batch)
    scores.attach_grad()

    @mx.compile
    def train(scores, label):
        with autograd.record():
            loss = -nd.pick(nd.log_softmax(scores), label).mean()
        loss.backward()

    def step():
        train(scores, label)
        scores.grad.wait_to_read()

    return step


def hvp(mx, rows=256, columns=64, hidden=128):
    """Hessian-vector product of a 64-128-1 perceptron with tanh, batch 256"""
    nd, autograd = mx.nd, mx.autograd
    x, y = nd.random.normal(shape=(rows, columns)), nd.random.normal(shape=(rows, 1))
    first, second = _parameters(mx, (columns, hidden), (hidden, 1))
    along = [nd.random.normal(shape=array.shape) for array in (first, second)]

    @mx.compile
    def product(x, y, first, second, *along):
        with autograd.record():
            loss = nd.mean(nd.square(nd.dot(nd.tanh(nd.dot(x, first)), second) - y))
            grads = autograd.grad(loss, [first, second], create_graph=True)
            slope = (grads[0] * along[0]).sum() + (grads[1] * along[1]).sum()
        slope.backward()

    def step():
        product(x, y, first, second, *along)
        first.grad.wait_to_read()
        second.grad.wait_to_read()

    return step


WORKLOADS = {
    "small50": small50,
    "regression": regression,
    "elem4M": elem4m,
    "cross-entropy": cross_entropy,
    "hvp": hvp,
}
#: MXNet has no ``compile``
ONLY_PHONOGRAD = set(WORKLOADS)
