"""Cases of densities of distributions at samples."""

from __future__ import annotations

from ..case import Family, integers, normal, uniform, values

family = Family("densities", tolerance="logarithm")

POSITIVE, RATE = uniform(2, 3, low=0.2, high=3.0), uniform(2, low=0.5, high=2.0)
COUNTS, PROBABILITY = integers(2, 3, high=6), uniform(2, low=0.2, high=0.8)
for is_log in (False, True):
    family.call("nd.random_pdf_uniform", uniform(2, 3), uniform(2, low=-2.0), uniform(2, low=2.0), is_log=is_log)
    family.call("nd.random_pdf_normal", normal(2, 3), normal(2), RATE, is_log=is_log)
    family.call("nd.random_pdf_normal", normal(2), normal(2), RATE, is_log=is_log)
    family.call(
        "nd.random_pdf_normal", *[uniform(2, 2, dtype="float64", low=0.5)] * 3, is_log=is_log, tolerance="single"
    )
    family.call("nd.random_pdf_gamma", POSITIVE, RATE, RATE, is_log=is_log, tolerance="normalization")
    family.call("nd.random_pdf_exponential", POSITIVE, RATE, is_log=is_log)
    family.call("nd.random_pdf_exponential", uniform(2, 2, 3), uniform(2, 2, low=0.5), is_log=is_log)
    family.call("nd.random_pdf_poisson", COUNTS, RATE, is_log=is_log)
    family.call(
        "nd.random_pdf_negative_binomial",
        *(COUNTS, integers(2, low=1, high=5), PROBABILITY),
        is_log=is_log,
        tolerance="normalization",
    )
    family.call(
        "nd.random_pdf_generalized_negative_binomial",
        *(COUNTS, RATE, RATE),
        is_log=is_log,
        tolerance="normalization",
    )
    shares = values([[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], [[0.25, 0.5, 0.25], [0.6, 0.3, 0.1]]])
    family.call(
        "nd.random_pdf_dirichlet", shares, uniform(2, 3, low=0.5, high=2.0), is_log=is_log, tolerance="normalization"
    )
    family.call(
        "nd.random_pdf_dirichlet",
        values([0.2, 0.3, 0.5]),
        uniform(3, low=0.5),
        is_log=is_log,
        tolerance="normalization",
    )
family.call("nd.random_pdf_exponential", normal(2, 3), uniform(3))
family.call("nd.random_pdf_exponential", normal(2), uniform(2, 1))
