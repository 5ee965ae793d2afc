"""Programs with sparse arrays, and optimizers with row-sparse gradients."""

from __future__ import annotations

from typing import Any

from .program import Steps, numbers, program

OPTIMIZERS = {
    "sgd": {},
    "sgd momentum": {"momentum": 0.9},
    "sgd not lazy": {"lazy_update": False},
    "sgd momentum not lazy": {"momentum": 0.9, "lazy_update": False},
    "adam": {},
    "adam not lazy": {"lazy_update": False},
    "adagrad": {},
    "ftrl": {},
    "rmsprop": {},
    "rmsprop centered": {"centered": True},
    "nag": {"momentum": 0.9},
    "signum": {},
    "adadelta": {},
    "adamax": {},
    "nadam": {},
    "ftml": {},
    "dcasgd": {},
    "lars": {},
    "lamb": {},
}


@program
def optimizers_with_sparse_gradients(mx: Any) -> Steps:
    """Two updates by row-sparse gradients, of dense and of row-sparse weights."""
    for label, options in OPTIMIZERS.items():
        for stype in ("default", "row_sparse"):
            for clip in (None, 0.1):
                given = {"learning_rate": 0.1, "wd": 0.1, **options}
                if clip is not None:
                    given["clip_gradient"] = clip
                yield (
                    f"{label} {stype} {clip}",
                    lambda given=given, label=label, stype=stype: _updated(mx, label.split()[0], stype, given),
                )


def _updated(mx: Any, name: str, stype: str, options: dict[str, Any]) -> Any:
    optimizer = mx.optimizer.create(name, rescale_grad=0.5, **options)
    updater = mx.optimizer.get_updater(optimizer)
    weight = mx.nd.array(numbers(1, 4, 2)).tostype(stype)
    for step in range(2):
        grad = mx.nd.sparse.row_sparse_array((numbers(2 + step, 2, 2), [step, 3]), shape=(4, 2))
        updater(0, grad, weight)
    return weight.asnumpy()


@program
def group_adagrad(mx: Any) -> Steps:
    """GroupAdaGrad of contrib, which keeps one number for each row."""
    for stype in ("default", "row_sparse"):
        optimizer = mx.optimizer.contrib.GroupAdaGrad(learning_rate=0.1)
        weight = mx.nd.array(numbers(1, 4, 2)).tostype(stype)
        state = optimizer.create_state(0, weight)
        grad = mx.nd.sparse.row_sparse_array((numbers(2, 2, 2), [0, 3]), shape=(4, 2))
        yield (
            stype,
            lambda optimizer=optimizer, weight=weight, grad=grad, state=state: (
                optimizer.update(0, weight, grad, state),
                weight,
            ),
        )
        yield stype + " state", (state.stype, state)


