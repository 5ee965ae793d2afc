"""Record files, images and iterators: files and values of real MXNet (scripts/make_records.py), and damaged files."""

import gzip
import hashlib
import random
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx
from phonograd.gluon.data import vision
from phonograd.image.resizing import resize

pytest.importorskip("PIL")

FOLDER = Path(__file__).resolve().parents[1] / "data" / "records"
MAGIC = bytes.fromhex("0a23d7ce")
RECORDS = [b"", b"abc", MAGIC, b"wxyz" + MAGIC + b"abcd", b"x" + MAGIC, MAGIC * 2, bytes(range(256))]
LABELLED = mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2.5], 3, 4), b"body")


@pytest.fixture(scope="module")
def recorded():
    with np.load(FOLDER / "images.npz") as file:
        return dict(file)


def test_records_of_mxnet_are_read_and_written_alike(tmp_path):
    with mx.recordio.MXRecordIO(FOLDER / "plain.rec", "r") as reader:
        found = list(iter(reader.read, None))
    assert found == [*RECORDS, LABELLED]
    with mx.recordio.MXRecordIO(tmp_path / "own.rec", "w") as writer:
        for record in found:
            writer.write(record)
    assert (tmp_path / "own.rec").read_bytes() == (FOLDER / "plain.rec").read_bytes()
    header, body = mx.recordio.unpack(LABELLED)
    assert (header.flag, header.label.tolist(), header.id, header.id2, body) == (2, [1, 2.5], 3, 4, b"body")


def test_indexed_records(tmp_path):
    source = mx.recordio.MXIndexedRecordIO(FOLDER / "images.idx", FOLDER / "images.rec", "r")
    copy = mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "w")
    for key in source.keys:
        copy.write_idx(key, source.read_idx(key))
    assert not (tmp_path / "a.rec").exists()
    copy.close()
    assert (tmp_path / "a.idx").read_bytes() == (FOLDER / "images.idx").read_bytes()
    assert (tmp_path / "a.rec").read_bytes() == (FOLDER / "images.rec").read_bytes()
    with pytest.raises(KeyError):
        source.read_idx(99)


def test_files_that_nobody_closed_are_whole(tmp_path):
    code = """if True:
        import sys
        from phonograd import recordio
        writer = recordio.MXIndexedRecordIO(sys.argv[1] + ".idx", sys.argv[1] + ".rec", "w")
        writer.itself = writer  # so that it is there until the interpreter takes everything apart
        writer.write_idx(3, b"three")
    """
    path = str(tmp_path / "forgotten")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert not done.stderr
    with mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "r") as reader:
        assert reader.read_idx(3) == b"three"


def test_an_exception_discards_what_was_written(tmp_path):
    def write():
        with mx.recordio.MXRecordIO(tmp_path / "a.rec", "w") as writer:
            writer.write(b"abc")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 7, 9, 300])
def test_cut_off_records_raise(tmp_path, cut):
    content = (FOLDER / "plain.rec").read_bytes()
    (tmp_path / "cut.rec").write_bytes(content[:-cut] if cut < 300 else b"\xff" * 300)
    with (
        mx.recordio.MXRecordIO(tmp_path / "cut.rec", "r") as reader,
        pytest.raises(mx.MXNetError, match=r"cut off|damaged"),
    ):
        list(iter(reader.read, None))


@pytest.mark.parametrize("kind", [1, 2, 3, 7])
def test_records_of_wrong_parts_raise(tmp_path, kind):
    (tmp_path / "a.rec").write_bytes(MAGIC + struct.pack("<I", kind << 29 | 4) + b"abcd" + MAGIC + bytes(4))
    with mx.recordio.MXRecordIO(tmp_path / "a.rec", "r") as reader, pytest.raises(mx.MXNetError):
        reader.read()


def test_headers_that_promise_too_much_raise():
    with pytest.raises(mx.MXNetError, match="no header"):
        mx.recordio.unpack(b"abc")
    with pytest.raises(mx.MXNetError, match="4000000000 labels"):
        mx.recordio.unpack(struct.pack("<IfQQ", 4_000_000_000, 0, 0, 0) + b"abc")


