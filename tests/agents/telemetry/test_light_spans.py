"""Light spans are told as the SDK's are: same calls, same records; the SDK's sampling decides."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from kit.telemetry import Watching
from vivavoce.agents import Agent, SessionOptions, Telemetry, TelemetryOptions, function_tool
from vivavoce.agents.telemetry.tracing.light_spans import LightSpan, LightTracer
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.llm.tools import ToolCall

SCOPE = InstrumentationScope("vivavoce", "")


@dataclass
class Both:
    """A provider, and what came out of its spans, light ones and its own."""

    sampler: Sampler = ALWAYS_ON
    limits: SpanLimits = field(default_factory=SpanLimits)
    taken: list[ReadableSpan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(self.sampler, shutdown_on_exit=False, span_limits=self.limits)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.light = LightTracer(self.provider, self.limits, SCOPE, lambda span: self.taken.append(span.readable()))
        self.own = self.provider.get_tracer(SCOPE.name)
        self.root = self.own.start_span("root")

    def start(self, tracer: Tracer, **given: Any) -> Span:
        return tracer.start_span("a", set_span_in_context(self.root), start_time=5, **given)

    def told(self, do: Callable[[Span], object], **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Do the same to a light span and to one of the SDK, and return what their exporters read."""
        for tracer in (self.light, self.own):
            span = self.start(tracer, **given)
            assert isinstance(span, LightSpan) is (tracer is self.light)
            do(span)
            if span.is_recording():
                span.end(9)
        return record(self.taken[-1]), record(self.exporter.get_finished_spans()[-1])


def record(span: ReadableSpan) -> dict[str, Any]:
    """Return all that exporters send but the span's own id and times of now."""
    (scope,) = encode_spans([span]).resource_spans[0].scope_spans
    (encoded,) = scope.spans
    encoded.span_id = b""
    if encoded.end_time_unix_nano > 9:
        encoded.end_time_unix_nano = 0
    for event in encoded.events:
        if event.name == "exception":
            event.time_unix_nano = 0
    told: dict[str, Any] = MessageToDict(encoded)
    told.get("attributes", []).sort(key=lambda each: str(each["key"]))  # one set anew is last, or where it was
    return {"scope": MessageToDict(scope.scope), **told}


names = st.sampled_from(["a", "b", "c", ""])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.floats(allow_nan=False) | texts
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(names, scalars, max_size=2) | st.binary(max_size=3)
told = st.dictionaries(names, values, max_size=3)
times = st.integers(6, 8)
codes = st.sampled_from(list(StatusCode))
elsewhere = st.sampled_from([SpanContext(7, 8, True, TraceFlags(1)), SpanContext(0, 0, False)])
doings = st.one_of(
    st.tuples(st.just("set_attribute"), names, values),
    st.tuples(st.just("set_attributes"), told),
    st.tuples(st.just("add_event"), names, told, times),
    st.tuples(st.just("add_link"), elsewhere, told),
    st.tuples(st.just("update_name"), names),
    st.tuples(st.just("set_status"), codes),
    st.tuples(st.just("set_status"), st.builds(Status, st.sampled_from([StatusCode.ERROR]), texts)),
    st.tuples(st.just("end"), times),
)


@given(st.lists(doings, max_size=8), told, st.sampled_from([None, 2]))
def test_whatever_a_span_is_told_it_is_read_as_one_of_the_sdk(doings: list[Any], first: Any, longest: Any) -> None:
    def do(span: Span) -> None:
        for name, *arguments in doings:
            getattr(span, name)(*arguments)

    both = Both(limits=SpanLimits(max_attribute_length=longest))
    light, own = both.told(do, attributes=first, kind=SpanKind.CLIENT)
    assert light == own


