"""Load batches with the pipelines of GluonCV's training scripts, with workers; print lines of JSON for each.

Run it with a Python that has GluonCV and ``mxnet``, real or not; arguments are those of ``gluoncv_models.py``. A pipeline
is a made-up dataset, a transform, a batchify function and a loader with two workers. Transforms for training draw random
numbers, so only the ranks of their batches are printed; the others give the same numbers with both libraries.
"""

import mxnet as mx
import numpy as np
from gluoncv_models import flat, run, summary
from mxnet import gluon

EXAMPLES, WORKERS = 6, 2


class Boxes(gluon.data.Dataset):
    """A dataset of images with boxes (x1, y1, x2, y2, class), as those of VOC and COCO."""

    classes = ("one", "two", "three")
    #: how many boxes images have
    counts = (1, 3, 2, 1, 4, 2)

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        random = np.random.RandomState(index)
        image = mx.nd.array(random.randint(0, 255, (120 + 8 * index, 160, 3)), dtype="uint8")
        first = random.randint(0, 50, (self.counts[index], 2))
        last = first + random.randint(20, 60, first.shape)
        return image, np.concatenate([first, last, random.randint(0, 3, (len(first), 1))], 1).astype("float32")

    def get_im_aspect_ratio(self):
        """Return the ratio of width to height of all images."""
        return [160 / (120 + 8 * index) for index in range(EXAMPLES)]


def load(dataset, transform, batchify, **options):
    """Return the batches of a loader with workers."""
    loader = gluon.data.DataLoader(
        dataset.transform(transform),
        batchify_fn=batchify,
        num_workers=WORKERS,
        **{"batch_size": 2, **options},
    )
    return [flat(list(batch)) for batch in loader]


def stack_and_pad():
    """Return the batchify function of most detectors."""
    from gluoncv.data.batchify import Pad, Stack, Tuple

    return Tuple(Stack(), Pad(pad_val=-1))


def ssd_train():
    """Load batches as train_ssd.py."""
    from gluoncv.data.batchify import Stack, Tuple
    from gluoncv.data.transforms.presets.ssd import SSDDefaultTrainTransform
    from gluoncv.model_zoo import get_model

    net = get_model("ssd_300_vgg16_atrous_voc", pretrained_base=False)
    net.initialize()
    with mx.autograd.train_mode():
        anchors = net(mx.nd.zeros((1, 3, 300, 300)))[2]
    return load(Boxes(), SSDDefaultTrainTransform(300, 300, anchors), Tuple(Stack(), Stack(), Stack()))


def ssd_validation():
    """Load batches as the validation of train_ssd.py."""
    from gluoncv.data.transforms.presets.ssd import SSDDefaultValTransform

    return load(Boxes(), SSDDefaultValTransform(300, 300), stack_and_pad(), last_batch="keep")


def yolo_train():
    """Load batches as train_yolo3.py."""
    from gluoncv.data.batchify import Pad, Stack, Tuple
    from gluoncv.data.transforms.presets.yolo import YOLO3DefaultTrainTransform
    from gluoncv.model_zoo import get_model

    net = get_model("yolo3_mobilenet1.0_voc", pretrained_base=False)
    net.initialize()
    batchify = Tuple(*([Stack()] * 6 + [Pad(axis=0, pad_val=-1)]))
    return load(Boxes(), YOLO3DefaultTrainTransform(96, 96, net), batchify)


def yolo_random_sizes():
    """Load batches of several sizes, with GluonCV's own loader: its iterator derives from MXNet's."""
    from gluoncv.data.batchify import Pad, Stack, Tuple
    from gluoncv.data.dataloader import RandomTransformDataLoader
    from gluoncv.data.transforms.presets.yolo import YOLO3DefaultTrainTransform
    from gluoncv.model_zoo import get_model

    net = get_model("yolo3_mobilenet1.0_voc", pretrained_base=False)
    net.initialize()
    transforms = [YOLO3DefaultTrainTransform(size, size, net) for size in (96, 96)]
    batchify = Tuple(*([Stack()] * 6 + [Pad(axis=0, pad_val=-1)]))
    loader = RandomTransformDataLoader(
        transforms, Boxes(), batch_size=2, interval=2, last_batch="rollover", batchify_fn=batchify, num_workers=WORKERS
    )
    return [flat(list(batch)) for batch in loader]


