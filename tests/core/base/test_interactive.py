"""Notebooks: tracebacks show only the program's frames, and curves replace their picture in the same cell."""

import sys
import traceback
import types

import pytest

import phonograd as mx
from phonograd import curves as curves_module
from phonograd.core.base import interactive


def failure(call):
    with pytest.raises(mx.MXNetError) as caught:
        call()
    return caught.value


def test_frames_of_the_library_are_left_out():
    class Product(mx.gluon.Block):
        def forward(self, x):
            return mx.nd.dot(x, x)

    error = failure(lambda: Product()(mx.nd.ones((2, 3))))
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    kept = [frame.name for frame in traceback.extract_tb(interactive.without_library(error.__traceback__))]
    assert kept == ["failure", "<lambda>", "forward"]
    assert len(names) > len(kept)
    assert interactive.without_library(None) is None


class Shell:
    """What this library uses of a shell of IPython."""

    def __init__(self, mode="Context"):
        self.custom_exceptions = ()
        self.InteractiveTB = types.SimpleNamespace(mode=mode)
        self.kernel = object()
        self.execution_count = 1
        self.shown = None

    def set_custom_exc(self, kinds, handler):
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, exc_tuple, tb_offset):
        self.shown = [frame.name for frame in traceback.extract_tb(exc_tuple[2])]


def install(monkeypatch, shell):
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    return shell


def test_a_shell_shows_the_frames_of_the_program(monkeypatch):
    error = failure(lambda: mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3))))
    shell = install(monkeypatch, Shell())
    interactive.shorten_tracebacks()
    assert shell.custom_exceptions == (Exception,)
    shell.handler(shell, type(error), error, error.__traceback__, tb_offset=1)
    assert shell.shown == ["failure", "<lambda>"]
    shell.InteractiveTB.mode = "Verbose"
    shell.handler(shell, type(error), error, error.__traceback__)
    assert len(shell.shown) > 2


def test_causes_are_shortened_too(monkeypatch):
    error = ValueError("outside")
    error.__cause__ = failure(lambda: mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3))))
    shell = install(monkeypatch, Shell())
    interactive.shorten_tracebacks()
    shell.handler(shell, ValueError, error, None)
    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)] == ["failure", "<lambda>"]


def test_a_handler_of_the_program_stays(monkeypatch):
    shell = install(monkeypatch, Shell())
    shell.custom_exceptions = (KeyError,)
    interactive.shorten_tracebacks()
    assert shell.custom_exceptions == (KeyError,)


def test_without_a_shell_nothing_happens(monkeypatch):
    install(monkeypatch, None)
    interactive.shorten_tracebacks()
    assert interactive.notebook() is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert interactive.notebook() is None


def test_a_terminal_is_no_notebook(monkeypatch):
    shell = install(monkeypatch, Shell())
    assert interactive.notebook() is shell
    shell.kernel = None
    assert interactive.notebook() is None


def test_curves_replace_their_picture_in_the_same_cell(monkeypatch):
    shell, displays = Shell(), []

    class Handle:
        updates = 0

        def update(self, value):
            self.updates += 1

    def display(value, display_id):
        assert display_id is True
        displays.append(Handle())
        return displays[-1]

    module = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    install(monkeypatch, shell)
    monkeypatch.setattr(curves_module, "notebook", lambda: shell)
    curves = curves_module.Curves()
    for loss in (3, 2, 1):
        curves.add(loss=loss)
        curves.show()
    assert [handle.updates for handle in displays] == [2]
    shell.execution_count = 2
    curves.show()
    assert [handle.updates for handle in displays] == [2, 0]
