"""Datasets, samplers, batchify functions, loaders and transformations."""

import gzip
import io
import logging
import os
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import phonograd as mx
from phonograd.gluon import data
from phonograd.gluon.data import batchify
from phonograd.gluon.data.vision import transforms

kinds = pytest.mark.parametrize("thread_pool", [False, True], ids=["processes", "threads"])


class Examples(data.Dataset):
    """Examples of which one behaves badly."""

    def __init__(self, action=None, size=4):
        self.action, self.size = action, size

    def __len__(self):
        return 12

    def __getitem__(self, idx):
        if idx == 7 and self.action is not None:
            self.action()
        return np.full((self.size, self.size), idx, np.float32), idx, np.random.rand()


def fail():
    raise KeyError("seven")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    time.sleep(60)


def test_datasets_made_of_datasets():
    numbers = data.SimpleDataset([1, 2, 3, 4, 5])
    assert list(numbers.filter(lambda n: n % 2)) == [1, 3, 5]
    assert list(numbers.take(2)) == [1, 2]
    assert list(numbers.take(9)) == list(numbers.take(None)) == [1, 2, 3, 4, 5]
    assert [list(numbers.shard(2, part)) for part in (0, 1)] == [[1, 2, 3], [4, 5]]
    assert list(numbers.sample(data.SequentialSampler(2, 3))) == [4, 5]
    pairs = data.ArrayDataset([1, 2], mx.nd.array([3, 4]))
    assert list(pairs.transform(lambda a, b: a + b, lazy=False)) == [4, 6]
    assert list(pairs.transform_first(lambda a: -a)) == [(-1, 3), (-2, 4)]
    with pytest.raises(TypeError, match="Invalid sampler type"):
        numbers.sample([1])
    with pytest.raises(AssertionError, match="same length"):
        data.ArrayDataset([1], [1, 2])
    with pytest.raises(AssertionError, match="out bound"):
        numbers.shard(2, 2)


def test_samplers():
    batches = data.BatchSampler(data.SequentialSampler(5), 2, "rollover")
    assert [len(batches), list(batches)] == [2, [[0, 1], [2, 3]]]
    assert [len(batches), list(batches)] == [3, [[4, 0], [1, 2], [3, 4]]]
    np.random.seed(1)
    assert list(data.RandomSampler(5)) == [2, 1, 4, 0, 3]
    assert list(data.IntervalSampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5]
    with pytest.raises(ValueError, match="last_batch must be one of"):
        data.BatchSampler(data.SequentialSampler(5), 2, "drop")


def test_batchify():
    padded, lengths = batchify.Pad(val=-1, axis=0, ret_length=True)([np.ones((2, 3)), np.ones((1, 3))])
    assert padded.asnumpy()[1, 1].tolist() == [-1, -1, -1]
    assert lengths.asnumpy().tolist() == [2, 1]
    assert batchify.Pad(val=0, round_to=4)([[1, 2, 3]]).shape == (1, 4)
    assert [part.shape for part in batchify.Append()([[1, 2], [3]])] == [(1, 2), (1, 1)]
    with pytest.raises(ValueError, match=r"batchify\.Pad"):
        batchify.Stack()([[1, 2], [3]])
    with pytest.raises(TypeError, match=r"batchify\.AsList"):
        batchify.default_batchify_fn(["a", "b"])


@kinds
def test_workers_return_the_batches_in_their_order(thread_pool):
    plain = data.DataLoader(Examples(size=200), 5)
    loader = data.DataLoader(Examples(size=200), 5, num_workers=2, thread_pool=thread_pool)
    assert len(loader) == 3
    for _ in range(2):
        for ours, theirs in zip(plain, loader, strict=True):
            assert np.array_equal(ours[0].asnumpy(), theirs[0].asnumpy())
            assert np.array_equal(ours[1].asnumpy(), theirs[1].asnumpy())
    # two passes at once, and one that nobody ends
    assert [a[1][0].asscalar() == b[1][0].asscalar() for a, b in zip(loader, loader)] == [True] * 3
    next(iter(loader))
    loader.close()


def test_random_numbers_do_not_depend_on_the_number_of_processes():
    found = []
    for count in (1, 2):
        loader = data.DataLoader(Examples(), 3, num_workers=count)
        # the state at the beginning of the pass decides
        np.random.seed(3)
        found.append(np.concatenate([batch[2].asnumpy() for batch in loader]))
        loader.close()
    assert np.array_equal(*found)
    assert len(set(found[0].tolist())) == 12


