"""Symbols infer at least what MXNet 1.9.1 infers, in all trials of :mod:`.inference`.

Two differences are meant everywhere. Where MXNet raises because too little is known, the known part is returned. And
more may be inferred than there, if it contradicts nothing.
"""

import ast

import phonograd as mx

from . import compare
from .reasons import INFERENCE


def contradicts(theirs, ours):
    """Return whether one part of ours is unknown where theirs is known, or different."""
    if theirs.startswith("!"):
        return False
    if ours.startswith("!"):
        return True
    known, found = (ast.literal_eval(text.replace(" whole", "").replace(" partial", "")) for text in (theirs, ours))
    pairs = [(a, b) for one, other in zip(known, found, strict=True) for a, b in zip(one, other, strict=True)]
    return any(_is_less(a, b) for a, b in pairs)


def _is_less(theirs, ours):
    if theirs in ((), None) or theirs == ours:
        return False
    if ours in ((), None) or isinstance(theirs, str) or len(theirs) != len(ours):
        return True
    return any(a and a != b for a, b in zip(theirs, ours, strict=True))


def test_symbols_infer_what_mxnet_infers():
    found = [d for d in compare.inference_differences(mx) if contradicts(d.theirs, d.ours)]
    unknown = [d for d in found if d.place.split()[0] not in INFERENCE]
    assert unknown == []
    used = {difference.place.split()[0] for difference in found}
    assert sorted(set(INFERENCE) - used) == [], "these agree now: remove them from reasons.py"


def test_the_comparison_finds_differences():
    assert contradicts("[[(2, 3)], [(2, 3)], []] whole", "[[(2, 3)], [()], []] partial")
    assert contradicts("[[(2, 3)], [(2, 3)], []] whole", "!MXNetError")
    assert contradicts("[['float32'], ['float32'], []]", "[['float32'], [None], []]")
    assert not contradicts("[[(2, 0)], [(2, 0)], []] partial", "[[(2, 3)], [(2, 3)], []] whole")
