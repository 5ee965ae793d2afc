"""The pages of the site: docstrings become Markdown, every name has one place, and broken links are found."""

import re
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "documentation"


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """Make the modules of the site importable, as MkDocs does."""
    sys.path.insert(0, str(SCRIPTS))
    yield
    sys.path.remove(str(SCRIPTS))
    for name in ("check", "contents", "docstrings", "formulas", "ranking", "reference"):
        sys.modules.pop(name, None)


DOC = """Return the sum of a and *b.

See :class:`~phonograd.gluon.Trainer` and :func:`other`. A list::

    add(1, 2)

Parameters
----------
a : int, default 0
    The first number.
b, c
    The others,
    all of them.

Returns
-------
int
    The sum.

Examples
--------
>>> add(1, 2)
3
"""

EXPECTED = """Return the sum of a and \\*b.

See [`Trainer`](gluon.md#mx.gluon.Trainer) and `other`. A list:

```python
add(1, 2)
```

<p class="section">Parameters</p>

`a` : <span class="type">`int`</span>, default `0`
:   The first number.

`b`, `c`
:   The others,
    all of them.

<p class="section">Returns</p>

`int`

The sum.

<p class="section">Examples</p>

```pycon
>>> add(1, 2)
3
```"""


def test_docstrings_become_markdown():
    from docstrings import brief, markdown_of

    places = {"phonograd.gluon.Trainer": "gluon.md#mx.gluon.Trainer"}
    assert re.sub(r"\n{3,}", "\n\n", markdown_of(DOC, places.get)) == EXPECTED
    assert brief(DOC) == "Return the sum of a and *b."


def test_the_reference_describes_the_library():
    from contents import pages
    from reference import Reference

    listed = [page for _, page in pages()]
    addresses = [page.address for page in listed]
    assert len(addresses) == len(set(addresses))
    texts = dict(Reference(listed).texts())
    for page in listed:
        assert page.items, f"{page.address} is empty"
        anchors = re.findall(r"\{#(\S+) \.reference\}", texts[page.address])
        assert len(anchors) == len(set(anchors)), page.address
    anchors = {address: set(re.findall(r"\{#(\S+) \.reference\}", text)) for address, text in texts.items()}
    for address, text in texts.items():
        for target, anchor in re.findall(r"\]\(([\w-]+\.md)?#([^)]+)\)", text):
            assert anchor in anchors[target or address], f"{address} links to {target}#{anchor}"
    convolution = texts["nd-nn-operators.md"].partition("{#mx.nd.Convolution .reference}")[2]
    assert "kernel" in convolution.partition("```")[2].partition("```")[0]
    assert '`pad` : <span class="type">`int | Sequence[int]`</span>, default `()`' in convolution
    assert "HybridBlock.hybridize" in texts["gluon.md"]
    assert "export_html" in texts["profiler.md"], "methods of bases without a place of their own are shown"


def test_problems_of_a_site_are_found(tmp_path):
    from check import problems

    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#here">b</a><a href="https://example.org">far</a><script src="a.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p><a href="a.html#top">a</a>')
    (tmp_path / "a.js").write_text("")
    assert list(problems(tmp_path)) == []
    (tmp_path / "c.html").write_text(
        '<a href="a.html#nowhere">a</a><a href="d.html">d</a><script src="https://example.org/x.js"></script>'
        '<link rel="stylesheet" href="//example.org/x.css">'
    )
    (tmp_path / "x.css").write_text("@font-face { src: url(https://example.org/font.woff) }")
    found = "\n".join(problems(tmp_path))
    for text in ("no such anchor", "d.html, which does not exist", "x.js", "//example.org/x.css", "font.woff"):
        assert text in found
    assert len(found.splitlines()) == 5


def test_every_formula_is_shown():
    from formulas import mathml
    from phonograd.core.base.formulas import CLASSES, OPERATORS

    for formula in (*CLASSES.values(), *OPERATORS.values()):
        shown = mathml(formula)
        assert shown.count("<math>") == formula.count("; ") + 1
        assert "\\" not in shown


def test_a_formula_is_mathml():
    from formulas import mathml

    assert "<msubsup><mi>β</mi><mn>2</mn><mi>t</mi></msubsup>" in mathml(r"\beta_2^t")
    assert "<mtext>&nbsp;where&nbsp;</mtext>" in mathml("x where x > 0")
    with pytest.raises(ValueError, match="no \\\\unknown"):
        mathml(r"\unknown")


def test_the_search_finds_names_before_longer_ones():
    from ranking import rank

    places = ["reference/nn.html#mx.Dense", "reference/zoo.html#mx.densenet121", "reference/nn.html", "training.html"]
    documents = [{"location": place, "title": place.rpartition(".")[2], "text": ""} for place in places]
    rank(documents)
    first, second, page, other = [entry.get("boost", 1.0) for entry in documents]
    assert first > second > other
    assert page > other