@pytest.mark.parametrize("line", ["1 2\n", "x\t0\n", "0\t99999999\n", "0\t-4\n"])
def test_damaged_indices_raise(tmp_path, line):
    (tmp_path / "a.idx").write_text(line)
    with pytest.raises(mx.MXNetError, match="line 1"):
        mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", FOLDER / "images.rec", "r")


def test_images_in_records(recorded):
    with mx.recordio.MXIndexedRecordIO(FOLDER / "images.idx", FOLDER / "images.rec", "r") as reader:
        header, image = mx.recordio.unpack_img(reader.read_idx(2))
    assert header.label == 2
    assert np.array_equal(image[:, :, ::-1], recorded["images"][2])
    packed = mx.recordio.pack_img(header, image, quality=9, img_fmt=".png")
    assert np.array_equal(mx.recordio.unpack_img(packed)[1], image)
    smooth = np.tile(np.arange(0, 200, 10, dtype=np.uint8)[:, None, None], (1, 20, 3))
    assert np.abs(mx.recordio.unpack_img(mx.recordio.pack_img(header, smooth))[1].astype(int) - smooth).max() < 4


@pytest.mark.parametrize("content", [b"", b"junk", b"\x89PNG\r\n\x1a\n" + bytes(20)])
def test_what_is_no_image_raises(content):
    with pytest.raises(mx.MXNetError, match="cannot be decoded"):
        mx.image.imdecode(content)


def test_cut_off_image_raises(recorded):
    from phonograd.image.codec import encode

    for ending in (".png", ".jpg"):
        with pytest.raises(mx.MXNetError, match="cannot be decoded"):
            mx.image.imdecode(encode(recorded["images"][0], 9, ending)[:-150])


def test_images_are_resized_as_by_mxnet(recorded):
    for name, expected in recorded.items():
        if name.startswith("resize_"):
            interp, width, height = map(int, name.split("_")[1:])
            found = resize(recorded["images"][0], width, height, interp)
            assert np.abs(found.astype(int) - expected).max() <= 1, name


