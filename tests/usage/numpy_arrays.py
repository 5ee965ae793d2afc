"""Programs with mx.np: blocks without global set_np, files, symbols, fall-backs to NumPy, sums and statistics."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from .program import Steps, numbers, program


@program
def blocks_with_use_np(mx: Any) -> Steps:
    """Blocks decorated by use_np, without set_np."""
    use_np, nn = mx.util.use_np, mx.gluon.nn

    @use_np
    class Net(mx.gluon.HybridBlock):  # type: ignore[misc, name-defined]
        """A block of NumPy operators."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            with self.name_scope():
                self.dense = nn.Dense(2, in_units=3)
                self.scale = self.params.get("scale", shape=(2,), init=mx.init.One())

        def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:
            return F.np.tanh(self.dense(x)) * scale + F.npx.relu(x).sum()

    @use_np
    class Plain(mx.gluon.Block):  # type: ignore[misc, name-defined]
        """A block that is not hybrid."""

        def forward(self, x: Any) -> Any:
            return mx.np.concatenate([x, x], axis=0).mean()

    @use_np
    def double(x: Any) -> Any:
        return mx.np.multiply(x, 2)

    data = mx.np.array(numbers(1, 2, 3))
    for hybrid in (False, True):
        net = Net(prefix="net_")
        net.initialize("ones")
        if hybrid:
            net.hybridize()
        yield f"forward {hybrid}", net(data)
        _differentiated(mx, net, data)
        yield f"grad {hybrid}", net.dense.weight.grad()
        yield f"types {hybrid}", [type(each.data()).__name__ for each in net.collect_params().values()]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.params")
            net.save_parameters(path)
            other = Net(prefix="net_")
            other.load_parameters(path)
            yield f"loaded {hybrid}", other(data)
            if hybrid:
                net.export(os.path.join(folder, "net"))
                yield "exported", sorted(os.listdir(folder))
                imported = mx.gluon.SymbolBlock.imports(
                    os.path.join(folder, "net-symbol.json"), ["data"], os.path.join(folder, "net-0000.params")
                )
                yield "imported", lambda imported=imported: imported(data)
    plain = Plain()
    yield "plain", plain(data)
    yield "plain with nd", lambda: type(plain(mx.nd.ones((2, 3)))).__name__
    yield "net with nd", lambda: net(mx.nd.ones((2, 3)))
    yield "function", double(data)
    yield "active", (mx.util.is_np_array(), mx.util.is_np_shape())
    yield "scalar shape", lambda: mx.np.array(1.0).shape
    yield "zero size", lambda: mx.np.zeros((0, 2)).shape
    yield "default dtype", str(mx.np.ones(2).dtype)
    with mx.util.np_shape(True):
        yield "np_shape", (mx.util.is_np_shape(), mx.util.is_np_array())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    _differentiated(mx, net, data)
    trainer.step(2)
    yield "trained", net.dense.weight.data()


def _differentiated(mx: Any, net: Any, data: Any) -> None:
    """Compute gradients under NumPy's rules: a loss has no axes."""
    with mx.util.np_shape(True), mx.util.np_array(True):
        with mx.autograd.record():
            loss = net(data).sum()
        loss.backward()


@program
def numpy_files(mx: Any) -> Steps:
    """npx.save and npx.load with any name, one and several arrays, and formats of NumPy."""
    mx.npx.set_np()
    try:
        with tempfile.TemporaryDirectory() as folder:
            array = mx.np.array(numbers(1, 2, 2))
            for name in ("a.npy", "a.npz", "a.params", "a", "a.txt"):
                path = os.path.join(folder, name)
                for label, content in (("one", array), ("list", [array, array]), ("dict", {"x": array, "y": array})):
                    yield f"{name} {label}", lambda path=path, content=content: _saved(mx, path, content)
                    yield f"{name} {label} files", sorted(os.listdir(folder))
            yield "scalar", lambda: _saved(mx, os.path.join(folder, "s"), mx.np.array(3.0))
            yield "empty", lambda: _saved(mx, os.path.join(folder, "e"), mx.np.zeros((0, 2)))
            yield "number", lambda: mx.npx.save(os.path.join(folder, "n"), 3)
            yield "none", lambda: mx.npx.load(os.path.join(folder, "nothing"))
    finally:
        mx.npx.reset_np()


def _saved(mx: Any, path: str, content: Any) -> Any:
    mx.npx.save(path, content)
    found = mx.npx.load(path)
    return found if not isinstance(found, dict) else sorted(found.items())


