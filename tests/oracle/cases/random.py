"""Cases of random operators: what does not depend on the draw (shapes, dtypes, ranges, errors)."""

from __future__ import annotations

from ..case import Family, counting, normal, uniform, values

family = Family("random", tolerance="exact")

SAMPLERS = {
    "uniform": ("0, 1", "-2, 3"),
    "normal": ("0, 1", "5, 0.1"),
    "gamma": ("2, 1", "0.5, 3"),
    "exponential": ("1", "0.2"),
    "poisson": ("4", "0.5"),
    "negative_binomial": ("3, 0.5",),
    "generalized_negative_binomial": ("2, 0.3",),
}
for sampler, settings in SAMPLERS.items():
    for parameters in settings:
        for shape in ("(2, 3)", "4", "(1,)"):
            family.expression(f"nd.random.{sampler}({parameters}, shape={shape}).shape")
        family.expression(f"nd.random.{sampler}({parameters}).shape")
        family.expression(f"nd.random.{sampler}({parameters}, shape=(2,)).dtype")
        for dtype in ("float64", "float16"):
            family.expression(f"nd.random.{sampler}({parameters}, shape=(2,), dtype='{dtype}').dtype")
    family.expression(f"nd.random.{sampler}({settings[0]}, shape=(2,), dtype='int32').dtype")
    family.expression(f"nd.random.{sampler}_like(data=x).shape", normal(2, 3), grad=False)
    family.expression(f"nd.random.{sampler}_like(data=x).dtype", normal(2, 3, dtype="float64"), grad=False)
for code in (
    "((lambda r: (r >= -2) * (r < 3))(nd.random.uniform(-2, 3, shape=(500,)))).min()",
    "(nd.random.gamma(2, 1, shape=(500,)) > 0).min()",
    "(nd.random.exponential(2, shape=(500,)) >= 0).min()",
    "(lambda r: (r == nd.floor(r)).min())(nd.random.poisson(4, shape=(500,)))",
    "nd.abs(nd.random.normal(5, 0.1, shape=(4000,)).mean() - 5) < 0.02",
    "nd.abs(nd.random.uniform(0, 1, shape=(4000,)).mean() - 0.5) < 0.05",
    "nd.abs(nd.random.gamma(2, 3, shape=(4000,)).mean() - 6) < 0.6",
    "nd.abs(nd.random.exponential(3, shape=(4000,)).mean() - 3) < 0.4",
    "nd.abs(nd.random.poisson(4, shape=(4000,)).mean() - 4) < 0.25",
    "nd.abs(nd.random.negative_binomial(3, 0.5, shape=(4000,)).mean() - 3) < 0.4",
    "nd.abs(nd.random.generalized_negative_binomial(2, 0.3, shape=(4000,)).mean() - 2) < 0.3",
    "(lambda r: (r >= 3) * (r < 7))(nd.random.randint(3, 7, shape=(500,))).min()",
    "nd.random.randint(0, 5, shape=(2, 3)).dtype",
    "nd.random.randint(0, 5, shape=(2, 3), dtype='int64').dtype",
    "nd.random.randint(0, 5).shape",
    "nd.random.randn(2, 3).shape",
    "nd.random.randn(2, 3, loc=1, scale=0.5, dtype='float64').dtype",
    "nd.random.randn().shape",
    "nd.random_uniform(0, 1, shape=(2, 3)).shape",
    "nd.random_normal(0, 1, shape=(2, 3)).shape",
    "nd.random_uniform(low=0, high=1, shape=(2, 3), dtype='float64').dtype",
    "nd.uniform(0, 1, shape=(2, 3)).shape",
    "nd.normal(0, 1, shape=(2, 3)).shape",
    "nd.random_gamma(2, 1, shape=(2,)).shape",
    "nd.random_exponential(2, shape=(2,)).shape",
    "nd.random_poisson(2, shape=(2,)).shape",
    "nd.random_negative_binomial(2, 0.5, shape=(2,)).shape",
    "nd.random_generalized_negative_binomial(2, 0.5, shape=(2,)).shape",
    "nd.random_randint(0, 5, shape=(2,)).shape",
    "mx.random.uniform(0, 1, shape=(2, 3)).shape",
    "mx.random.normal(0, 1, shape=(2, 3)).shape",
    "mx.random.randint(0, 3, shape=(2, 3)).shape",
    "mx.random.seed(3)",
    "nd.random.normal(0, -1, shape=(2,))",
    "nd.random.gamma(-1, 1, shape=(2,))",
    "nd.random.uniform(0, 1, shape=(2,), dtype='zzz')",
):
    family.expression(code)
