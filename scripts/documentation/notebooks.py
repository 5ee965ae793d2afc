"""Run the tutorials and turn them into notebooks and pages.

A tutorial is a Python file in jupytext's percent format: cells of code begin with ``# %%``, cells of text with
``# %% [markdown]``. Jupyter runs it; the page shows each cell with what Jupyter showed. A notebook is run again when its
text or the library has changed.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import nbclient
import nbformat
from traitlets.config import Config

__all__ = ["Rendered", "render", "run"]

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 600
_WIDGET = "application/vnd.jupyter.widget-view+json"
_STATES = "application/vnd.jupyter.widget-state+json"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FRAME = re.compile(r'srcdoc="([^"]*)"')


@dataclass
class Rendered:
    """The page of a notebook, and the files that it shows by name."""

    markdown: str
    files: dict[str, bytes] = field(default_factory=dict)


@cache
def _library() -> str:
    """Return a hash of the library's source."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py*")):
        if path.suffix in (".py", ".html"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def run(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Return a tutorial with the outputs of its cells; `folder` keeps them for the next build."""
    text = path.read_text(encoding="utf-8")
    key = hashlib.sha256((_library() + text).encode()).hexdigest()[:16]
    kept = folder / f"{path.stem}-{key}.ipynb"
    if kept.exists():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    # a tutorial may write files
    work = folder / path.stem
    work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    # files in place of ports, which other users could read
    settings = Config({"KernelManager": {"transport": "ipc", "ip": str(work / "kernel")}})
    resources = {"metadata": {"path": str(work)}}
    nbclient.NotebookClient(notebook, timeout=_SECONDS, resources=resources, config=settings).execute()
    kept.write_text(nbformat.writes(notebook), encoding="utf-8")
    return notebook


def render(notebook: nbformat.NotebookNode, stem: str) -> Rendered:
    """Return the page of a notebook that was run."""
    page = Rendered("")
    states = notebook.metadata.get("widgets", {}).get(_STATES, {}).get("state", {})
    parts: list[str] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += _outputs(cell, states, page, stem)
    title, _, rest = "\n\n".join(parts).partition("\n")
    download = (
        f'<p class="download">Download: <a href="{stem}.ipynb" download>notebook</a>, '
        f'<a href="{stem}.py" download>script</a></p>'
    )
    page.markdown = f"{title}\n\n{download}\n{rest}\n"
    return page


def _outputs(cell: Any, states: Any, page: Rendered, stem: str) -> Iterator[str]:
    """Return the outputs of a cell; neighboring pieces of a stream are one output."""
    texts: dict[str, str] = {}
    for output in cell.outputs:
        if output.output_type == "stream":
            texts[output.name] = texts.get(output.name, "") + output.text
            continue
        yield from [_text(text) for text in texts.values()]
        texts.clear()
        if output.output_type == "error":
            yield _text("\n".join(output.traceback), "error")
        else:
            yield _shown(output.data, states, page, stem)
    yield from [_text(text) for text in texts.values()]


def _text(text: str, kind: str = "text") -> str:
    """Return the text of a terminal: without colors, and with overwritten lines as they ended."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).rstrip().split("\n")]
    return f'<div class="output {kind}"><pre>{html.escape(chr(10).join(lines))}</pre></div>'


def _shown(data: Any, states: Any, page: Rendered, stem: str) -> str:
    """Return the best form of an output that a page can show."""
    if _WIDGET in data and (bar := _bar(data[_WIDGET]["model_id"], states)):
        return bar
    if "text/html" in data:
        return f'<div class="output html">{_framed(data["text/html"], page, stem)}</div>'
    if "image/svg+xml" in data:
        return f'<div class="output picture">{data["image/svg+xml"]}</div>'
    if "image/png" in data:
        name = f"{stem}-{len(page.files)}.png"
        page.files[name] = base64.b64decode(data["image/png"])
        return f'<div class="output picture"><img src="{name}" alt="the output of the cell above"></div>'
    return _text(data["text/plain"])


def _framed(text: str, page: Rendered, stem: str) -> str:
    """Return HTML whose embedded pages are files of their own, so that the page stays small."""

    def moved(match: re.Match[str]) -> str:
        name = f"{stem}-{len(page.files)}.html"
        page.files[name] = html.unescape(match[1]).encode()
        return f'src="{name}"'

    return _FRAME.sub(moved, text)


def _bar(model: str, states: Any) -> str | None:
    """Return a progress bar of tqdm as plain HTML."""
    children = states.get(model, {}).get("state", {}).get("children")
    if not children:
        return None
    shown: list[str] = []
    for child in children:
        state = states[child.removeprefix("IPY_MODEL_")]["state"]
        if "max" in state:
            shown.append(f'<progress value="{state["value"]}" max="{state["max"]}"></progress>')
        else:
            shown.append(f"<span>{html.escape(html.unescape(state.get('value', '')))}</span>")
    return f'<div class="output bar">{" ".join(shown)}</div>'