def test_an_exception_in_a_with_block_is_recorded_and_goes_on() -> None:
    def do(span: Span) -> None:
        with pytest.raises(LookupError, match="nothing there"), span:
            raise LookupError("nothing there")

    light, own = Both().told(do)
    assert light == own
    assert light["status"] == {"code": "STATUS_CODE_ERROR", "message": "LookupError: nothing there"}
    assert light["events"][0]["attributes"][0] == {"key": "exception.type", "value": {"stringValue": "LookupError"}}


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("sets_status", [True, False])
def test_an_exception_is_not_told_where_whoever_begins_the_span_says_so(records: bool, sets_status: bool) -> None:
    def do(span: Span) -> None:
        with pytest.raises(LookupError), span:
            raise LookupError("what a caller said")

    light, own = Both().told(do, record_exception=records, set_status_on_exception=sets_status)
    assert light == own
    assert ("events" in light, bool(light["status"])) == (records, sets_status)


def test_a_status_that_is_none_of_the_api_is_left_out_and_costs_no_batch() -> None:
    light, own = Both().told(lambda span: span.set_status("ERROR"))  # type: ignore[arg-type]  # as users do
    assert light == own
    assert light["status"] == {}


@pytest.mark.parametrize("name", ["caf\udce9.txt", 5])
def test_a_name_or_status_that_cannot_be_encoded_costs_no_batch(name: Any) -> None:
    both = Both()
    span = both.start(both.light)
    span.add_event(name)
    span.set_status(StatusCode.ERROR, str(name))
    span.update_name(name)
    span.end(9)
    told = record(both.taken[0])
    readable = str(name).replace("\udce9", "?")
    assert (told["name"], told["events"][0]["name"], told["status"]["message"]) == (readable, readable, readable)


def test_what_a_span_was_told_can_be_read_while_it_goes_on() -> None:
    both = Both()
    for tracer in (both.light, both.own):
        span: Any = both.start(tracer, attributes={"a": 1}, links=[Link(SpanContext(7, 8, True))])
        span.add_event("b", {"c": 2})
        assert (span.name, span.attributes, span.context) == ("a", {"a": 1}, span.get_span_context())
        assert [(event.name, event.attributes) for event in span.events] == [("b", {"c": 2})]
        assert [link.context.span_id for link in span.links] == [8]
        with pytest.raises(TypeError):
            span.attributes["a"] = 3
    assert (both.start(both.light).events, both.start(both.light).links) == ((), ())  # type: ignore[attr-defined]


def test_a_value_that_is_changed_afterwards_was_told_as_it_was() -> None:
    names = ["a"]

    def do(span: Span) -> None:
        span.set_attribute("names", names)
        names.append("b")
        span.end(9)
        names.clear()
        names.append("a")

    light, own = Both().told(do)
    assert light == own
    (told,) = light["attributes"]
    assert told["value"] == {"arrayValue": {"values": [{"stringValue": "a"}]}}


def test_beyond_their_limits_attributes_events_and_links_are_dropped_and_counted() -> None:
    both = Both(limits=SpanLimits(max_span_attributes=2, max_events=2, max_links=1))
    span = both.start(both.light, attributes={"a": 1, "b": 2, "c": 3})
    span.set_attribute("a", 4)
    for number in range(3):
        span.add_event(str(number))
        span.add_link(SpanContext(1, number + 1, False))
    span.end()
    read = both.taken[0]
    assert dict(read.attributes or {}) == {"a": 4, "b": 2}
    assert (read.dropped_attributes, read.dropped_events, read.dropped_links) == (1, 1, 2)


def test_what_a_span_is_told_when_it_has_ended_changes_nothing_and_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    both = Both()
    span = both.start(both.light, attributes={"a": 1})
    span.end(9)
    with caplog.at_level(logging.WARNING, "vivavoce"):
        span.set_attribute("a", 2)
        span.add_event("late")
        span.add_link(SpanContext(1, 2, False))
        span.update_name("b")
        span.set_status(StatusCode.ERROR)
        span.end(10)
    assert isinstance(span, LightSpan)
    assert len(both.taken) == 1
    assert record(both.taken[0]) == record(span.readable())
    assert [message.split(" span a")[0] for message in caplog.messages] == [
        f"Too late to {what}"
        for what in ("set attributes of", "add an event to", "add a link to", "rename", "set the status of", "end")
    ]


