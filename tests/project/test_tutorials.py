"""Every tutorial runs, cell by cell, and the cells that show an error raise one."""

import re
from pathlib import Path

import pytest

from phonograd import compat

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
TUTORIALS = sorted(FOLDER.glob("*.py"))
#: they train for more than a second or two
SLOW = {"machines", "migration", "network", "text"}
NEEDS = {"deploying": ("onnx", "onnxruntime"), "machines": ("mpi4py",)}


def cells(text: str) -> list[tuple[str, int, str]]:
    """Return the cells of a file in percent format: their marks, the numbers of their first lines, and their texts."""
    parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)
    found, line = [], parts[0].count("\n") + 1
    for mark, body in zip(parts[1::2], parts[2::2], strict=True):
        found.append((mark, line + 1, body))
        line += 1 + body.count("\n")
    return found


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Run in a folder of its own, and take back what a tutorial installs."""
    monkeypatch.chdir(tmp_path)
    yield
    compat.uninstall()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in TUTORIALS],
)
@pytest.mark.usefixtures("elsewhere")
def test_tutorial(path):
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    names = {"__name__": "__main__"}
    for mark, line, body in cells(path.read_text(encoding="utf-8")):
        if "[markdown]" in mark:
            assert all(not row or row.startswith("#") for row in body.splitlines()), f"{path.name}:{line}"
            continue
        code = compile("\n" * (line - 1) + body, path, "exec")
        if "raises-exception" in mark:
            with pytest.raises(Exception, match=r"\w"):
                exec(code, names)
        else:
            exec(code, names)


def test_tutorials_are_listed():
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    navigation = (FOLDER.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
    for path in TUTORIALS:
        assert f"({path.name})" in text
        assert f"tutorials/{path.stem}.md" in navigation


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_links_of_tutorials_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    texts = [body for mark, _, body in cells(text) if "[markdown]" in mark]
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", "".join(texts))
    assert [target for target in targets if not (path.parent / target).exists()] == []
    assert text.startswith("# %% [markdown]\n# # ")