CALLS = (
    "np.tensordot(a, b, 1)", "np.tensordot(a, b, axes=([1], [0]))", "np.dot(a, b)", "np.matmul(a, b)", "np.einsum('ij,jk->ik', a, b)",
    "np.linalg.norm(a)", "np.linalg.norm(a, axis=0)", "np.linalg.inv(s)", "np.linalg.det(s)", "np.linalg.slogdet(s)[0]",
    "np.linalg.cholesky(s)", "np.linalg.solve(s, a)", "np.linalg.pinv(a)", "np.linalg.svd(s)[1]", "np.linalg.eigvalsh(s)",
    "np.linalg.tensorinv(s.reshape(2, 2), ind=1)", "np.linalg.eigh(s)[0]", "np.mean(a)", "np.std(a, axis=0)", "np.var(a)", "np.concatenate([a, a])",
    "np.stack([a, a])", "np.where(a > 0, a, s)", "np.split(a, 2)[0]", "np.expand_dims(a, 0)", "np.transpose(a)", "a.T", "a.reshape(-1)",
    "a + 1", "1 - a", "a @ b", "a ** 2", "a[0]", "a[:, 1:]", "np.maximum(a, 0)", "np.clip(a, 0, 1)", "np.argmax(a, axis=1)", "np.sort(a)",
    "np.cumsum(a)", "np.tril(a)", "np.eye(2) + a", "np.zeros((2, 2)) + a", "np.arange(4)", "np.linspace(0, 1, 3)", "np.ones_like(a)", "np.full_like(a, 2)",
    "np.tile(a, 2)", "np.repeat(a, 2)", "np.roll(a, 1)", "np.flip(a, 0)", "np.squeeze(a.reshape(1, 2, 2))", "np.swapaxes(a, 0, 1)",
    "np.exp(a)", "np.logical_not(a > 0)", "np.isnan(a)", "np.outer(a, b)", "np.inner(a, b)", "np.vdot(a, b)", "np.kron(a, b)", "np.trace(a)",
    "np.percentile(a, 50)", "np.average(a)", "np.unique(a)", "np.meshgrid(a, a)[0]", "np.pad(a, ((1, 1), (0, 0)))", "np.diff(a)", "np.bincount(i)",
    "np.hypot(a, b)", "np.cross(a, b)", "np.sum(a, axis=1)", "np.prod(a)", "np.max(a)", "np.random.uniform(0, 1, (2,)).shape", "npx.relu(a)",
    "npx.softmax(a)", "npx.one_hot(i, 3)", "npx.pick(a, i)", "npx.topk(a)", "npx.reshape(a, (-1,))", "npx.fully_connected(a, b, num_hidden=2, no_bias=True)",
    "npx.layer_norm(a, np.ones(2), np.zeros(2))", "npx.gamma(a)", "npx.arange_like(a)", "npx.batch_dot(a.reshape(1, 2, 2), b.reshape(1, 2, 2))",
)  # fmt: skip


@program
def symbols_of_numpy(mx: Any) -> Steps:
    """mx.sym.np and mx.sym.npx, computed by executors."""
    mx.npx.set_np()
    try:
        names = {
            "a": numbers(1, 2, 2),
            "b": numbers(2, 2, 2),
            "s": np.array([[2, 1], [1, 3]], "f"),
            "i": np.array([0, 1]),
        }
        for call in CALLS:
            yield call, lambda call=call: _evaluated(mx, call, names)
    finally:
        mx.npx.reset_np()


def _evaluated(mx: Any, call: str, names: dict[str, Any]) -> Any:
    symbols = {name: mx.sym.var(name).as_np_ndarray() for name in names}
    made = eval(call, {"np": mx.sym.np, "npx": mx.sym.npx, **symbols})
    if not isinstance(made, mx.sym.Symbol):
        return type(made).__name__
    arguments = {
        name: mx.np.array(names[name], dtype="int64" if name == "i" else "float32") for name in made.list_arguments()
    }
    executor = made.bind(mx.cpu(), arguments)
    return [np.abs(each.asnumpy()) if "svd" in call else each for each in executor.forward()]


