"""Samples of updates of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(12)


def _numbers(*shape: int) -> np.ndarray:
    return _generator.normal(size=shape).astype(np.float32)


def _squares(*shape: int) -> np.ndarray:
    return (_generator.uniform(0.5, 2.0, size=shape)).astype(np.float32)


WEIGHT, GRAD, MOMENT, MEAN, LINEAR = [_numbers(2, 3) for _ in range(5)]
SQUARE = _squares(2, 3) + 2
RATES: dict[str, Any] = {"lr": 0.1, "wd": 0.05, "rescale_grad": 0.5}
MIXED = {name: value for name, value in RATES.items() if name != "rescale_grad"}
HALF = WEIGHT.astype(np.float16)
GROUP = [_numbers(2, 3), _numbers(2, 3), _numbers(2), _numbers(2)]
MOMENTS = [*(_numbers(2, 3) for _ in range(3)), *(_numbers(2) for _ in range(3))]
COPIES = [HALF, GRAD, WEIGHT, HALF[0], GRAD[0], WEIGHT[0]]
COPIES_AND_MOMENTS = [HALF, GRAD, MOMENT, WEIGHT, HALF[0], GRAD[0], MOMENT[0], WEIGHT[0]]
LISTS: dict[str, Any] = {"lrs": (0.1, 0.2), "wds": (0.05, 0.0), "num_weights": 2}
LOADED = [np.array([0.1, 0.2], np.float32), np.array([0.05, 0.0], np.float32)]
SCALE = np.array([0.5], np.float32)
MEANS = [WEIGHT, GRAD, MEAN, SQUARE]
PAIRS = [*MEANS, *[array[0] for array in MEANS]]
WIDE = [HALF, GRAD, MEAN, SQUARE, WEIGHT]
TRIPLES = [*WIDE, *[array[0] for array in WIDE]]
NORMS = [np.array([1.5], np.float32), np.array([0.7], np.float32)]
STEPS: dict[str, Any] = {"learning_rates": (0.1, 0.2), "wds": (0.05, 0.0), "step_count": (1, 3), "num_tensors": 2}

SAMPLES = [
    Sample("sgd_update", [WEIGHT, GRAD], RATES),
    Sample("sgd_update", [WEIGHT, GRAD], {"lr": 0.1, "clip_gradient": 0.25}, order=1),
    Sample("sgd_mom_update", [WEIGHT, GRAD, MOMENT], {**RATES, "momentum": 0.9}),
    Sample("mp_sgd_update", [HALF, GRAD, WEIGHT], RATES, order=0),
    Sample("mp_sgd_mom_update", [HALF, GRAD, MOMENT, WEIGHT], {**RATES, "momentum": 0.9}, order=0),
    Sample("nag_mom_update", [WEIGHT, GRAD, MOMENT], {**RATES, "momentum": 0.9}),
    Sample("mp_nag_mom_update", [HALF, GRAD, MOMENT, WEIGHT], {**RATES, "momentum": 0.9}, order=0),
    Sample("signsgd_update", [WEIGHT, GRAD], RATES, order=1),
    Sample("signum_update", [WEIGHT, GRAD, MOMENT], {**RATES, "momentum": 0.9, "wd_lh": 0.1}, order=1),
    Sample("adam_update", MEANS, RATES),
    Sample("_adamw_update", [*MEANS, SCALE], {**MIXED, "eta": 0.7}, wrt=(0, 1, 2, 3)),
    Sample("_mp_adamw_update", [*WIDE, SCALE], {**MIXED, "eta": 0.7}, order=0),
    Sample("rmsprop_update", [WEIGHT, GRAD, SQUARE], RATES),
    Sample("rmsprop_update", [WEIGHT, GRAD, SQUARE], {**RATES, "clip_weights": 0.3}, order=1),
    Sample("rmspropalex_update", [WEIGHT, GRAD, SQUARE, MEAN / 4, MOMENT], RATES),
    Sample("ftrl_update", [WEIGHT, GRAD, LINEAR, SQUARE], RATES, order=1),
    Sample("ftml_update", [WEIGHT, GRAD, SQUARE, SQUARE / 2, LINEAR], {**RATES, "t": 3}),
    Sample("_sparse_adagrad_update", [WEIGHT, GRAD, SQUARE], RATES),
    Sample("_contrib_group_adagrad_update", [WEIGHT, GRAD, SQUARE[:, :1]], {"lr": 0.1}),
    Sample("lamb_update_phase1", MEANS, {"t": 2, "wd": 0.1}),
    Sample("lamb_update_phase1", MEANS, {"t": 2, "wd": 0.1, "bias_correction": False}),
    Sample("lamb_update_phase2", [WEIGHT, GRAD, *NORMS], {"lr": 0.1}),
    Sample("lamb_update_phase2", [WEIGHT, GRAD, *NORMS], {"lr": 0.1, "upper_bound": 1.2}, order=1),
    Sample("mp_lamb_update_phase1", [*WIDE], {"t": 2, "wd": 0.1}, order=0),
    Sample("mp_lamb_update_phase2", [HALF, GRAD, *NORMS, WEIGHT], {"lr": 0.1}, order=0),
    Sample("multi_lars", [*LOADED[:1], SQUARE[0, :2], SQUARE[1, :2], LOADED[1]], {"eta": 0.1, "eps": 1e-6}),
    Sample("multi_sgd_update", GROUP, LISTS),
    Sample("multi_sgd_mom_update", MOMENTS, {**LISTS, "momentum": 0.9}),
    Sample("multi_mp_sgd_update", COPIES, LISTS, order=0),
    Sample("multi_mp_sgd_mom_update", COPIES_AND_MOMENTS, LISTS, order=0),
    Sample("preloaded_multi_sgd_update", [*GROUP, *LOADED], {"num_weights": 2}),
    Sample("preloaded_multi_sgd_mom_update", [*MOMENTS, *LOADED], {"num_weights": 2, "momentum": 0.9}),
    Sample("preloaded_multi_mp_sgd_update", [*COPIES, *LOADED], {"num_weights": 2}, order=0),
    Sample("preloaded_multi_mp_sgd_mom_update", [*COPIES_AND_MOMENTS, *LOADED], {"num_weights": 2}, order=0),
    Sample("_multi_adamw_update", [*PAIRS, SCALE], {**LISTS, "etas": (1.0, 0.7)}, wrt=(0, 1, 4, 5)),
    Sample("_multi_mp_adamw_update", [*TRIPLES, SCALE], {**LISTS, "etas": (1.0, 0.7)}, order=0),
    Sample("_multi_lamb_update", PAIRS, STEPS, order=2),
    Sample("_multi_mp_lamb_update", TRIPLES, STEPS, order=0),
]
