"""Programs with datasets, iterators and loaders."""

from __future__ import annotations

import gzip
import os
import struct
import tempfile
from typing import Any

import numpy as np

from .program import Steps, numbers, program


def _write_digits(folder: str, count: int = 10) -> None:
    """Write files of images and labels in the format of MNIST."""
    random = np.random.RandomState(0)
    images = random.randint(0, 256, (count, 28, 28)).astype(np.uint8)
    labels = (np.arange(count) % 10).astype(np.uint8)
    for name in ("train", "t10k"):
        with open(os.path.join(folder, f"{name}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
        with open(os.path.join(folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">II", 2049, count) + labels.tobytes())
    for name in os.listdir(folder):
        if not name.endswith(".gz"):
            with (
                open(os.path.join(folder, name), "rb") as plain,
                gzip.open(os.path.join(folder, name + ".gz"), "wb") as g,
            ):
                g.write(plain.read())


@program
def digits(mx: Any) -> Steps:
    """MNISTIter with its options."""
    with tempfile.TemporaryDirectory() as folder:
        _write_digits(folder)
        image, label = (os.path.join(folder, f"train-{part}-ubyte") for part in ("images-idx3", "labels-idx1"))
        for options in (
            {}, {"flat": True}, {"data_shape": (784,)}, {"data_shape": (1, 28, 28)}, {"data_shape": (28, 28)},
            {"input_shape": (784,)}, {"num_parts": 2, "part_index": 1}, {"silent": True}, {"seed": 3},
            {"prefetch_buffer": 1, "dtype": "float32"},
        ):  # fmt: skip
            given = {"image": image, "label": label, "batch_size": 4, "shuffle": False, **options}
            name = str(options)
            try:
                batches = mx.io.MNISTIter(**given)
            except Exception as error:
                yield name, type(error).__name__
                continue
            yield name, (batches.provide_data, batches.provide_label, batches.batch_size)
            found = [(batch.data[0].shape, batch.label[0].asnumpy().tolist(), batch.pad) for batch in batches]
            yield name + " batches", found
            batches.reset()
            yield name + " sum", next(batches).data[0].sum()
        shuffled = mx.io.MNISTIter(image=image, label=label, batch_size=5, shuffle=True, seed=1)
        yield (
            "shuffled",
            sorted([each for batch in shuffled for each in batch.label[0].asnumpy().tolist()]),
        )
        yield "missing", lambda: mx.io.MNISTIter(image=image + "x", label=label, batch_size=5)
        yield "unknown", lambda: mx.io.MNISTIter(image=image, label=label, batch_size=5, nothing=1).batch_size


@program
def tables(mx: Any) -> Steps:
    """CSV and LibSVM files."""
    with tempfile.TemporaryDirectory() as folder:
        path, labels = os.path.join(folder, "data.csv"), os.path.join(folder, "label.csv")
        with open(path, "w") as file:
            file.write("\n".join([",".join(map(str, row)) for row in np.arange(12).reshape(6, 2)]) + "\n")
        with open(labels, "w") as file:
            file.write("\n".join(map(str, range(6))) + "\n")
        for options in ({}, {"round_batch": False}, {"batch_size": 3}, {"dtype": "float64"}, {"dtype": "int32"}):
            given = {"data_csv": path, "data_shape": (2,), "label_csv": labels, "batch_size": 4, **options}
            yield (
                f"csv {options}",
                lambda given=given: [
                    (batch.data[0], batch.label[0], batch.pad, batch.index) for batch in mx.io.CSVIter(**given)
                ],
            )
        yield (
            "csv without labels",
            lambda: [
                (batch.data[0], batch.label[0])
                for batch in mx.io.CSVIter(data_csv=path, data_shape=(1, 2), batch_size=3)
            ],
        )
        yield (
            "csv wrong shape",
            lambda: [batch.data[0] for batch in mx.io.CSVIter(data_csv=path, data_shape=(5,), batch_size=3)],
        )
        sparse, more = os.path.join(folder, "data.t"), os.path.join(folder, "label.t")
        with open(sparse, "w") as file:
            file.write("1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n")
        with open(more, "w") as file:
            file.write("1 0:3 1:2\n0 1:2\n1 0:1\n0\n")
        for options in (
            {},
            {"batch_size": 3},
            {"batch_size": 3, "round_batch": False},
            {"num_parts": 2, "part_index": 1},
        ):
            given = {"data_libsvm": sparse, "data_shape": (3,), "batch_size": 2, **options}
            yield (
                f"libsvm {options}",
                lambda given=given: [(batch.data[0], batch.label[0], batch.pad) for batch in mx.io.LibSVMIter(**given)],
            )
            yield (
                f"libsvm {options} described",
                lambda given=given: (
                    mx.io.LibSVMIter(**given).provide_data,
                    mx.io.LibSVMIter(**given).provide_label,
                ),
            )
        yield (
            "libsvm labels",
            lambda: [
                (batch.data[0], batch.label[0])
                for batch in mx.io.LibSVMIter(
                    data_libsvm=sparse, data_shape=(3,), label_libsvm=more, label_shape=(2,), batch_size=2
                )
            ],
        )
        yield (
            "libsvm parts",
            lambda: next(mx.io.LibSVMIter(data_libsvm=sparse, data_shape=(3,), batch_size=2)).data[0].indices,
        )
        yield (
            "libsvm too wide",
            lambda: [batch.data[0] for batch in mx.io.LibSVMIter(data_libsvm=sparse, data_shape=(2,), batch_size=2)],
        )


@program
def arrays_as_data(mx: Any) -> Steps:
    """NDArrayIter with all kinds of data, labels of another length, sparse matrices, and last batches."""
    data, label = numbers(1, 5, 2), np.arange(5, dtype="float32")

    def batches(*arguments: Any, **options: Any) -> Any:
        found = mx.io.NDArrayIter(*arguments, **options)
        return [([*batch.data], [*batch.label], batch.pad, batch.index is None) for batch in found]

    for handle in ("pad", "discard", "roll_over", "keep"):
        yield handle, lambda handle=handle: batches(data, label, 2, last_batch_handle=handle)
        yield handle + " twice", lambda handle=handle: _twice(mx, data, label, handle)
    yield "labels longer", lambda: batches(data, np.arange(7), 2)
    yield "labels shorter", lambda: batches(data, np.arange(3), 2)
    yield "no labels", lambda: batches(data, None, 2)
    yield "dictionary", lambda: batches({"b": data, "a": data * 2}, {"y": label}, 3)
    yield "list", lambda: batches([data, data], [label, label], 3)
    yield "names", lambda: _described(mx.io.NDArrayIter([data, data], [label, label], 3))
    yield "own names", lambda: _described(mx.io.NDArrayIter(data, label, 3, data_name="x", label_name="y"))
    yield "no labels described", lambda: _described(mx.io.NDArrayIter(data, batch_size=3))
    yield "int labels", lambda: _described(mx.io.NDArrayIter(data, np.arange(5), 3))
    yield "uint8", lambda: _described(mx.io.NDArrayIter(np.zeros((5, 2), "uint8"), np.zeros(5, "int32"), 3))
    yield "float64", lambda: _described(mx.io.NDArrayIter(np.zeros((5, 2)), np.zeros(5), 3))
    yield "nd", lambda: _described(mx.io.NDArrayIter(mx.nd.array(data, dtype="float16"), mx.nd.array(label), 3))
    yield "lists of numbers", lambda: batches([[1, 2], [3, 4]], [0, 1], 1)
    yield "large batch", lambda: batches(data, label, 9)
    csr = mx.nd.array(data).tostype("csr")
    for handle in ("discard", "pad", "roll_over"):
        yield "csr " + handle, lambda handle=handle: batches(csr, label, 2, last_batch_handle=handle)
    yield "csr labels", lambda: batches({"a": csr, "b": data}, {"y": csr}, 2, last_batch_handle="discard")
    yield "csr shuffled", lambda: [each[0][0].shape for each in batches(csr, label, 2, True, "discard")]
    yield "row_sparse", lambda: batches(mx.nd.array(data).tostype("row_sparse"), label, 2, last_batch_handle="discard")
    yield (
        "shuffled",
        lambda: sorted(
            {each for b in mx.io.NDArrayIter(data, label, 2, True) for each in b.label[0].asnumpy().tolist()}
        ),
    )
    once = mx.io.NDArrayIter(data, label, 2)
    yield "iter_next", (once.iter_next(), once.getpad(), once.getindex(), once.getdata()[0])
    once.hard_reset()
    yield "hard reset", (once.cursor, once.num_data, once.batch_size)
    yield "stop", lambda: [next(once) for _ in range(9)]
    yield "wrong handle", lambda: batches(data, label, 2, last_batch_handle="wrong")
    yield "empty", lambda: batches(np.zeros((0, 2)), None, 2)
    yield "resize", lambda: [b.label[0] for b in mx.io.ResizeIter(mx.io.NDArrayIter(data, label, 2), 5)]
    yield (
        "prefetch",
        lambda: [
            b.label[0] for b in mx.io.PrefetchingIter(mx.io.NDArrayIter(data, label, 2), rename_data=[{"data": "x"}])
        ],
    )
    yield "description", lambda: (str(mx.io.DataDesc("x", (2, 3))), mx.io.DataDesc("x", (2, 3)).layout)
    yield "get_list", lambda: mx.io.DataDesc.get_list([("x", (2,))], [("x", "int32")])
    yield "batch text", lambda: str(mx.io.DataBatch([mx.nd.ones((2, 3))], [mx.nd.ones((2,))]))


def _twice(mx: Any, data: Any, label: Any, handle: str) -> Any:
    found = mx.io.NDArrayIter(data, label, 2, last_batch_handle=handle)
    first = [batch.label[0].asnumpy().tolist() for batch in found]
    found.reset()
    return first, [batch.label[0].asnumpy().tolist() for batch in found]


def _described(found: Any) -> Any:
    return [(each.name, each.shape, np.dtype(each.dtype).name) for each in [*found.provide_data, *found.provide_label]]


@program
def datasets(mx: Any) -> Steps:
    """Datasets of arrays, lists and digits, with transforms, under both kinds of arrays."""
    gluon = mx.gluon
    with tempfile.TemporaryDirectory() as folder:
        _write_digits(folder)
        for name in ("MNIST", "FashionMNIST"):
            yield name, lambda name=name: _digits(mx, name, folder)
    pairs = gluon.data.ArrayDataset(numbers(1, 4, 2), np.arange(4))
    yield "item", pairs[1]
    yield "slice", lambda: pairs[1:3]
    yield "length", len(pairs)
    yield "one array", lambda: gluon.data.ArrayDataset(mx.nd.arange(3))[1]
    yield "lengths differ", lambda: gluon.data.ArrayDataset([1, 2], [1])
    simple = gluon.data.SimpleDataset([1, 2, 3, 4])
    yield "transform", list(simple.transform(lambda x: x * 2))
    yield "transform_first", list(pairs.transform_first(lambda x: x.sum()))
    yield "filter", lambda: list(simple.filter(lambda x: x % 2))
    yield "shard", lambda: [list(simple.shard(3, each)) for each in range(3)]
    yield "take", lambda: (list(simple.take(2)), len(simple.take(9)))
    yield "sample", lambda: list(simple.sample(gluon.data.SequentialSampler(2)))
    yield "lazy", lambda: type(simple.transform(abs, lazy=False)).__name__
    for keep in ("keep", "discard", "rollover"):
        sampler = gluon.data.BatchSampler(gluon.data.SequentialSampler(7), 3, keep)
        yield keep, (list(sampler), list(sampler), len(sampler))
    yield "filter sampler", lambda: list(gluon.data.FilterSampler(lambda x: x > 2, simple))
    yield (
        "interval",
        lambda: (
            list(gluon.contrib.data.IntervalSampler(7, 3)),
            list(gluon.contrib.data.IntervalSampler(7, 3, rollover=False)),
        ),
    )
    yield "random", sorted(gluon.data.RandomSampler(5))
    for options in ({}, {"last_batch": "discard"}, {"last_batch": "rollover"}, {"num_workers": 0, "pin_memory": True}):
        loader = gluon.data.DataLoader(pairs, batch_size=3, **options)
        yield f"loader {options}", [list(batch) for batch in loader]
        yield f"loader {options} contexts", [str(part.context) for batch in loader for part in batch]
        yield f"loader {options} length", len(loader)
    yield (
        "pinned",
        lambda: [
            str(part.context)
            for batch in gluon.data.DataLoader(pairs, 2, pin_memory=True, num_workers=1, thread_pool=True)
            for part in batch
        ],
    )
    yield (
        "cpu_pinned",
        (str(mx.cpu_pinned()), str(mx.nd.ones((2,), ctx=mx.cpu_pinned(0)).context), mx.cpu_pinned() == mx.cpu()),
    )
    yield "cpu_shared", lambda: str(mx.nd.ones((2,), ctx=mx.Context("cpu_shared", 0)).context)
    yield "batchify list", lambda: gluon.data.dataloader.default_batchify_fn([(1, 2.0), (3, 4.0)])
    yield "batchify np", lambda: gluon.data.dataloader.default_batchify_fn([np.ones(2), np.zeros(2)])
    yield "batchify nd", lambda: gluon.data.dataloader.default_batchify_fn([mx.nd.ones(2), mx.nd.zeros(2)])
    yield (
        "batch and sampler",
        lambda: gluon.data.DataLoader(pairs, 2, shuffle=True, sampler=gluon.data.SequentialSampler(4)),
    )
    yield "no batch size", lambda: gluon.data.DataLoader(pairs)
    yield "batch_sampler", lambda: gluon.data.DataLoader(pairs, 2, batch_sampler=sampler)


def _digits(mx: Any, name: str, folder: str) -> Any:
    found = getattr(mx.gluon.data.vision, name)(root=folder, train=True)
    return [(found[1][0].shape, str(found[1][0].dtype), type(found[1][1]).__name__), found[3][1], len(found)]


@program
def iteration_over_arrays(mx: Any) -> Steps:
    """Iteration over arrays with and without axes."""
    np_ = mx.np
    with mx.util.np_shape(True), mx.util.np_array(True):
        scalar = np_.array(3.0)
        yield "iter of 0-d", lambda: iter(scalar)
        yield "list of 0-d", lambda: list(scalar)
        yield "len of 0-d", lambda: len(scalar)
        yield "rows", lambda: list(np_.ones((2, 2)))
        yield "hasattr", hasattr(scalar, "__iter__")
        yield "index", lambda: scalar[()]
        yield "unpack", lambda: [*np_.array([1.0, 2.0])]
        yield "contains", lambda: 3.0 in np_.array([1.0, 3.0])
        yield "float", (float(scalar), int(scalar), bool(scalar))
        yield "format", lambda: f"{scalar:.2f}"
        yield "round", lambda: round(scalar)
        yield "item", scalar.item()
        yield "tolist", lambda: np_.ones((1, 2)).tolist()
    one = mx.nd.array([3.0])
    yield "nd rows", list(mx.nd.ones((2, 1)))
    yield "nd one", list(one)
    yield "nd contains", lambda: 3.0 in one
    yield "nd len", len(one)