FALLBACKS = (
    "np.pv(0.05, 10, 100)", "np.fv(0.05, 10, -100, -100)", "np.npv(0.05, np.array([-100.0, 39, 59]))", "np.pmt(0.05, 10, 100)", "np.nper(0.05, -10, 100)",
    "np.irr(np.array([-100.0, 39, 59, 55]))", "np.mirr(np.array([-100.0, 39, 59]), 0.1, 0.1)", "np.ppmt(0.05, 1, 10, 100)", "np.rate(10, 0, -3500, 10000)",
    "np.ipmt(0.05, 1, 10, 100)", "np.polyval(np.array([1.0, 2, 3]), np.array([2.0]))", "np.poly(np.array([1.0, 2]))", "np.polyfit(np.arange(4.0), np.arange(4.0), 1)",
    "np.polyadd(np.array([1.0]), np.array([1.0, 2]))", "np.polymul(np.array([1.0, 2]), np.array([1.0, 2]))", "np.polydiv(np.array([1.0, 2, 1]), np.array([1.0, 1]))[0]",
    "np.polyint(np.array([1.0, 2]))", "np.polyder(np.array([1.0, 2, 3]))", "np.polysub(np.array([1.0]), np.array([1.0, 2]))", "np.roots(np.array([1.0, -3, 2]))",
    "np.median(x)", "np.quantile(x, 0.5)", "np.percentile(x, [25, 75])", "np.nanmean(x)", "np.nanstd(x)", "np.nanvar(x)", "np.nansum(x)", "np.nanmax(x)", "np.nanmedian(x)",
    "np.nanpercentile(x, 50)", "np.corrcoef(x)", "np.cov(x)", "np.histogram(x, 3)[0]", "np.histogram(x, bins=np.array([-1.0, 0, 1]))[0]", "np.digitize(x, np.array([0.0]))",
    "np.interp(np.array([0.5]), np.array([0.0, 1]), np.array([0.0, 2]))", "np.convolve(np.arange(3.0), np.ones(2))", "np.correlate(np.arange(3.0), np.ones(2))",
    "np.gradient(np.arange(4.0))", "np.trapz(np.arange(4.0))", "np.cross(np.array([1.0, 0, 0]), np.array([0.0, 1, 0]))", "np.intersect1d(np.array([1, 2]), np.array([2, 3]))",
    "np.union1d(np.array([1, 2]), np.array([2, 3]))", "np.setdiff1d(np.array([1, 2]), np.array([2, 3]))", "np.in1d(np.array([1, 2]), np.array([2]))", "np.isin(np.array([1, 2]), np.array([2]))",
    "np.unwrap(np.array([0.0, 7.0]))", "np.apply_along_axis(lambda v: v.sum(), 0, x)", "np.argwhere(x > 0)", "np.allclose(x, x)", "np.array_equal(x, x)", "np.block([[x, x]])",
    "np.searchsorted(np.arange(3.0), 1.5)", "np.partition(np.array([3.0, 1, 2]), 1)", "np.argpartition(np.array([3.0, 1, 2]), 1)", "np.ptp(x)", "np.count_nonzero(x)",
    "np.fill_diagonal(np.zeros((2, 2)), 1)", "np.rot90(x)", "np.select([x > 0], [x])", "np.spacing(1.0)", "np.trim_zeros(np.array([0.0, 1, 0]))", "np.triu_indices(2)[0]",
    "np.linalg.matrix_rank(x)", "np.linalg.cond(x)", "np.linalg.matrix_power(x[:, :2], 2)", "np.linalg.qr(x[:, :2])[1].shape", "np.linalg.lstsq(x, np.ones(2), rcond=None)[0]",
    "np.linalg.multi_dot([x, x.T])", "np.sum(h)", "np.mean(h)", "np.sum(h, axis=0)", "np.var(h)", "np.std(h, axis=1)", "np.prod(np.ones((3,), dtype='float16') * 2)", "np.cumsum(h[0, :5])",
    "np.average(x, weights=np.ones((2, 3)))", "np.average(x, axis=1)", "np.std(x, ddof=1)", "np.var(x, ddof=1, keepdims=True)", "np.mean(np.arange(5))", "np.mean(np.arange(5), dtype='float64')",
    "np.max(x, axis=1)", "np.argmin(x)", "np.min(x, keepdims=True)", "np.any(x > 0)", "np.all(x > 0, axis=1)", "np.bincount(np.array([0, 1, 1]))", "np.sum(np.array([True, False]))",
    "np.mean(np.array([True, False]))", "np.sum(np.arange(3, dtype='int8'))", "np.sum(np.ones((2,), dtype='uint8'))", "np.cumsum(np.arange(3, dtype='int32'))",
)  # fmt: skip


@program
def fallbacks_to_numpy(mx: Any) -> Steps:
    """Functions that MXNet computes by NumPy, and statistics."""
    mx.npx.set_np()
    try:
        half = mx.np.array(np.random.RandomState(0).uniform(0, 1, (8, 512)), dtype="float16")
        scope = {"np": mx.np, "x": mx.np.array(numbers(1, 2, 3)), "h": half}
        for call in FALLBACKS:
            yield call, lambda call=call: eval(call, dict(scope))
    finally:
        mx.npx.reset_np()