def test_threads_that_tell_a_span_something_while_it_ends_do_not_break_it() -> None:
    both = Both(limits=SpanLimits(max_span_attributes=100_000))
    errors: list[BaseException] = []

    def tell(span: Span, of: int) -> None:
        number = 0
        try:
            while span.is_recording():
                span.set_attribute(f"{of}.{number}", number)
                number += 1
        except BaseException as error:  # noqa: BLE001 - a thread's is nobody's otherwise
            errors.append(error)

    for _ in range(20):
        span = both.start(both.light)
        threads = [threading.Thread(target=tell, args=(span, of)) for of in range(4)]
        for thread in threads:
            thread.start()
        span.end()
        for thread in threads:
            thread.join(10)
    assert errors == []
    assert len(both.taken) == 20


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns after each few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried")
def test_threads_that_end_a_span_at_a_time_hand_it_over_once_with_all_that_they_told() -> None:
    both = Both()
    for _ in range(300):
        span, barrier = both.start(both.light), threading.Barrier(4)

        def tell_and_end(span: Span = span, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(10)
            span.add_event("told")
            span.add_link(SpanContext(7, 8, True))
            barrier.wait(10)
            span.end()

        threads = [threading.Thread(target=tell_and_end) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert {(len(one.events), len(one.links)) for one in both.taken} == {(4, 4)}
    assert len(both.taken) == 300


def test_a_span_begun_by_a_block_is_current_in_it_and_ends_with_it() -> None:
    both = Both()
    with both.light.start_as_current_span("a", set_span_in_context(both.root)) as span:
        assert get_current_span() is span
        with both.light.start_as_current_span("b") as inner:
            assert inner.get_span_context().trace_id == span.get_span_context().trace_id
    assert [(one.name, one.parent and one.parent.span_id) for one in both.taken] == [
        ("b", span.get_span_context().span_id),
        ("a", both.root.get_span_context().span_id),
    ]
    assert all(one.start_time and one.end_time and one.start_time <= one.end_time for one in both.taken)


async def test_a_span_that_decorates_a_coroutine_function_lasts_as_long_as_each_call() -> None:
    both = Both()
    tracer: Tracer = both.light

    @tracer.start_as_current_span("a", set_span_in_context(both.root))
    async def look_up() -> Span:
        assert get_current_span().is_recording()
        return get_current_span()

    first, second = await look_up(), await look_up()
    assert [one.context for one in both.taken] == [first.get_span_context(), second.get_span_context()]


# --- processors


def test_a_processor_of_the_application_is_told_of_every_span() -> None:
    telemetry, exporter = Telemetry(TelemetryOptions(endpoint="http://127.0.0.1:9")), InMemorySpanExporter()
    assert isinstance(telemetry.tracer_provider, TracerProvider)
    with telemetry.tracer.start_as_current_span("a"):
        assert isinstance(telemetry.tracer.start_span("before"), LightSpan)
        telemetry.tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
        telemetry.tracer.start_span("b").end()
    assert [span.name for span in exporter.get_finished_spans()] == ["b", "a"]
    assert telemetry.waiting_spans == 2


# --- sampling


class Choosy(Sampler):
    """One that is not the SDK's: spans of some names only."""

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any, **more: Any) -> SamplingResult:
        return SamplingResult(Decision.DROP if name == "a" else Decision.RECORD_AND_SAMPLE)

    def get_description(self) -> str:
        return "Choosy"


@pytest.mark.parametrize(
    ("sampler", "is_sampled"),
    [(ALWAYS_ON, True), (ALWAYS_OFF, False), (TraceIdRatioBased(0.0), False), (ParentBased(ALWAYS_ON), True)],
)
def test_what_is_in_a_span_is_sampled_as_that_is(sampler: Sampler, is_sampled: bool) -> None:
    both = Both(sampler)
    span = both.start(both.light)
    assert isinstance(span, LightSpan) is is_sampled
    assert span.get_span_context().trace_flags.sampled is is_sampled
    assert span.get_span_context().trace_id == both.root.get_span_context().trace_id
    span.end()
    assert len(both.taken) == is_sampled


def test_a_sampler_that_is_not_the_sdks_is_asked_for_each_span() -> None:
    both = Both(Choosy())
    assert not both.start(both.light).is_recording()
    other = both.light.start_span("b", set_span_in_context(both.root))
    assert other.is_recording()
    assert not isinstance(other, LightSpan)


def test_in_a_span_of_another_provider_the_own_sampler_is_asked() -> None:
    theirs, ours = Both(), Both(ALWAYS_OFF)
    span = ours.light.start_span("a", set_span_in_context(theirs.start(theirs.light)))
    assert not span.is_recording()
    assert span.get_span_context().trace_id == theirs.root.get_span_context().trace_id


# --- calls


class Desk(Agent):
    @function_tool
    async def look_up(self, day: str) -> str:
        """Look a day up."""
        get_current_span().set_attribute("rows", [1, 2])
        return f"{day} is free"

    @function_tool
    async def fail(self) -> str:
        """Fail."""
        raise RuntimeError("no")


def calling(watching: Watching, *, is_realtime: bool) -> SessionHarness:
    """Return a call with tools, a failure, an interruption and a provider's error."""
    options = SessionOptions(telemetry=watching.telemetry)
    looks = ToolCall(call_id="c1", name="look_up", arguments='{"day": "Monday"}')
    fails = ToolCall(call_id="c2", name="fail", arguments="{}")
    steps: list[Any] = [[0.1, looks, fails], [0.1, "Monday is free, and there is a table. " * 3], [0.1, "Fine."]]
    if is_realtime:
        harness = SessionHarness(Desk("Be brief."), model=ScriptedRealtimeModel(*steps, [0.1, "Bye."]), options=options)
    else:
        steps.append([0.1, ProviderStatusError("the model said no", provider="scripted", status=400)])
        harness = SessionHarness(Desk("Be brief."), ScriptedLLM(*steps), options=options)
    for number, (start, end) in enumerate([(0.5, 1.5), (4.5, 5.5), (9.5, 10.5)]):
        harness.caller.says(f"words {number}", start, end, final_at=end + 0.2)
    return harness


def told_of(watching: Watching) -> list[dict[str, Any]]:
    """Return what was told, with ids replaced by the places of their spans."""
    spans = sorted(watching.spans, key=lambda span: (span.start_time, span.name, span.end_time))
    places = {span.context.span_id: number for number, span in enumerate(spans)}
    found = []
    for span in spans:
        attributes = {name: value for name, value in (span.attributes or {}).items() if not name.endswith(".id")}
        found.append(
            {
                "name": span.name,
                "parent": None if span.parent is None else spans[places[span.parent.span_id]].name,
                "kind": span.kind,
                "times": (span.start_time, span.end_time),
                "attributes": attributes,
                "events": [(e.name, e.timestamp, sorted(e.attributes or {})) for e in span.events],
                "links": [spans[places[link.context.span_id]].name for link in span.links],
                "status": (span.status.status_code, span.status.description),
            }
        )
    return found


@pytest.mark.parametrize("is_realtime", [False, True], ids=["cascading", "realtime"])
def test_a_call_is_told_alike_by_light_spans_and_by_a_provider_of_the_application(is_realtime: bool) -> None:
    found = []
    for is_given in (False, True):
        watching = Watching(is_given=is_given)
        harness = calling(watching, is_realtime=is_realtime)
        harness.expects_error("tool").run(until=16.0)
        watching.check()
        found.append(told_of(watching))
    assert found[0] == found[1]
    assert len(found[0]) > 25
    assert {span["attributes"].get("rows") for span in found[0]} == {None, (1, 2)}
