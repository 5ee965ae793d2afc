"""Arrays, data, linear algebra and probability, as in the book's first chapter."""

import numpy as onp
from mxnet import np, npx

npx.set_np()
results = {}


def shown(array):
    """Return what an array is."""
    return [type(array).__name__, list(array.shape), str(array.dtype), array.tolist()]


x = np.arange(12)
results["x"] = shown(x)
results["size"] = [x.size, len(x), list(x.shape)]
X = x.reshape(3, 4)
results["X"] = shown(X)
results["zeros"] = shown(np.zeros((2, 3, 4)))
results["ones"] = shown(np.ones((2, 3)))
results["list"] = shown(np.array([[2, 1, 4, 3], [1, 2, 3, 4], [4, 3, 2, 1]]))
x, y = np.array([1, 2, 4, 8]), np.array([2, 2, 2, 2])
for name, value in (("+", x + y), ("-", x - y), ("*", x * y), ("/", x / y), ("**", x**y), ("exp", np.exp(x))):
    results[name] = shown(value)
Y = np.array([[2, 1, 4, 3], [1, 2, 3, 4], [4, 3, 2, 1]])
results["joined"] = [shown(np.concatenate([X, Y], axis=0)), shown(np.concatenate([X, Y], axis=1))]
results["equal"] = shown(X == Y)
results["sum"] = shown(X.sum())
a, b = np.arange(3).reshape(3, 1), np.arange(2).reshape(1, 2)
results["broadcast"] = shown(a + b)
results["part"] = [shown(X[-1]), shown(X[1:3])]
X[1, 2] = 9
X[0:2, :] = 12
results["written"] = shown(X)
before = id(Y)
Y = Y + X
results["new"] = id(Y) == before
Z = np.zeros_like(Y)
same = id(Z)
Z[:] = X + Y
results["kept"] = id(Z) == same
before = id(X)
X += Y
results["in place"] = id(X) == before
A = X.asnumpy()
results["to numpy"] = [type(A).__module__, type(np.array(A)).__name__]
a = np.array([3.5])
results["numbers"] = [float(a), int(a), a.item()]
results["text"] = [repr(np.arange(3)), str(np.arange(3)), repr(np.array([[1.5, 2], [3, 4]])), repr(np.array(2.0))]

A = np.arange(20).reshape(5, 4)
results["T"] = shown(A.T)
B = A.copy()
results["A + B"] = shown(A + B)
results["2 + X"] = shown(2 + np.arange(24).reshape(2, 3, 4))
results["axis sums"] = [shown(A.sum(axis=0)), shown(A.sum(axis=1)), shown(A.sum(axis=[0, 1]))]
results["means"] = [shown(A.mean()), shown(A.mean(axis=0)), shown(A.sum() / A.size)]
results["kept axes"] = [shown(A.sum(axis=1, keepdims=True)), shown(A / A.sum(axis=1, keepdims=True))]
results["running"] = shown(A.cumsum(axis=0))
x, y = np.arange(4), np.ones(4)
results["dot"] = [shown(np.dot(x, y)), shown(np.sum(x * y)), shown(np.dot(A, x)), shown(np.dot(A, np.ones((4, 3))))]
u = np.array([3, -4])
results["norms"] = [shown(np.linalg.norm(u)), shown(np.abs(u).sum()), shown(np.linalg.norm(np.ones((4, 9))))]
results["minimum"] = shown(np.minimum(x, 2))
results["masks"] = [shown(A[A > 15]), shown((A > 15).sum())]
A[A % 2 == 0] = -1
results["masked"] = shown(A)
results["points"] = [shown(A[[0, 2], [1, 3]]), shown(A[np.array([0, 2])]), shown(A[:, None, 0])]
results["stacked"] = [shown(np.stack([x, y])), shown(np.expand_dims(x, 1)), shown(np.tile(x, (2, 1)))]
results["ordered"] = [shown(np.argmax(x)), shown(np.argsort(-x)), shown(np.sort(-x)), shown(x[::-1])]
results["where"] = shown(np.where(x > 1, x, -x))
results["clipped"] = shown(np.clip(x, 1, 2))
results["parts"] = [shown(part) for part in np.split(x, 2)]
results["truth"] = [bool(x[0] == 0), bool((x >= 0).all()), bool((x > 2).any())]
results["one hot"] = shown(npx.one_hot(np.array([0, 2]), 3))
results["grid"] = [shown(part) for part in np.meshgrid(np.arange(2), np.arange(3))]
results["line"] = shown(np.linspace(0, 1, 5))
results["outer"] = [shown(np.outer(x, y)), shown(np.einsum("i,j->ij", x, x)), shown(np.tensordot(x, y, 1))]
results["rounded"] = [shown(np.around(np.array([0.4, 1.6]))), shown(np.floor(np.array([-0.5, 1.5])))]
results["other dtypes"] = [
    shown(np.arange(3, dtype="int32") * 2),
    shown(np.array(onp.arange(3))),
    shown(x.astype(np.int32)),
]

fair_probs = [1.0 / 6] * 6
counts = np.random.multinomial(1000, fair_probs).astype(np.float32)
results["dice"] = bool(np.abs(counts / 1000 - 1 / 6).max() < 0.06)
counts = np.random.multinomial(10, fair_probs, size=500)
cum_counts = counts.astype(np.float32).cumsum(axis=0)
estimates = cum_counts / cum_counts.sum(axis=1, keepdims=True)
results["estimates"] = [list(estimates.shape), bool(np.abs(estimates[-1] - 1 / 6).max() < 0.03)]
