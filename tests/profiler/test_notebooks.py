"""Profiles, their tables and plans show themselves in notebooks."""

import html
import re

import phonograd as mx
from phonograd.profiler import profile, record_function
from phonograd.profiler.tables import html_table


class Printer:
    """What IPython passes to ``_repr_pretty_``."""

    def __init__(self):
        self.shown = ""

    def text(self, text):
        self.shown += text


def shown(value):
    printer = Printer()
    value._repr_pretty_(printer, False)
    return printer.shown


def test_a_profile_shows_its_report():
    with profile() as prof, record_function('a "name" <b>'):
        pass
    frame = prof._repr_html_()
    (page,) = re.fullmatch(r'<iframe title="Profile" style="[^"]*" srcdoc="([^"]*)"></iframe>', frame).groups()
    assert html.unescape(page).startswith("<!DOCTYPE html>")
    assert "a \\u0022name" in html.unescape(page) or 'a \\"name' in html.unescape(page)


def test_tables_show_themselves():
    with profile() as prof, record_function("outer"):
        pass
    assert "outer</td>" in prof.key_averages()._repr_html_()
    assert "outer</td>" in prof.by_scope()._repr_html_()
    assert prof.by_module()._repr_html_() == "<p>no rows</p>"
    assert shown(prof.diff(prof)) == str(prof.diff(prof))


def test_names_are_at_the_left():
    table = html_table(["Name", "Calls"], [["<a>", "2"]])
    assert '<td style="text-align: left">&lt;a&gt;</td><td>2</td>' in table


def test_memory_and_plans_show_their_text():
    with profile(profile_memory=True) as prof:
        mx.nd.ones((10,)).wait_to_read()
    timeline = prof.memory_timeline()
    assert shown(timeline) == str(timeline)
    report = mx.explain.plan(mx.nd.ones((3,)) * 2)
    assert shown(report) == str(report) != repr(report)
    with mx.explain.plans() as log:
        pass
    assert shown(log) == "no plan was made"