def test_augmenters_draw_the_numbers_of_mxnet(recorded):
    random.seed(5)
    np.random.seed(5)
    options = {"brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1, "pca_noise": 0.1, "rand_gray": 0.3}
    augmenters = mx.image.CreateAugmenter((3, 6, 6), 9, True, True, True, mean=True, std=True, **options)
    for number in range(3):
        changed = mx.nd.array(recorded["images"][0], dtype="uint8")
        for augmenter in augmenters:
            changed = augmenter(changed)
        # two resizings, each within one of 255 levels
        assert np.abs(changed.asnumpy() - recorded[f"augmented_{number}"]).max() < 2.5 / 57


def test_images_are_rotated_as_by_mxnet(recorded):
    tensor = mx.nd.array(recorded["images"][0].transpose(2, 0, 1))
    for name, zoom in (("plain", {}), ("in", {"zoom_in": True}), ("out", {"zoom_out": True})):
        found = mx.image.imrotate(tensor, 30, **zoom).asnumpy()
        assert np.allclose(found, recorded[f"rotated_{name}"], atol=1e-3)


def test_image_record_iterator(recorded):
    options = {"mean_r": 1, "mean_g": 2, "mean_b": 3, "std_r": 2, "std_g": 4, "std_b": 5, "scale": 0.5}
    batches = mx.io.ImageRecordIter(str(FOLDER / "images.rec"), (3, 6, 8), 2, **options)
    passes = []
    for _ in range(2):
        passes.append([(batch.label[0].asnumpy().tolist(), batch.pad) for batch in batches])
        batches.reset()
    assert passes == [[([0, 1], 0), ([2, 3], 0), ([4, 0], 1)], [([1, 2], 0), ([3, 4], 0)]]
    first = mx.io.ImageRecordIter(str(FOLDER / "images.rec"), (3, 6, 8), 2, **options).next()
    assert np.allclose(first.data[0].asnumpy(), recorded["batch"], atol=1e-5)
    parts = [
        mx.io.ImageRecordIter(str(FOLDER / "images.rec"), (3, 6, 8), 1, num_parts=4, part_index=part)
        for part in range(3)
    ]
    assert [[int(batch.label[0].asscalar()) for batch in part] for part in parts] == [[0, 1], [2, 3], [4]]
    with pytest.raises(mx.MXNetError, match="no records for part 3 of 4"):
        mx.io.ImageRecordIter(str(FOLDER / "images.rec"), (3, 6, 8), 1, num_parts=4, part_index=3)
    with pytest.raises(TypeError, match="did you mean 'verbose'"):
        mx.io.ImageRecordIter(str(FOLDER / "images.rec"), (3, 6, 8), 2, verbos=1)


@pytest.mark.parametrize(
    "handle, expected",
    [
        ("pad", [[([0, 1, 2], 0), ([3, 4, 0], 1)]] * 2),
        ("discard", [[([0, 1, 2], 0)]] * 2),
        ("roll_over", [[([0, 1, 2], 0)], [([3, 4, 0], 1), ([1, 2, 3], 0)]]),
    ],
)
def test_image_iterator(handle, expected):
    batches = mx.image.ImageIter(
        3,
        (3, 6, 8),
        path_imgrec=str(FOLDER / "images.rec"),
        path_imgidx=str(FOLDER / "images.idx"),
        last_batch_handle=handle,
    )
    passes = []
    for _ in range(2):
        passes.append([(batch.label[0].asnumpy().tolist(), batch.pad) for batch in batches])
        batches.reset()
    assert passes == expected


def test_the_dtype_of_an_image_iterator_is_that_of_listed_labels(tmp_path):
    import PIL.Image

    PIL.Image.new("RGB", (8, 6)).save(tmp_path / "black.png")
    images = {"imglist": [[1.5, "black.png"], [-2.5, "black.png"]], "path_root": str(tmp_path)}
    batch = mx.image.ImageIter(2, (3, 6, 8), dtype="int32", **images).next()
    assert batch.data[0].dtype == batch.label[0].dtype == np.float32
    assert batch.label[0].asnumpy().tolist() == [1, -2]
    with pytest.raises(AssertionError, match="uint8 label not supported"):
        mx.image.ImageIter(2, (3, 6, 8), dtype="uint8", **images)


def test_datasets_of_images(tmp_path, recorded):
    dataset = vision.ImageRecordDataset(FOLDER / "images.rec")
    assert len(dataset) == 5
    image, label = dataset[3]
    assert np.array_equal(image.asnumpy(), recorded["images"][3])
    assert label == 3
    from phonograd.image.codec import encode

    for kind in ("cat", "dog"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "a.png").write_bytes(encode(recorded["images"][0], 9, ".png"))
    folder = vision.ImageFolderDataset(tmp_path)
    assert folder.synsets == ["cat", "dog"]
    assert folder[1][0].shape == (10, 12, 3)
    assert folder[1][1] == 1


def idx(values):
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def test_mnist_from_files(tmp_path):
    images = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
    labels = np.array([2, 0, 1], np.uint8)
    files = []
    for name, values in (("train-images-idx3-ubyte.gz", images), ("train-labels-idx1-ubyte.gz", labels)):
        (tmp_path / name).write_bytes(gzip.compress(idx(values)))
        files.append((name, hashlib.sha1((tmp_path / name).read_bytes()).hexdigest()))

    class Small(vision.MNIST):
        _train_files = tuple(files)

    dataset = Small(str(tmp_path))
    assert dataset[1][0].shape == (4, 5, 1)
    assert dataset[1][0].dtype == np.uint8
    assert dataset[1][1] == 0
    assert dataset[1][1].dtype == np.int32
    batches = mx.io.MNISTIter(tmp_path / files[0][0], tmp_path / files[1][0], batch_size=2, shuffle=False)
    (batch,) = batches
    assert np.allclose(batch.data[0].asnumpy()[1, 0], images[1] / 256)
    assert batch.label[0].asnumpy().tolist() == [2, 0]
    with pytest.warns(UserWarning, match="MNISTIter ignores resize"):
        mx.io.MNISTIter(tmp_path / files[0][0], tmp_path / files[1][0], batch_size=2, resize=3)
    # divided as by MXNet: the last part has more; `input_shape` changes nothing there either
    parts = [
        mx.io.MNISTIter(
            tmp_path / files[0][0],
            tmp_path / files[1][0],
            batch_size=1,
            shuffle=False,
            num_parts=2,
            part_index=part,
            input_shape=(1, 4, 5),
        )
        for part in (0, 1)
    ]
    assert [[int(batch.label[0].asscalar()) for batch in part] for part in parts] == [[2], [0, 1]]


def test_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://127.0.0.1:9/")
    images, labels = (rf"t10k-{kind}-ubyte\.gz with SHA-1" for kind in ("images-idx3", "labels-idx1"))
    with pytest.raises(
        OSError, match=rf"Put these files {images} c3a25af1\w+, {labels} 763e7fa3\w+ there\. The reason"
    ):
        vision.MNIST(str(tmp_path), train=False)
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(b"something else")
    with pytest.raises(OSError, match=rf"{images} \w+ \(the file there has another checksum\), {labels}"):
        vision.MNIST(str(tmp_path), train=False)
    with pytest.raises(OSError, match=r"cifar-10-binary\.tar\.gz"):
        vision.CIFAR10(str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [b"", b"abcd" * 9, idx(np.zeros((2, 3, 4), np.uint8))[:-1], gzip.compress(b"a" * 40)[:-9]],
    ids=["empty", "text", "short", "damaged"],
)
def test_damaged_files_of_mnist_raise(tmp_path, content):
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(mx.MXNetError):
        mx.io.idx.read_idx(tmp_path / "images", 3)


def test_files_of_mnist_that_claim_too_much_take_no_memory(tmp_path):
    (tmp_path / "images").write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 60000, 1000, 70) + b"abc")
    tracemalloc.start()
    with pytest.raises(mx.MXNetError, match="3 of the 4200000000 bytes"):
        mx.io.idx.read_idx(tmp_path / "images", 3)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100e6


