"""Files of optimizer states: both formats, MXNet's own files, and files that are damaged or hostile."""

import io
import json
import pickle
import pickletools
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon, nd
from phonograd.ndarray import safetensors
from phonograd.optimizer import records, states

from . import programs

FOLDER = Path(__file__).parent / "recorded"
RECORDED = json.loads((FOLDER / "files.json").read_text())
FORMATS = ["safetensors", "mxnet"]


def trainer_of(name: str = "sgd", **arguments: Any) -> gluon.Trainer:
    """Return a trainer of one parameter of shape (2, 3), after two steps."""
    trainer: gluon.Trainer = programs.saved_trainer(mx, name, arguments)[0]
    return trainer


def facts(trainer: gluon.Trainer) -> Any:
    """Return everything that a load could change, by identity and value."""
    updater = trainer._updaters[0]
    parts = [part for state in updater.states.values() for part in (state if isinstance(state, tuple) else [state])]
    return (
        [(id(part), part.asnumpy().tolist()) for part in parts],
        id(updater.states),
        dict(updater.states_synced),
        id(updater.optimizer),
        id(trainer.optimizer),
        repr(sorted(vars(trainer.optimizer))),
    )


def refusal(tmp_path: Path, data: bytes, trainer: gluon.Trainer | None = None) -> str:
    """Return the error of loading some bytes, which must leave the trainer as it was and name the file."""
    trainer = trainer or trainer_of(momentum=0.9)
    path = tmp_path / "hostile.states"
    path.write_bytes(data)
    before = facts(trainer)
    with pytest.raises(mx.MXNetError) as caught:
        trainer.load_states(str(path))
    assert facts(trainer) == before
    assert str(path) in str(caught.value)
    return str(caught.value)


# -- MXNet's files


@pytest.mark.parametrize(("name", "arguments"), programs.STATES)
def test_states_of_mxnet_go_on(name: str, arguments: dict[str, Any]) -> None:
    trainer, parameter = programs.saved_trainer(mx, name, {}, steps=0)
    trainer.load_states(str(FOLDER / f"{name}.states"))
    before, after = RECORDED["later"][name]
    parameter.set_data(nd.array(before))
    programs.train(mx, trainer, parameter, np.random.RandomState(9), 2)
    np.testing.assert_allclose(programs.values(parameter.data()), after, rtol=1e-6)
    assert vars(trainer.optimizer).items() >= arguments.items() or trainer.optimizer.lr == arguments["learning_rate"]


@pytest.mark.parametrize(("name", "arguments"), programs.STATES)
def test_states_have_the_names_of_mxnet(tmp_path: Path, name: str, arguments: dict[str, Any]) -> None:
    trainer, _ = programs.saved_trainer(mx, name, arguments)
    with mx.settings.override(states_format="mxnet"):
        trainer.save_states(str(tmp_path / "own.states"))

    def references(path: Path) -> set[str]:
        found, texts = set(), []
        for opcode, argument, _ in pickletools.genops(path.read_bytes()):
            if opcode.name == "GLOBAL":
                found.add(argument)
            elif "UNICODE" in opcode.name:
                texts.append(argument)
            elif opcode.name == "STACK_GLOBAL":
                found.add(" ".join(texts[-2:]))
        return found

    own, theirs = references(tmp_path / "own.states"), references(FOLDER / f"{name}.states")
    assert own <= {name.replace("__builtin__", "builtins") for name in theirs}
    found, optimizer = _read_as_plain(tmp_path / "own.states")
    wanted_states, wanted = _read_as_plain(FOLDER / f"{name}.states")
    assert set(optimizer) >= set(wanted)
    assert found.keys() == wanted_states.keys()


