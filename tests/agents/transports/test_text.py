"""TextTransport: a session in writing: the user's texts go in, the agent's texts come out as they are written."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, StopResponse, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.replies import Markdown
from vivavoce.agents.testing import HANG, ScriptedLLM, ScriptedTTS, ToolCall, VirtualClock, run_virtual
from vivavoce.agents.transports import AgentText, TextTransport
from vivavoce.agents.transports.text import MAX_UNREAD
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import RoomError, SessionClosedError, SessionNotStartedError
from vivavoce.pipelines.io import TranscriptSegment

Session = AgentSession[Any]


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("Help.")

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        await anyio.sleep(1.0)
        return f"booked {day}"

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if turn.text == "psst":
            raise StopResponse


def chatting(test: Callable[[TextTransport, Session], Awaitable[None]], *answers: Any, **parts: Any) -> None:
    """Run `test` with a started session in writing, in virtual time."""

    async def main() -> None:
        chat = TextTransport()
        pipeline = CascadingPipeline(llm=ScriptedLLM(*answers), **parts)
        options = SessionOptions(clock=VirtualClock(), capture_content=True)
        async with AgentSession[None](Host(), pipeline, options=options) as session:
            await session.start(chat)
            await test(chat, session)

    run_virtual(main())


async def pieces(chat: TextTransport) -> list[tuple[float, str, str | None]]:
    """Return the pieces of one turn, with their times and outcomes."""
    came: list[tuple[float, str, str | None]] = []
    async for piece in chat:
        came.append((round(VirtualClock().now(), 2), piece.text, piece.outcome))
        if piece.is_final:
            break
    return came


def test_an_answer_comes_piece_by_piece_as_the_model_writes_it_and_then_its_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        chat.send("hello")
        assert await pieces(chat) == [
            (0.0, "Hello", None),
            (0.5, " there,", None),
            (1.5, " caller.", None),
            (1.5, "", "completed"),
        ]
        (turn,) = session.turns
        assert turn.heard_text == "Hello there, caller."

    chatting(test, ["Hello ", 0.5, "there, ", 1.0, "caller."])
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_whole_turn_may_be_received_with_the_texts_of_all_its_steps() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        await session.say("Welcome.")
        chat.send("a table for friday")
        greeting, answer = await chat.receive(), await chat.receive()
        assert (greeting.text, greeting.outcome) == ("Welcome.", "completed")
        assert (answer.text, answer.turn_id) == ("One moment. Booked.", session.turns[-1].turn_id)

    call = ToolCall(call_id="1", name="book", arguments='{"day": "friday"}')
    chatting(test, ["One moment. ", call], "Booked.")


def test_the_pieces_of_several_steps_joined_are_the_heard_text() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        chat.send("a table for friday")
        came = await pieces(chat)
        assert [text for _, text, _ in came] == ["One moment.", " Booked.", ""]
        assert session.turns[-1].heard_text == "One moment. Booked."

    call = ToolCall(call_id="1", name="book", arguments='{"day": "friday"}')
    chatting(test, ["One moment. ", call], "Booked.")


def test_another_text_interrupts_an_answer_which_keeps_the_text_that_was_written() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        chat.send("count")
        await anyio.sleep(2.0)
        chat.send("stop")
        cut, answer = await chat.receive(), await chat.receive()
        assert (cut.text, cut.outcome) == ("One two", "interrupted")
        assert (answer.text, answer.outcome) == ("Ok.", "completed")
        assert [(item.role, item.content) for item in session.history.messages()] == [
            ("user", "count"),
            ("assistant", "One two"),
            ("user", "stop"),
            ("assistant", "Ok."),
        ]

    chatting(test, ["One two ", HANG], "Ok.")


def test_a_text_that_the_agent_does_not_answer_has_an_empty_turn() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        chat.send("psst")
        silence = await chat.receive()
        assert (silence.text, silence.turn_id) == ("", "turn_1")

    chatting(test)


def test_pieces_that_nobody_reads_are_joined_until_they_are_read() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        chat.send("hello")
        await anyio.sleep(5.0)
        assert await pieces(chat) == [(5.0, "Hello there, caller.", "completed")]

    chatting(test, ["Hello ", 0.5, "there, ", 1.0, "caller."])


def test_of_texts_that_nobody_reads_the_newest_are_kept() -> None:
    async def test() -> None:
        chat = TextTransport()
        for number in range(MAX_UNREAD + 10):
            segment = TranscriptSegment(segment_id="s", who="agent", text="Hi.", is_final=True, turn_id=f"t{number}")
            chat.send_transcript(segment)
        await chat.aclose()
        assert [piece.turn_id async for piece in chat] == [f"t{number}" for number in range(10, MAX_UNREAD + 10)]

    run_virtual(test())


def test_a_text_is_never_taken_back_when_a_voice_had_estimated_too_much_of_it() -> None:
    async def test() -> None:
        chat = TextTransport()
        for text in ("One two three", "One two", "One two four"):
            segment = TranscriptSegment(segment_id="s", who="agent", text=text, is_final=False, turn_id="t")
            chat.send_transcript(segment)
        chat.send_turn_record('{"turn_id": "t", "outcome": "interrupted"}')
        whole = await chat.receive()
        assert whole.text == "One two four"

    run_virtual(test())


def test_the_voice_of_a_pipeline_takes_no_time() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        chat.send("hello")
        answer = await chat.receive()
        assert answer.text == "Hello there, dear caller."
        assert VirtualClock().now() < 1.0

    chatting(test, "Hello there, dear caller.", tts=ScriptedTTS())


def test_a_part_of_a_rich_reply_comes_whole_in_plain_text() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        await session.memory.post(Markdown("*Open* from five."))
        assert await chat.receive() == AgentText(turn_id="", text="*Open* from five.", outcome="completed")

    chatting(test)


def test_a_hangup_of_the_agent_closes_the_session_and_ends_the_texts() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        _ = session.say("Good bye.")
        await session.hangup()
        report = await session.wait_closed()
        assert (report.reason, report.is_clean) == ("user_initiated", True)
        assert [piece.text async for piece in chat] == ["Good bye."]
        with pytest.raises(SessionClosedError, match="all its texts were read"):
            await chat.receive()
        with pytest.raises(SessionClosedError, match="begin another one"):
            chat.send("hello?")
        chat.end()

    chatting(test)


def test_the_user_s_end_closes_the_session_and_whoever_waits_for_a_text_learns_it() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        async with anyio.create_task_group() as group:

            async def read() -> None:
                with pytest.raises(SessionClosedError):
                    await chat.receive()

            group.start_soon(read)
            group.start_soon(read)
            await anyio.sleep(1.0)
            chat.end()
            assert (await session.wait_closed()).reason == "room_closed"

    chatting(test)


def test_a_text_without_a_session_is_refused_and_a_transport_serves_one_session() -> None:
    async def test(chat: TextTransport, session: Session) -> None:
        with pytest.raises(SessionNotStartedError, match="await session.start"):
            TextTransport().send("hello")
        other = AgentSession[None](Agent("x"), options=SessionOptions(clock=VirtualClock()))
        with pytest.raises(RoomError, match="a TextTransport serves one session"):
            await other.start(chat)

    chatting(test)


def test_a_session_that_cannot_start_ends_the_texts_too() -> None:
    class Broken(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Wel-")
            raise ValueError("scripted")

    async def test() -> None:
        chat = TextTransport()
        session = AgentSession[None](Broken("x"), options=SessionOptions(clock=VirtualClock()))
        with pytest.raises(ValueError, match="scripted"):
            await session.start(chat)
        assert [piece.text async for piece in chat] == ["Wel-"]

    run_virtual(test())
