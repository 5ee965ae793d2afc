"""Transformations as operators, images with boxes, and iterators over sparse rows and records."""

import io
import json
import random
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import phonograd as mx
from phonograd.gluon.data.vision import transforms

FOLDER = Path(__file__).resolve().parents[1] / "data" / "records"
PIXELS = np.random.RandomState(0).randint(0, 256, (8, 9, 3)).astype(np.uint8)

#: transformations, the operators that they are, and whether they are random
TRANSFORMS = [
    (lambda: transforms.ToTensor(), ["_image_to_tensor"], False),
    (lambda: transforms.Resize((4, 5)), ["_image_resize"], False),
    (lambda: transforms.Resize(6, keep_ratio=True), ["_image_resize"], False),
    (lambda: transforms.CropResize(1, 2, 4, 3), ["_image_crop"], False),
    (lambda: transforms.CropResize(1, 2, 4, 3, size=5), ["_image_crop", "_image_resize"], False),
    (lambda: transforms.RandomBrightness(0.0), ["_image_random_brightness"], False),
    (lambda: transforms.RandomContrast(0.0), ["_image_random_contrast"], False),
    (lambda: transforms.RandomSaturation(0.0), ["_image_random_saturation"], False),
    (lambda: transforms.RandomHue(0.0), ["_image_random_hue"], False),
    (lambda: transforms.RandomLighting(0.0), ["_image_random_lighting"], False),
    (lambda: transforms.RandomColorJitter(), ["_image_random_color_jitter"], False),
    (lambda: transforms.RandomFlipLeftRight(), ["_image_random_flip_left_right"], True),
    (lambda: transforms.RandomFlipTopBottom(), ["_image_random_flip_top_bottom"], True),
    (lambda: transforms.RandomColorJitter(0.2, 0.2, 0.2, 0.2), ["_image_random_color_jitter"], True),
    (
        lambda: transforms.HybridCompose([transforms.ToTensor(), transforms.Normalize([0.1, 0.2, 0.3], 2.0)]),
        ["_image_to_tensor", "_image_normalize"],
        False,
    ),
]


@pytest.mark.parametrize(("make", "operators", "is_random"), TRANSFORMS, ids=[str(n) for n in range(len(TRANSFORMS))])
def test_transformations_are_operators(make, operators, is_random):
    transform = make()
    image = mx.nd.array(PIXELS, dtype="uint8")
    symbol = transform(mx.sym.var("data"))
    nodes = [node["op"] for node in json.loads(symbol.tojson())["nodes"]]
    assert [name for name in nodes if name != "null"] == operators
    expected = transform(image)
    assert symbol.infer_shape(data=PIXELS.shape)[1] == [expected.shape]
    recorded = image.astype("float32")
    recorded.attach_grad()
    with mx.autograd.record():
        out = transform(recorded)
    out.backward()
    assert out.shape == expected.shape
    assert np.isfinite(recorded.grad.asnumpy()).all()
    transform.hybridize()
    captured = transform(image)
    assert (captured.shape, captured.dtype) == (expected.shape, expected.dtype)
    if not is_random:
        difference = captured.astype("float32").asnumpy() - expected.astype("float32").asnumpy()
        # a color that is almost a whole number may be cut off on either side of it
        assert np.abs(difference).max() <= (1 if expected.dtype is np.uint8 else 1e-6)


def test_random_operators_draw_each_time_anew():
    mx.random.seed(3)
    image = mx.nd.array(PIXELS, dtype="float32")
    seen = {float(mx.nd.image.random_brightness(image, 0.5, 1.5).mean().asscalar()) for _ in range(4)}
    assert len(seen) == 4
    flips = {mx.nd.image.random_flip_left_right(image).asnumpy().tobytes() for _ in range(20)}
    assert flips == {PIXELS.astype("f").tobytes(), PIXELS[:, ::-1].astype("f").tobytes()}
    orders = [mx.nd.image.random_color_jitter(image, 0.5, 0.5, 0.5, 0.1).asnumpy() for _ in range(3)]
    assert not np.array_equal(orders[0], orders[1])