family.statement(
    "mx.random.seed(7)\nv = nd.random.normal(shape=(50,))\n"
    "mx.random.seed(7)\nresult = (v == nd.random.normal(shape=(50,))).min()"
)
family.statement("v = nd.random.normal(shape=(50,))\nresult = (v == nd.random.normal(shape=(50,))).sum() < 3")
family.statement("nd.random.uniform(5, 6, out=x)\nresult = ((x >= 5) * (x < 6)).min()\nx[:] = 0", normal(20))

for sampler, parameters in (
    ("uniform", (values([0.0, 10.0]), values([1.0, 11.0]))),
    ("normal", (values([0.0, 100.0]), values([0.1, 0.2]))),
    ("gamma", (values([1.0, 2.0]), values([1.0, 2.0]))),
):
    for shape in ("", ", shape=3", ", shape=(2, 3)"):
        family.expression(f"nd.random.{sampler}(x, y{shape}).shape", *parameters, grad=False)
        family.expression(f"nd.sample_{sampler}(x, y{shape}).shape", *parameters, grad=False)
for sampler in ("exponential", "poisson"):
    family.expression(f"nd.random.{sampler}(x, shape=(2,)).shape", values([1.0, 2.0, 3.0]), grad=False)
    family.expression(f"nd.sample_{sampler}(x, shape=(2,)).shape", values([1.0, 2.0, 3.0]), grad=False)
family.expression(
    "nd.random.uniform(x, y, shape=(50,)).mean(axis=1) > x", values([0.0, 10.0]), values([1.0, 11.0]), grad=False
)
family.expression("nd.random.uniform(x, y[:1])", values([0.0, 10.0]), values([1.0, 11.0]), grad=False)
family.expression("nd.random.uniform(x, 3)", values([0.0, 10.0]), grad=False)
family.expression("nd.random.normal(x, y).sum() * 0 + x.sum()", normal(3), uniform(3, low=1, high=2), tolerance="sum")

CHANCES = values([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
for name in ("random.multinomial", "sample_multinomial"):
    family.expression(f"nd.{name}(x)", CHANCES, grad=False)
    family.expression(f"nd.{name}(x, shape=4)", CHANCES, grad=False)
    family.expression(f"nd.{name}(x, shape=(2, 2))", CHANCES, grad=False)
    family.expression(f"nd.{name}(x, get_prob=True)", CHANCES, grad=False)
    family.expression(f"nd.{name}(x, dtype='float32')", CHANCES, grad=False)
    family.expression(f"nd.{name}(x)", values([0.0, 0.0, 1.0]), grad=False)
    family.expression(f"nd.{name}(x, shape=5)", values([0.0, 0.0, 1.0]), grad=False)
for name in ("random.shuffle", "shuffle"):
    family.expression(f"nd.sort(nd.{name}(x), axis=0)", counting(6), grad=False)
    family.expression(f"nd.{name}(x).sum(axis=1).sum()", counting(6, 2), grad=False)
    family.expression(f"nd.sort(nd.{name}(x)[:, 0], axis=0)", counting(6, 2), grad=False)
    family.expression(f"nd.{name}(x)", normal(1), tag="single")
