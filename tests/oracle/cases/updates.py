"""Cases of updates of weights: what they return, and how they change their states."""

from __future__ import annotations

from typing import Any

from ..case import Family, Spec, normal, uniform, values

family = Family("updates")

WEIGHT, GRAD, STATE = normal(2, 3), normal(2, 3), normal(2, 3)
POSITIVE = uniform(2, 3, low=0.2, high=2.0)
HALF = normal(2, 3, dtype="float16")
RATES: dict[str, Any] = {"lr": 0.1, "wd": 0.05, "rescale_grad": 0.5}
LIMITED: dict[str, Any] = {**RATES, "clip_gradient": 0.25}


def update(name: str, *inputs: Spec, tag: str = "", tolerance: str = "", **parameters: Any) -> None:
    """Declare a case of an update, which has no gradient in MXNet."""
    family.call(f"nd.{name}", *inputs, tag=tag, grad=False, tolerance=tolerance, **parameters)


def wide(spec: Spec) -> Spec:
    """Return the same in double precision."""
    return Spec(spec.kind, spec.shape, "float64", spec.low, spec.high, spec.values)


STATES: dict[str, tuple[Spec, ...]] = {
    "sgd_update": (),
    "sgd_mom_update": (STATE,),
    "nag_mom_update": (STATE,),
    "signsgd_update": (),
    "signum_update": (STATE,),
    "adam_update": (STATE, POSITIVE),
    "rmsprop_update": (POSITIVE,),
    "ftrl_update": (STATE, POSITIVE),
}
for name, states in STATES.items():
    inputs = (WEIGHT, GRAD, *states)
    update(name, *inputs, lr=0.1)
    update(name, *inputs, **RATES)
    update(name, *inputs, **LIMITED)
    update(name, *[wide(spec) for spec in inputs], **RATES, tolerance="single")
    update(name, *inputs)
update("sgd_update", WEIGHT, GRAD, lr=0.1, clip_gradient=0.0)
for name in ("sgd_mom_update", "nag_mom_update", "signum_update"):
    update(name, WEIGHT, GRAD, STATE, momentum=0.9, **LIMITED)
update("signum_update", WEIGHT, GRAD, STATE, momentum=0.9, wd_lh=0.1, **RATES)
update("adam_update", WEIGHT, GRAD, STATE, POSITIVE, beta1=0.8, beta2=0.9, epsilon=0.01, **RATES)
update("rmsprop_update", WEIGHT, GRAD, POSITIVE, gamma1=0.7, epsilon=0.1, clip_weights=0.3, **RATES)
update("ftrl_update", WEIGHT, GRAD, STATE, POSITIVE, lamda1=0.2, beta=0.5, **RATES)
SMALL = normal(2, 3, scale=0.1)
update("rmspropalex_update", WEIGHT, GRAD, POSITIVE, SMALL, STATE, **RATES)
update("rmspropalex_update", WEIGHT, GRAD, POSITIVE, SMALL, STATE, gamma1=0.8, gamma2=0.5, clip_weights=0.5, **LIMITED)
LEADER = (WEIGHT, GRAD, POSITIVE, POSITIVE, STATE)
update("ftml_update", *LEADER, t=3, tolerance="normalization", **RATES)
update("ftml_update", *LEADER, t=1, clip_grad=0.3, beta1=0.5, beta2=0.75, tolerance="normalization", **RATES)

# mixed precision
for name, more in (("sgd", ()), ("sgd_mom", (STATE,)), ("nag_mom", (STATE,))):
    momentum = {"momentum": 0.9} if more else {}
    update(f"mp_{name}_update", HALF, HALF, *more, WEIGHT, **momentum, **RATES)
    update(f"mp_{name}_update", HALF, HALF, *more, WEIGHT, lr=0.3, tag="plain")