@program
def rows_of_sparse_arrays(mx: Any) -> Steps:
    """Reading sparse arrays by rows, slices and other keys."""
    nd = mx.nd
    rows = nd.sparse.row_sparse_array((numbers(1, 2, 3), [1, 4]), shape=(6, 3))
    csr = nd.array([[0, 1, 0], [2, 0, 3], [0, 0, 0], [4, 0, 0]]).tostype("csr")
    keys = (0, 1, -1, 9, slice(None), slice(1, 3), slice(-2, None), slice(0, 4, 2), slice(3, 1), (1, 0), (0, slice(None)),
            [0, 1], None, Ellipsis, (), (slice(1, 3), slice(0, 2)))  # fmt: skip
    for key in keys:
        yield f"row_sparse {key!r}", lambda key=key: rows[key]
        yield f"csr {key!r}", lambda key=key: csr[key]
    yield "row_sparse array key", lambda: rows[nd.array([0, 1])]
    yield "csr array key", lambda: csr[nd.array([0, 1])]
    yield "row_sparse iteration", lambda: [each.shape for each in rows]
    yield "row_sparse parts", (rows.data, rows.indices)
    yield "csr parts", (csr.data, csr.indices, csr.indptr)
    yield "len", lambda: (len(rows), len(csr))
    for label, array in (("row_sparse", rows), ("csr", csr)):
        yield label + " slice", lambda array=array: array.slice(begin=(1, 0), end=(3, 2))
        yield label + " slice_axis", lambda array=array: nd.slice_axis(array, axis=0, begin=1, end=3)
        yield label + " nd.slice", lambda array=array: nd.slice(array, begin=(0,), end=(2,))
        yield label + " sum", lambda array=array: [nd.sum(array), nd.sum(array, axis=0), nd.sum(array, axis=1)]
        yield label + " mean", lambda array=array: nd.mean(array, axis=0)
        yield label + " norm", lambda array=array: array.norm()
        yield label + " square", lambda array=array: nd.square(array)
        yield label + " sgn", lambda array=array: array.sign()
        yield label + " zeros_like", lambda array=array: nd.zeros_like(array)
        yield label + " ones_like", lambda array=array: nd.ones_like(array)
        yield label + " exp", lambda array=array: nd.exp(array)
        yield label + " clip", lambda array=array: nd.clip(array, 0, 1)
        yield label + " clip away", lambda array=array: nd.clip(array, 1, 2)
        yield label + " plus", lambda array=array: [array + array, array + 1, array - array, array * array]
        yield label + " times", lambda array=array: [array * 2, array / 2, 2 * array]
        yield label + " dense", lambda array=array: [array + nd.ones(array.shape), array * nd.ones(array.shape)]
        yield label + " astype", lambda array=array: array.astype("float64")
        yield label + " copy", lambda array=array: array.copy()
        yield label + " cast", lambda array=array: nd.cast_storage(array, "default")
        yield label + " size", lambda array=array: array.shape
        yield label + " repr", lambda array=array: repr(array)
        yield label + " set", lambda array=array: _assigned(array.copy(), slice(None), 0)
        yield label + " set row", lambda array=array: _assigned(array.copy(), 1, 2.0)
        yield label + " reshape", lambda array=array: array.reshape((-1,))
        yield label + " asscalar", lambda array=array: array.asscalar()
        yield label + " T", lambda array=array: array.T
        yield label + " dot", lambda array=array: nd.dot(array, nd.ones((3, 2)))
        yield label + " dot T", lambda array=array: nd.dot(array, nd.ones((array.shape[0], 2)), transpose_a=True)
        yield label + " concat", lambda array=array: nd.concat(array, array, dim=0)
        yield label + " stack", lambda array=array: nd.stack(array, array)
        yield label + " where", lambda array=array: nd.where(array, nd.ones(array.shape), nd.zeros(array.shape))
        yield label + " broadcast", lambda array=array: array * nd.ones((1, 3))
        yield label + " bool", lambda array=array: bool(array)
        yield label + " eq", lambda array=array: array == 1
    yield "retain", rows.retain(nd.array([0, 4]))
    yield "retain int", lambda: nd.sparse.retain(rows, nd.array([1], dtype="int64"))
    yield "add_n", nd.add_n(rows, rows)
    yield "elemwise_add", nd.sparse.elemwise_add(rows, rows)
    yield "rsp from rsp", nd.sparse.row_sparse_array(rows)
    yield "zeros", nd.sparse.zeros("row_sparse", (2, 2))
    yield "csr from shape", nd.sparse.csr_matrix((2, 3))
    yield "rsp from shape", lambda: nd.sparse.row_sparse_array((2, 3))
    yield "array of rsp", lambda: nd.sparse.array(rows)
    yield "array of dense", lambda: nd.sparse.array(nd.ones((2, 2)))
    yield "csr coo", lambda: nd.sparse.csr_matrix(([1.0, 2.0], ([0, 1], [1, 2])), shape=(2, 3))
    yield "csr wrong stype", lambda: csr.tostype("row_sparse")
    yield "rsp wrong stype", lambda: rows.tostype("csr")


def _assigned(array: Any, key: Any, value: Any) -> Any:
    array[key] = value
    return array


@program
def sparse_gradients_of_operators(mx: Any) -> Steps:
    """Storage types of gradients, with grad_req write and add."""
    nd = mx.nd
    for request in ("write", "add"):
        weight = nd.array(numbers(1, 5, 2))
        weight.attach_grad(stype="row_sparse", grad_req=request)
        for turn in range(2):
            with mx.autograd.record():
                rows = nd.Embedding(nd.array([1, 3 + turn]), weight, input_dim=5, output_dim=2, sparse_grad=True)
                loss = (rows * rows).sum()
            loss.backward()
            yield f"embedding {request} {turn}", weight.grad
        weight = nd.array(numbers(1, 5, 2))
        weight.attach_grad(stype="row_sparse", grad_req=request)
        with mx.autograd.record():
            loss = nd.take(weight, nd.array([0, 0, 2])).sum()
        yield f"take {request}", lambda loss=loss, weight=weight: (loss.backward(), weight.grad)
    weight = nd.array(numbers(1, 3, 2))
    weight.attach_grad(stype="row_sparse")
    csr = nd.array([[0, 1, 0], [2, 0, 0]]).tostype("csr")
    with mx.autograd.record():
        loss = nd.dot(csr, weight).sum()
    loss.backward()
    yield "dot", weight.grad
    with mx.autograd.record():
        loss = nd.sparse.dot(csr, weight, forward_stype="default").sum()
    yield "dot forward_stype", lambda: (loss.backward(), weight.grad)
    with mx.autograd.record():
        loss = (weight * 2).sum()
    yield "dense operator", lambda: (loss.backward(), weight.grad)
    yield "sparse variable", lambda: _attached(mx)


def _attached(mx: Any) -> Any:
    array = mx.nd.sparse.zeros("row_sparse", (3, 2))
    array.attach_grad()
    with mx.autograd.record():
        total = (array * 2).sum()
    total.backward()
    return [array.grad.stype, array.grad.asnumpy()]
