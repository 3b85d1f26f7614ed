"""Peers and telemetry: the spans of both sides are in one trace."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan

from kit.talking_peers import Answer, Question, running, talker
from kit.telemetry import Watching
from vivavoce.agents import Agent, AgentSession, RunContext, function_tool
from vivavoce.agents.peers import Peer, PeerServer
from vivavoce.agents.testing import ScriptedLLM
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.tools import ToolCall


async def test_a_question_of_a_tool_and_the_specialist_s_session_are_in_one_trace() -> None:
    watching = Watching()

    def specialist() -> AgentSession[None]:
        session = talker("tax", telemetry=watching.telemetry)

        @session.peers.on_message(Question)
        async def answer(peer: Peer, question: Question) -> Answer:
            return Answer(number=42)

        return session

    @function_tool
    async def ask(context: RunContext) -> str:
        "Ask the specialist."
        peer = await context.session.peers.connect(server.url)
        answer = await peer.request(Question(words="how much?"), answer=Answer)
        await peer.aclose()
        return str(answer.number)

    llm = ScriptedLLM([ToolCall(call_id="c1", name="ask", arguments="{}")], "It is 42.")
    caller = talker("host", CascadingPipeline(llm=llm), agent=Agent("x", tools=[ask]), telemetry=watching.telemetry)
    async with PeerServer(specialist) as server:
        chat = TextTransport()
        async with caller:
            await caller.start(chat)
            chat.send("how much is it?")
            assert (await chat.receive()).text == "It is 42."
    tool = span_of(watching, "execute_tool ask", "host")
    assert len({span.context.trace_id for span in watching.spans if span.context is not None}) == 1
    for name in ("session", "on_message"):
        assert parent_of(span_of(watching, name, "tax")) == tool.context.span_id


def span_of(watching: Watching, name: str, session_id: str) -> ReadableSpan:
    """Return the span with that name of a session."""
    found = [span for span in watching.spans if span.name == name]
    return next(span for span in found if (span.attributes or {})["vivavoce.session.id"] == session_id)


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


async def test_the_handler_of_a_session_that_runs_already_is_in_the_trace_of_the_sender() -> None:
    watching = Watching()
    seen: list[int] = []
    async with (
        PeerServer() as server,
        running(talker("desk", telemetry=watching.telemetry)) as desk,
        running(talker("asker", telemetry=watching.telemetry)) as asker,
    ):
        server.add(desk)

        @desk.peers.on_message(Question)
        async def answer(peer: Peer, question: Question) -> None:
            seen.append(question.number)

        peer = await asker.peers.connect(server.url_of(desk))
        with watching.tracers.get_tracer("test").start_as_current_span("asking") as asking:
            await peer.request(Question(number=1))
        await peer.request(Question(number=2))
    handled = [span for span in watching.spans if span.name == "on_message"]
    assert parent_of(handled[0]) == asking.get_span_context().span_id
    assert handled[1].context.trace_id != asking.get_span_context().trace_id
    assert seen == [1, 2]