@kinds
def test_exceptions_of_workers_are_raised_with_their_traceback(thread_pool):
    import traceback

    loader = data.DataLoader(Examples(fail), 4, num_workers=2, thread_pool=thread_pool)
    batches = iter(loader)
    next(batches)
    with pytest.raises(KeyError, match="seven") as caught:
        next(batches)
    text = "".join(traceback.format_exception(caught.value))
    assert 'raise KeyError("seven")' in text
    loader.close()


def test_a_killed_worker_is_an_error_and_the_next_pass_has_new_ones():
    dataset = Examples(kill)
    loader = data.DataLoader(dataset, 4, num_workers=1)
    with pytest.raises(mx.MXNetError, match="SIGKILL"):
        list(loader)
    loader._dataset = Examples()
    assert len(list(loader)) == 3
    loader.close()


def leave():
    sys.exit(4)


@kinds
def test_what_ends_a_worker_does_not_end_the_program(thread_pool):
    loader = data.DataLoader(Examples(leave), 4, num_workers=2, thread_pool=thread_pool)
    with pytest.raises(mx.MXNetError, match="SystemExit: 4"):
        list(loader)
    loader.close()


FORKING = """
    import threading
    import numpy as np
    import phonograd as mx
    from phonograd.gluon import data
    def compute():
        while not done.is_set():
            x = mx.nd.ones((20, 50))
            x.attach_grad()
            with mx.autograd.record():
                y = mx.nd.dot(x, mx.nd.ones((50, 30))).tanh().sum()
            y.backward()
            x.grad.asnumpy()
    done = threading.Event()
    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads: thread.start()
    class Computed(data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, idx): return mx.nd.ones((3,)) * idx + mx.nd.random.uniform(0, 0, shape=(3,))
    try:
        for _ in range(8):
            loader = data.DataLoader(Computed(), 2, num_workers=2, timeout=60)
            print(sum(batch.sum().asscalar() for batch in loader))
            loader.close()
    finally:
        done.set()
"""


def test_workers_are_forked_while_threads_compute():
    process = run(FORKING)
    try:
        output, errors = process.communicate(timeout=180)
    finally:
        process.kill()
    assert (process.returncode, output.split()) == (0, ["84.0"] * 8), errors


@kinds
def test_timeout(thread_pool):
    loader = data.DataLoader(Examples(hang), 4, num_workers=2, timeout=0.3, thread_pool=thread_pool)
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match=r"0\.3 seconds"):
        list(loader)
    loader.close()
    assert time.monotonic() - begin < 10


def run(code, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


HANGING = """
    import os, signal, sys, time
    # shells start programs in the background with interrupts ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from phonograd.gluon import data
    class Slow(data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, idx):
            if idx >= 2: time.sleep(60)
            return os.getpid()
    loader = data.DataLoader(Slow(), 2, num_workers=2, batchify_fn=data.batchify.AsList())
    batches = iter(loader)
    print(next(batches)[0], flush=True)
"""


def is_gone(pid):
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("ending", ["exit", "interrupt", "killed"])
def test_workers_end_with_the_program(ending):
    process = run(HANGING + ("\n    next(batches)\n" if ending != "exit" else ""))
    worker = int(process.stdout.readline())
    if ending != "exit":
        process.send_signal(signal.SIGINT if ending == "interrupt" else signal.SIGKILL)
    _, errors = process.communicate(timeout=20)
    assert is_gone(worker)
    assert ("KeyboardInterrupt" in errors) == (ending == "interrupt")
    assert "leaked" not in errors


def test_loader_arguments():
    with pytest.raises(ValueError, match="batch_size must be specified"):
        data.DataLoader([1])
    with pytest.raises(ValueError, match="shuffle must not be specified"):
        data.DataLoader([1], 1, shuffle=True, sampler=[0])
    with pytest.raises(ValueError, match="if batch_sampler is specified"):
        data.DataLoader([1], 1, batch_sampler=[[0]])
    assert [len(batch) for batch in data.DataLoader(list(range(5)), 2, last_batch="discard")] == [2, 2]


@pytest.mark.parametrize(
    "transform, shape",
    [
        (transforms.ToTensor(), (3, 10, 12)),
        (transforms.Resize(5), (5, 5, 3)),
        (transforms.Resize((6, 4)), (4, 6, 3)),
        (transforms.Resize(5, keep_ratio=True), (5, 6, 3)),
        (transforms.CropResize(1, 2, 5, 4), (4, 5, 3)),
        (transforms.CropResize(1, 2, 5, 4, (8, 7)), (7, 8, 3)),
        (transforms.CenterCrop((4, 6)), (6, 4, 3)),
        (transforms.CenterCrop(20), (20, 20, 3)),
        (transforms.RandomCrop(8, pad=2), (8, 8, 3)),
        (transforms.RandomResizedCrop(4), (4, 4, 3)),
        (transforms.RandomFlipLeftRight(), (10, 12, 3)),
        (transforms.RandomFlipTopBottom(), (10, 12, 3)),
        (transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1), (10, 12, 3)),
        (transforms.RandomLighting(0.1), (10, 12, 3)),
        (transforms.RandomGray(1.0), (10, 12, 3)),
        (transforms.RandomApply(transforms.RandomHue(0.2)), (10, 12, 3)),
    ],
)
def test_transformations(transform, shape):
    image = mx.nd.array(np.random.RandomState(0).randint(0, 256, (10, 12, 3)), dtype="uint8")
    before = image.asnumpy()
    found = transform(image)
    assert found.shape == shape
    assert found.dtype == (np.float32 if isinstance(transform, transforms.ToTensor) else np.uint8)
    assert np.array_equal(image.asnumpy(), before)


