"""The machine code of immediate changes: in-place operators that compute the new value of an array at once.

``change_value`` is the counterpart of ``immediate.change``, which is its definition. Like the functions of
:mod:`.native_immediate`, it handles the common cases, and returns null without an error in all others, before it has
changed anything.
"""

from __future__ import annotations

from ...lower.ir.function_builder import Index
from .native_immediate import axes_of
from .native_text import Code

__all__ = ["change_text"]


def change_text(offsets: dict[str, int]) -> str:
    """Return the function of an in-place operator that computes the new value of an array, and gives the array."""
    f = Code("change_value", "ptr %trace, ptr %record, ptr %self, ptr %other", offsets)
    before = f.field("%self", "buffer")
    f.leave_unless(f.same(f.field("%self", "node"), "none"), "undecided")
    f.leave_if(f.same(before, "none"), "undecided")
    f.leave_if_null(f.call("is_plain", "%self"), "undecided")
    f.hold(before)
    given = f"ptr %trace, ptr {f.object('immediate_calls')}, ptr %record, ptr %self, ptr %other"
    made = f.assign(f"call ptr @compute_binary({given})")
    f.leave_if_null(made, "drop")
    value = f.field(made, "buffer")
    _leave_unless_alike(f, before, value, "drop_made")
    # other threads may run while this one waits for the lock
    f.release(f.api("PyObject_CallNoArgs", f"ptr {f.object('acquire')}", "drop_made"))
    is_here = f.logical_and(f.same(f.field("%self", "node"), "none"), f.is_equal(f.field("%self", "buffer"), before))
    f.leave_unless(is_here, "moved")
    f.exchange("%self", "buffer", value)
    f.release(f.api("PyObject_CallNoArgs", f"ptr {f.object('release')}", "drop_made"), made, before)
    f.api("Py_IncRef", "ptr %self")
    f.give("%self")
    # another thread has changed the array meanwhile: Python decides
    f.label("moved")
    f.release(f.api("PyObject_CallNoArgs", f"ptr {f.object('release')}", "drop_made"))
    f.line("br label %drop_made")
    f.label("drop_made")
    f.release(made)
    f.line("br label %drop")
    f.label("drop")
    f.release(before)
    f.line("br label %undecided")
    f.end("undecided", "null")
    return f.text()


def _leave_unless_alike(f: Code, one: str, two: str, target: str) -> None:
    """Write the jump to a label if the shapes or dtypes of two arrays differ."""
    f.leave_unless(f.is_equal(f.field(one, "memory_dtype"), f.field(two, "memory_dtype")), target)
    axes = axes_of(f, one)
    f.leave_unless(f.test("eq", axes, axes_of(f, two)), target)
    extents = [f.field(memory, "memory_extents") for memory in (one, two)]

    def compare(axis: Index) -> None:
        f.leave_unless(f.test("eq", *[f.load_word(each, axis) for each in extents]), target)

    f.for_each("0", axes, compare)
