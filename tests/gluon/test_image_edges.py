"""Images at the edges of what is usual: functions among transformations, other shapes and depths, damaged files."""

from __future__ import annotations

import random

import numpy as np
import pytest

import phonograd as mx
from phonograd.gluon import nn
from phonograd.gluon.data.vision import transforms

IMAGE = mx.nd.array(np.random.RandomState(0).randint(0, 256, (8, 9, 3)), dtype="uint8")
BATCH = mx.nd.stack(IMAGE, IMAGE)


def doubled(image):
    return image * 2


def test_functions_are_composed_with_blocks():
    composed = transforms.Compose([transforms.Cast(), doubled, transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    expected = (IMAGE.asnumpy().astype("f").transpose(2, 0, 1) * 2 / 255 - 0.5) / 0.5
    assert np.allclose(composed(IMAGE).asnumpy(), expected, atol=1e-5)
    # hybrid blocks in a row are one child, as in MXNet
    assert [type(child) for child in composed][::2] == [transforms.Cast, nn.HybridSequential]
    assert repr(doubled) in repr(composed)
    composed.hybridize()
    assert np.allclose(composed(IMAGE).asnumpy(), expected, atol=1e-5)
    with pytest.raises(TypeError, match="blocks and functions, not 3"):
        transforms.Compose([3])


@pytest.mark.parametrize(
    "crop",
    [
        transforms.CenterCrop(4),
        transforms.RandomResizedCrop(4),
        lambda image: mx.image.resize_short(image, 4),
        lambda image: mx.image.random_crop(image, (4, 4)),
    ],
    ids=["center", "resized", "short", "random"],
)
@pytest.mark.parametrize("image", [BATCH, IMAGE[:, :, 0]], ids=["batch", "plane"])
def test_crops_take_single_images(crop, image):
    # a batch was cropped along its examples before this was checked
    with pytest.raises(ValueError, match=r"\(height, width, channel\), not of shape"):
        crop(image)


def test_errors_are_those_of_the_operators():
    for call in (
        lambda: transforms.ToTensor()(IMAGE[:, :, 0]),
        lambda: transforms.Resize(0)(IMAGE),
        lambda: transforms.Resize(4)(IMAGE[:, :, 0]),
        lambda: transforms.CropResize(1, 2, 30, 4)(IMAGE),
        lambda: transforms.Normalize(0.5, 0.5)(IMAGE),
        lambda: transforms.Normalize([0.5, 0.5], 0.5)(transforms.ToTensor()(IMAGE)),
        lambda: mx.image.imresize(IMAGE, 4, 5, 7),
        lambda: mx.image.copyMakeBorder(IMAGE, 1, 1, 1, 1, 9),
        lambda: mx.image.fixed_crop(IMAGE, -1, 0, 3, 3),
        lambda: mx.image.ColorNormalizeAug([1, 2, 3], None)(IMAGE),
    ):
        with pytest.raises(mx.MXNetError):
            call()
    with pytest.raises(ValueError, match=r"\(width, height\)"):
        transforms.Resize((1, 2, 3))(IMAGE)


def test_borders_have_a_color_for_each_channel():
    bordered = mx.image.copyMakeBorder(IMAGE, 1, 0, 0, 0, values=(7, 8)).asnumpy()
    assert bordered[0, 0].tolist() == [7, 8, 0]
    assert np.array_equal(bordered[1:], IMAGE.asnumpy())


def test_colors_of_bytes_stay_within_their_limits():
    random.seed(0)
    white = mx.nd.full((2, 2, 3), 250, dtype="uint8")
    found = [mx.image.BrightnessJitterAug(0.5)(white).asnumpy() for _ in range(10)]
    assert max(part.max() for part in found) == 255
    assert min(part.min() for part in found) >= 124


# -- files


def written(tmp_path, pixels, mode=None):
    image = pytest.importorskip("PIL.Image")
    path = str(tmp_path / "image.png")
    (image.fromarray(pixels) if mode is None else image.fromarray(pixels).convert(mode)).save(path)
    return path


def test_sixteen_bits_become_eight(tmp_path):
    gray = (np.arange(12, dtype=np.uint16) * 5000).reshape(3, 4)
    path = written(tmp_path, gray)
    assert np.array_equal(mx.image.imread(path, 0).asnumpy()[:, :, 0], gray >> 8)
    assert np.array_equal(mx.image.imread(path).asnumpy()[:, :, 1], gray >> 8)


def test_gray_of_png_is_that_of_mxnet(tmp_path):
    # colors and their gray in MXNet 1.9.1
    path = written(tmp_path, np.array([[[80, 158, 253], [172, 47, 117]]], np.uint8))
    assert mx.image.imread(path, 0).asnumpy().ravel().tolist() == [145, 92]


@pytest.fixture
def gradient(tmp_path):
    pytest.importorskip("PIL")
    path = str(tmp_path / "gradient.rec")
    pixels = np.repeat(np.arange(0, 240, 40, dtype=np.uint8)[None, :, None], 4, 0).repeat(3, 2)
    with mx.recordio.MXRecordIO(path, "w") as writer:
        writer.write(mx.recordio.pack_img(mx.recordio.IRHeader(0, 1.0, 0, 0), pixels, 9, ".png"))
    return path


def test_small_images_are_enlarged_before_the_crop(gradient):
    batch = next(mx.io.ImageRecordIter(gradient, (3, 8, 8), 1))
    # the values of MXNet 1.9.1
    assert batch.data[0][0, 0, 3].asnumpy().tolist() == [30, 50, 70, 90, 110, 130, 150, 170]


def test_batches_are_of_the_chosen_kind(gradient):
    with mx.util.np_shape(True), mx.util.np_array(True):
        batch = next(mx.image.ImageIter(1, (3, 4, 4), path_imgrec=gradient))
    assert [type(array) for array in (*batch.data, *batch.label)] == [mx.np.ndarray] * 2


def test_signed_bytes(gradient):
    batches = mx.io.ImageRecordInt8Iter(gradient, (3, 4, 6), 1)
    assert [batches.provide_data[0].dtype, batches.provide_label[0].dtype] == [np.int8, np.float32]
    batch = next(batches)
    assert [batch.data[0].dtype, batch.label[0].dtype] == [np.int8, np.float32]
    assert batch.data[0][0, 0, 0].asnumpy().tolist() == [0, 40, 80, 120, 127, 127]


def test_missing_files_are_errors_of_both_kinds(tmp_path):
    path = str(tmp_path / "none" / "x.rec")
    for call in (
        lambda: mx.recordio.MXRecordIO(path, "r"),
        lambda: mx.recordio.MXRecordIO(path, "w"),
        lambda: mx.image.imread(path),
        lambda: mx.io.MNISTIter(path, path),
        lambda: mx.io.ImageRecordIter(path, (3, 4, 4), 1),
    ):
        with pytest.raises(mx.MXNetError, match=r"x\.rec") as caught:
            call()
        assert isinstance(caught.value, FileNotFoundError)


def test_broken_images_are_named(tmp_path):
    pytest.importorskip("PIL")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(RuntimeError, match=r"Broken image filename: text\.png"):
        next(mx.image.ImageIter(1, (3, 4, 4), imglist=[[1, "text.png"]], path_root=str(tmp_path)))
    with mx.recordio.MXRecordIO(tmp_path / "broken.rec", "w") as writer:
        writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, 1.0, 0, 0), b"no image"))
    with pytest.raises(RuntimeError, match=r"Broken image in the record before byte \d+ of .*broken\.rec"):
        next(mx.image.ImageIter(1, (3, 4, 4), path_imgrec=str(tmp_path / "broken.rec")))
    with pytest.raises(mx.MXNetError, match=r"image at byte 0 of .*broken\.rec \(8 bytes\) cannot be decoded"):
        next(mx.io.ImageRecordIter(str(tmp_path / "broken.rec"), (3, 4, 4), 1))


