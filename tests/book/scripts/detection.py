"""Anchor boxes, their overlap, offsets and suppression, by hand and with the operators; a small detector."""

import numpy as onp
from mxnet import autograd, gluon, init, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(31)


def draw(*shape):
    """Return normal numbers."""
    return np.array(generator.normal(0, 1, shape), dtype="float32")


def multibox_prior(data, sizes, ratios):
    """Return anchor boxes of different shapes around each pixel."""
    in_height, in_width = data.shape[-2:]
    num_sizes, num_ratios = len(sizes), len(ratios)
    boxes_per_pixel = num_sizes + num_ratios - 1
    size_tensor, ratio_tensor = np.array(sizes), np.array(ratios)
    offset_h, offset_w = 0.5, 0.5
    steps_h, steps_w = 1.0 / in_height, 1.0 / in_width
    center_h = (np.arange(in_height) + offset_h) * steps_h
    center_w = (np.arange(in_width) + offset_w) * steps_w
    shift_x, shift_y = np.meshgrid(center_w, center_h)
    shift_x, shift_y = shift_x.reshape(-1), shift_y.reshape(-1)
    w = (
        np.concatenate((size_tensor * np.sqrt(ratio_tensor[0]), sizes[0] * np.sqrt(ratio_tensor[1:])))
        * in_height
        / in_width
    )
    h = np.concatenate((size_tensor / np.sqrt(ratio_tensor[0]), sizes[0] / np.sqrt(ratio_tensor[1:])))
    anchor_manipulations = np.tile(np.stack((-w, -h, w, h)).T, (in_height * in_width, 1)) / 2
    out_grid = np.stack([shift_x, shift_y, shift_x, shift_y], axis=1).repeat(boxes_per_pixel, axis=0)
    output = out_grid + anchor_manipulations
    return np.expand_dims(output, axis=0)


X = np.zeros((1, 3, 4, 4))
own = multibox_prior(X, sizes=[0.75, 0.5, 0.25], ratios=[1, 2, 0.5])
given = npx.multibox_prior(X, sizes=[0.75, 0.5, 0.25], ratios=[1, 2, 0.5])
results["anchors"] = own[0, :6].tolist()
results["same"] = bool(np.abs(own - given).max() < 1e-6)
results["at"] = given.reshape(4, 4, 5, 4)[2, 2, 0, :].tolist()


def box_iou(boxes1, boxes2):
    """Return how much pairs of boxes overlap."""

    def areas(boxes):
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

    areas1, areas2 = areas(boxes1), areas(boxes2)
    inter_upperlefts = np.maximum(boxes1[:, None, :2], boxes2[:, :2])
    inter_lowerrights = np.minimum(boxes1[:, None, 2:], boxes2[:, 2:])
    inters = (inter_lowerrights - inter_upperlefts).clip(min=0)
    inter_areas = inters[:, :, 0] * inters[:, :, 1]
    union_areas = areas1[:, None] + areas2 - inter_areas
    return inter_areas / union_areas


def assign_anchor_to_bbox(ground_truth, anchors, iou_threshold=0.5):
    """Return the box that each anchor belongs to, or -1."""
    num_anchors, num_gt_boxes = anchors.shape[0], ground_truth.shape[0]
    jaccard = box_iou(anchors, ground_truth)
    anchors_bbox_map = np.full((num_anchors,), -1, dtype=np.int32)
    max_ious, indices = np.max(jaccard, axis=1), np.argmax(jaccard, axis=1)
    anc_i = np.nonzero(max_ious >= iou_threshold)[0]
    box_j = indices[max_ious >= iou_threshold]
    anchors_bbox_map[anc_i] = box_j
    col_discard = np.full((num_anchors,), -1)
    row_discard = np.full((num_gt_boxes,), -1)
    for _ in range(num_gt_boxes):
        max_idx = np.argmax(jaccard)
        box_idx = (max_idx % num_gt_boxes).astype("int32")
        anc_idx = (max_idx / num_gt_boxes).astype("int32")
        anchors_bbox_map[anc_idx] = box_idx
        jaccard[:, box_idx] = col_discard
        jaccard[anc_idx, :] = row_discard
    return anchors_bbox_map


ground_truth = np.array([[0, 0.1, 0.08, 0.52, 0.92], [1, 0.55, 0.2, 0.9, 0.88]])
anchors = np.array(
    [
        [0, 0.1, 0.2, 0.3],
        [0.15, 0.2, 0.4, 0.4],
        [0.63, 0.05, 0.88, 0.98],
        [0.66, 0.45, 0.8, 0.8],
        [0.57, 0.3, 0.92, 0.9],
    ]
)
results["overlap"] = box_iou(anchors, ground_truth[:, 1:]).tolist()
results["assigned"] = assign_anchor_to_bbox(ground_truth[:, 1:], anchors).tolist()
labels = npx.multibox_target(np.expand_dims(anchors, axis=0), np.expand_dims(ground_truth, axis=0), np.zeros((1, 3, 5)))
results["targets"] = [part.tolist() for part in labels]


def box_corner_to_center(boxes):
    """Return middle and size of boxes."""
    x1, y1, x2, y2 = boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3]
    return np.stack(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1), axis=-1)


