"""What the documentation shows is what happens: every ``>>>`` in README.md, docs/ and docstrings is run."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import phonograd
from phonograd.core.trace.novelty import NOVELTY

from .declarations import forgotten_operators

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Importing __main__ runs the command line.
MODULES = sorted(
    {"phonograd"}
    | {
        module.name
        for module in pkgutil.walk_packages(phonograd.__path__, "phonograd.")
        if not module.name.endswith("__main__")
    }
)
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(test: doctest.DocTest) -> None:
    """Fail with doctest's own report if an example prints something else."""
    # arrays of other examples are not part of the next plan, and their graphs were never evaluated
    phonograd.nd.waitall()
    NOVELTY.forget()
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


def sessions(text: str) -> str:
    """Return a page with everything but its Python sessions blanked out, so that line numbers stay true."""
    kept = [""] * (text.count("\n") + 1)
    for block in FENCE.finditer(text):
        if ">>>" in block[1]:
            first = text.count("\n", 0, block.start(1))
            kept[first : first + block[1].count("\n")] = block[1].splitlines()
    return "\n".join(kept)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path) -> None:
    whole = page.read_text(encoding="utf-8")
    for package in re.findall(r"<!-- sessions need (\w+) -->", whole):
        pytest.importorskip(package)
    with forgotten_operators():
        run(doctest.DocTestParser().get_doctest(sessions(whole), {}, page.name, str(page), 0))


def test_the_readme_shows_a_session() -> None:
    assert sessions((ROOT / "README.md").read_text(encoding="utf-8")).count(">>>") >= 5


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    # the examples of operators are sessions of users
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs={"mx": phonograd}):
        if test.examples:
            run(test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing, f"{page.name} links to what is not there: {missing}"
