"""Every public operator has a summary, described arguments, and an example that prints what it shows."""

import doctest
import inspect

import pytest

import phonograd as mx
from phonograd.core.graph.documentation import brief_of, document, example_of, undescribed
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.graph.shared_parameters import SHARED
from phonograd.core.graph.signature import signature_of

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PREFIXES = ("_contrib_", "_linalg_", "_image_")


def is_public(declared):
    return any(not name.startswith("_") or name.startswith(PREFIXES) for name in (declared.name, *declared.aliases))


PUBLIC = sorted({declared for declared in REGISTRY.values() if is_public(declared)}, key=lambda one: one.name)


def test_every_operator_says_what_it_does():
    assert [one.name for one in PUBLIC if not brief_of(one).rstrip().endswith((".", ":", "::"))] == []


def test_every_argument_is_described():
    assert {one.name: undescribed(one) for one in PUBLIC if undescribed(one)} == {}


def test_every_shared_description_is_used():
    used = {name for one in REGISTRY.values() for name in signature_of(one).parameters}
    used |= {f"{one.name}.{name}" for one in REGISTRY.values() for name in signature_of(one).parameters}
    assert sorted(set(SHARED) - used) == []


def test_every_operator_has_an_example():
    assert [one.name for one in PUBLIC if ">>>" not in example_of(one)] == []


@pytest.mark.parametrize("family", sorted({one.function.__module__.split(".")[3] for one in PUBLIC}))
def test_examples_show_what_happens(family):
    """One test for each family: a compiled kernel serves several examples."""
    report = []
    for declared in PUBLIC:
        if declared.function.__module__.split(".")[3] == family:
            text = example_of(declared)
            test = doctest.DocTestParser().get_doctest(text, {"mx": mx}, declared.name, None, 0)
            assert test.examples, declared.name
            doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


def test_help_shows_the_whole_text():
    text = inspect.getdoc(mx.nd.Convolution)
    assert text == document(REGISTRY["Convolution"])
    for part in ("Parameters\n----------", "kernel : int | Sequence[int]", "Returns\n-------", ">>> "):
        assert part in text
    assert "kernel : int | Sequence[int]" in mx.sym.Convolution.__doc__
    assert "Symbol | None" in mx.sym.Convolution.__doc__


def test_an_own_description_takes_precedence():
    assert "updates them" in mx.nd.BatchNorm.__doc__
