"""Check the built site: every internal link and anchor leads somewhere, and nothing is loaded from elsewhere.

``python scripts/documentation/check.py build/site`` prints the problems and fails if there are any.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["problems"]

#: attributes that a browser loads without a click
_LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
}
#: relations of <link> that a browser loads
_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
_IN_STYLES = re.compile(r"""url\(\s*['"]?(https?:|//)[^)]*\)|@import\s+['"](https?:|//)""")


#: what the search finds first, by query
_FOUND_FIRST = {
    "Dense": "#mx.gluon.nn.Dense",
    "Conv2D": "#mx.gluon.nn.Conv2D",
    "softmax": "#mx.nd.Softmax",
    "record": "#mx.autograd.record",
    "backward": "#mx.autograd.backward",
    "attach_grad": "NDArray.attach_grad",
    "Trainer": "#mx.gluon.Trainer",
    "DataLoader": "#mx.gluon.data.DataLoader",
    "Adam": "#mx.optimizer.Adam",
    "zeros": "#mx.nd.zeros",
    "profile": "#mx.profiler.profile",
    "recordio": "reference/recordio.html",
}


class _Page(HTMLParser):
    """The anchors, links and loaded files of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loaded += [value for name, value in values.items() if (tag, name) in _LOADED]
        if tag == "link" and _RELATIONS & set(values.get("rel", "").split()):
            self.loaded.append(values.get("href", ""))


def problems(site: Path) -> Iterator[str]:
    """Return what is wrong with a site."""
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} has no pages"
    for path, page in pages.items():
        shown = path.relative_to(site.resolve()).as_posix()
        for address in page.loaded:
            if re.match(r"(https?:)?//", address):
                yield f"{shown} loads {address}"
            elif not address.startswith("data:"):
                yield from _missing(path, shown, address, pages, site)
        for address in page.links:
            yield from _missing(path, shown, address, pages, site)
    for path in sorted(site.rglob("*.css")):
        for match in _IN_STYLES.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} loads {match[0]}"


def _missing(path: Path, shown: str, address: str, pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    """Return the problem of an internal link, if it has one."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return
    local = unquote(parts.path)
    if local.startswith("/"):
        target = (site / local.lstrip("/")).resolve()
    else:
        target = (path.parent / local).resolve() if local else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        yield f"{shown} links to {address}, which does not exist"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors | {"__top"}:
        yield f"{shown} links to {address}, which has no such anchor"


def lost_names(site: Path) -> Iterator[str]:
    """Return the names that the search does not find first; nothing without node, which runs the site's search."""
    node = shutil.which("node")
    if node is None:
        print("the search was not tried: there is no node")
        return
    command = [node, str(Path(__file__).with_name("search.js")), str(site), *_FOUND_FIRST]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()
    for (query, wanted), found in zip(_FOUND_FIRST.items(), lines, strict=True):
        if not found.endswith(wanted):
            yield f"the search for {query} finds {found} first, not {wanted}"


def main() -> int:
    """Print the problems of the site that the command line names."""
    site = Path(sys.argv[1])
    found = [*problems(site), *lost_names(site)]
    for problem in found:
        print(problem)
    print(f"{len(found)} problems")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
