"""Cases of activation functions, Dropout in its deterministic uses and loss-like identities."""

from __future__ import annotations

from ..case import Family, integers, normal, values

family = Family("activation")

SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 30.0, -30.0, 100.0, -100.0]

for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
    family.call("nd.Activation", normal(3, 4, scale=2), act_type=kind)
    family.call("nd.Activation", normal(1, 2, 3, 2, scale=2), act_type=kind)
    family.call("nd.Activation", normal(5, dtype="float64", scale=2), act_type=kind)
    family.call("nd.Activation", normal(5, dtype="float16", scale=2), act_type=kind)
    family.call("nd.Activation", values(SPECIAL), act_type=kind, tag="special")
    family.call("nd.Activation", values(SPECIAL, "float64"), act_type=kind, tag="special")
    family.call("nd.Activation", normal(2, 3), act_type=kind, train=True)
family.call("nd.Activation", normal(2, 3), act_type="zzz")
family.call("nd.Activation", normal(2, 3))
family.call("nd.Activation", integers(2, 3, dtype="int32"), act_type="relu")
for name in ("relu", "sigmoid", "softsign"):
    family.call(f"nd.{name}", normal(2, 3, 4, scale=3))

for kind in ("leaky", "elu", "selu", "gelu"):
    family.call("nd.LeakyReLU", normal(3, 4, scale=2), act_type=kind)
    double = "elementwise" if kind == "elu" else "single"
    family.call("nd.LeakyReLU", normal(5, dtype="float64", scale=2), act_type=kind, tolerance=double)
    family.call("nd.LeakyReLU", normal(5, dtype="float16", scale=2), act_type=kind)
    family.call("nd.LeakyReLU", values(SPECIAL), act_type=kind, tag="special")
    family.call("nd.LeakyReLU", normal(2, 3), act_type=kind, train=True)
for slope in (0.1, 1.5, 0.0):
    family.call("nd.LeakyReLU", normal(3, 4), act_type="leaky", slope=slope)
    family.call("nd.LeakyReLU", normal(3, 4), act_type="elu", slope=slope)
family.call("nd.LeakyReLU", normal(3, 4))
family.call("nd.LeakyReLU", normal(2, 3), normal(3), act_type="prelu", tolerance="sum")
family.call("nd.LeakyReLU", normal(2, 3, 2, 2), normal(3), act_type="prelu", tolerance="sum")
family.call("nd.LeakyReLU", normal(2, 3, 4), normal(1), act_type="prelu", tolerance="sum")
family.call(
    "nd.LeakyReLU", normal(2, 3, dtype="float64"), normal(3, dtype="float64"), act_type="prelu", tolerance="single"
)
# In predict mode the second output of rrelu, its mask, is left unset.
family.expression("nd.LeakyReLU(x, act_type='rrelu')[0]", normal(3, 4))
family.expression("nd.LeakyReLU(x, act_type='rrelu', lower_bound=0.2, upper_bound=0.4)[0]", normal(3, 4))
family.call("nd.LeakyReLU", normal(3, 4), act_type="zzz")

for train in (False, True):
    family.call("nd.Dropout", normal(3, 4), p=0.0, train=train, tolerance="exact")
    family.call("nd.Dropout", normal(3, 4, dtype="float64"), p=0.0, train=train, tolerance="exact")
family.call("nd.Dropout", normal(3, 4), tolerance="exact")
family.call("nd.Dropout", normal(3, 4), p=0.7, tolerance="exact")
family.call("nd.Dropout", normal(3, 4), p=0.7, axes=(0,), tolerance="exact")
family.call("nd.Dropout", normal(3, 4, dtype="float16"), p=0.7, tolerance="exact")
family.call("nd.Dropout", normal(3, 4), p=1.0, tolerance="exact")
family.call("nd.Dropout", normal(3, 4), p=1.0, train=True, tolerance="exact")
family.call("nd.Dropout", normal(3, 4), p=1.5)
family.call("nd.Dropout", normal(3, 4), mode="zzz")
family.expression("nd.Dropout(x, p=0.5, mode='always').shape", normal(3, 4), grad=False)
family.expression("set(nd.Dropout(nd.ones((1000,)), p=0.5).asnumpy().tolist()) == {0.0, 2.0}", train=True)
family.expression(
    "set(nd.Dropout(nd.ones((500, 2)), p=0.5, axes=(1,)).sum(axis=1).asnumpy().tolist()) == {0.0, 4.0}", train=True
)