# in the ratio of norms
MEANS = (WEIGHT, GRAD, STATE, POSITIVE)
for options in ({}, {"bias_correction": False}, {"clip_gradient": 0.3, "rescale_grad": 0.5}):
    update("lamb_update_phase1", *MEANS, t=4, wd=0.1, tolerance="normalization", **options)
    update(
        "mp_lamb_update_phase1", HALF, HALF, STATE, POSITIVE, WEIGHT, t=4, wd=0.1, tolerance="normalization", **options
    )
for tag, size, slope in (("", 2.0, 3.0), ("nothing", 0.0, 3.0), ("flat", 2.0, 0.0)):
    norms = values([size]), values([slope])
    update("lamb_update_phase2", WEIGHT, GRAD, *norms, lr=0.1, tag=tag)
    update("lamb_update_phase2", WEIGHT, GRAD, *norms, lr=0.1, lower_bound=2.5, tag=tag)
    update("lamb_update_phase2", WEIGHT, GRAD, *norms, lr=0.1, upper_bound=0.5, tag=tag)
    update("mp_lamb_update_phase2", HALF, GRAD, *norms, WEIGHT, lr=0.1, lower_bound=0.1, upper_bound=10.0, tag=tag)
update(
    "multi_lars",
    values([0.1, 0.2, 0.3, 0.4]),
    values([4.0, 0.0, 9.0, 2.0]),
    values([1.0, 1.0, 0.0, 3.0]),
    values([0.01, 0.02, 0.03, 0.0]),
    eta=0.001,
    eps=1e-6,
    rescale_grad=2.0,
)

# several weights
VECTOR = normal(4)
LOADED = values([0.1, 0.2]), values([0.05, 0.0])
SHORT = normal(4, dtype="float16")
for name, first, second in (
    ("multi_sgd", (WEIGHT, GRAD), (VECTOR, VECTOR)),
    ("multi_sgd_mom", (WEIGHT, GRAD, STATE), (VECTOR, VECTOR, VECTOR)),
    ("multi_mp_sgd", (HALF, HALF, WEIGHT), (SHORT, SHORT, VECTOR)),
    ("multi_mp_sgd_mom", (HALF, HALF, STATE, WEIGHT), (SHORT, SHORT, VECTOR, VECTOR)),
):
    momentum = ", momentum=0.9" if "mom" in name else ""
    both = f"[inputs[0], inputs[{len(first)}]]"
    family.statement(
        f"nd.{name}_update(*inputs, lrs=(0.1, 0.2), wds=(0.05, 0.0), num_weights=2{momentum}, out={both})",
        *first,
        *second,
        name=f"{name}_update",
    )
    family.statement(
        f"nd.{name}_update(*inputs, lrs=(0.1,), wds=(0.0,), clip_gradient=0.2, rescale_grad=0.5, out=x)",
        *first,
        name=f"{name}_update of one",
    )
    family.statement(
        f"nd.preloaded_{name}_update(*inputs, num_weights=2, rescale_grad=0.5{momentum}, out={both})",
        *first,
        *second,
        *LOADED,
        name=f"preloaded_{name}_update",
    )

family.statement(
    "nd.sgd_mom_update(x, y, z, lr=0.1, momentum=0.9, out=x)", WEIGHT, GRAD, STATE, name="sgd_mom_update in place"
)
family.statement(
    "nd.nag_mom_update(x, y, z, lr=0.1, wd=0.1, momentum=0.9, out=x)",
    *(WEIGHT, GRAD, STATE),
    name="nag_mom_update in place",
)
family.statement(
    "nd.adam_update(x, y, z, w, lr=0.1, wd=0.1, out=x)", WEIGHT, GRAD, STATE, POSITIVE, name="adam_update in place"
)
DECOUPLED = "nd.contrib.adamw_update(x, y, z, w, rescale_grad={}, lr=0.1, eta=0.7, wd=0.1, clip_gradient=0.4, out=x)"
for scale in ("2.0", "mx.nd.array([0.5])", "0.0", "float('nan')", "float('inf')"):
    family.statement(DECOUPLED.format(scale), WEIGHT, GRAD, STATE, POSITIVE, name=f"adamw_update rescale_grad={scale}")
