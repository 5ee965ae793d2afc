"""Examples that are taken and transformed all at once: the same batches as one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

import phonograd as mx
from phonograd.gluon import data
from phonograd.gluon.data import columns
from phonograd.gluon.data.batchify import default_batchify_fn
from phonograd.gluon.data.vision import transforms

COUNT = 7
DRAW = np.random.RandomState(0)
IMAGES = mx.nd.array(DRAW.randint(0, 256, (COUNT, 6, 5, 3)), dtype="uint8")
LABELS = DRAW.randint(0, 5, COUNT).astype("int32")
FLOATS = mx.nd.array(DRAW.rand(COUNT, 3, 4, 5))


class Brighter(data.ArrayDataset):
    """Overrides how an example is taken."""

    def __getitem__(self, idx):
        image, label = super().__getitem__(idx)
        return image + 1, label


class Other:
    def __getitem__(self, idx):
        return mx.nd.full((6, 5, 3), idx, dtype="uint8"), -idx


class Mixed(Other, data.ArrayDataset):
    """Inherits how an example is taken from elsewhere."""


class Doubling(transforms.Normalize):
    """Overrides what a transformation computes."""

    def hybrid_forward(self, F, x):
        return x * 2


class Unchanged(transforms.ToTensor):
    def forward(self, x):
        return x.astype("float32")


class Tripled(transforms.Compose):
    def forward(self, x):
        return super().forward(x) * 3


SOURCES = {
    "arrays": data.ArrayDataset(IMAGES, LABELS),
    "three parts": data.ArrayDataset(IMAGES, LABELS.astype("float64"), FLOATS),
    "list of labels": data.ArrayDataset(IMAGES, LABELS.tolist()),
    "lists": data.ArrayDataset(list(IMAGES), LABELS.tolist()),
    "no labels": data.SimpleDataset(IMAGES),
    "numbers": data.SimpleDataset(mx.nd.arange(COUNT)),
    "objects": data.SimpleDataset(np.array(["word"] * COUNT, object)),
    "NumPy": data.ArrayDataset(IMAGES.asnumpy(), LABELS),
    "floats": data.ArrayDataset(FLOATS.astype("float16"), LABELS),
    "clips": data.ArrayDataset(IMAGES.reshape((COUNT, 2, 3, 5, 3)), LABELS),
    "gray": data.ArrayDataset(IMAGES[:, :, :, 0], LABELS),
    "of many sizes": data.ArrayDataset([image[: number + 1] for number, image in enumerate(IMAGES)], LABELS),
    "a part": data.ArrayDataset(IMAGES, LABELS).shard(2, 1).take(2),
    "overridden": Brighter(IMAGES, LABELS),
    "mixed": Mixed(IMAGES, LABELS),
}
TENSOR = transforms.ToTensor()
HOOKED, COMPILED = (transforms.HybridCompose([transforms.ToTensor(), transforms.Cast("float64")]) for _ in range(2))
SEEN = []
HOOKED.register_forward_hook(lambda block, inputs, output: SEEN.append(inputs[0].shape))
COMPILED.hybridize()
TRANSFORMATIONS = {
    "none": None,
    "tensor": TENSOR,
    "normal": transforms.Compose([TENSOR, transforms.Normalize((0.1, 0.2, 0.3), (0.3, 0.2, 0.1))]),
    "wrong": transforms.Compose([TENSOR, transforms.Normalize((0.1, 0.2), 1)]),
    "not yet": transforms.Normalize(0.1, 0.2),
    "cast": transforms.Compose([transforms.Cast("float16"), transforms.Normalize(1, 3)]),
    "random": transforms.Compose([transforms.RandomFlipLeftRight(), transforms.RandomCrop(4), TENSOR]),
    "random between": transforms.Compose([TENSOR, transforms.RandomFlipLeftRight(), transforms.Normalize(1, 3)]),
    "function": transforms.Compose([lambda image: image[:2], TENSOR]),
    "doubling": transforms.Compose([TENSOR, Doubling(0.1, 0.2)]),
    "unchanged": transforms.Compose([Unchanged(), transforms.Cast("float64")]),
    "tripled": Tripled([TENSOR, transforms.Cast("float64")]),
    "hooked": HOOKED,
    "compiled": COMPILED,
}


def batches_of(dataset, batchify_fn):
    """Return what is in the batches of a loader, or the error."""
    np.random.seed(3)
    random.seed(3)
    mx.random.seed(3)
    found = []
    try:
        for batch in data.DataLoader(dataset, 3, shuffle=True, batchify_fn=batchify_fn):
            for part in batch if isinstance(batch, list) else [batch]:
                found.append((type(part), part.dtype, part.shape, part.asnumpy().tobytes()))
    except Exception as error:
        return type(error), str(error)
    return found


@pytest.mark.parametrize("numpy", [False, True], ids=["nd", "np"])
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("source", SOURCES)
def test_batches_are_the_same_as_one_by_one(source, transformation, numpy):
    dataset, function = SOURCES[source], TRANSFORMATIONS[transformation]
    datasets = [dataset]
    if function is not None:
        twice = dataset.transform_first(transforms.RandomFlipTopBottom()).transform_first(function)
        datasets = [dataset.transform_first(function), dataset.transform(function)]
        datasets.append(twice.transform_first(transforms.Cast("float64")))
    with mx.util.np_shape(numpy), mx.util.np_array(numpy):
        for each in datasets:
            expected = batches_of(each, lambda examples: default_batchify_fn(examples))
            assert batches_of(each, None) == expected


def test_examples_are_not_taken_one_by_one_where_they_need_not_be(monkeypatch):
    prepare = transforms.Compose([TENSOR, transforms.Normalize(0.1, 0.2)])
    for source in ("arrays", "three parts", "no labels", "a part"):
        dataset = SOURCES[source].transform_first(prepare)
        assert type(columns.gather_examples(dataset, [0, 1])) is columns.Columns
    dataset = SOURCES["arrays"].transform_first(prepare)
    monkeypatch.setattr(type(TENSOR), "__call__", None)
    assert len(list(data.DataLoader(dataset, 2))) == 4


@pytest.mark.parametrize("array", [IMAGES, LABELS, IMAGES.asnumpy(), FLOATS.astype("float64"), mx.nd.arange(COUNT) + 1])
def test_arrays_are_datasets(array):
    assert batches_of(array, None) == batches_of(array, lambda examples: default_batchify_fn(examples))


def test_hooks_see_every_image():
    SEEN.clear()
    list(data.DataLoader(SOURCES["arrays"].transform_first(HOOKED), 3))
    assert SEEN == [(6, 5, 3)] * COUNT


def test_subclasses_that_override_hybrid_forward_are_obeyed():
    assert np.array_equal(Doubling(0.5, 2)(FLOATS[0]).asnumpy(), 2 * FLOATS[0].asnumpy())
    with pytest.raises(TypeError):
        TENSOR(IMAGES[0], 3)
