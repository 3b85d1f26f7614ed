"""Hanging up: the caller hears all earlier speech, is disconnected, and then the session closes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    AgentSession,
    ConversationFlow,
    RoomOptions,
    RunContext,
    SessionOptions,
    WakeUp,
    function_tool,
)
from vivavoce.agents.events import Closed, ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    RoomError,
    SessionClosedError,
    SessionError,
    SessionNotStartedError,
)
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.llm.tools import ToolCall

LINE = "thank you and goodbye"
"""Heard for 0.8 s, from 0.2 s after it was asked for."""

END_CALL = ToolCall(call_id="c1", name="end_call", arguments="{}")


def closed_at(harness: SessionHarness) -> float:
    (closed,) = harness.recording.of(Closed)
    return round(closed.at, 6)


def reason(harness: SessionHarness) -> str:
    assert harness.close_report is not None
    return harness.close_report.reason


def test_the_caller_hears_what_was_said_before_and_is_then_disconnected() -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(LINE)
        await harness.session.hangup()
        assert (round(harness.now, 6), harness.room.hung_up) == (1.0, ["caller"])

    harness.run(scenario, until=3.0)
    harness.expect_played((0.2, 0.8)).expect_outcomes("completed")
    assert (reason(harness), closed_at(harness)) == ("user_initiated", 1.0)


def test_it_acts_though_nobody_awaits_it_and_does_not_wait_for_what_is_said_after_it() -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(LINE)
        _ = harness.session.hangup()
        _ = harness.session.say("This comes too late for anybody to hear.")

    harness.run(scenario, until=3.0)
    assert (harness.room.hung_up, closed_at(harness)) == (["caller"], 1.0)


def test_without_waiting_for_speech_it_cuts_the_agent_off() -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(LINE)
        await harness.until(0.5)
        await harness.session.hangup(after_speech=False)
        assert harness.now == pytest.approx(0.5)

    harness.run(scenario, until=3.0)
    assert (harness.room.hung_up, reason(harness)) == (["caller"], "user_initiated")


class Ending(Agent):
    @function_tool
    async def end_call(self) -> str:
        """End the call."""
        await self.session.hangup()
        return "done"


def test_in_a_tool_it_waits_for_the_words_before_the_call_and_not_for_the_answer_after_it() -> None:
    harness = SessionHarness(Ending("Help."), ScriptedLLM(["Goodbye, have a nice day. ", END_CALL], "Never heard."))
    harness.caller.says("that is all", 0.5, 1.5)  # committed at 1.9, heard from 2.2 for 1.0 s
    harness.run(until=6.0)
    assert ("assistant", "Goodbye, have a nice day.") in harness.messages
    assert (harness.room.hung_up, reason(harness)) == (["caller"], "user_initiated")
    ((start, seconds),) = [tuple(stretch) for stretch in harness.played]
    assert closed_at(harness) == pytest.approx(start + seconds)


def test_the_model_is_not_asked_again_after_a_tool_that_has_hung_up() -> None:
    harness = SessionHarness(Ending("Help."), ScriptedLLM(["Goodbye, have a nice day. ", END_CALL]))
    harness.caller.says("that is all", 0.5, 1.5)
    harness.run(until=6.0)
    assert len(harness.llm.requests) == 1
    harness.expect_tools(("end_call", "done"))


def test_in_a_tool_it_waits_for_words_before_the_call_that_wait_for_other_speech() -> None:
    harness = SessionHarness(Ending("Help."), ScriptedLLM(["Goodbye, have a nice day. ", END_CALL], "Never heard."))
    harness.caller.says("that is all", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        _ = harness.session.say("One moment please.")  # the caller has the floor: it is heard before the answer

    harness.run(scenario, until=9.0)
    spoken = [text for role, text in harness.messages if role == "assistant"]
    assert spoken == ["One moment please.", "Goodbye, have a nice day."]
    assert harness.room.hung_up == ["caller"]


def test_a_tool_in_a_thread_hangs_up_too() -> None:
    class InThread(Agent):
        @function_tool
        def end_call(self, context: RunContext) -> str:
            """End the call."""
            _ = context.session.hangup()
            return "done"

    harness = SessionHarness(InThread("Help."), ScriptedLLM(["Goodbye. ", END_CALL], "Never heard."))
    harness.caller.says("that is all", 0.5, 1.5)
    harness.run(until=6.0)
    assert ("assistant", "Goodbye.") in harness.messages
    assert harness.room.hung_up == ["caller"]


def test_in_a_flow_it_acts_when_the_words_yielded_before_it_have_been_heard() -> None:
    class Farewell(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            yield "Goodbye and thank you."
            _ = harness.session.hangup()

    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        harness.session.update_flow(Farewell())

    harness.caller.says("that is all", 0.5, 1.5)
    harness.run(scenario, until=6.0)
    assert ("assistant", "Goodbye and thank you.") in harness.messages
    assert harness.room.hung_up == ["caller"]


def test_awaited_in_a_flow_that_has_spoken_it_raises_instead_of_waiting_for_ever() -> None:
    told: list[str] = []

    class Farewell(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            yield "Goodbye and thank you."
            await anyio.sleep(0.5)
            try:
                await harness.session.hangup()
            except SessionError as error:
                told.append(str(error))

    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        harness.session.update_flow(Farewell())

    harness.caller.says("that is all", 0.5, 1.5)
    harness.run(scenario, until=8.0)
    assert len(told) == 1
    assert "do not await it" in told[0]
    assert harness.room.hung_up == ["caller"]


def test_in_a_hook_it_waits_for_what_the_hook_said_and_not_for_the_answer() -> None:
    class Curt(Agent):
        async def on_user_turn_completed(self, turn: Any) -> None:
            await self.session.hangup()

    harness = SessionHarness(Curt("Help."), ScriptedLLM("Never heard."))
    harness.caller.says("that is all", 0.5, 1.5)
    harness.run(until=6.0)
    harness.expect_played()
    assert (harness.room.hung_up, closed_at(harness)) == (["caller"], 1.9)


def test_a_session_that_outlives_its_callers_goes_on_for_the_next_one() -> None:
    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        harness = SessionHarness(Agent("Help."))
        session: AgentSession[None] = AgentSession(
            Agent("Help."), harness.pipeline, options=SessionOptions(clock=clock, away_after=None)
        )
        await session.start(room, room_options=RoomOptions(close_on_disconnect=False))
        await session.hangup()
        assert (room.hung_up, session.agent_state.value) == (["caller"], "idle")
        await session.close()

    run_virtual(main())


def test_a_silent_caller_is_hung_up_on_after_the_last_level() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=WakeUp(after=2.0, then="hangup")).run(until=10.0)
    assert (harness.room.hung_up, closed_at(harness), reason(harness)) == (["caller"], 4.0, "user_away")


class Refusing(LocalTransport):
    async def hangup(self) -> None:
        raise RoomError("the server is down")


class Hanging(LocalTransport):
    async def hangup(self) -> None:
        await anyio.sleep_forever()


class Keyless(LocalTransport):
    def check_hangup(self) -> None:
        raise ConfigurationError("set LIVEKIT_API_KEY")


class Foreign(LocalTransport):
    check_hangup = Transport.check_hangup
    hangup = Transport.hangup


async def started(
    kind: type[LocalTransport], wake_up: WakeUp | None = None
) -> tuple[AgentSession[None], LocalTransport]:
    clock = VirtualClock()
    pipeline = SessionHarness(Agent("Help.")).pipeline
    session: AgentSession[None] = AgentSession(
        Agent("Help."), pipeline, wake_up=wake_up, options=SessionOptions(clock=clock)
    )
    room = kind(clock)
    await session.start(room)
    return session, room


@pytest.mark.parametrize(("kind", "text"), [(Refusing, "the server is down"), (Hanging, "could not disconnect")])
def test_a_room_that_does_not_let_the_caller_go_is_an_error_and_the_session_goes_on(
    kind: type[LocalTransport], text: str
) -> None:
    async def main() -> None:
        session, _ = await started(kind)
        errors: list[ErrorOccurred] = []
        session.on(ErrorOccurred, errors.append)
        with pytest.raises(RoomError, match=text):
            await session.hangup()
        assert session.agent_state.value == "idle"
        await session.close()
        assert [event.source for event in errors] == ["room"]

    run_virtual(main())


def test_a_silent_caller_who_cannot_be_disconnected_is_left_all_the_same() -> None:
    async def main() -> None:
        session, _ = await started(Refusing, WakeUp(after=2.0, then="hangup"))
        report = await session.wait_closed()
        assert (report.reason, VirtualClock().now()) == ("user_away", 4.0)

    run_virtual(main())


@pytest.mark.parametrize(
    ("kind", "text"), [(Keyless, "LIVEKIT_API_KEY"), (Foreign, "needed a transport that can disconnect its caller")]
)
def test_what_a_transport_lacks_for_it_is_named_at_the_call_and_at_the_start(
    kind: type[LocalTransport], text: str
) -> None:
    async def main() -> None:
        session, _ = await started(kind)
        with pytest.raises(ConfigurationError, match=text):
            _ = session.hangup()
        await session.close()
        with pytest.raises(ConfigurationError, match=text):
            await started(kind, WakeUp(after=2.0, then="hangup"))

    run_virtual(main())


def test_a_wake_up_that_is_to_hang_up_is_checked_where_it_is_set() -> None:
    async def main() -> None:
        session, _ = await started(Keyless)
        with pytest.raises(ConfigurationError, match="LIVEKIT_API_KEY"):
            session.wake_up = WakeUp(after=2.0, then="hangup")
        assert session.wake_up is None
        await session.close()
        session, room = await started(LocalTransport)
        session.wake_up = WakeUp(after=2.0, then="hangup")
        assert (await session.wait_closed()).reason == "user_away"
        assert room.hung_up == ["caller"]
        keyless: AgentSession[None] = AgentSession(
            Agent("Help."), SessionHarness(Agent("Help.")).pipeline, options=SessionOptions(clock=VirtualClock())
        )
        keyless.wake_up = WakeUp(after=2.0, then="hangup")
        with pytest.raises(ConfigurationError, match="LIVEKIT_API_KEY"):
            await keyless.start(Keyless(VirtualClock()))

    run_virtual(main())


def test_before_the_start_and_after_the_close_there_is_nobody_to_disconnect() -> None:
    async def main() -> None:
        pipeline = SessionHarness(Agent("Help.")).pipeline
        with pytest.raises(SessionNotStartedError):
            _ = AgentSession[None](Agent("Help."), pipeline).hangup()
        session, _ = await started(LocalTransport)
        await session.close()
        with pytest.raises(SessionClosedError):
            _ = session.hangup()

    run_virtual(main())


def test_a_close_while_it_waits_for_speech_disconnects_the_caller_all_the_same() -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(LINE)
        _ = harness.session.hangup()
        await harness.until(0.5)
        await harness.session.close()

    harness.run(scenario)
    assert harness.room.hung_up == ["caller"]
