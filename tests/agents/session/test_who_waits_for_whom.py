"""Application code that awaits the close, a handoff or another pipeline: the table of `agents/core/hooks.py`.

Handlers, tools, wake-ups, hooks of handoffs and a flow's `on_turn_end` and `cleanup` are tested beside their scenarios
(test_19_update_agent, test_20_close, test_20_close_and_wake_up, test_close_from_cleanup, test_flow).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, ConversationFlow, SessionOptions
from vivavoce.agents.agent import CompletedTurn, EmptyReply
from vivavoce.agents.audio.recording.options import RecordingOptions
from vivavoce.agents.events import Closed, ErrorOccurred
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    SessionHarness,
    VirtualClock,
    run_virtual,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError


class Closer(Agent):
    """Awaits the close, or something else, in one of its hooks; `log` has the results."""

    def __init__(self, where: str, what: str = "close") -> None:
        super().__init__("Help.")
        self.where = where
        self.what = what
        self.log: list[str] = []

    async def _wait(self, where: str) -> None:
        if where != self.where:
            return
        self.log.append("waits")
        session: Any = self.session
        try:
            if self.what == "update_agent":
                await session.update_agent(Agent("Other.", id="other"))
            elif self.what == "update_pipeline":
                await session.update_pipeline(pipeline())
            else:
                await getattr(session, self.what)()
        except SessionError as error:
            self.log.append(str(error))
        except BaseException:
            self.log.append("is cut")
            raise
        else:
            self.log.append("goes on")

    async def on_enter(self) -> None:
        await self._wait("on_enter")

    async def on_exit(self) -> None:
        await self._wait("on_exit")

    async def cleanup(self) -> None:
        await self._wait("cleanup")

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        await self._wait("on_user_turn_completed")

    async def on_empty_reply(self, empty: EmptyReply) -> None:
        await self._wait("on_empty_reply")


def pipeline() -> CascadingPipeline:
    return CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM("Hi."), tts=ScriptedTTS(), vad=ScriptedVAD())


@pytest.mark.parametrize(
    ("where", "what", "outcome"),
    [
        ("on_user_turn_completed", "close", "is cut"),
        ("on_user_turn_completed", "wait_closed", "is cut"),
        ("on_empty_reply", "close", "goes on"),
        ("on_empty_reply", "leave", "goes on"),
        ("on_exit", "wait_closed", "the session is closing and waits for this code; return from it instead of closing"),
        ("cleanup", "leave", "the session is closing and waits for this code; return from it instead of closing"),
    ],
)
def test_an_agents_hook_that_awaits_the_close_does_not_hold_it_up(where: str, what: str, outcome: str) -> None:
    agent = Closer(where, what)
    harness = SessionHarness(agent, ScriptedLLM([0.1] if where == "on_empty_reply" else "Hi."))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=4.0)
    report = harness.close_report
    assert report is not None
    assert report.is_clean
    assert report.seconds < 0.1
    assert agent.log == ["waits", outcome]
    assert harness.recording.of(ErrorOccurred) == []


@pytest.mark.parametrize("what", ["close", "leave", "wait_closed"])
def test_an_on_enter_that_awaits_the_close_in_the_start_is_cut_by_it(what: str) -> None:
    agent = Closer("on_enter", what)
    ended: list[str] = []

    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(agent, pipeline(), options=SessionOptions(clock=clock))

        async def start() -> None:
            await session.start(LocalTransport(clock))
            ended.append("start returns")

        async with anyio.create_task_group() as group:
            group.start_soon(start)
            await anyio.sleep(1.0)
            report = await session.close()  # with wait_closed() it is this one that closes
        assert report.is_clean
        assert clock.now() == pytest.approx(1.0, abs=0.1)

    run_virtual(main())
    assert agent.log == ["waits", "is cut"]
    assert ended == ["start returns"]


class ClosingFlow(ConversationFlow):
    """Awaits the close in `on_turn_start` or in `run`."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.log: list[str] = []

    async def _wait(self, where: str) -> None:
        if where == self.where:
            try:
                await self.session.close()
            finally:
                self.log.append(f"{where} ends")

    async def on_turn_start(self, transcript: str) -> None:
        await self._wait("on_turn_start")

    async def run(self, transcript: str) -> AsyncIterator[str]:
        await self._wait("run")
        yield "Hello."

    async def on_turn_end(self) -> None:
        self.log.append("turn ends")

    async def cleanup(self) -> None:
        self.log.append("cleanup")


@pytest.mark.parametrize("where", ["on_turn_start", "run"])
def test_code_of_a_flow_that_a_speech_waits_for_is_cut_with_the_speech(where: str) -> None:
    flow = ClosingFlow(where)

    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), flow, options=SessionOptions(clock=clock))
        await session.start(LocalTransport(clock))
        session.input.text("hello")
        report = await session.wait_closed()
        assert report.is_clean
        assert report.seconds < 0.1

    run_virtual(main())
    assert flow.log == [f"{where} ends", "turn ends", "cleanup"]


def test_a_handler_of_the_last_event_may_await_the_close() -> None:
    after: list[str] = []
    harness = SessionHarness(Agent("x"))

    async def scenario(harness: SessionHarness) -> None:
        async def closed(event: Closed) -> None:
            report = await harness.session.wait_closed()
            after.append(report.reason)

        harness.session.on(Closed, closed)
        await harness.until(1.0)

    harness.run(scenario)
    assert after == ["user_initiated"]


def test_a_consent_that_awaits_the_close_does_not_hold_it_up(tmp_path: Path) -> None:
    ended: list[str] = []

    async def consent(session: Any) -> bool:
        try:
            await session.close()
        finally:
            ended.append("consent")
        return True

    options = SessionOptions(recording=RecordingOptions(path=tmp_path / "call.wav", consent=consent))
    harness = SessionHarness(Agent("x"), options=options)

    async def scenario(harness: SessionHarness) -> None:
        report = await harness.session.wait_closed()
        assert report.is_clean
        assert report.seconds < 0.1

    try:
        harness.run(scenario)
    except SessionClosedError:
        pass  # it closed while the session was starting
    assert ended == ["consent"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["on_enter", "on_user_turn_completed"])
def test_a_handoff_cannot_be_awaited_in_code_that_it_comes_after(where: str) -> None:
    agent = Closer(where, "update_agent")
    harness = SessionHarness(agent, ScriptedLLM("Hi.", "Hello."))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=4.0)
    assert agent.log == [
        "waits",
        "the handoff to 'other' cannot be awaited here: it begins after this code; return from it",
    ]
    assert harness.session.agent.id == "other"


@pytest.mark.parametrize(("where", "outcome"), [("on_enter", "goes on"), ("on_user_turn_completed", "cannot")])
def test_another_pipeline_may_be_awaited_where_no_speech_waits_for_the_code(where: str, outcome: str) -> None:
    agent = Closer(where, "update_pipeline")
    harness = SessionHarness(agent, ScriptedLLM("Hi.", "Hello."))
    if where != "on_enter":
        harness.caller.says("hello there", 1.5, 2.5)
    harness.run(until=6.0)
    assert agent.log[0] == "waits"
    assert outcome in agent.log[1]
