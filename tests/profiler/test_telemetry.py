"""Profiles as spans of OpenTelemetry: with the library where it is installed, and with a stand-in for it everywhere."""

import sys
import time
import types
from typing import Any, NamedTuple

import pytest

from phonograd.core.events import BACKWARD_FUNCTION, FUNCTION, begin
from phonograd.profiler import profile, record_function


def test_spans() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with profile() as prof, record_function("outer", attributes={"batch": 3, "list": [1]}) as scope:
        scope.event("moment")
        with begin(FUNCTION, "mul") as forward:
            time.sleep(0.001)
        with pytest.raises(KeyError), begin(BACKWARD_FUNCTION, "_backward_mul", forward=forward):
            raise KeyError("k")
    assert prof.export_spans(tracer) == 0
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"outer", "mul", "_backward_mul"}
    outer, mul, backward = spans["outer"], spans["mul"], spans["_backward_mul"]
    assert mul.parent.span_id == backward.parent.span_id == outer.context.span_id
    assert outer.parent is None
    assert [link.context.span_id for link in backward.links] == [mul.context.span_id]
    assert (outer.attributes["batch"], outer.attributes["list"]) == (3, "[1]")
    assert [event.name for event in outer.events] == ["moment"]
    assert backward.status.description == "KeyError: 'k'"
    event = prof.events()[2]
    assert mul.end_time - mul.start_time == event.end_ns - event.start_ns
    exporter.clear()
    assert prof.export_spans(tracer, max_spans=1) == 2
    assert [span.name for span in exporter.get_finished_spans()] == ["outer"]
    exporter.clear()
    assert prof.export_spans(tracer, minimum_duration_us=1000) == 1
    assert {span.name for span in exporter.get_finished_spans()} == {"outer", "mul"}


class Span:
    """What a tracer returns."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.options = options
        self.events: list[tuple[str, int]] = []
        self.status: Any = None
        self.end_time = 0

    def get_span_context(self) -> str:
        return f"context of {self.name}"

    def add_event(self, name: str, timestamp: int) -> None:
        self.events.append((name, timestamp))

    def set_status(self, status: Any) -> None:
        self.status = status

    def end(self, end_time: int) -> None:
        self.end_time = end_time


class Link(NamedTuple):
    context: str
    attributes: dict[str, str]


class Status(NamedTuple):
    code: str
    description: str


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """The spans that a stand-in for OpenTelemetry's tracer has started."""
    trace: Any = types.ModuleType("opentelemetry.trace")
    trace.Link, trace.Status = Link, Status
    trace.StatusCode = types.SimpleNamespace(ERROR="error")
    trace.set_span_in_context = lambda span: span.get_span_context()
    package: Any = types.ModuleType("opentelemetry")
    package.trace = trace
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    return []


def test_spans_without_the_library(spans: list[Span]) -> None:
    def start_span(name: str, **options: Any) -> Span:
        spans.append(Span(name, options))
        return spans[-1]

    tracer = types.SimpleNamespace(start_span=start_span)
    with profile() as prof, record_function("outer", attributes={"batch": 3}) as scope:
        scope.event("moment")
        with begin(FUNCTION, "mul") as forward:
            pass
        with pytest.raises(KeyError), begin(BACKWARD_FUNCTION, "_backward_mul", forward=forward):
            raise KeyError("k")
    assert prof.export_spans(tracer) == 0
    outer, mul, backward = spans
    assert (outer.options["context"], mul.options["context"]) == (None, "context of outer")
    assert outer.options["attributes"]["batch"] == 3
    assert [name for name, _ in outer.events] == ["moment"]
    assert backward.options["links"] == [Link("context of mul", {"kind": "fwdbwd"})]
    assert backward.status == Status("error", "KeyError: 'k'")
    events = [event for event in prof.events() if not event.instant]
    assert [span.end_time - span.options["start_time"] for span in spans] == [e.end_ns - e.start_ns for e in events]
    spans.clear()
    assert prof.export_spans(tracer, max_spans=1) == 2
    assert [span.name for span in spans] == ["outer"]
