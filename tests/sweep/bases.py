"""Calls that work, of operators that the oracle's cases do not call by keyword."""

from __future__ import annotations

from ..oracle.case import Family, integers, normal, positive_definite, uniform, values

BASES = Family("more")

BASES.call("nd.BatchNorm_v1", normal(2, 3, 2, 2), uniform(3), normal(3), normal(3), uniform(3))
BASES.call("nd.Convolution_v1", normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3), kernel=(3, 3), num_filter=3)
BASES.call("nd.Pooling_v1", normal(1, 2, 4, 4), kernel=(2, 2), pool_type="max")
BASES.call("nd.cast_storage", normal(2, 3), stype="default")
BASES.call("nd.contrib.SyncBatchNorm", normal(2, 3, 2, 2), uniform(3), normal(3), normal(3), uniform(3), key="k")
BASES.call("nd.contrib.SparseEmbedding", integers(2, 3, high=4), normal(4, 2), input_dim=4, output_dim=2)
BASES.call("nd.contrib.fft", normal(2, 4))
BASES.call("nd.contrib.ifft", normal(2, 8))
BASES.call("nd.contrib.count_sketch", normal(2, 3), integers(1, 3, high=2), values([[1, -1, 1]]), out_dim=2)
BASES.call("nd.contrib.group_adagrad_update", normal(3, 2), normal(3, 2), uniform(3, 1), lr=0.1)
BASES.call("nd.multi_sgd_update", normal(2), normal(2), lrs=(0.1,), wds=(0.0,), num_weights=1)
BASES.call("nd.multi_sgd_mom_update", normal(2), normal(2), normal(2), lrs=(0.1,), wds=(0.0,), num_weights=1)
BASES.call("nd.preloaded_multi_sgd_update", normal(2), normal(2), uniform(1), uniform(1), num_weights=1)
BASES.call("nd.contrib.quadratic", normal(2, 3), a=1.0, b=2.0, c=3.0)
BASES.call("nd.linalg.potrf", positive_definite(3, 3))

RANDOM = Family("random")
for name, parameters in {
    "uniform": {"low": 0.0, "high": 1.0},
    "normal": {"loc": 0.0, "scale": 1.0},
    "gamma": {"alpha": 1.0, "beta": 1.0},
    "exponential": {"lam": 1.0},
    "poisson": {"lam": 1.0},
    "negative_binomial": {"k": 1, "p": 0.5},
    "generalized_negative_binomial": {"mu": 1.0, "alpha": 1.0},
    "randint": {"low": 0, "high": 5},
}.items():
    RANDOM.call(f"nd.random_{name}", shape=(2, 3), **parameters)
for name, inputs in {
    "uniform": (uniform(2), uniform(2, low=1.0, high=2.0)),
    "normal": (uniform(2), uniform(2)),
    "gamma": (uniform(2), uniform(2)),
    "exponential": (uniform(2),),
    "poisson": (uniform(2),),
    "negative_binomial": (values([2.0, 3.0]), uniform(2)),
    "generalized_negative_binomial": (uniform(2), uniform(2)),
}.items():
    RANDOM.call(f"nd.sample_{name}", *inputs, shape=(3,))
RANDOM.call("nd.sample_multinomial", values([[0.5, 0.5], [0.1, 0.9]]), shape=(3,))
RANDOM.call("nd.shuffle", normal(4, 2))
for name in ("random_color_jitter", "random_lighting", "random_saturation", "random_flip_left_right"):
    facts = {
        "random_color_jitter": {"brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1},
        "random_lighting": {"alpha_std": 0.1},
        "random_saturation": {"min_factor": 0.5, "max_factor": 1.5},
    }
    RANDOM.call(f"nd.image.{name}", integers(4, 4, 3, high=255), **facts.get(name, {}))
