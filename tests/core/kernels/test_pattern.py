"""Patterns say where NumPy's views lie."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phonograd.core.lower.pattern import Pattern


def _read(memory: np.ndarray, pattern: Pattern) -> np.ndarray:
    places = np.full(pattern.shape, pattern.offset)
    for axis, (extent, stride) in enumerate(zip(pattern.shape, pattern.strides)):
        steps = np.arange(extent) * stride
        places += steps.reshape([-1 if other == axis else 1 for other in range(len(pattern.shape))])
    return memory[places]


@given(st.data())
def test_patterns_follow_views(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), max_size=4)))
    memory = np.arange(math.prod(shape))
    view, pattern = memory.reshape(shape), Pattern.contiguous(shape)
    for way in data.draw(st.lists(st.sampled_from(["permute", "slice", "broadcast", "reshape"]), max_size=5)):
        if way == "permute":
            axes = data.draw(st.permutations(range(view.ndim)))
            view, pattern = view.transpose(axes), pattern.permute(axes)
        elif way == "broadcast":
            wide = (*data.draw(st.sampled_from([(), (2,)])), *[3 if extent == 1 else extent for extent in view.shape])
            view, pattern = np.broadcast_to(view, wide), pattern.broadcast(wide)
        elif way == "slice":
            bounds = []
            for extent in view.shape:
                step = data.draw(st.sampled_from([1, 2, -1])) if extent else 1
                first = data.draw(st.integers(0, max(extent - 1, 0)))
                last = data.draw(st.integers(first, extent) if step > 0 else st.integers(-1, first))
                bounds.append((first, last, step))
            view = view[tuple([slice(b, e if e >= 0 else None, s) for b, e, s in bounds])]
            begin, end, step_ = zip(*bounds) if bounds else ((), (), ())
            pattern = pattern.slice(begin, end, step_)
        else:
            new, left = [], view.size
            for factor in data.draw(st.permutations([1, 2, 2, 3, 4])):
                if left and left % factor == 0:
                    new.append(factor)
                    left //= factor
            shaped = view.reshape(*new, left)
            moved = pattern.reshape((*new, left))
            if moved is None:
                # NumPy, too, could not do it without a copy
                assert not np.shares_memory(shaped, memory)
                return
            view, pattern = shaped, moved
        assert pattern.shape == view.shape
        assert np.array_equal(_read(memory, pattern), view)
        assert pattern.is_contiguous == view.flags.c_contiguous
