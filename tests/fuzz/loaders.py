"""The files that the library reads: for each format a small valid file, and a function that reads everything in it."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.run.disk_cache import DiskCache

__all__ = ["LOADERS", "Loader"]

#: the errors that readers may raise; a MissingFile is an OSError, too
DOCUMENTED = (mx.MXNetError, ValueError, TypeError)


class Loader(NamedTuple):
    """A format."""

    write: Callable[[Path], Any]
    """Writes the valid file to a path."""
    read: Callable[[Path], Any]
    """Reads a file and all values in it."""
    suffix: str
    names_file: bool = True
    """Whether the errors name the file: not if the reader gets only its contents."""


def _values(loaded: Any) -> Any:
    found: list[Any] = []
    for array in loaded.values() if isinstance(loaded, dict) else loaded:
        # as a dense array, a sparse one may be larger than any memory
        parts = [array] if array.stype == "default" else [array.data, array.indices]
        found += [part.asnumpy() for part in parts]
    return found


# -- arrays


def _write_params(path: Path) -> None:
    nd.save(str(path), {"w": nd.array([[1, 2], [3, 4]]), "b": nd.array([1], dtype="int8")})


def _write_sparse(path: Path) -> None:
    dense = nd.array([[0, 1], [0, 0], [2, 0]])
    nd.save(str(path), [dense.tostype("csr"), dense.tostype("row_sparse")])


def _write_np(path: Path) -> None:
    mx.npx.save(str(path), [mx.np.array(3.0), mx.np.zeros((0, 2))])


def _read_npy(path: Path) -> Any:
    loaded = mx.npx.load(str(path))
    return [array.asnumpy() for array in (loaded.values() if isinstance(loaded, dict) else [loaded])]


def _net() -> gluon.nn.Dense:
    net = gluon.nn.Dense(2, in_units=2, prefix="net_")
    net.initialize("ones")
    return net


def _read_parameters(path: Path) -> Any:
    net = _net()
    try:
        net.load_parameters(str(path))
    except AssertionError as error:
        # MXNet's error for a file of other parameters
        raise mx.MXNetError(str(error)) from None
    return _values({name: each.data() for name, each in net.collect_params().items()})


# -- states of optimizers


def _trainer() -> gluon.Trainer:
    parameter = gluon.Parameter("w", shape=(2,))
    parameter.initialize("ones")
    schedule = mx.lr_scheduler.MultiFactorScheduler([2, 5], 0.5)
    trainer = gluon.Trainer([parameter], "adam", {"lr_scheduler": schedule, "learning_rate": 0.01})
    with autograd.record():
        loss = (parameter.data() * 2).sum()
    loss.backward()
    trainer.step(1)
    return trainer


def _write_states(form: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with mx.settings.override(states_format=form):
            _trainer().save_states(str(path))

    return write


def _read_states(path: Path) -> None:
    trainer = _trainer()
    updater = trainer._updaters[0]
    before = updater.states, updater.optimizer, trainer.optimizer, vars(trainer.optimizer).copy()
    try:
        trainer.load_states(str(path))
    except mx.MXNetError:
        after = updater.states, updater.optimizer, trainer.optimizer, vars(trainer.optimizer)
        if any([old is not new for old, new in zip(before[:3], after[:3])]) or before[3] != after[3]:
            raise AssertionError("a load that failed changed the trainer") from None
        raise
    for state in updater.states.values():
        _values(state)


# -- symbols and models


def _symbol() -> Any:
    data = mx.sym.var("data")
    hidden = mx.sym.FullyConnected(data, num_hidden=2, name="fc")
    return mx.sym.softmax(mx.sym.Activation(hidden, act_type="relu", name="act"), axis=-1)


def _read_symbol(path: Path) -> Any:
    symbol = mx.sym.load(str(path))
    return symbol.list_arguments(), symbol.list_outputs(), symbol.tojson()


def _write_checkpoint(path: Path) -> None:
    arguments = {"fc_weight": nd.ones((2, 2)), "fc_bias": nd.ones((2,))}
    mx.model.save_checkpoint(str(path.parent / "model"), 1, _symbol(), arguments, {})
    path.write_bytes((path.parent / "model-symbol.json").read_bytes())


def _read_checkpoint(path: Path) -> Any:
    target = path.parent / "model-symbol.json"
    target.write_bytes(path.read_bytes())
    try:
        return mx.model.load_checkpoint(str(path.parent / "model"), 1)
    except mx.MXNetError as error:
        raise mx.MXNetError(str(error).replace(target.name, path.name)) from None


def _write_tree(path: Path) -> None:
    _net().save(str(path).removesuffix("-model.json"))


def _read_tree(path: Path) -> Any:
    net = _net()
    (path.parent / path.name.replace(".json", ".params")).write_bytes((path.parent / "valid-model.params").read_bytes())
    net.load(str(path).removesuffix("-model.json"))
    return net.name


def _write_onnx(path: Path) -> None:
    parameters = {"fc_weight": nd.ones((2, 2)), "fc_bias": nd.ones((2,))}
    mx.contrib.onnx.export_model(_symbol(), parameters, [(1, 2)], np.float32, str(path))


def _write_onnx_constants(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"], value=helper.make_tensor("v", 1, [1], [2.0])),
        helper.make_node("Expand", ["zeros", "larger"], ["wide"]),
        helper.make_node("Range", ["start", "limit", "step"], ["range"]),
        helper.make_node("Tile", ["range", "repeats"], ["tiled"]),
        helper.make_node("Add", ["x", "wide"], ["sum"]),
        helper.make_node("Add", ["sum", "tiled"], ["y"]),
    ]
    values = {
        "shape": np.array([1, 4]),
        "larger": np.array([2, 4]),
        "start": np.array(0, np.float32),
        "limit": np.array(2, np.float32),
        "step": np.array(1, np.float32),
        "repeats": np.array([2]),
    }
    graph = helper.make_graph(
        nodes,
        "constants",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


def _read_onnx(path: Path) -> Any:
    symbol, arguments, states = mx.contrib.onnx.import_model(str(path))
    mx.contrib.onnx.get_model_metadata(str(path))
    return symbol.tojson(), _values(arguments), _values(states)


# -- data


def _write_records(path: Path) -> None:
    with mx.recordio.MXRecordIO(str(path), "w") as writer:
        writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, 1.0, 7, 0), b"first"))
        writer.write(mx.recordio.pack(mx.recordio.IRHeader(2, [1, 2], 8, 0), struct.pack("<I", 0xCED7230A) + b"x"))


def _read_records(path: Path) -> Any:
    found = []
    with mx.recordio.MXRecordIO(str(path), "r") as reader:
        while (record := reader.read()) is not None:
            with contextlib.suppress(*DOCUMENTED):
                found.append(mx.recordio.unpack(record))
    return found


def _write_index(path: Path) -> None:
    with mx.recordio.MXIndexedRecordIO(str(path), str(path.with_suffix(".rec")), "w") as writer:
        for key in range(3):
            writer.write_idx(key, b"record %d" % key)


def _read_index(path: Path) -> Any:
    with mx.recordio.MXIndexedRecordIO(str(path), str(path.parent / "valid.rec"), "r") as reader:
        return [reader.read_idx(key) for key in reader.keys]


def _picture() -> Any:
    return np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


def _write_image(path: Path) -> None:
    from PIL import Image

    Image.fromarray(_picture()).save(path)


def _read_image(path: Path) -> Any:
    return mx.image.imread(str(path)).asnumpy()


def _write_csv(path: Path) -> None:
    path.write_text("1,2.5,-3\n4,5,6e2\n")


def _batches(iterator: Any) -> Any:
    return [[array.asnumpy() for array in (*batch.data, *batch.label)] for batch in iterator]


def _write_mnist(path: Path, packed: bool = False) -> None:
    content = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 3) + bytes(range(18))
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    (path.parent / "labels").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 2) + b"\1\2")


def _read_mnist(path: Path) -> Any:
    return _batches(mx.io.MNISTIter(image=str(path), label=str(path.parent / "labels"), batch_size=1))


def _write_embedding(path: Path) -> None:
    path.write_text("hello 1 2 3\nworld 4 5 6\n")


def _read_embedding(path: Path) -> Any:
    return mx.contrib.text.embedding.CustomEmbedding(str(path)).idx_to_vec.asnumpy()


# -- profiles and kernels


def _write_profile(path: Path) -> None:
    with mx.profiler.profile(profile_memory=True) as profile:
        (nd.ones((2,)) * 2).asnumpy()
    profile.save(path)


def _read_profile(path: Path) -> Any:
    profile = mx.profiler.load(path)
    return len(profile.events()), str(profile.key_averages().table())


KEY = "k" + "0" * 64


def _write_kernel(path: Path) -> None:
    store = DiskCache(path.parent, 1 << 20, "version")
    store.save(KEY, b"code")
    path.write_bytes((path.parent / "kernels" / KEY).read_bytes())


def _read_kernel(path: Path) -> None:
    store = DiskCache(path.parent, 1 << 20, "version")
    (path.parent / "kernels" / KEY).write_bytes(path.read_bytes())
    if store.load(KEY) not in (None, b"code"):
        raise AssertionError("a damaged kernel was loaded")


LOADERS = {
    "params": Loader(_write_params, lambda path: _values(nd.load(str(path))), ".params"),
    "sparse params": Loader(_write_sparse, lambda path: _values(nd.load(str(path))), ".params"),
    "np params": Loader(_write_np, lambda path: _values(mx.npx.load(str(path))), ".params"),
    "parameters of a block": Loader(lambda path: _net().save_parameters(str(path)), _read_parameters, ".params"),
    "npy": Loader(lambda path: np.save(path, np.arange(6.0).reshape(2, 3)), _read_npy, ".npy"),
    "npz": Loader(lambda path: mx.npx.savez(path, mx.np.ones((2,)), b=mx.np.zeros((1, 2))), _read_npy, ".npz"),
    "npz, compressed": Loader(lambda path: np.savez_compressed(path, a=np.zeros(300)), _read_npy, ".npz"),
    "safetensors": Loader(
        lambda path: mx.contrib.safetensors.save(path, {"w": nd.ones((2, 2)), "b": nd.ones((1,))}, {"by": "test"}),
        lambda path: (_values(mx.contrib.safetensors.load(path)), mx.contrib.safetensors.metadata(path)),
        ".safetensors",
    ),
    "states": Loader(_write_states("safetensors"), _read_states, ".states"),
    "states of MXNet": Loader(_write_states("mxnet"), _read_states, ".states"),
    "symbol": Loader(lambda path: _symbol().save(str(path)), _read_symbol, ".json"),
    "checkpoint": Loader(_write_checkpoint, _read_checkpoint, ".json"),
    "tree of blocks": Loader(_write_tree, _read_tree, "-model.json"),
    "records": Loader(_write_records, _read_records, ".rec"),
    "index of records": Loader(_write_index, _read_index, ".idx", names_file=False),
    "csv": Loader(_write_csv, lambda path: _batches(mx.io.CSVIter(str(path), (3,), batch_size=1)), ".csv"),
    "libsvm": Loader(
        lambda path: path.write_text("1 0:1.5 2:2\n0 1:-3\n"),
        lambda path: _batches(mx.io.LibSVMIter(str(path), (3,), batch_size=1)),
        ".libsvm",
    ),
    "mnist": Loader(_write_mnist, _read_mnist, ".idx3"),
    "mnist, gzipped": Loader(lambda path: _write_mnist(path, True), _read_mnist, ".idx3.gz"),
    "embedding": Loader(_write_embedding, _read_embedding, ".txt"),
    "profile": Loader(_write_profile, _read_profile, ".json"),
    "profile, gzipped": Loader(_write_profile, _read_profile, ".json.gz"),
    "kernel": Loader(_write_kernel, _read_kernel, ".kernel"),
}
if importlib.util.find_spec("PIL") is not None:
    LOADERS |= {name: Loader(_write_image, _read_image, f".{name}") for name in ("png", "jpg", "bmp", "gif", "tiff")}
if importlib.util.find_spec("onnx") is not None:
    LOADERS["onnx"] = Loader(_write_onnx, _read_onnx, ".onnx")
    LOADERS["onnx with constants"] = Loader(_write_onnx_constants, _read_onnx, ".onnx")
