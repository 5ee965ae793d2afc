"""Cases of operators with a gradient of their own: outputs, losses and CTC."""

from __future__ import annotations

from ..case import Family, integers, normal, uniform, values

family = Family("loss", tolerance="sum")

LABELS = values([0, 2, 1, 2])
for normalization in ("null", "batch", "valid"):
    for scale in (1.0, 0.5):
        options = {"normalization": normalization, "grad_scale": scale}
        family.call("nd.SoftmaxOutput", normal(4, 3), LABELS, **options)
        family.call("nd.SoftmaxOutput", normal(4, 3), LABELS, use_ignore=True, ignore_label=2, **options)
    shaped = normal(2, 3, 4), integers(2, 4, high=3)
    family.call("nd.SoftmaxOutput", *shaped, multi_output=True, normalization=normalization)
    family.call(
        "nd.SoftmaxOutput", *shaped, multi_output=True, use_ignore=True, ignore_label=1, normalization=normalization
    )
    shaped = normal(2, 3, 2, 2), integers(2, 2, 2, high=3)
    family.call("nd.SoftmaxOutput", *shaped, multi_output=True, normalization=normalization)
    shaped = normal(2, 4, 3), integers(2, 4, high=3)
    family.call("nd.SoftmaxOutput", *shaped, preserve_shape=True, normalization=normalization)
for alpha in (0.1, 0.3):
    family.call("nd.SoftmaxOutput", normal(4, 3), LABELS, smooth_alpha=alpha)
    family.call("nd.SoftmaxOutput", normal(4, 3), LABELS, smooth_alpha=alpha, use_ignore=True, ignore_label=0)
family.call("nd.SoftmaxOutput", normal(4, 3), LABELS, out_grad=True)
family.call("nd.SoftmaxOutput", normal(4, 3), LABELS)
family.call("nd.SoftmaxOutput", normal(4, 3), LABELS, train=True)
family.call("nd.SoftmaxOutput", normal(4, 3), uniform(4, 3), tag="probabilities")
family.call("nd.SoftmaxOutput", normal(2, 3, 4), integers(2, high=12), tag="flattened")
family.call("nd.SoftmaxOutput", normal(4, 3), values([-1, 2, 1, -1]), use_ignore=True)
family.call(
    "nd.SoftmaxOutput", normal(4, 3), values([0, 0, 0, 0]), use_ignore=True, ignore_label=0, normalization="valid"
)
family.call("nd.Softmax", normal(4, 3), LABELS)
for dtype in ("float64", "float16"):
    family.call("nd.SoftmaxOutput", normal(4, 3, dtype=dtype), values([0, 2, 1, 2], dtype))
family.call("nd.SoftmaxOutput", normal(4, 3), values([0, 2]))
family.call("nd.SoftmaxOutput", normal(4, 3), LABELS, normalization="zzz")

for name in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"):
    family.call(f"nd.{name}", normal(4, 3), uniform(4, 3))
    family.call(f"nd.{name}", normal(4, 3), uniform(4, 3), grad_scale=0.25)
    family.call(f"nd.{name}", normal(4), uniform(4))
    family.call(f"nd.{name}", normal(4, 1), uniform(4))
    family.call(f"nd.{name}", normal(2, 3, 2), uniform(2, 3, 2))
    family.call(f"nd.{name}", normal(4, 3, dtype="float64"), uniform(4, 3, dtype="float64"), tolerance="single")
    family.call(f"nd.{name}", values([[1.0, -2.0]]), values([[1.0, -2.0]]), tag="equal")
    family.call(f"nd.{name}", normal(4, 3), uniform(4, 2))

for linear in (False, True):
    family.call("nd.SVMOutput", normal(4, 3), LABELS, use_linear=linear)
    family.call("nd.SVMOutput", normal(4, 3), LABELS, use_linear=linear, margin=0.5, regularization_coefficient=0.3)
family.call("nd.SVMOutput", normal(4, 3, dtype="float64"), values([0, 2, 1, 2], "float64"))

for normalization in ("null", "batch", "valid"):
    for threshold in (0.0, 0.5):
        options = {"normalization": normalization, "valid_thresh": threshold}
        family.call("nd.MakeLoss", normal(3, 4), **options)
        family.call("nd.MakeLoss", normal(5), grad_scale=2.5, **options)
family.call("nd.MakeLoss", normal(3, dtype="float64"))
family.expression("nd.MakeLoss(x * x, grad_scale=0.5) * 7", normal(3))

family.call("nd.softmax_cross_entropy", normal(4, 3), LABELS, grad=(0,))
family.call("nd.softmax_cross_entropy", normal(4, 3, dtype="float64"), values([0, 2, 1, 2], "float64"), grad=(0,))
family.call("nd.softmax_cross_entropy", normal(4, 3), values([0, 2]))

TARGETS = [[1, 2, 0, 0], [3, 3, 1, 0], [2, 0, 0, 0]]
PADDED = [[0, 1, -1, -1], [2, 2, 0, -1], [1, -1, -1, -1]]
for name in ("CTCLoss", "ctc_loss", "contrib.CTCLoss", "contrib.ctc_loss"):
    family.call(f"nd.{name}", normal(7, 3, 4), values(TARGETS), grad=(0,))
family.call("nd.CTCLoss", normal(7, 3, 4), values(PADDED), blank_label="last", grad=(0,))
family.call("nd.CTCLoss", normal(7, 3, 4), values(TARGETS), values([7, 6, 3]), use_data_lengths=True, grad=(0,))
family.expression(
    "nd.CTCLoss(x, y, label_lengths=z, use_label_lengths=True)",
    normal(7, 3, 4),
    values([[1, 2, 3, 3], [3, 3, 1, 0], [2, 1, 1, 1]]),
    values([2, 3, 1]),
    grad=(0,),
)
family.call(
    "nd.CTCLoss",
    normal(7, 3, 4),
    values([[1, 2, 3, 3], [3, 3, 1, 0], [2, 1, 1, 1]]),
    values([7, 5, 4]),
    values([2, 3, 1]),
    use_data_lengths=True,
    use_label_lengths=True,
    grad=(0,),
)
family.call(
    "nd.CTCLoss",
    normal(7, 3, 4),
    values([[0, 1, 2, 2], [2, 2, 0, 0], [1, 0, 0, 0]]),
    values([7, 5, 4]),
    values([2, 3, 1]),
    use_data_lengths=True,
    use_label_lengths=True,
    blank_label="last",
    grad=(0,),
)
family.call("nd.CTCLoss", normal(2, 1, 4), values([[1, 1, 1]]), grad=(0,), tag="impossible")
family.call("nd.CTCLoss", normal(5, 2, 4), values([[1, 2], [3, 0]], "int32"), grad=(0,))
family.call("nd.CTCLoss", normal(5, 2, 4, scale=20), values([[1, 2], [3, 0]]), grad=(0,), tag="steep")