def test_labels_that_are_all_invalid_raise(tmp_path):
    (tmp_path / "any.png").write_bytes(b"")
    with pytest.raises(RuntimeError, match="no image has a valid label"):
        mx.image.ImageDetIter(1, (3, 4, 4), imglist=[[1, 2, 3, "any.png"]], path_root=str(tmp_path))


def test_errors_of_augmenters_are_raised(gradient):
    batches = mx.image.ImageIter(1, (3, 4, 4), path_imgrec=gradient, aug_list=[mx.image.ColorNormalizeAug([1], None)])
    with pytest.raises(mx.MXNetError, match="apply CastAug before"):
        next(batches)


def test_a_padded_batch_does_not_shuffle_again(tmp_path):
    pytest.importorskip("PIL")
    path, index = str(tmp_path / "many.rec"), str(tmp_path / "many.idx")
    with mx.recordio.MXIndexedRecordIO(index, path, "w") as writer:
        for number in range(5):
            header = mx.recordio.IRHeader(0, float(number), number, 0)
            writer.write_idx(number, mx.recordio.pack_img(header, np.zeros((4, 4, 3), np.uint8), 9, ".png"))
    random.seed(1)
    batches = mx.image.ImageIter(2, (3, 4, 4), path_imgrec=path, path_imgidx=index, shuffle=True)
    for _ in range(5):
        order = np.concatenate([batch.label[0].asnumpy() for batch in batches]).tolist()
        assert order[5] == order[0]
        assert sorted(order[:5]) == [0, 1, 2, 3, 4]
        batches.reset()


# -- iterators


def test_iterators_that_say_nothing_about_padding():
    class Once(mx.io.DataIter):
        def __init__(self):
            super().__init__(1)
            self.left = 1

        def iter_next(self):
            self.left -= 1
            return self.left >= 0

        def getdata(self):
            return [mx.nd.ones((1,))]

        def getlabel(self):
            return None

    assert [batch.pad for batch in Once()] == [None]
    assert mx.io.NDArrayIter(np.ones(3), np.ones(3)).num_source == 2


def test_headers_are_shown_as_by_mxnet():
    assert repr(mx.recordio.IRHeader(0, 4.0, 7, 0)) == "HEADER(flag=0, label=4.0, id=7, id2=0)"