def test_the_short_way_of_transformations_has_the_same_values():
    image = mx.nd.array(np.random.RandomState(0).randint(0, 256, (10, 12, 3)), dtype="uint8")
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), (2, 3, 4))])
    with mx.autograd.record():
        recorded = steps(image)
    assert np.array_equal(recorded.asnumpy(), steps(image).asnumpy())


def test_transformations_follow_the_seed():
    image = mx.nd.array(np.random.RandomState(0).randint(0, 256, (10, 12, 3)), dtype="uint8")
    found = []
    for _ in range(2):
        mx.random.seed(4)
        found.append(transforms.RandomColorJitter(0.3, 0.3, 0.3, 0.3)(image).asnumpy())
    assert np.array_equal(*found)


@pytest.mark.parametrize(
    "handle, expected",
    [
        ("pad", [[([0, 1], 0), ([2, 3], 0), ([4, 0], 1)]] * 2),
        ("discard", [[([0, 1], 0), ([2, 3], 0)]] * 2),
        ("roll_over", [[([0, 1], 0), ([2, 3], 0)], [([4, 0], 1), ([1, 2], 0), ([3, 4], 0)]]),
    ],
)
def test_array_iterator(handle, expected):
    batches = mx.io.NDArrayIter(np.arange(5), batch_size=2, last_batch_handle=handle)
    passes = []
    for _ in range(2):
        passes.append([(batch.data[0].asnumpy().tolist(), batch.pad) for batch in batches])
        batches.reset()
    assert passes == expected


def test_array_iterator_shuffles_as_mxnet():
    np.random.seed(1)
    batches = mx.io.NDArrayIter({"b": np.arange(5), "a": np.zeros((5, 2))}, batch_size=5, shuffle=True)
    assert [entry.name for entry in batches.provide_data] == ["a", "b"]
    assert batches.next().data[1].asnumpy().tolist() == [2, 1, 4, 0, 3]
    batches.reset()
    assert batches.next().data[1].asnumpy().tolist() == [4, 3, 0, 2, 1]


def test_array_iterator_takes_rows_of_large_sparse_matrices():
    begins = np.array([0, 1, 1, 3, 3])
    matrix = mx.nd.sparse.csr_matrix(
        (np.array([1, 2, 3], "float32"), np.array([1, 0, 9_999_999]), np.append(begins, [3] * 100_000)),
        shape=(100_004, 10_000_000),
    )
    batch = mx.io.NDArrayIter(matrix, batch_size=3, last_batch_handle="discard").next().data[0].asnumpy()
    assert batch.shape == (3, 10_000_000)
    assert {(row, column): batch[row, column] for row, column in zip(*batch.nonzero())} == {
        (0, 1): 1,
        (2, 0): 2,
        (2, 9_999_999): 3,
    }


