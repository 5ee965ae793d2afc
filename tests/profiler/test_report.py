"""The HTML report: complete, self-contained, and shown by a real browser."""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from phonograd.profiler import profile, record_function, schedule
from phonograd.profiler import report as report_module

from .programs import training_step

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> str | None:
    """Return the browser to test with: the one that CHROMIUM names, or one that is installed."""
    named = [os.environ["CHROMIUM"]] if "CHROMIUM" in os.environ else []
    return next((found for name in (*named, *BROWSERS) if (found := shutil.which(name))), None)


NASTY = '</script><script>document.title="broken"</script><!-- \u2028 " \\ \x00'


@pytest.fixture
def page(nothing_held: None, tmp_path: Path) -> Path:
    steps = schedule(wait=0, warmup=0, active=3, repeat=1)
    with profile(schedule=steps, profile_memory=True, with_modules=True, with_flops=True) as prof:
        for _ in range(3):
            training_step()
            with record_function(NASTY) as scope:
                scope.set(batch=3)
            prof.step()
    path = tmp_path / "report.html"
    prof.export_html(path, "A <b>title</b>")
    return path


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


class Resources(HTMLParser):
    """Everything that a page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.elements: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]


def test_page_is_self_contained_and_names_cannot_break_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    parser = Resources()
    parser.feed(text)
    assert parser.found == []
    assert parser.elements.count("script") == 2
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert "<h1>A &lt;b&gt;title&lt;/b&gt;</h1>" in text


def test_data_is_complete(page: Path) -> None:
    data = data_of(page)
    slices = [slice for track in data["tracks"] for slice in track["slices"]]
    assert data["count"] == len(slices)
    assert NASTY in data["names"]
    assert len(data["steps"]) == 3
    assert {row["name"] for row in data["scopes"]} >= {"ProfilerStep*", "ProfilerStep* > forward > loss"}
    assert data["memory"]["peak"]["size"] == 6144
    assert {kind for *_, kind in data["arrows"]} == {0, 1}
    whole, own, children = data["flame"][1], data["flame"][2], data["flame"][4]
    assert whole == own + sum(child[1] for child in children)
    for track in data["tracks"]:
        for start, long, depth, *_ in track["slices"]:
            around = [s for s in track["slices"] if s[0] <= start and s[0] + s[1] >= start + long and s[2] < depth]
            assert len({s[2] for s in around}) == depth, "every slice stands under another one"


def test_empty_profile(tmp_path: Path) -> None:
    with profile() as prof:
        pass
    prof.export_html(tmp_path / "empty.html")
    data = data_of(tmp_path / "empty.html")
    assert (data["count"], data["memory"], data["averages"]) == (0, None, [])


def test_too_many_slices_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "_MOST_SLICES", 5)
    with profile() as prof, record_function("outer"):
        for _ in range(20):
            with record_function("inner"):
                pass
    prof.export_html(tmp_path / "report.html")
    data = data_of(tmp_path / "report.html")
    shown = sum(len(track["slices"]) for track in data["tracks"])
    durations = sorted([event.total_ns for event in prof.events()], reverse=True)
    # slices that are equally long stay or go together
    assert shown == len([duration for duration in durations if duration >= durations[5]]) < 21
    assert shown + data["hidden"] == 21


needs_browser = pytest.mark.skipif(
    browser() is None, reason=f"there is no browser: none of {', '.join(BROWSERS)} is installed"
)


def shown(page: Path) -> str:
    """Return the page as a browser has it after its script has run."""
    command = [
        str(browser()),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@needs_browser
@pytest.mark.parametrize("which", ["full", "empty"])
def test_browser_shows_it(page: Path, which: str) -> None:
    if which == "empty":
        with profile() as prof:
            pass
        prof.export_html(page)
    text = shown(page)
    data = data_of(page)
    slices = sum(len(track["slices"]) for track in data["tracks"])
    ready = re.search(r'data-ready="(\d+) names, (\d+) slices, (\d+) bars"', text)
    assert ready is not None, "the script of the page did not reach its end"
    assert (int(ready[1]), int(ready[2])) == (len(data["averages"]), slices)
    if which == "full":
        assert int(ready[3]) > 5, "the flame graph is drawn"
        assert "Peak 6.00 KB" in text
        assert "gradient: 4.00 KB at the peak" in text
        assert text.count("<tr>") > len(data["averages"]), "the tables are filled"
    assert "<title>broken" not in text


@needs_browser
def test_timeline_can_be_used(page: Path) -> None:
    """What a user does: look for a name, go to the next one, click on it, enlarge, choose which arrows to see."""
    script = """
    <script>
    const tab = document.querySelector('nav button[data-name="timeline"]');
    tab.click();
    const find = document.querySelector("#timeline input");
    find.value = "FullyConnected";
    find.dispatchEvent(new Event("input"));
    find.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    const first = document.querySelector("#detail b").textContent;
    const canvas = document.querySelector("#lanes canvas"), box = canvas.getBoundingClientRect();
    for (let y = 1; y < 300 && document.querySelector("#detail b").textContent === first; y += 9) {
      const at = { clientX: box.left + box.width / 2, clientY: box.top + y, bubbles: true };
      canvas.dispatchEvent(new MouseEvent("mousedown", at));
      canvas.dispatchEvent(new MouseEvent("mouseup", at));
      canvas.dispatchEvent(new MouseEvent("click", at));
      if (!document.querySelector("#detail b")) break;
    }
    for (const button of document.querySelectorAll("[data-move]")) button.click();
    const arrows = document.querySelector("#arrows");
    for (const option of arrows.options) { arrows.value = option.value; arrows.dispatchEvent(new Event("change")); }
    const said = [first, document.querySelector("#matches").textContent, [...arrows.options].length, document.querySelector("section.shown").id];
    document.documentElement.dataset.used = said.join(" | ");
    </script>
    """
    page.write_text(page.read_text().replace("</body>", script + "</body>"))
    found = re.search(r'data-used="([^"]*)"', shown(page))
    assert found is not None, "a handler has failed"
    first, matches, ways, tab = found[1].split(" | ")
    assert "FullyConnected" in first
    assert matches.startswith(f"{3 * 4} found, ")
    assert (ways, tab) == ("3", "timeline")
