"""Hooks of MkDocs: add the generated pages, and make links between files of the repository links of the site.

``mkdocs.yml`` loads this module. Pages come from ``docs/``, from the tutorials (:mod:`notebooks`), from the library
itself (:mod:`contents` and :mod:`tables`) and from a few files elsewhere. A link to any other file of the repository
leads to a page with its text.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from contents import FOLDERS, pages
from notebooks import render, run
from ranking import rank
from reference import Page, Reference
from tables import operators_table, surface_table

ROOT = Path(__file__).resolve().parents[2]
#: pages that are not in docs/, by their address
ELSEWHERE = {
    "changelog.md": ROOT / "CHANGELOG.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "security.md": ROOT / "SECURITY.md",
    "engine.md": ROOT / "src/phonograd/core/README.md",
}
#: files and folders that another page stands for
SUBSTITUTES = {"README.md": "index.md", "docs": "index.md", "docs/decisions": "decisions/index.md"}
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_LANGUAGES = {".py": "python", ".toml": "toml", ".cff": "yaml", ".md": "markdown"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the reference into the navigation."""
    sections: dict[str, list[Any]] = {folder: [] for folder in FOLDERS}
    for folder, page in _reference():
        sections[folder].append({page.title: f"reference/{page.address}"})
    tables = [
        {"Overview": "reference/index.md"},
        {"Operators": "reference/operators.md"},
    ]
    reference = tables + [{folder: entries} for folder, entries in sections.items()]
    assert config.nav is not None
    config.nav = [{"Reference": reference} if entry == "REFERENCE" else entry for entry in config.nav]
    decisions = [{"Overview": "decisions/index.md"}]
    decisions += [{_title(path): f"decisions/{path.name}"} for path in _decisions(config)]
    for entry in config.nav:
        for page in entry.get("Internals", ()):
            if page.get("Decisions") == "DECISIONS":
                page["Decisions"] = decisions
    return config


def _decisions(config: MkDocsConfig) -> list[Path]:
    return sorted(Path(config.docs_dir, "decisions").glob("0*.md"))


def _title(path: Path) -> str:
    """Return the title of a page."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _speed() -> str:
    """Return the table of speeds that benchmarks/report.py has written into README.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("<!-- figures: speed -->")[2].partition("<!-- end of figures -->")[0].strip()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace pages by pages whose links lead to the site, and add the generated ones."""
    made: dict[str, str | bytes] = {}
    sources: dict[str, Path] = dict(ELSEWHERE)
    for file in list(files):
        if file.src_uri.endswith(".md"):
            sources[file.src_uri] = Path(config.docs_dir, file.src_uri)
    folder = Path(config.site_dir).parent / "notebooks"
    for tutorial in sorted(Path(config.docs_dir, "tutorials").glob("*.py")):
        notebook = run(tutorial, folder)
        page = render(notebook, tutorial.stem)
        address = f"tutorials/{tutorial.stem}.md"
        made[address] = page.markdown
        sources[address] = tutorial
        made |= {f"tutorials/{name}": content for name, content in page.files.items()}
        made[f"tutorials/{tutorial.stem}.ipynb"] = nbformat.writes(notebook)
    made |= _reference_texts()
    lines = [f"- [{_title(path)}]({path.name})" for path in _decisions(config)]
    heading = "# Decisions\n\nEach page describes one decision of the design, its reasons and its measurements.\n\n"
    made["decisions/index.md"] = heading + "\n".join(lines) + "\n"
    index = Path(config.docs_dir, "index.md").read_text(encoding="utf-8")
    made["index.md"] = "---\nhide:\n  - navigation\n---\n" + index.replace(
        "<!-- the site shows the figures of README.md here: speed -->", _speed()
    )
    made["compatibility-names.md"] = surface_table()
    _rewrite(made, sources)
    for address, content in made.items():
        if address.startswith("decisions/"):
            # whoever searches for an operator wants the reference
            content = f"---\nsearch:\n  boost: 0.5\n---\n\n{content!s}"
        if (old := files.get_file_from_path(address)) is not None:
            files.remove(old)
        files.append(File.generated(config, address, content=content))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Order the results of the search. The plugin "offline" copies the index afterwards."""
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    rank(index["docs"], index["config"]["separator"])
    path.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def _reference() -> list[tuple[str, Page]]:
    return list(pages())


def _reference_texts() -> dict[str, str]:
    listed = _reference()
    reference = Reference([page for _, page in listed])
    texts = {f"reference/{address}": text for address, text in reference.texts()}
    lines = ["# API reference", ""]
    lines.append("All pages are made from the library itself: signatures, parameters and examples are those of `help`.")
    for folder in FOLDERS:
        lines += ["", f"## {folder}", "", "| page | names |", "| --- | --- |"]
        for heading, page in listed:
            if heading == folder:
                names = ", ".join([f"`{item.name}`" for item in page.items[:4]])
                more = f" and {count} more" if (count := len(page.items) + len(page.elsewhere) - 4) > 0 else ""
                lines.append(f"| [{page.title}]({page.address}) | {names}{more} |")
    texts["reference/index.md"] = "\n".join(lines) + "\n"
    texts["reference/operators.md"] = operators_table(reference)
    return texts


def _rewrite(made: dict[str, str | bytes], sources: dict[str, Path]) -> None:
    """Make links of pages lead to pages of the site, and add pages for other files that they lead to."""
    addresses = {path: address for address, path in sources.items()}
    addresses |= {(ROOT / name).resolve(): address for name, address in SUBSTITUTES.items()}

    for address, path in sources.items():
        text = made[address] if address in made else path.read_text(encoding="utf-8")
        assert isinstance(text, str)
        made[address] = _LINK.sub(lambda match, at=address, file=path: _moved(match, at, file, addresses, made), text)


def _moved(
    match: re.Match[str], address: str, path: Path, addresses: dict[Path, str], made: dict[str, str | bytes]
) -> str:
    target, _, anchor = match[2].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return match[0]
    file = Path(os.path.normpath(path.parent / target))
    if file in addresses:
        place = addresses[file]
    elif file.is_file() and ROOT / "docs" not in file.parents:
        place = f"source/{file.relative_to(ROOT).as_posix()}.md"
        made[place] = _listing(file)
    elif file.is_dir() and file.is_relative_to(ROOT):
        place = f"source/{file.relative_to(ROOT).as_posix()}.md"
        made[place] = _folder(file, place, made)
    else:
        return match[0]
    moved = posixpath.relpath(place, posixpath.dirname(address) or ".")
    return f"{match[1]}{moved}{'#' + anchor if anchor else ''}{match[3]}"


def _listing(file: Path) -> str:
    """Return a page with the text of a file."""
    text = file.read_text(encoding="utf-8")
    language = _LANGUAGES.get(file.suffix, "text")
    return f"# {file.relative_to(ROOT).as_posix()}\n\n````{language}\n{text.rstrip()}\n````\n"


def _folder(folder: Path, place: str, made: dict[str, str | bytes]) -> str:
    """Return a page that lists the Python files of a folder."""
    lines = [f"# {folder.relative_to(ROOT).as_posix()}", ""]
    for file in sorted(folder.glob("*.py")):
        listing = f"source/{file.relative_to(ROOT).as_posix()}.md"
        made[listing] = _listing(file)
        lines.append(f"- [{file.name}]({posixpath.relpath(listing, posixpath.dirname(place))})")
    return "\n".join(lines) + "\n"