def test_iterators_around_iterators():
    def batches():
        return mx.io.NDArrayIter(np.arange(5), np.arange(5), 2)

    assert len(list(mx.io.ResizeIter(batches(), 5))) == 5
    names = [{"data": "x"}, {"data": "y"}], [{"softmax_label": "s"}, {"softmax_label": "t"}]
    both = mx.io.PrefetchingIter([batches(), batches()], *names)
    assert [entry.name for entry in both.provide_data] == ["x", "y"]
    for _ in range(2):
        assert [len(batch.data) for batch in both] == [2, 2, 2]
        both.reset()
    entry = pickle.loads(pickle.dumps(both.provide_data[0]))
    assert entry == both.provide_data[0]
    assert entry.layout == "NCHW"


def test_callbacks(caplog, tmp_path):
    caplog.set_level(logging.INFO)
    metric = mx.metric.create("acc")
    metric.update([mx.nd.array([0, 1])], [mx.nd.array([[1, 0], [1, 0]])])
    speedometer = mx.callback.Speedometer(4, 2)
    for number in (1, 2):
        speedometer(mx.model.BatchEndParam(1, number, metric, None))
    assert "Epoch[1] Batch [0-2]\tSpeed: " in caplog.text
    assert "accuracy=0.500000" in caplog.text
    save = mx.callback.do_checkpoint(str(tmp_path / "net"), 2)
    for epoch in range(2):
        save(epoch, mx.sym.Variable("a") * 2, {"a": mx.nd.ones(2)}, {})
    assert sorted(os.listdir(tmp_path)) == ["net-0002.params", "net-symbol.json"]
    symbol, arguments, states = mx.model.load_checkpoint(str(tmp_path / "net"), 2)
    assert (symbol.list_arguments(), list(arguments), states) == (["a"], ["a"], {})


def test_progress_and_curves(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    output = io.StringIO()
    assert list(mx.progress([1, 2], "epoch", file=output)) == [1, 2]
    assert output.getvalue().startswith("epoch: 2/2 (100%)")
    for _ in (bar := mx.progress(range(3), file=output)):
        bar.set_postfix(loss=0.12345, lr=1)
        bar.set_description("renamed")
    assert output.getvalue().splitlines()[-1].startswith("renamed: 3/3 (100%)")
    assert output.getvalue().endswith(", loss=0.123, lr=1\n")
    assert (len(bar), bar.n) == (3, 3)
    before = output.getvalue()
    assert list(mx.progress(iter("ab"), file=output, disable=True)) == ["a", "b"]
    assert output.getvalue() == before
    with pytest.raises(TypeError, match="not iterable"):
        mx.progress(5, file=output)
    curves = mx.curves.Curves(output)
    for step in range(100):
        curves.add(step, loss=mx.nd.array([1 / (step + 1)]), accuracy=step)
    curves.show(20)
    assert "accuracy" in output.getvalue()
    with pytest.raises(ValueError, match="value of 'loss' must be a number"):
        curves.add(accuracy=1, loss=mx.nd.ones((2,)))
    assert [len(part) for series in curves.values.values() for part in series] == [100] * 4
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    others = mx.curves.Curves(narrow)
    for value in (8, 1e308, -1e308):
        others.add(loss=value)
    others.show()
    assert narrow.buffer.getvalue() == b"loss  =#_  8 -> -1e+308\n"
    pytest.importorskip("matplotlib")
    curves.save(tmp_path / "a.svg", log=True)
    curves.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()


def test_pillow_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ModuleNotFoundError, match=r"phonograd\[image\]"):
        mx.image.imdecode(b"abc")


def test_labels_of_digits_are_arrays_of_the_chosen_kind(tmp_path, monkeypatch):
    images = np.arange(3 * 784, dtype=np.uint8).reshape(3, 28, 28)
    for name, content in (
        ("images-idx3", struct.pack(">IIII", 2051, 3, 28, 28) + images.tobytes()),
        ("labels-idx1", struct.pack(">II", 2049, 3) + bytes([5, 0, 4])),
    ):
        (tmp_path / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr(data.vision.datasets, "has_files", lambda root, files: True)
    digits = data.vision.MNIST(root=str(tmp_path))
    assert type(digits[0][1]) is not mx.np.ndarray
    with mx.util.np_shape(True), mx.util.np_array(True):
        digits = data.vision.MNIST(root=str(tmp_path))
        image, label = digits[0]
        assert (type(image), type(label)) == (mx.np.ndarray, mx.np.ndarray)
        assert (label.shape, label.dtype, int(label)) == ((), np.int32, 5)
