"""Cases of the likelihood of events that excite each other."""

from __future__ import annotations

from ..case import Family, integers, uniform, values

family = Family("hawkes", tolerance="normalization")

PARAMETERS = (uniform(2, 3, low=0.5, high=2.0), uniform(3, low=0.1, high=0.5), uniform(3, low=0.5, high=2.0))
STATE, LAGS, MARKS = uniform(2, 3), uniform(2, 4, low=0.1), integers(2, 4, dtype="int32", high=3)
for lengths in ([4.0, 4.0], [3.0, 1.0], [0.0, 2.0]):
    family.call(
        "nd.contrib.hawkesll",
        *(*PARAMETERS, STATE, LAGS, MARKS, values(lengths), values([5.0, 6.0])),
        grad=(0, 1, 2),
        head_outputs=(0,),
        tag="".join([f"{length:g}" for length in lengths]),
    )
family.call("nd.contrib.hawkesll", *PARAMETERS, STATE, LAGS, MARKS, values([4.0]), values([5.0, 6.0]))