def test_errors_name_operator_and_shape():
    with pytest.raises(mx.MXNetError, match=r"\(height, width, channels\).*\[2,3\].*_image_to_tensor"):
        mx.nd.image.to_tensor(mx.nd.ones((2, 3)))
    with pytest.raises(mx.MXNetError, match="apply to_tensor first"):
        mx.nd.image.normalize(mx.nd.array(PIXELS, dtype="uint8"))
    with pytest.raises(mx.MXNetError, match="alpha must have 3 numbers"):
        mx.nd.image.adjust_lighting(mx.nd.ones((2, 2, 3)), alpha=(1.0,))
    with pytest.raises(AttributeError, match="to_tensor"):
        mx.nd.image.to_tensr  # noqa: B018


# -- images with boxes


def _labelled(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    generator = np.random.RandomState(1)
    entries = []
    for number in range(5):
        pixels = generator.randint(0, 256, (40 + number, 50, 3)).astype(np.uint8)
        image_module.fromarray(pixels).save(tmp_path / f"{number}.png")
        label = [2, 5]
        for kind in range(number % 3 + 1):
            x, y = generator.uniform(0, 0.5, 2)
            label += [kind, x, y, x + 0.3, y + 0.4]
        entries.append([np.array(label, np.float32), f"{number}.png"])
    return entries


def test_detection_iterator(tmp_path):
    entries = _labelled(tmp_path)
    entries.append([np.array([2, 5, 0, 0.5, 0.5, 0.4, 0.4], np.float32), "0.png"])  # no valid object
    iterator = mx.image.ImageDetIter(2, (3, 32, 24), path_root=str(tmp_path), imglist=entries)
    assert iterator.provide_data == [("data", (2, 3, 32, 24))]
    assert iterator.provide_label == [("label", (2, 3, 5))]
    batches = list(iterator)
    assert [batch.pad for batch in batches] == [0, 0, 1]
    assert batches[0].data[0].shape == (2, 3, 32, 24)
    labels = batches[0].label[0].asnumpy()
    assert np.allclose(labels[1, :2].reshape(-1), entries[1][0][2:])
    assert (labels[1, 2] == -1).all()
    other = mx.image.ImageDetIter(1, (3, 8, 8), path_root=str(tmp_path), imglist=entries[:1])
    assert other.label_shape == (1, 5)
    assert iterator.sync_label_shape(other) is other
    assert other.provide_label == [("label", (1, 3, 5))]
    iterator.reset()
    iterator.reshape(label_shape=(6, 5))
    assert iterator.next().label[0].shape == (2, 6, 5)
    with pytest.raises(ValueError, match="reduce label count"):
        iterator.reshape(label_shape=(2, 5))


def test_detection_iterator_of_records(tmp_path):
    entries = _labelled(tmp_path)
    index, records = str(tmp_path / "boxes.idx"), str(tmp_path / "boxes.rec")
    with mx.recordio.MXIndexedRecordIO(index, records, "w") as writer:
        for number, (label, name) in enumerate(entries):
            header = mx.recordio.IRHeader(0, label, number, 0)
            writer.write_idx(number, mx.recordio.pack(header, (tmp_path / name).read_bytes()))
    for options in ({}, {"path_imgidx": index, "shuffle": True}):
        iterator = mx.image.ImageDetIter(5, (3, 16, 16), path_imgrec=records, **options)
        assert iterator.label_shape == (3, 5)
        labels = iterator.next().label[0].asnumpy()
        assert sorted((labels[..., 0] >= 0).sum(1).tolist()) == [1, 1, 2, 2, 3]


def test_detection_iterator_with_all_augmenters(tmp_path):
    random.seed(2)
    np.random.seed(2)
    changes = {"rand_crop": 1, "rand_pad": 0.7, "rand_mirror": True, "mean": True, "std": True, "brightness": 0.1}
    more = {"contrast": 0.1, "saturation": 0.1, "hue": 0.1, "pca_noise": 0.1, "rand_gray": 0.2, "resize": 36}
    iterator = mx.image.ImageDetIter(
        5, (3, 32, 32), path_root=str(tmp_path), imglist=_labelled(tmp_path), **changes, **more
    )
    for _ in range(5):
        iterator.reset()
        batch = iterator.next()
        labels = batch.label[0].asnumpy()
        objects = labels[labels[..., 0] >= 0]
        assert np.isfinite(batch.data[0].asnumpy()).all()
        assert len(objects)
        assert (objects[:, 1:] >= 0).all() and (objects[:, 1:] <= 1).all()  # noqa: PT018
        assert (objects[:, 3:] > objects[:, 1:3]).all()
    iterator.reset()
    pictures = list(iterator.draw_next(color=(255, 0, 0), mean=True, std=True))
    assert pictures
    assert pictures[0].shape == (32, 32, 3)
    assert (pictures[0].reshape(-1, 3) == [255, 0, 0]).all(1).any()


def test_boxes_follow_their_images():
    image = np.zeros((20, 10, 3), np.uint8)
    image[4:8, 2:5] = 255
    label = np.array([[3, 0.2, 0.2, 0.5, 0.4, 7]], np.float32)

    def box(source, objects):
        height, width = source.shape[:2]
        left, top, right, bottom = np.round(objects[0, 1:5] * [width, height, width, height]).astype(int)
        return np.asarray(source[top:bottom, left:right])

    mirrored, changed = mx.image.DetHorizontalFlipAug(1.0)(mx.nd.array(image, dtype="uint8"), label)
    assert np.allclose(changed, [[3, 0.5, 0.2, 0.8, 0.4, 7]])
    assert (box(mirrored.asnumpy(), changed) == 255).all()
    random.seed(4)
    padded, changed = mx.image.DetRandomPadAug((0.9, 1.1), (3.0, 4.0), 200, 9)(mx.nd.array(image, dtype="uint8"), label)
    assert padded.shape[0] >= 20
    assert padded.shape[1] > 10
    assert (box(padded.asnumpy(), changed) == 255).all()
    cut, changed = mx.image.DetRandomCropAug(0.99, (0.5, 2), (0.5, 0.9), 0.9, 200)(
        mx.nd.array(image, dtype="uint8"), label
    )
    assert cut.shape[0] * cut.shape[1] < 200
    assert (box(cut.asnumpy(), changed) == 255).all()
    nothing = mx.image.DetRandomCropAug(1.0, (1, 1), (0.01, 0.02), 1.0, 3)(image, label)
    assert nothing[0] is image


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: mx.image.DetRandomCropAug(0.1, (0.75, 1.33), (0.3, 0.9)),
            [
                ((6, 6, 3), [[0, 0.15, 0.2, 0.75, 1]]),
                ((8, 8, 3), [[0, 0.113, 0.15, 0.562, 0.75], [1, 0.338, 0.3, 1, 1]]),
            ],
        ),
        (
            lambda: mx.image.DetRandomCropAug(0.9, (0.5, 2), (0.1, 0.9), 0.5, 5),
            [
                ((12, 9, 3), [[0, 0.1, 0.1, 0.5, 0.5], [1, 0.3, 0.2, 0.9, 0.9]]),
                ((12, 8, 3), [[0, 0.113, 0.1, 0.562, 0.5], [1, 0.338, 0.2, 1, 0.9]]),
            ],
        ),
        (
            lambda: mx.image.DetRandomPadAug(area_range=(1, 3)),
            [
                ((15, 18, 3), [[0, 0.106, 0.147, 0.306, 0.467], [1, 0.206, 0.227, 0.506, 0.787]]),
                ((18, 14, 3), [[0, 0.207, 0.289, 0.464, 0.556], [1, 0.336, 0.356, 0.721, 0.822]]),
            ],
        ),
        (
            lambda: mx.image.DetRandomPadAug((0.5, 1.5), (1.5, 4), 3),
            [
                ((16, 12, 3), [[0, 0.325, 0.262, 0.625, 0.562], [1, 0.475, 0.338, 0.925, 0.862]]),
                ((17, 11, 3), [[0, 0.173, 0.071, 0.5, 0.353], [1, 0.336, 0.141, 0.827, 0.635]]),
            ],
        ),
    ],
    ids=["crop", "strict crop", "pad", "pad with proportions"],
)
def test_random_windows_are_those_of_mxnet(make, expected):
    """As MXNet 1.9.1 draws them from Python's generator."""
    image, label = mx.nd.zeros((12, 9, 3)), np.array([[0, 0.1, 0.1, 0.5, 0.5], [1, 0.3, 0.2, 0.9, 0.9]])
    random.seed(4)
    augmenter = make()
    for shape, objects in expected:
        changed, inside = augmenter(image, label)
        assert changed.shape == shape
        assert np.allclose(inside, objects, atol=6e-4)


