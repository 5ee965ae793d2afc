"""Log-likelihood of a marked Hawkes process: a point process whose events excite each other."""

from __future__ import annotations

from ...base.dtypes import INT32, DType
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, separate_types
from ...graph.node import Node
from ...graph.operator import composite, single
from ..math.comparison import equal, lesser, logical_and
from ..math.elementary import exp, log
from ..math.primitives import cast, reshape_to, select
from ..math.special import BlockGrad
from ..math.structural import constant, full
from ..reduce.reduction import sum_axes
from ..shape.arrangement import slice_along
from ..shape.creation import position_along

__all__ = ["hawkes_log_likelihood"]


def _check(inputs: dict[str, Node]) -> None:
    lags = inputs["lags"]
    if lags.ndim != 2:
        raise MXNetError(f"operator _contrib_hawkesll takes lags (batch, time), not {format_shape(lags.shape)}")
    batch, steps = lags.shape
    kinds = inputs["lda"].shape[-1] if inputs["lda"].ndim else 0
    expected = {
        "lda": (batch, kinds),
        "alpha": (kinds,),
        "beta": (kinds,),
        "state": (batch, kinds),
        "marks": (batch, steps),
        "valid_length": (batch,),
        "max_time": (batch,),
    }
    for name, shape in expected.items():
        if inputs[name].shape != shape:
            raise MXNetError(
                f"operator _contrib_hawkesll takes {name} of shape {format_shape(shape)} for lags of shape "
                f"{format_shape(lags.shape)}, not {format_shape(inputs[name].shape)}"
            )


@composite(name="_contrib_hawkesll")
def hawkes_log_likelihood(
    lda: Node,
    alpha: Node,
    beta: Node,
    state: Node,
    lags: Node,
    marks: Node,
    valid_length: Node,
    max_time: Node,
) -> tuple[Node, Node]:
    """Return the log-likelihood of event sequences under a marked Hawkes process, and the final states.

    Events of kind k happen at the rate ``lda[k] + alpha[k] * beta[k] * sum(exp(-beta[k] * age))``; the sum is over
    earlier events of kind k.

    Parameters
    ----------
    lda
        Background rates (batch, kinds).
    alpha, beta
        Branching ratios and decay rates (kinds,).
    state
        Excitation from events before the sequence (batch, kinds).
    lags
        Times between events (batch, time); the first ``valid_length`` (batch,) of them count.
    marks
        Kinds of the events (batch, time), integers.
    max_time
        Length of the observation of each sequence (batch,).

    Notes
    -----
    The expression has about fifteen operators for each event of the longest sequence.
    """
    names = ("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time")
    given = (lda, alpha, beta, state, lags, marks, valid_length, max_time)
    _check(dict(zip(names, given, strict=True)))
    (batch, kinds), steps = lda.shape, lags.shape[1]
    dtype = lda.dtype
    lags, valid_length, max_time = [single(BlockGrad(node)) for node in (lags, valid_length, max_time)]
    kind = position_along((1, kinds), 1, marks.dtype)
    lengths = reshape_to(valid_length, (batch, 1))
    time = full((batch, 1), 0, dtype, lda.context)
    last = full((batch, kinds), 0, dtype, lda.context)
    total = full((batch, kinds), 0, dtype, lda.context)

    def until(moment: Node) -> tuple[Node, Node]:
        """Return the decay of each kind since its last event, and the integral of its rate over that time."""
        age = moment - last
        kept = single(exp(-(beta * age)))
        return kept, lda * age + alpha * state * (1.0 - kept)

    for step in range(steps):
        counts = single(lesser(constant(step, lengths.dtype), lengths))
        happens = single(logical_and(equal(slice_along(marks, 1, step, step + 1), kind), cast(counts, marks.dtype)))
        time = time + select(counts, slice_along(lags, 1, step, step + 1), 0)
        kept, expected = until(time)
        rate = lda + alpha * beta * state * kept
        total = total + select(happens, log(rate) - expected, 0)
        state = select(happens, 1.0 + state * kept, state)
        last = select(happens, time, last)
    kept, expected = until(reshape_to(max_time, (batch, 1)))
    return sum_axes(total - expected, (1,)), kept * state


def _mark_types(
    inputs: list[DType | None], outputs: list[DType | None]
) -> tuple[list[DType | None], list[DType | None]]:
    """Return dtypes: marks are int32, all others are equal."""
    found, results = separate_types(5)(inputs, outputs)
    return [*found[:5], found[5] or INT32, *found[6:]], list(results)


hawkes_log_likelihood.interface = Interface(outputs=("output", "out_state"), types=_mark_types)


# -- precision in mixed-precision training

for _declared in (hawkes_log_likelihood,):
    _declared.precision = "float32"
