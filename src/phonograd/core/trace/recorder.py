"""Recorder: the points at which code that works with arrays asks the current trace how to go on.

Takes questions from the layers above (arrays, differentiation, layers, optimizers) and hands them to the strategy of
the trace: the ordinary one, which is this class, or the one of a function that is being captured
(:class:`phonograd.core.capture.capture.Capture`). No caller asks which of the two it is. See docs/decisions/0007.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ..base.devices import Context
    from ..graph.node import Node
    from ..graph.operator import Array
    from .tape import Target

__all__ = ["CAPTURES", "Recorder"]

#: the captures that are going on in all threads; code that seldom matters to them tests this list first
CAPTURES: list[Recorder] = []


class Recorder:
    """The strategy of an ordinary trace, from which :class:`phonograd.core.trace.trace.Trace` inherits.

    A captured function runs once and is then repeated without being called. So its reads and writes of outside arrays
    (arrays that existed before) are noted and done later, in every repetition:

    ======================  =============================================  ===========================================
    point                   ordinary trace                                 captured function
    ======================  =============================================  ===========================================
    ``allows_shortcuts``    True                                           False: everything must be an expression
    ``is_immediate``        True in programs that are always new           False: everything must be an expression
    ``constant``            no node: the new array holds its memory        a node that stands for the memory
    ``enter_outside``       no node: the memory is bound as a leaf         a node that stands for the array
    ``write_outside``       False: the array names the new node            True: the write is noted
    ``note_read``           nothing                                        the function is called each time
    ``note_gradient``       nothing                                        the array must keep its gradient buffer
    ``note_pass``           nothing                                        variables must stay the ones that they are
    ``note_fresh``          nothing                                        the mark is set after each repetition
    ``refuse_capture``      nothing                                        raises: the function is called each time
    ======================  =============================================  ===========================================

    Leaves (``bind``, ``bind_scalar``), random streams (``counter``), gradient targets (``slot``), evaluation
    (``evaluate``) and synchronization (``flush``) are methods of :class:`~phonograd.core.trace.trace.Trace` that a
    capture overrides.
    """

    __slots__ = ()

    #: whether code may go past the methods of the trace: use the values that arrays have now instead of expressions,
    #: bind memory by machine code, or repeat another captured function
    allows_shortcuts: ClassVar[bool] = True
    #: whether operators that are not recorded compute their results when they are called
    is_immediate: ClassVar[bool] = False

    def constant(self, data: Array, context: Context) -> Node | None:
        """Return the node of a new array with known values, or None if the array just holds its memory."""
        return None

    def enter_outside(self, handle: Any) -> Node | None:
        """Return the node of an outside array that is used, or None if its memory becomes a leaf."""
        return None

    def write_outside(self, handle: Any, node: Node) -> bool:
        """Return whether the write of a node to an array has been noted, so that it is not done now."""
        return False

    def note_read(self) -> None:
        """Note that the program reads a value, on which everything that it does later may depend."""

    def note_gradient(self, handle: Any) -> None:
        """Note that the program asks an array for its gradient buffer."""

    def note_pass(self) -> None:
        """Note that a backward pass begins, whose result depends on which arrays are the same variable."""

    def note_fresh(self, owner: Target, fresh: int) -> None:
        """Note that a variable is marked as having a new gradient, or as having none."""

    def refuse_capture(self, reason: str) -> None:
        """Give up capturing, because the function does something that cannot be repeated."""