def test_objects_of_a_pixel_do_not_make_a_crop():
    image, label = mx.nd.zeros((5, 5, 3)), np.array([[0, 0.4, 0.4, 0.6, 0.6]])
    assert mx.image.DetRandomCropAug(0, (1, 1), (0.5, 0.9), 0)(image, label)[0] is image


def test_random_angles_are_those_of_mxnet():
    """As MXNet 1.9.1 draws them from NumPy's generator."""
    image = mx.nd.random.uniform(shape=(3, 5, 4))
    first, second = mx.image.imrotate(image, 11.95254015709299), mx.image.imrotate(image, 18.60757465489678)
    np.random.seed(0)
    assert np.array_equal(mx.image.random_rotate(image, (-10, 30)).asnumpy(), first.asnumpy())
    np.random.seed(0)
    assert np.array_equal(transforms.RandomRotation((-10, 30))(image).asnumpy(), second.asnumpy())
    np.random.seed(0)
    batch = mx.image.random_rotate(mx.nd.stack(image, image), (-10, 30)).asnumpy()
    assert np.allclose(batch, [first.asnumpy(), second.asnumpy()], atol=1e-5)


def test_detection_augmenters_describe_themselves():
    """As MXNet 1.9.1 prints them."""
    created = mx.image.CreateDetAugmenter((3, 30, 30), 20, 0.5, 0.5, 0.1, True, True, True, 0.1)
    assert [augmenter.dumps() for augmenter in created] == [
        ["detborrowaug", '["resizeaug", {"size": 20, "interp": 2}]'],
        [
            "detrandomselectaug",
            [
                '["detrandomcropaug", {"min_object_covered": 0.1, "aspect_ratio_range": [0.75, 1.33], '
                '"area_range": [0.05, 3.0], "min_eject_coverage": 0.3, "max_attempts": 50}]'
            ],
        ],
        '["dethorizontalflipaug", {"p": 0.5}]',
        [
            "detrandomselectaug",
            [
                '["detrandompadaug", {"aspect_ratio_range": [0.75, 1.33], "area_range": [1.0, 3.0], '
                '"max_attempts": 50, "pad_val": [127, 127, 127]}]'
            ],
        ],
        ["detborrowaug", '["forceresizeaug", {"size": [30, 30], "interp": 2}]'],
        ["detborrowaug", '["castaug", {"type": "float32"}]'],
        ["detborrowaug", ["colorjitteraug", ['["brightnessjitteraug", {"brightness": 0.1}]']]],
        ["detborrowaug", '["randomgrayaug", {"p": 0.1}]'],
        ["detborrowaug", created[-1].augmenter.dumps()],
    ]
    several = mx.image.CreateMultiRandCropAugmenter([0.1, 0.3], [(0.75, 1.33), (0.5, 2)], skip_prob=0.2)
    assert [part.min_object_covered for part in several.aug_list] == [0.1, 0.3]
    with pytest.raises(TypeError, match="invalid Augmenter"):
        mx.image.DetBorrowAug(3)