family.statement(
    "nd.contrib.mp_adamw_update(x, y, z, w, inputs[4], 2.0, 0.1, 0.7, out=x)",
    HALF,
    HALF,
    STATE,
    POSITIVE,
    WEIGHT,
    name="mp_adamw_update",
)
family.statement(
    "nd.contrib.multi_adamw_update(inputs[0:2], inputs[2:4], inputs[4:6], inputs[6:8], 2.0, [0.1, 0.2], [0.1, 0.0], "
    "[1.0, 0.5], out=inputs[0:2])",
    *(normal(3), normal(2, 2)) * 3,
    *(uniform(3, low=0.2), uniform(2, 2, low=0.2)),
    name="multi_adamw_update",
)
family.statement(
    "nd.contrib.multi_lamb_update(inputs[0:2], inputs[2:4], inputs[4:6], inputs[6:8], [1, 5], [0.1, 0.2], [0.1, 0.0], "
    "out=inputs[0:2], lower_bound=0.1, upper_bound=2.0)",
    *(normal(3), normal(2, 2)) * 3,
    *(uniform(3, low=0.2), uniform(2, 2, low=0.2)),
    name="multi_lamb_update",
    tolerance="normalization",
)
family.statement(
    "x[:] = inputs[4]\nnd.contrib.multi_mp_lamb_update(inputs[0:1], inputs[1:2], inputs[2:3], inputs[3:4], inputs[4:5], [2], [0.1], "
    "[0.1], out=inputs[0:1])",
    *(HALF, HALF, STATE, POSITIVE, WEIGHT),
    name="multi_mp_lamb_update",
    tolerance="normalization",
)

# gradients of some rows
SPARSE = "grad = nd.sparse.row_sparse_array((y, [1, 3]), shape=(4, 3))\n"
TALL, ROWS = normal(4, 3), normal(2, 3)
for lazy in (True, False):
    family.statement(
        f"{SPARSE}nd.sgd_update(x, grad, lr=0.1, wd=0.1, lazy_update={lazy}, out=x)",
        *(TALL, ROWS),
        name=f"sgd_update of rows, lazy_update={lazy}",
    )
    family.statement(
        f"{SPARSE}nd.sgd_mom_update(x, grad, z, lr=0.1, wd=0.1, momentum=0.9, lazy_update={lazy}, out=x)",
        *(TALL, ROWS, TALL),
        name=f"sgd_mom_update of rows, lazy_update={lazy}",
    )
    family.statement(
        f"{SPARSE}nd.adam_update(x, grad, z, w, lr=0.1, wd=0.1, lazy_update={lazy}, out=x)",
        *(TALL, ROWS, TALL, uniform(4, 3, low=0.2)),
        name=f"adam_update of rows, lazy_update={lazy}",
    )
family.statement(
    f"{SPARSE}nd.contrib.group_adagrad_update(x, grad, z, lr=0.1, rescale_grad=0.5, out=x)",
    *(TALL, ROWS, uniform(4, 1, low=0.2)),
    name="group_adagrad_update of rows",
)
family.statement(
    f"{SPARSE}w = x.tostype('row_sparse')\nh = z.tostype('row_sparse')\n"
    "nd.sparse.adagrad_update(w, grad, h, lr=0.1, out=w)\nresult = [w.tostype('default'), h.tostype('default')]",
    *(TALL, ROWS, uniform(4, 3, low=0.2)),
    name="adagrad_update of rows",
)
family.statement(
    f"{SPARSE}v = [a.tostype('row_sparse') for a in (x, z, w)]\n"
    "nd.ftrl_update(v[0], grad, v[1], v[2], lr=0.1, wd=0.1, out=v[0])\nresult = [a.tostype('default') for a in v]",
    *(TALL, ROWS, TALL, uniform(4, 3, low=0.2)),
    name="ftrl_update of rows",
)
