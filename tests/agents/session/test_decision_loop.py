"""An exception inside a step of the decision loop is an error event, and the conversation continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import Closed, ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, SessionHarness, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingConnection, CascadingPipeline
from vivavoce.pipelines.events import UserFinal
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.testing import VirtualClock


class FrailRoom(LocalTransport):
    """A custom room whose display of the agent's state raises while `is_broken`."""

    def __init__(self, clock: VirtualClock, is_broken: Callable[[str], bool]) -> None:
        super().__init__(clock)
        self._is_broken = is_broken

    def send_agent_state(self, state: str) -> None:
        super().send_agent_state(state)
        if self._is_broken(state):
            raise RuntimeError("no display")


class FrailPipeline(CascadingPipeline):
    """A custom pipeline that can report words that are no text."""

    def __init__(self, llm: ScriptedLLM, stt: ScriptedSTT) -> None:
        super().__init__(stt=stt, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())

    def open(self, context: PipelineContext) -> CascadingConnection:
        self._report = context.emit
        return super().open(context)

    def fail(self) -> None:
        self._report(UserFinal(text=5))  # type: ignore[arg-type]  # its mistake


def frail(answer: str) -> tuple[SessionHarness, FrailPipeline]:
    llm, stt = ScriptedLLM(default=answer), ScriptedSTT()
    pipeline = FrailPipeline(llm, stt)
    return SessionHarness(Agent("Help."), llm, stt=stt, pipeline=pipeline), pipeline


def converse(is_broken: Callable[[str], bool]) -> tuple[AgentSession[Any], list[Any]]:
    told: list[Any] = []
    sessions: list[AgentSession[Any]] = []

    async def main() -> None:
        clock = VirtualClock()
        parts = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())
        session = AgentSession[Any](Agent("Help."), parts, options=SessionOptions(clock=clock))
        sessions.append(session)
        session.on(ErrorOccurred, told.append)
        session.on(Closed, told.append)
        await session.start(FrailRoom(clock, is_broken))
        for word in ("One.", "Two."):
            await session.say(word)
        await session.close()

    run_virtual(main())
    return sessions[0], told


def test_an_effect_that_raises_is_an_error_event_and_what_is_said_is_heard() -> None:
    session, told = converse(lambda state: state == "speaking")
    assert [message.content for message in session.history.messages()] == ["One.", "Two."]
    *errors, closed = told
    assert [(error.source, str(error.error)) for error in errors] == [("decision loop", "no display")] * len(errors)
    assert errors
    assert closed.report.reason == "user_initiated"


def test_a_session_whose_steps_go_on_raising_closes_and_says_why() -> None:
    async def scenario(harness: SessionHarness) -> None:
        for _ in range(6):
            pipeline.fail()
        await harness.until(20.0)

    harness, pipeline = frail("Fine.")
    harness.expects_error("session").expects_error("decision loop").run(scenario)
    assert {error.source for error in harness.recording.of(ErrorOccurred)} == {"decision loop"}
    assert harness.close_report is not None
    assert (harness.close_report.reason, harness.close_report.error) == ("error", "TypeError")


def test_an_input_that_raises_is_an_error_event_and_the_next_turn_is_answered() -> None:
    harness, pipeline = frail("Fine.")
    harness.caller.says("a table", 2.0, 3.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        pipeline.fail()
        await harness.until(6.0)

    harness.expects_error("decision loop").run(scenario, until=7.0)
    harness.expect_history(("user", "a table"), ("assistant", "Fine."))
    assert harness.recording.of(ErrorOccurred)[0].source == "decision loop"
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"