# -- iterators


def test_sparse_rows(tmp_path):
    (tmp_path / "rows").write_text("1.0 0:0.5 2:1.2\n-2.0\n\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n5 1:3\n")
    iterator = mx.io.LibSVMIter(data_libsvm=str(tmp_path / "rows"), data_shape=(3,), batch_size=2)
    assert iterator.provide_data[0].shape == (2, 3)
    batches = list(iterator)
    assert [batch.data[0].stype for batch in batches] == ["csr"] * 3
    assert np.allclose(batches[1].data[0].asnumpy(), [[0.6, 2.4, 1.2], [0, 0, -1.2]])
    assert [batch.label[0].asnumpy().tolist() for batch in batches] == [[1, -2], [-3, 4], [5, 1]]
    assert batches[-1].pad == 1
    iterator.reset()
    assert [batch.label[0].asnumpy().tolist() for batch in iterator] == [[-2, -3], [4, 5]]
    (tmp_path / "labels").write_text("0 1:1\n0\n0 0:2 1:3\n0 1:4\n0 0:5\n")
    both = mx.io.LibSVMIter(
        str(tmp_path / "rows"), (3,), str(tmp_path / "labels"), (2,), batch_size=3, num_parts=1, part_index=0
    )
    batch = both.next()
    assert batch.label[0].stype == "csr"
    assert batch.label[0].asnumpy().tolist() == [[0, 1], [0, 0], [2, 3]]
    weight = mx.nd.array([[1.0], [2.0], [3.0]])
    assert np.allclose(mx.nd.dot(batch.data[0], weight).asnumpy().ravel(), [4.1, 0, 9.0])
    for text, message in (("1 x:2\n", "line 1 of"), ("1 7:2\n", "columns from 7 to 7"), ("", "no rows")):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(mx.MXNetError, match=message):
            mx.io.LibSVMIter(str(tmp_path / "bad"), (3,), batch_size=1)


