"""Input by the application in place of the user: muting the caller; and calls from threads."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest

from vivavoce.agents import Agent, AgentSession, RunContext, function_tool
from vivavoce.agents.events import SpeechIn
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError, SessionNotStartedError
from vivavoce.pipelines.llm.tools import ToolCall


def test_a_muted_caller_is_not_heard_until_unmuted() -> None:
    harness = SessionHarness(Agent("x"), ScriptedLLM("Yes."))
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(2.5, 3.5)

    async def scenario(harness: SessionHarness) -> None:
        silent: list[bool] = []
        harness.session.on(SpeechIn, lambda event: silent.append(not any(event.frame.data)))
        harness.session.input.mute()
        await harness.until(2.0)
        assert all(silent)
        harness.session.input.mute(False)
        await harness.until(3.0)
        assert not all(silent)

    harness.run(scenario, until=6.0)
    assert [at for who, state, at in harness.states if (who, state) == ("user", "speaking")] == [pytest.approx(2.5)]


def test_muting_in_mid_speech_ends_the_users_speech() -> None:
    harness = SessionHarness(Agent("x"))
    harness.caller.makes_noise(0.5, 50.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        harness.session.input.mute()
        await harness.until(4.0)

    harness.run(scenario)
    changes = [(state, at) for who, state, at in harness.states if who == "user"]
    assert changes == [("speaking", 0.5), ("idle", pytest.approx(2.0, abs=0.05))]


@pytest.mark.parametrize(("is_interruptible", "heard"), [(True, "one two"), (False, "one two three four five")])
def test_a_caller_who_presses_the_interrupt_button_stops_what_may_be_stopped(
    is_interruptible: bool, heard: str
) -> None:
    harness = SessionHarness(Agent("x"), tts=ScriptedTTS(emits_words=True))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("one two three four five", interruptible=is_interruptible)
        await anyio.sleep(0.6)
        harness.room.press_interrupt()
        await speech

    harness.run(scenario)
    assert harness.room.transcripts[-1].text == heard
    assert harness.room.transcripts[-1].is_final


async def test_muting_needs_an_open_session() -> None:
    session: AgentSession[None] = AgentSession(Agent("x"), SessionHarness(Agent("x")).pipeline)
    with pytest.raises(SessionNotStartedError):
        session.input.mute()
    await session.close()
    with pytest.raises(SessionClosedError):
        session.input.mute()


class Cutting(Agent):
    @function_tool
    def cut(self, context: RunContext) -> str:
        """Stop talking."""
        _ = context.session.interrupt()
        return "cut"


def test_a_sync_tool_may_interrupt_from_its_thread() -> None:
    call = ToolCall(call_id="c1", name="cut", arguments="{}")
    words = "one two three four five six seven eight nine ten."
    harness = SessionHarness(Cutting("x"), ScriptedLLM([f"{words} ", call], "Done.", delay=0.1))
    harness.caller.says("stop yourself", 0.5, 1.5)
    harness.run(until=10.0)
    assert [event.output for event in harness.tools] == ["cut"]
    assert harness.session.turns[0].outcome == "cancelled"  # none of it had been heard yet


async def test_an_interruption_from_a_thread_acts_and_cannot_be_awaited() -> None:
    clock = LoopClock()
    session: AgentSession[None] = AgentSession(
        Agent("x"), SessionHarness(Agent("x")).pipeline, options=SessionOptions(clock=clock)
    )
    async with session:
        await session.start(LocalTransport(clock))
        speech = session.say("one two three four five six seven eight nine ten.")
        result = await anyio.to_thread.run_sync(session.interrupt)
        with pytest.raises(SessionError, match="called in a thread"):
            await result
        with anyio.fail_after(60.0):
            await speech
        assert speech.outcome in ("interrupted", "cancelled")
