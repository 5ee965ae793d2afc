"""Gradients of tables are rows: equal to dense gradients to the last bit, in the memory of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.backward import backward

ROWS, WIDTH = 50, 3


def table(stype: str, request: str = "write") -> Any:
    weight = nd.array(np.random.RandomState(0).randn(ROWS, WIDTH))
    weight.attach_grad(request, stype)
    return weight


def embedded(weight: Any, numbers: Any = ((4, 7), (7, 2))) -> Any:
    return nd.Embedding(nd.array(numbers), weight, input_dim=ROWS, output_dim=WIDTH)


CSR = nd.array(np.eye(4, ROWS, 3) * 2 + np.eye(4, ROWS, 9)).tostype("csr")
LOSSES = {
    "embedding": lambda w: (embedded(w) ** 2).sum(),
    "two embeddings": lambda w: (embedded(w) * 3).sum() + (embedded(w, [[2, 49]]) ** 3).sum(),
    "three lookups": lambda w: embedded(w).sum() + embedded(w, [[1]]).sum() + (nd.take(w, nd.array([5, 4])) ** 2).sum(),
    "csr": lambda w: (nd.dot(CSR, w) ** 2).sum(),
    "indices out of range": lambda w: embedded(w, [[-3, 70]]).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("is_read", [False, True])
def test_rows_have_the_bits_of_a_dense_gradient(name: str, request_: str, is_read: bool) -> None:
    found = []
    for stype in ("default", "row_sparse"):
        weight = table(stype, request_)
        for _ in range(2):
            with autograd.record():
                loss = LOSSES[name](weight)
            if is_read:
                # the trace of the record ends
                loss.wait_to_read()
                nd.waitall()
            loss.backward()
        found.append(weight.grad)
    dense, rows = found
    assert rows.stype == "row_sparse"
    assert rows._whole is None
    assert rows.data.shape[0] < 10
    assert (dense.asnumpy() == rows.tostype("default").asnumpy()).all()
    assert rows.indices.asnumpy().tolist() == np.flatnonzero(dense.asnumpy().any(1)).tolist()


def test_other_uses_make_a_dense_gradient() -> None:
    weight = table("row_sparse")
    with autograd.record():
        loss = embedded(weight).sum() + (weight * 2).sum()
    loss.backward()
    assert weight.grad.stype == "row_sparse"
    assert weight.grad.data.shape == (ROWS, WIDTH)


def test_rows_of_zeros_count_as_rows() -> None:
    weight = table("row_sparse")
    with autograd.record():
        loss = (embedded(weight) * 0).sum()
    loss.backward()
    assert weight.grad.indices.asnumpy().tolist() == [2, 4, 7]


def test_zeros_are_no_rows_and_sums_are_rows() -> None:
    weight = table("row_sparse")
    assert weight.grad.data.shape == (0, WIDTH)
    with autograd.record():
        loss = embedded(weight).sum()
    loss.backward()
    total = weight.grad + weight.grad
    assert total._whole is None
    assert total.data.asnumpy().sum() == 2 * 4 * WIDTH
    assert nd.elemwise_add(total, total).data.asnumpy().sum() == 4 * 4 * WIDTH
    kept = total.retain(nd.array([2, 3]))
    assert kept.indices.asnumpy().tolist() == [2]
    assert kept._whole is None
    other = nd.sparse.zeros("row_sparse", (ROWS, WIDTH))
    total.copyto(other)
    assert other._whole is None
    assert other.indices.asnumpy().tolist() == [2, 4, 7]
    weight.grad[:] = 0
    assert weight.grad.data.shape == (0, WIDTH)
    assert other.data.shape == (3, WIDTH)


def test_hooks_see_rows() -> None:
    weight, seen = table("row_sparse"), []
    hook = autograd.register_hook(weight, lambda grad: seen.append(grad.stype))
    with autograd.record():
        loss = embedded(weight).sum()
    loss.backward()
    hook.remove()
    assert seen == ["row_sparse"]
    assert weight.grad.data.shape == (3, WIDTH)


@pytest.mark.parametrize("contexts", [[mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad"])
def test_trainers_update_rows_in_place(optimizer: str, contexts: list[Any]) -> None:
    results = []
    for sparse in (False, True):
        net = gluon.nn.Embedding(ROWS, WIDTH, sparse_grad=sparse)
        net.initialize(ctx=contexts)
        net.weight.set_data(nd.array(np.random.RandomState(1).randn(ROWS, WIDTH)))
        trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1})
        for numbers in ([1, 4, 4], [1, 9, 30]):
            with autograd.record():
                losses = [(net(nd.array(numbers, ctx=context)) ** 2).sum() for context in contexts]
            autograd.backward(losses)
            trainer.step(1)
        results.append(net.weight.data(contexts[0]).asnumpy())
    dense, rows = results
    start = np.random.RandomState(1).randn(ROWS, WIDTH).astype("float32")
    touched = [1, 4, 9, 30]
    others = [n for n in range(ROWS) if n not in touched]
    assert (rows[others] == start[others]).all()
    assert (rows[touched] != start[touched]).any(1).all()
    if optimizer != "adam":
        # without weight decay and momentum, lazy updates are the others
        np.testing.assert_allclose(dense, rows, rtol=1e-6)


def test_memory_that_others_see_is_not_written() -> None:
    weight = nd.ones((ROWS, WIDTH))
    copy, view = weight.copy(), weight[1:3]
    seen = weight.asnumpy()
    grad = nd.sparse.row_sparse_array((nd.ones((1, WIDTH)), [2]), shape=(ROWS, WIDTH))
    nd.sgd_update(weight, grad, lr=0.5, out=weight)
    assert weight[2].asnumpy().tolist() == [0.5] * WIDTH
    assert weight.asnumpy().sum() == (ROWS - 0.5) * WIDTH
    assert (copy.asnumpy() == 1).all()
    assert (seen == 1).all()
    assert view.asnumpy()[1].tolist() == [0.5] * WIDTH


def test_updates_keep_the_values_of_a_record() -> None:
    weight = table("row_sparse")
    before = weight.asnumpy()
    with autograd.record():
        loss = (embedded(weight) ** 2).sum()
    loss.backward(retain_graph=True)
    optimizer = mx.optimizer.SGD(learning_rate=1.0)
    mx.optimizer.get_updater(optimizer)(0, weight.grad, weight)
    loss.backward()
    assert np.allclose(weight.grad.data.asnumpy(), 2 * before[[2, 4, 7]] * [[1], [1], [2]])


def test_positions_are_ranked_alike_by_marks_and_by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    from phonograd.ndarray import sparse_rows

    positions = [np.array([7, 2, 7]), np.array([], np.int64), np.array([9, 2])]
    for rows_for_each in (0, 1000):
        monkeypatch.setattr(sparse_rows, "_SPARSE", rows_for_each)
        numbers, ranks = sparse_rows._ranks(positions, 10)
        assert numbers.tolist() == [2, 7, 9]
        assert [rank.tolist() for rank in ranks] == [[1, 0, 1], [], [2, 0]]


def test_batches_of_one_size_store_each_row_once() -> None:
    def step(numbers: Any) -> Any:
        weight = table("row_sparse")
        with autograd.record():
            loss = (embedded(weight, numbers) ** 2).sum()
        loss.backward()
        return weight.grad

    for numbers in ([[1, 1], [1, 1]], [[1, 2], [3, 4]], [[5, 5], [6, 6]]):
        assert step(numbers).indices.asnumpy().tolist() == sorted({n for row in numbers for n in row})
        assert step(numbers).data.shape == (len({n for row in numbers for n in row}), WIDTH)


def test_rows_are_written_without_collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []

    class Collecting(backward._BackwardPass):
        def run(self) -> None:
            passes.append(name)
            super().run()

    monkeypatch.setattr(backward, "_BackwardPass", Collecting)
    weight = table("row_sparse")
    for name in ("known", "again", "recording"):
        with autograd.record():
            loss = (embedded(weight) ** 2).sum()
            if name == "recording":
                loss.backward()
        if name != "recording":
            loss.backward()
        assert weight.grad.indices.asnumpy().tolist() == [2, 4, 7]
    # what is written while recording may be recorded
    assert passes == ["recording"]