def test_images_of_records_with_borders_and_light():
    pytest.importorskip("PIL")
    options = {"path_imgrec": str(FOLDER / "images.rec"), "batch_size": 2, "data_shape": (3, 8, 8)}
    plain = next(mx.io.ImageRecordIter(**options)).data[0].asnumpy()
    first = next(mx.io.ImageRecordIter(**options, pad=40, fill_value=7)).data[0]
    assert first.shape == (2, 3, 8, 8)
    wide = next(mx.io.ImageRecordIter(**{**options, "data_shape": (3, 90, 90)}, pad=40, fill_value=7)).data[0].asnumpy()
    assert (wide[:, :, 0, 0] == 7).all()
    light = next(mx.io.ImageRecordIter(**options, max_random_contrast=0.2, max_random_illumination=5, seed_aug=1))
    scaled = light.data[0].asnumpy()
    assert not np.allclose(scaled, plain)
    # a line for each image: its contrast and its illumination
    for before, after in zip(plain.reshape(2, -1), scaled.reshape(2, -1), strict=True):
        slope, offset = np.polyfit(before, after, 1)
        assert np.allclose(before * slope + offset, after, atol=1e-2)
        assert 0.8 <= slope <= 1.2
        assert abs(offset) <= 5.01


def test_random_changes_of_records_with_boxes_keep_boxes_and_pixels_together(tmp_path):
    path = str(tmp_path / "boxes.rec")
    image = np.zeros((60, 80, 3), np.uint8)
    image[15:45, 20:60] = 255
    label = [2, 5, 1, 0.25, 0.25, 0.75, 0.75]
    with mx.recordio.MXRecordIO(path, "w") as records:
        for number in range(12):
            body = recordio_png(image)
            records.write(mx.recordio.pack(mx.recordio.IRHeader(len(label), label, number, 0), body))
    batches = mx.io.ImageDetRecordIter(
        path, (3, 40, 40), 12, rand_pad_prob=0.5, max_pad_scale=2.0, fill_value=0, rand_mirror_prob=0.5,
        rand_crop_prob=0.7, min_crop_scales=0.5, max_crop_scales=0.95, min_crop_object_coverages=0.5, shuffle=True,
        max_random_hue=9, random_hue_prob=0.5, max_random_contrast=0.1, random_contrast_prob=0.5,
    )  # fmt: skip
    batch = next(batches)
    boxes = batch.label[0].asnumpy()
    assert len({tuple(box) for box in boxes}) > 6
    for pixels, (*_, left, top, right, bottom) in zip(batch.data[0].asnumpy(), boxes, strict=True):
        rows, columns = np.nonzero(pixels.mean(0) > 100)
        found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert np.allclose(np.array(found) / 40, [left, top, right, bottom], atol=0.06)


def recordio_png(image):
    stream = io.BytesIO()
    PIL.Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {"max_rotate_angle": 40}, {"max_shear_ratio": 0.3}, {"random_h": 60}, {"random_s": 60}, {"random_l": 60},
        {"min_random_scale": 0.7, "max_random_scale": 1.4}, {"max_aspect_ratio": 0.3},
        {"min_crop_size": 10, "max_crop_size": 20},
    ],
)  # fmt: skip
def test_random_changes_of_records_have_a_seed(tmp_path, options):
    path = str(tmp_path / "a.rec")
    pixels = np.random.RandomState(0).randint(0, 256, (4, 30, 36, 3)).astype(np.uint8)
    with mx.recordio.MXRecordIO(path, "w") as records:
        for number, image in enumerate(pixels):
            records.write(mx.recordio.pack(mx.recordio.IRHeader(0, number, number, 0), recordio_png(image)))
    first, again, other = (
        next(mx.io.ImageRecordIter(path, (3, 24, 24), 4, seed_aug=seed, **options)).data[0].asnumpy()
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.min() >= 0
    assert first.max() <= 255