def offset_boxes(anchors, assigned_bb, eps=1e-6):
    """Return offsets of boxes."""
    c_anc = box_corner_to_center(anchors)
    c_assigned_bb = box_corner_to_center(assigned_bb)
    offset_xy = 10 * (c_assigned_bb[:, :2] - c_anc[:, :2]) / c_anc[:, 2:]
    offset_wh = 5 * np.log(eps + c_assigned_bb[:, 2:] / c_anc[:, 2:])
    return np.concatenate([offset_xy, offset_wh], axis=1)


results["offsets"] = offset_boxes(anchors, ground_truth[np.array([0, 0, 1, 1, 1]), 1:]).tolist()


def nms(boxes, scores, iou_threshold):
    """Return the boxes that are kept."""
    B = scores.argsort()[::-1]
    keep = []
    while B.size > 0:
        i = B[0]
        keep.append(int(i))
        if B.size == 1:
            break
        iou = box_iou(boxes[i, :].reshape(-1, 4), boxes[B[1:], :].reshape(-1, 4)).reshape(-1)
        inds = np.nonzero(iou <= iou_threshold)[0]
        B = B[inds + 1]
    return keep


anchors = np.array([[0.1, 0.08, 0.52, 0.92], [0.08, 0.2, 0.56, 0.95], [0.15, 0.3, 0.62, 0.91], [0.55, 0.2, 0.9, 0.88]])
offset_preds = np.array([0] * anchors.size)
cls_probs = np.array([[0] * 4, [0.9, 0.8, 0.7, 0.1], [0.1, 0.2, 0.3, 0.9]])
results["kept"] = nms(anchors, cls_probs[1:].max(axis=0), 0.5)
output = npx.multibox_detection(
    np.expand_dims(cls_probs, axis=0),
    np.expand_dims(offset_preds, axis=0),
    np.expand_dims(anchors, axis=0),
    nms_threshold=0.5,
)
results["detected"] = output.tolist()


def flatten_pred(pred):
    """Return predictions as rows."""
    return npx.batch_flatten(pred.transpose(0, 2, 3, 1))


class TinySSD(nn.Block):
    """Two scales of predictions."""

    def __init__(self, num_classes, **kwargs):
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.blk_0 = nn.Sequential()
        self.blk_0.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(in_channels=4), nn.Activation("relu"), nn.MaxPool2D(2))
        self.blk_1 = nn.GlobalMaxPool2D()
        for i in range(2):
            setattr(self, f"cls_{i}", nn.Conv2D(4 * (num_classes + 1), kernel_size=3, padding=1))
            setattr(self, f"bbox_{i}", nn.Conv2D(4 * 4, kernel_size=3, padding=1))

    def forward(self, X):
        """Return anchors, classes and offsets."""
        anchors, cls_preds, bbox_preds = [None] * 2, [None] * 2, [None] * 2
        for i, size in enumerate(([0.2, 0.272], [0.88, 0.961])):
            X = getattr(self, f"blk_{i}")(X)
            anchors[i] = npx.multibox_prior(X, sizes=size, ratios=[1, 2, 0.5])
            cls_preds[i] = getattr(self, f"cls_{i}")(X)
            bbox_preds[i] = getattr(self, f"bbox_{i}")(X)
        anchors = np.concatenate(anchors, axis=1)
        cls_preds = np.concatenate([flatten_pred(p) for p in cls_preds], axis=1)
        cls_preds = cls_preds.reshape(cls_preds.shape[0], -1, self.num_classes + 1)
        bbox_preds = np.concatenate([flatten_pred(p) for p in bbox_preds], axis=1)
        return anchors, cls_preds, bbox_preds


net = TinySSD(num_classes=1)
net.initialize(init=init.Xavier())
X = draw(2, 3, 8, 8)
Y = np.array([[[0, 0.1, 0.1, 0.5, 0.6]], [[0, 0.4, 0.3, 0.9, 0.9]]])
anchors, cls_preds, bbox_preds = net(X)
results["shapes"] = [list(part.shape) for part in (anchors, cls_preds, bbox_preds)]
numbers = onp.random.RandomState(7)
for name, parameter in net.collect_params().items():
    if "conv" in name:
        parameter.set_data(np.array(numbers.normal(0, 0.1, parameter.shape), dtype="float32"))
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.2, "wd": 5e-4})
cls_loss = gluon.loss.SoftmaxCrossEntropyLoss()
bbox_loss = gluon.loss.L1Loss()
history = []
for _ in range(4):
    with autograd.record():
        anchors, cls_preds, bbox_preds = net(X)
        bbox_labels, bbox_masks, cls_labels = npx.multibox_target(anchors, Y, cls_preds.transpose(0, 2, 1))
        loss = cls_loss(cls_preds, cls_labels) + bbox_loss(bbox_preds * bbox_masks, bbox_labels * bbox_masks)
    loss.backward()
    trainer.step(2)
    errors = float((cls_preds.argmax(axis=-1).astype(cls_labels.dtype) == cls_labels).sum())
    history.append([float(loss.sum()), errors])
results["trained"] = history
anchors, cls_preds, bbox_preds = net(X)
cls_probs = npx.softmax(cls_preds).transpose(0, 2, 1)
output = npx.multibox_detection(cls_probs, bbox_preds, anchors)
idx = [i for i, row in enumerate(output[0]) if row[0] != -1]
results["boxes"] = [len(idx), output[0, idx[0]].tolist()]
X = np.arange(16).reshape(1, 1, 4, 4)
rois = np.array([[0, 0, 0, 20, 20], [0, 0, 10, 30, 30]])
results["roi"] = npx.roi_pooling(X, rois, pooled_size=(2, 2), spatial_scale=0.1).tolist()
