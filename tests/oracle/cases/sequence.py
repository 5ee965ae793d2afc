"""Cases of SequenceMask, SequenceLast and SequenceReverse."""

from __future__ import annotations

from ..case import Family, counting, normal, values

family = Family("sequence", tolerance="exact")

for operator in ("SequenceMask", "SequenceLast", "SequenceReverse"):
    name = f"nd.{operator}"
    for shape in ((4, 3), (4, 3, 2), (4, 3, 2, 2)):
        family.call(name, normal(*shape), grad=operator != "SequenceLast")
        family.call(name, normal(*shape), values([1, 4, 2]), use_sequence_length=True)
        family.call(name, normal(*shape), values([1, 4, 2]))
    for dtype in ("float64", "float16"):
        family.call(name, normal(4, 3, 2, dtype=dtype), values([1, 4, 2], dtype), use_sequence_length=True)
    family.call(name, normal(4, 3), values([1, 4, 2], "int32"), use_sequence_length=True)
    family.call(name, normal(4, 3), values([1, 4, 2], "int64"), use_sequence_length=True)
    family.call(name, counting(4, 3, dtype="int32"), values([1, 4, 2]), use_sequence_length=True)
    family.call(name, normal(4, 3), values([1, 4]), use_sequence_length=True)
    family.call(name, normal(4, 3), use_sequence_length=True)
for operator in ("SequenceMask", "SequenceLast"):
    family.call(f"nd.{operator}", normal(3, 4), values([1, 4, 2]), use_sequence_length=True, axis=1)
    family.call(f"nd.{operator}", normal(3, 4, 2), values([1, 4, 2]), use_sequence_length=True, axis=1)
    family.call(f"nd.{operator}", normal(3, 4, 2), axis=1, grad=operator != "SequenceLast")
    family.call(f"nd.{operator}", normal(3, 4, 2), values([1, 4, 2]), use_sequence_length=True, axis=2)
family.call("nd.SequenceReverse", normal(3, 4, 2), values([1, 4, 2]), use_sequence_length=True, axis=1)
for value in (-1.5, float("inf"), 1e9):
    family.call("nd.SequenceMask", normal(4, 3, 2), values([1, 4, 2]), use_sequence_length=True, value=value)
family.call("nd.SequenceMask", normal(4, 3), values([0, 4, 9]), use_sequence_length=True, tag="outside")
family.call("nd.SequenceMask", normal(4, 3), values([1.7, 2.2, 3.0]), use_sequence_length=True, tag="fractions")
family.call("nd.SequenceReverse", normal(4, 3), values([4, 4, 4]), use_sequence_length=True, tag="whole")
