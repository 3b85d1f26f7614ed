"""Relations of spans: the current span around code of others, links, the trace of a job's dispatcher."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from kit.telemetry import Watching, kind_of
from vivavoce.agents import Agent, EmptyReply, SessionOptions, function_tool
from vivavoce.agents.job import JobInfo
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.telemetry.tracing.job_span import job_span
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, ScriptedTTSOptions, SessionHarness
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.tools import ToolCall

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


def instrumented(tracer: Tracer, name: str) -> None:
    """Like the instrumentation of an HTTP client: a span inside the current one."""
    with tracer.start_as_current_span(name, attributes={"vivavoce.kind": "foreign"}):
        pass


class InstrumentedLLM(ScriptedLLM):
    def __init__(self, tracer: Tracer, *steps: Any) -> None:
        super().__init__(*steps)
        self._tracer = tracer

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        instrumented(self._tracer, "POST /chat")
        async for event in super().generate(request):
            yield event


class Desk(Agent):
    tracer: Tracer

    async def on_enter(self) -> None:
        instrumented(self.tracer, "in on_enter")

    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        instrumented(self.tracer, "GET /tables")
        _ = self.session.say("One moment.")
        return "free"

    @function_tool
    def count(self) -> str:
        """Count, in a thread."""
        instrumented(self.tracer, "GET /count")
        return "two"


def parent_of(watching: Watching, span: ReadableSpan) -> ReadableSpan:
    assert span.parent is not None
    (parent,) = [one for one in watching.spans if one.context.span_id == span.parent.span_id]
    return parent


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_a_span_of_the_tools_or_the_providers_own_is_in_the_span_of_its_call() -> None:
    watching = Watching()
    tracer = watching.tracers.get_tracer("theirs")
    desk = Desk("Help.")
    desk.tracer = tracer
    calls = [
        ToolCall(call_id="c1", name="look_up", arguments="{}"),
        ToolCall(call_id="c2", name="count", arguments="{}"),
    ]
    llm = InstrumentedLLM(tracer, calls, "It is free.")
    harness = SessionHarness(desk, llm, options=SessionOptions(telemetry=watching.telemetry))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=8.0)
    found = [(span.name, parent_of(watching, span).name) for span in watching.of("foreign")]
    assert found == [
        ("in on_enter", "on_enter"),
        ("POST /chat", "chat"),
        ("GET /tables", "execute_tool look_up"),
        ("GET /count", "execute_tool count"),
        ("POST /chat", "chat"),
    ]
    assert len({span.context.trace_id for span in watching.spans}) == 1


def test_what_calls_say_is_linked_to_it() -> None:
    watching = Watching()
    desk = Desk("Help.")
    desk.tracer = watching.tracers.get_tracer("theirs")
    llm = ScriptedLLM([ToolCall(call_id="c1", name="look_up", arguments="{}")], "It is free.")
    harness = SessionHarness(desk, llm, options=SessionOptions(telemetry=watching.telemetry))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=8.0)
    assert linked(watching.one("say")) == [watching.one("tool").context.span_id]


def test_a_turn_is_linked_to_the_attempt_that_it_goes_on_with_and_to_no_other() -> None:
    watching = Watching()
    harness = SessionHarness(
        Agent("Be nice."),
        ScriptedLLM("No.", "Yes."),
        tts=ScriptedTTS(options=ScriptedTTSOptions(duration=1.0)),
        options=SessionOptions(telemetry=watching.telemetry),
    )
    harness.preemptive = True
    harness.caller.says("hello", 0.5, 1.5, final_at=1.6)
    harness.caller.says("there", 1.8, 2.5, final_at=2.6)  # so that the first attempt is dropped
    harness.run(until=6.0)
    watching.check()
    dropped, taken = watching.of("attempt")
    turn = watching.one("turn")
    assert linked(turn) == [taken.context.span_id]
    assert {link.attributes["vivavoce.link"] for link in turn.links if link.attributes} == {"attempt"}
    assert dropped.context.span_id != taken.context.span_id


class Polite(Agent):
    async def on_empty_reply(self, reply: EmptyReply) -> None:
        await self.session.say("Pardon?")


def test_words_in_place_of_an_empty_answer_are_linked_to_their_hook_and_that_to_the_turn() -> None:
    watching = Watching()
    harness = SessionHarness(Polite("Help."), ScriptedLLM([0.1]), options=SessionOptions(telemetry=watching.telemetry))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=6.0)
    watching.check()
    (hook,) = [span for span in watching.of("hook") if span.name == "on_empty_reply"]
    assert linked(watching.one("say")) == [hook.context.span_id]
    assert linked(hook) == [watching.one("turn").context.span_id]


class Front(Agent):
    @function_tool
    async def transfer(self) -> Agent:
        """Hand over."""
        return Agent("Bill.", id="billing")


def test_a_handoff_is_linked_to_the_turn_that_asked_for_it() -> None:
    watching = Watching()
    llm = ScriptedLLM([ToolCall(call_id="c1", name="transfer", arguments="{}")], "Hello.")
    harness = SessionHarness(Front("Help."), llm, options=SessionOptions(telemetry=watching.telemetry))
    harness.caller.says("billing please", 0.5, 1.5)
    harness.run(until=6.0)
    watching.check()
    handoff = watching.one("handoff")
    assert linked(handoff) == [watching.of("turn")[0].context.span_id]
    assert (handoff.attributes or {})["vivavoce.handoff.new"] == "billing"


@pytest.mark.parametrize(
    "job",
    [
        JobInfo(id="AJ_1", room="r", metadata=f'{{"traceparent": "{TRACEPARENT}", "tenant": "a"}}'),
        JobInfo(id="AJ_1", room="r", metadata="not JSON", attributes={"traceparent": TRACEPARENT}),
    ],
    ids=["metadata", "attributes"],
)
def test_a_call_is_in_the_trace_of_whoever_dispatched_its_job(job: JobInfo) -> None:
    watching = Watching()
    with job_span(TelemetryControl.of(watching.telemetry), job, lambda: ""):
        harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi."))
        harness.caller.says("hello", 0.5, 1.5)
        harness.run(until=6.0)
    of_job, session = watching.one("job"), watching.one("session")
    assert of_job.parent is not None
    assert (of_job.parent.trace_id, of_job.parent.span_id) == (int(TRACE, 16), int(PARENT, 16))
    assert of_job.kind is SpanKind.CONSUMER
    assert parent_of(watching, session) is of_job
    assert {span.context.trace_id for span in watching.spans} == {int(TRACE, 16)}
    assert [kind_of(span) for span in watching.children(of_job)] == ["session"]


def test_metadata_of_too_many_levels_is_no_trace_and_harms_no_job() -> None:
    watching = Watching()
    job = JobInfo(id="AJ_1", room="r", metadata='{"a":' * 100_000)
    with job_span(TelemetryControl.of(watching.telemetry), job, lambda: ""):
        pass
    assert [span.parent for span in watching.spans] == [None]


def test_a_job_that_fails_has_a_status_that_redact_was_asked_for() -> None:
    watching = Watching(redact=lambda name, value: "?" if name in ("error.message", "vivavoce.room") else value)
    with job_span(TelemetryControl.of(watching.telemetry), JobInfo(id="AJ_1", room="of Ann"), lambda: "ValueError"):
        pass
    span = watching.one("job")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "?")
    assert (span.attributes or {})["vivavoce.room"] == "?"