def faster_rcnn_validation():
    """Load batches as the validation of train_faster_rcnn.py: a list of arrays for each batch."""
    from gluoncv.data.batchify import Append, Tuple
    from gluoncv.data.transforms.presets.rcnn import FasterRCNNDefaultValTransform

    batchify = Tuple(*[Append() for _ in range(3)])
    return load(Boxes(), FasterRCNNDefaultValTransform(120, 200), batchify, last_batch="keep")


def faster_rcnn_train():
    """Load batches as train_faster_rcnn.py, from buckets of similar shapes."""
    from gluoncv.data.batchify import FasterRCNNTrainBatchify
    from gluoncv.data.sampler import SplitSortedBucketSampler
    from gluoncv.data.transforms.presets.rcnn import FasterRCNNDefaultTrainTransform
    from gluoncv.model_zoo import get_model

    net = get_model("faster_rcnn_resnet50_v1b_voc", pretrained_base=False)
    net.initialize()
    dataset = Boxes()
    sampler = SplitSortedBucketSampler(dataset.get_im_aspect_ratio(), 2, num_parts=1, part_index=0, shuffle=True)
    transform = FasterRCNNDefaultTrainTransform(120, 200, net)
    loader = gluon.data.DataLoader(
        dataset.transform(transform),
        batch_sampler=sampler,
        batchify_fn=FasterRCNNTrainBatchify(net),
        num_workers=WORKERS,
    )
    return [flat(list(batch)) for batch in loader]


def center_net_train():
    """Load batches as train_center_net.py."""
    from gluoncv.data.batchify import Stack, Tuple
    from gluoncv.data.transforms.presets.center_net import CenterNetDefaultTrainTransform

    transform = CenterNetDefaultTrainTransform(128, 128, num_class=3, scale_factor=4)
    return load(Boxes(), transform, Tuple(*[Stack() for _ in range(6)]))


class Images(Boxes):
    """A dataset of images with a class."""

    def __getitem__(self, index):
        image, boxes = super().__getitem__(index)
        return image, int(boxes[0, 4])


def first_of(block):
    """Return a transform of pairs that changes the image."""
    return lambda image, label: (block(image), label)


def classification_train():
    """Load batches as train_imagenet.py."""
    from mxnet.gluon.data.vision import transforms

    jitter = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4}
    block = transforms.Compose(
        [
            transforms.RandomResizedCrop(64),
            transforms.RandomFlipLeftRight(),
            transforms.RandomColorJitter(**jitter),
            transforms.RandomLighting(0.1),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    return load(Images(), first_of(block), None, shuffle=True)


def classification_validation():
    """Load batches as the validation of train_imagenet.py."""
    from mxnet.gluon.data.vision import transforms

    block = transforms.Compose(
        [
            transforms.Resize(80, keep_ratio=True),
            transforms.CenterCrop(64),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    return load(Images(), first_of(block), None)


def cifar_train():
    """Load batches as train_cifar10.py, with crops of GluonCV."""
    import gluoncv.data.transforms.block as blocks
    from mxnet.gluon.data.vision import transforms

    block = transforms.Compose([blocks.RandomCrop(32, pad=4), transforms.RandomFlipLeftRight(), transforms.ToTensor()])
    return load(Images(), first_of(block), None, shuffle=True)


RANDOM = [ssd_train, yolo_train, yolo_random_sizes, faster_rcnn_train, center_net_train]
RANDOM += [classification_train, cifar_train]
FIXED = [ssd_validation, faster_rcnn_validation, classification_validation]
PIPELINES = {pipeline.__name__: pipeline for pipeline in (*RANDOM, *FIXED)}


def attempt(name):
    """Load all batches of a pipeline and return their shapes, with means and deviations where they are not random."""
    batches = PIPELINES[name]()
    if PIPELINES[name] in FIXED:
        return {"outputs": [each for batch in batches for each in summary(batch)]}
    # the order of examples, and so the longest list of boxes of a batch, is random
    kinds = sorted({f"{batch[0].dtype} {[len(each.shape) for each in batch]}" for batch in batches})
    return {"batches": len(batches), "kinds": kinds}


if __name__ == "__main__":
    run(attempt, lambda: list(PIPELINES))