class _Plain:
    """Stands for any class of MXNet in a pickle."""

    def __init__(self, *arguments: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _PlainReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Plain if module.startswith("mxnet") else super().find_class(module, name)


def _read_as_plain(path: Path) -> Any:
    with path.open("rb") as file:
        loaded, optimizer = _PlainReader(file).load()
    return loaded, optimizer.state


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_is_read(protocol: int) -> None:
    optimizer = mx.optimizer.SGD(momentum=0.5, lr_scheduler=mx.lr_scheduler.MultiFactorScheduler([2, 7], 0.5))
    optimizer.lr_mult = {"a": np.float32(0.1), 3: np.float64(2.0)}
    optimizer.begin_num_update = 2**40
    file = io.BytesIO()
    states._Writer(file, protocol).dump(
        ({0: nd.array([[1, 2]]), "x": (None, [nd.ones((1,), dtype="int8")])}, optimizer)
    )
    found, loaded = states.loads(file.getvalue())
    assert found[0].asnumpy().tolist() == [[1, 2]]
    assert found["x"][0] is None
    assert found["x"][1][0].dtype == np.int8
    assert isinstance(loaded, mx.optimizer.SGD)
    assert loaded.lr_mult == optimizer.lr_mult
    assert [type(value) for value in loaded.lr_mult.values()] == [np.float32, np.float64]
    assert (loaded.begin_num_update, loaded.momentum) == (2**40, 0.5)
    assert vars(loaded.lr_scheduler) == vars(optimizer.lr_scheduler)
    assert loaded._index_update_count is loaded._all_index_update_counts[0]


def test_sparse_and_numpy_arrays_are_read() -> None:
    sparse = nd.array([[0, 0], [3, 4]]).tostype("row_sparse")
    with mx.settings.override(states_format="mxnet"):
        data = states.dumps({0: sparse, 1: mx.np.array([1.0])})
    assert b"mxnet.ndarray.sparse\nRowSparseNDArray\n" in data
    assert b"mxnet.numpy.multiarray\nndarray\n" in data
    found = states.loads(data).states
    assert found[0].asnumpy().tolist() == [[0, 0], [3, 4]]
    fitted = records.fit_states(mx.optimizer.SGD(momentum=0.5), found, {0: nd.ones((2, 2))})
    assert (fitted[0].stype, fitted[0].asnumpy().tolist()) == ("default", [[0, 0], [3, 4]])
    assert type(found[1]) is mx.np.ndarray


def test_attributes_that_older_versions_lack_have_their_defaults(tmp_path: Path) -> None:
    optimizer = mx.optimizer.SGD(momentum=0.5)
    del optimizer.aggregate_num, optimizer.lazy_update
    with mx.settings.override(states_format="mxnet"):
        loaded = states.loads(states.dumps({}, optimizer)).optimizer
    assert vars(loaded).items() >= {"aggregate_num": 4, "lazy_update": True, "momentum": 0.5}.items()


# -- both formats


@pytest.mark.parametrize("form", FORMATS)
def test_states_go_on(tmp_path: Path, form: str) -> None:
    for name, arguments in programs.STATES:
        trainer, parameter = programs.saved_trainer(mx, name, arguments)
        with mx.settings.override(states_format=form):
            trainer.save_states(str(tmp_path / "states"))
        other, copy = programs.saved_trainer(mx, name, {}, steps=0)
        other.load_states(str(tmp_path / "states"))
        copy.set_data(parameter.data())
        for each, weight in ((trainer, parameter), (other, copy)):
            programs.train(mx, each, weight, np.random.RandomState(9), 2)
        assert np.array_equal(parameter.data().asnumpy(), copy.data().asnumpy())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", sorted(mx.optimizer.Optimizer.opt_registry))
def test_every_optimizer_comes_back(tmp_path: Path, name: str, form: str) -> None:
    scheduler = mx.lr_scheduler.PolyScheduler(max_update=9, base_lr=0.25)
    optimizer = mx.optimizer.create(name, lr_scheduler=scheduler, learning_rate=0.25)
    if name == "lbsgd":
        optimizer.batch_scale = 2
    updater = mx.optimizer.get_updater(optimizer)
    weights = [nd.ones((2, 3)), nd.ones((3, 1))]
    for _ in range(3):
        for number, weight in enumerate(weights):
            updater(number, nd.ones(weight.shape) / 8, weight)
    with mx.settings.override(states_format=form):
        data = updater.get_states(dump_optimizer=True)
    other = mx.optimizer.get_updater(mx.optimizer.create("sgd"))
    other.set_states(data)
    assert type(other.optimizer) is type(optimizer)

    def plain(value: Any) -> Any:
        if isinstance(value, mx.nd.NDArray):
            return value.asnumpy().tolist(), str(np.dtype(value.dtype))
        if isinstance(value, mx.lr_scheduler.LRScheduler):
            return vars(value)
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value

    assert plain(vars(other.optimizer)) == plain(vars(optimizer))
    assert plain(other.states) == plain(updater.states)


def test_the_default_is_safetensors(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    trainer = trainer_of("adam")
    trainer.save_states(str(tmp_path / "adam.states"))
    found = package.load_file(tmp_path / "adam.states")
    assert {name: array.shape for name, array in found.items()} == {"states.0.0": (2, 3), "states.0.1": (2, 3)}
    with pytest.raises(ValueError, match="states_format must be 'safetensors' or 'mxnet', not 'pickle'"):
        mx.settings.update(states_format="pickle")


@pytest.mark.parametrize("form", FORMATS)
def test_own_schedulers_and_optimizers_are_read(form: str) -> None:
    class Slow(mx.lr_scheduler.LRScheduler):
        alpha = 0.5

        def method(self) -> None:
            raise AssertionError

    globals()["Slow"] = Slow
    Slow.__qualname__ = "Slow"
    slow = Slow(0.25)
    slow.alpha = 0.75
    slow.parts = [mx.lr_scheduler.FactorScheduler(3), {"a": (1, None)}, {3, 5}]  # type: ignore[attr-defined]
    optimizer = mx.optimizer.SGD(lr_scheduler=slow)
    with mx.settings.override(states_format=form):
        loaded = states.loads(states.dumps({}, optimizer)).optimizer
        assert type(loaded) is mx.optimizer.SGD
        found: Any = loaded.lr_scheduler
        assert type(found) is Slow
        assert (found.base_lr, found.alpha) == (0.25, 0.75)
        assert found.parts[0].step == 3
        assert found.parts[1:] == [{"a": (1, None)}, {3, 5}]
        slow.method = 5  # type: ignore[method-assign,assignment]
        with pytest.raises(mx.MXNetError, match="cannot have an attribute 'method'"):
            states.loads(states.dumps({}, optimizer))
        slow.method = np.random.RandomState(0)  # type: ignore[method-assign,assignment]
        with pytest.raises(TypeError, match=r"optimizer.lr_scheduler.method is of type RandomState"):
            states.dumps({}, optimizer)


@pytest.mark.parametrize("form", FORMATS)
def test_modules_and_stores_read_both(tmp_path: Path, form: str) -> None:
    path = str(tmp_path / "store.states")
    store = mx.kv.create()
    store.init(0, nd.ones((2,)))
    store.set_optimizer(mx.optimizer.SGD(momentum=0.5))
    store.push(0, nd.ones((2,)))
    with mx.settings.override(states_format=form):
        store.save_optimizer_states(path, dump_optimizer=True)
    other = mx.kv.create()
    other.init(0, nd.ones((3,)))
    other.set_optimizer(mx.optimizer.SGD())
    with pytest.raises(
        mx.MXNetError, match=r"store.states does not fit the weights: the state of weight 0 is an array"
    ):
        other.load_optimizer_states(path)
    assert other._updater.optimizer.momentum == 0
    store.load_optimizer_states(path)
    assert store._updater.states[0].asnumpy().tolist() == pytest.approx([-0.01, -0.01])


# -- damage


def test_numbers_are_no_states(tmp_path: Path) -> None:
    assert "the state of weight 0 is of type int, not arrays" in refusal(tmp_path, pickle.dumps({0: 5}))
    assert "the states are of type int" in refusal(tmp_path, pickle.dumps(5))
    text = refusal(tmp_path, states.dumps({0: (nd.ones((2, 3)), 5)}), trainer_of("adam"))
    assert "the state of weight 0[1] is of type int, but Adam needs an array of shape [2,3]" in text
    text = refusal(tmp_path, states.dumps({0: nd.ones((2, 1))}))
    assert "does not fit the weights: the state of weight 0 is an array of shape [2,1], but SGD needs" in text


def test_a_state_that_does_not_fit_is_an_error_at_the_first_update() -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(momentum=0.5))
    updater.set_states(states.dumps({0: nd.ones((1,))}))
    with pytest.raises(mx.MXNetError, match=r"the state of weight 0 is an array of shape \[1\], but SGD needs"):
        updater(0, nd.ones((2,)), nd.ones((2,)))


def with_scheduler(state: bytes) -> bytes:
    """Return the pickle of an object that is a scheduler with a state, which is a piece of pickle."""
    return b"\x80\x04cmxnet.lr_scheduler\nFactorScheduler\n)\x81" + state + b"b."


#: what a file could do to a program that reads pickles
HOSTILE = {
    "a function": (pickle.dumps(print), "the states: builtins.print is not a value"),
    "a call": (b"\x80\x04cos\nsystem\n\x8c\x04true\x85R.", "refers to os.system, which is neither an array"),
    "a sparse memo": (b"\x80\x04Nr\xff\xff\xff\x7f.", "the states are of type NoneType"),
    "many bytes": (b"\x80\x04cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "refers to builtins.bytearray"),
    "a long text": (b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b".", "1099511627776 bytes are needed"),
    "a long frame": (b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"N.", "a frame needs 1099511627776 bytes"),
    "a large number": (b"\x80\x04\x8a\xff" + b"\x7f" * 255 + b".", "an integer of 255 bytes is too large"),
    "a large decimal": (b"I" + b"9" * 99 + b"\n.", "is not an integer of at most 64 bits"),
    "attributes of a class": (
        b"\x80\x04cmxnet.lr_scheduler\nFactorScheduler\nN}\x8c\x08__call__Ns\x86b.",
        "an object is missing",
    ),
    "slots": (with_scheduler(b"N}\x8c\x08__call__Ns\x86"), "whose attributes are not values by name"),
    "a method": (with_scheduler(b"}\x8c\x08__call__Ns"), "has no attribute '__call__'"),
    "a wrong type": (with_scheduler(b"}\x8c\x07base_lr\x8c\x01xs"), "'base_lr' of .* is 'x', not a number"),
    "an endless loop": (with_scheduler(b"}\x8c\x04stepK\x00s"), "'step' of .* is 0, not a number of updates from 1"),
    "itself": (b"\x80\x04}q\x00K\x00h\x00s.", "contains itself"),
    "a nested key": (b"\x80\x04})Ns.", "a key is a tuple, not an integer or a text"),
    "nothing": (b"", "1 bytes are needed, but only 0 are left"),
    "no end": (b"\x80\x04}", "1 bytes are needed"),
    "more": (pickle.dumps({}) + b"x", "1 bytes follow the end"),
    "another protocol": (b"\x80\x06}.", "protocol 6 is unknown"),
    "a persistent name": (b"Pname\n.", "the instruction b'P' is not among those"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_errors(tmp_path: Path, name: str) -> None:
    data, message = HOSTILE[name]
    text = refusal(tmp_path, data)
    assert re.search(message, text), text


def test_sharing_does_not_multiply(tmp_path: Path) -> None:
    # each list has the one before ten times: 10^20 values if they were counted one by one
    lists = b"]q\x00" + b"".join(
        [b"](" + b"h" + bytes([n]) + (b"h" + bytes([n])) * 9 + b"eq" + bytes([n + 1]) for n in range(20)]
    )
    data = b"\x80\x04" + lists + b"0" * 20 + b"0}K\x00h\x14s."
    assert "refers to the same values too often" in refusal(tmp_path, data)


def test_depth_is_limited(tmp_path: Path) -> None:
    data = b"\x80\x04}K\x00" + b"]" * 100_000 + b"a" * 99_999 + b"s."
    assert "is nested more than" in refusal(tmp_path, data)
    text = json.dumps({"dict": [[0, json.loads('{"list":[' * 30 + "1" + "]}" * 30)]]})
    made = b"".join(safetensors.encode({}, {"phonograd": "optimizer states", "version": "1", "states": text}))
    assert "is invalid" in refusal(tmp_path, made)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda texts: texts.pop("phonograd"), "it is a safetensors file of other arrays"),
        (lambda texts: texts.update(version="2"), "its version is '2', but this version of phonograd reads 1"),
        (lambda texts: texts.update(states="{"), "the text 'states' is not JSON"),
        (lambda texts: texts.update(states='{"dict":[[0,{"array":"x"}]]}'), "the description of states.0 is invalid"),
        (lambda texts: texts.update(states='{"dict":[[0,5]]}'), "the state of weight 0 is of type int"),
        (lambda texts: texts.update(optimizer="5"), "the optimizer is of type int"),
        (lambda texts: texts.update(optimizer='{"class":["os","system"],"attributes":{}}'), "refers to os.system"),
    ],
)
def test_damaged_descriptions_are_errors(tmp_path: Path, change: Callable[[Any], Any], message: str) -> None:
    data = states.dumps({0: nd.ones((2, 3))}, mx.optimizer.SGD(momentum=0.9))
    arrays, texts = safetensors.decode(io.BytesIO(data), len(data), "x")
    change(texts)
    assert message in refusal(tmp_path, b"".join(safetensors.encode(arrays, texts)))


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    for form in FORMATS:
        with mx.settings.override(states_format=form):
            data = states.dumps({0: nd.ones((2,))}, mx.optimizer.SGD(momentum=0.9))
        for size in range(len(data)):
            with pytest.raises(mx.MXNetError, match="file"):
                states.loads(data[:size], "file")


def test_memory_is_bounded_by_the_file(tmp_path: Path) -> None:
    """Hostile files of a few bytes are read in a process that may not have 64 MB more."""
    files = []
    for number, (data, _) in enumerate(HOSTILE.values()):
        files.append(tmp_path / f"{number}.states")
        files[-1].write_bytes(data)
    script = (
        "import resource, sys\n"
        "import phonograd as mx\n"
        "from phonograd.optimizer import states\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        states.loads(open(path, 'rb').read(), path)\n"
        "    except mx.MXNetError:\n"
        "        continue\n"
        "    raise AssertionError(path)\n"
    )
    subprocess.run([sys.executable, "-c", script, *map(str, files)], check=True, timeout=60)