def test_cifar_from_files(tmp_path):
    rows = np.random.RandomState(0).randint(0, 100, (4, 2 + 3072)).astype(np.uint8)
    (tmp_path / "train.bin").write_bytes(rows.tobytes())

    class Small(vision.CIFAR100):
        _train_files = (("train.bin", hashlib.sha1(rows.tobytes()).hexdigest()),)

    dataset = Small(str(tmp_path), fine_label=True)
    assert dataset[2][1] == rows[2, 1]
    assert np.array_equal(dataset[2][0].asnumpy(), rows[2, 2:].reshape(3, 32, 32).transpose(1, 2, 0))
    assert Small(str(tmp_path))[2][1] == rows[2, 0]


def test_tables(tmp_path):
    (tmp_path / "d.csv").write_text("1,2,3\n2,3,4\n3,4,5\n4,5,6\n")
    batches = mx.io.CSVIter(tmp_path / "d.csv", (3,), batch_size=3)
    passes = []
    for _ in range(3):
        passes.append([(batch.data[0].asnumpy()[:, 0].tolist(), batch.pad) for batch in batches])
        batches.reset()
    assert passes == [[([1, 2, 3], 0), ([4, 1, 2], 2)], [([3, 4, 1], 1)], [([2, 3, 4], 0)]]
    (tmp_path / "bad.csv").write_text("1,2,x\n")
    with pytest.raises(mx.MXNetError, match="no table"):
        mx.io.CSVIter(tmp_path / "bad.csv", (3,), batch_size=3)
    with pytest.raises(mx.MXNetError, match="3 numbers, but shape"):
        mx.io.CSVIter(tmp_path / "d.csv", (2,), batch_size=3)
