"""Gemini's conversation message by message: where an answer with tool calls ends, and whose the words behind it are."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from google.genai import types

from kit.limits import LIMIT
from vivavoce.pipelines.llm.base import Done, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import RealtimeEvent, RealtimeReplyStarted, RealtimeSetup
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins.google.answer import Answer
from vivavoce.plugins.google.wire import LiveWire, Send

OUTPUT = FunctionCallOutput(call_id="c1", name="weather", output="cold")
THINKS_ON = types.InteractionStatus.IN_PROGRESS


class Served:
    """A wire, and the messages of its server, which decides turns."""

    def __init__(self, *, waits: bool = False) -> None:
        self.posted: list[Send] = []
        self.reported: list[RealtimeEvent] = []
        self.pauses = 0
        """How often the end of an answer was put off."""
        self.wire = LiveWire(
            RealtimeSetup(),
            post=self.posted.append,
            report=self.reported.append,
            await_more=self._put_off,
            waits=waits,
        )

    def hears(self, text: str) -> None:
        self._sends(types.LiveServerContent(input_transcription=types.Transcription(text=text, finished=True)))

    def hears_voice(self) -> None:
        begun = types.VoiceActivity(voice_activity_type=types.VoiceActivityType.ACTIVITY_START)
        self.wire.feed(types.LiveServerMessage(voice_activity=begun))

    def calls(self, call_id: str = "c1") -> None:
        call = types.FunctionCall(id=call_id, name="weather", args={})
        self.wire.feed(types.LiveServerMessage(tool_call=types.LiveServerToolCall(function_calls=[call])))

    def says(self, text: str) -> None:
        self._sends(types.LiveServerContent(output_transcription=types.Transcription(text=text)))

    def ends(self, status: types.InteractionStatus | None = None) -> None:
        self._sends(types.LiveServerContent(turn_complete=True, interaction_status=status))

    def interrupts(self) -> None:
        self._sends(types.LiveServerContent(interrupted=True, turn_complete=True))

    def cancels(self) -> None:
        cancelled = types.LiveServerToolCallCancellation(ids=["c1"])
        self.wire.feed(types.LiveServerMessage(tool_call_cancellation=cancelled))

    def accept(self) -> Answer:
        """Accept the newest answer that the server began."""
        return self.wire.accept(self.begun[-1].reply_id)

    @property
    def begun(self) -> list[RealtimeReplyStarted]:
        return [event for event in self.reported if isinstance(event, RealtimeReplyStarted)]

    def _sends(self, content: types.LiveServerContent) -> None:
        self.wire.feed(types.LiveServerMessage(server_content=content))

    def _put_off(self) -> None:
        self.pauses += 1


async def read(answer: Answer) -> list[LLMEvent | AudioChunk]:
    with anyio.fail_after(LIMIT):
        return [item async for item in answer.feed.items()]


async def words(answer: Answer) -> str:
    return "".join(item.text for item in await read(answer) if isinstance(item, TextDelta))


def texts(answer: Answer) -> list[str]:
    """Return the words that have come of it."""
    return [item.text for item in answer.feed.take_unread() if isinstance(item, TextDelta)]


async def test_an_answer_with_calls_ends_with_its_turn_and_each_piece_from_the_call_on_puts_off_its_end() -> None:
    server = Served()
    server.says("One moment.")
    server.calls()
    server.says(" I am looking.")
    assert server.pauses == 2
    answer = server.accept()
    assert not answer.is_over
    server.ends()
    kinds = [type(item) for item in await read(answer)]
    assert kinds == [TextDelta, ToolCall, TextDelta, Done]
    assert not server.posted


async def test_words_that_come_after_the_pause_begin_the_next_answer() -> None:
    server = Served()
    server.calls()
    server.wire.rest()
    assert (await read(server.accept()))[-1] == Done("tool_calls")
    server.says("I am looking. ")
    server.wire.append(OUTPUT)
    answer = server.wire.ask("")
    server.says("It is cold.")
    server.ends()
    assert await words(answer) == "I am looking. It is cold."
    assert len(server.begun) == 1
    assert [sent.method for sent in server.posted] == ["send_tool_response"]


async def test_a_call_that_comes_after_the_pause_is_one_of_the_next_answer_which_ends_after_a_pause_too() -> None:
    server = Served()
    server.calls()
    server.wire.rest()
    server.calls()
    server.wire.append(OUTPUT)
    answer = server.wire.ask("")
    assert server.pauses == 3
    server.wire.rest()
    assert [type(item) for item in await read(answer)] == [ToolCall, Done]


@pytest.mark.parametrize("cut", [Served.cancels, Served.interrupts])
async def test_words_of_a_cut_turn_are_not_said_and_the_servers_next_answer_is_one_of_its_own(
    cut: Callable[[Served], None],
) -> None:
    server = Served()
    server.calls()
    server.wire.rest()
    server.says("I am looking. ")
    cut(server)
    server.says("As you like.")
    server.ends()
    assert len(server.begun) == 2
    assert await words(server.accept()) == "As you like."


async def test_a_turn_that_has_ended_behind_the_pause_is_followed_by_answers_of_their_own() -> None:
    server = Served()
    server.calls()
    server.wire.rest()
    server.ends()
    server.says("Anything else?")
    server.ends()
    assert len(server.begun) == 2
    assert await words(server.accept()) == "Anything else?"


async def test_a_model_that_thinks_on_behind_its_call_begins_no_answer_of_its_own() -> None:
    server = Served()
    server.calls()
    server.says("Let me think.")
    server.ends(THINKS_ON)
    assert await words(server.accept()) == "Let me think."
    server.says("I am looking. ")
    server.ends(THINKS_ON)
    server.wire.append(OUTPUT)
    answer = server.wire.ask("")
    server.says("It is cold.")
    server.ends()
    assert await words(answer) == "I am looking. It is cold."
    assert len(server.begun) == 1


async def test_the_end_of_an_answer_without_calls_is_not_put_off_and_a_pause_changes_nothing() -> None:
    server = Served()
    server.says("Hello ")
    server.wire.rest()
    server.says("there.")
    server.ends()
    server.wire.rest()
    assert await words(server.accept()) == "Hello there."
    assert server.pauses == 0


def not_run(served: Served) -> None:
    """Have the session leave out the call, and request no answer for its output."""
    served.wire.append(FunctionCallOutput(call_id="c1", name="weather", output="Not run.", is_error=True))
    served.wire.calls_not_run({"c1"}, is_asked=True)
    served.wire.calls_not_run({"c1"}, is_asked=False)


def test_an_output_for_which_nobody_asks_is_sent_to_a_server_that_decides_turns() -> None:
    served = Served()
    served.calls()
    answer = served.accept()
    answer.feed.take_unread()
    served.wire.rest()
    not_run(served)
    assert [one.method for one in served.posted] == ["send_tool_response"]


def test_an_output_for_which_nobody_asks_waits_for_the_end_of_an_answer_that_is_said() -> None:
    served = Served()
    served.calls()
    served.accept().feed.take_unread()
    served.says("One moment.")
    not_run(served)
    assert not served.posted
    served.ends()
    assert [one.method for one in served.posted] == ["send_tool_response"]


def test_a_call_that_was_not_run_and_that_the_server_cancels_afterwards_is_not_told_as_one_that_ended() -> None:
    served = Served()
    served.calls()
    served.accept().feed.take_unread()
    served.wire.rest()
    not_run(served)
    served.cancels()
    served.posted.clear()
    served.wire.ask("")
    assert [one.arguments["turns"] for one in served.posted] == [None]


def test_a_result_waits_for_the_next_request_if_the_server_answers_the_present_one_without_it() -> None:
    served = Served()
    served.calls()
    served.accept().feed.take_unread()
    served.ends()
    served.wire.ask("")
    served.posted.clear()
    served.wire.append(OUTPUT)
    assert not served.posted
    served.says("Here I am.")
    served.ends()
    served.wire.ask("")
    [sent] = served.posted
    assert [one.scheduling for one in sent.arguments["function_responses"]] == [None]


@pytest.mark.parametrize("sign", ["words", "voice"])
@pytest.mark.parametrize("status", [None, THINKS_ON], ids=["pause", "turn complete"])
def test_the_callers_next_turn_is_answered_while_an_answer_rests_behind_its_call(
    sign: str, status: types.InteractionStatus | None
) -> None:
    served = Served()
    served.calls()
    served.accept().feed.take_unread()
    if status is None:
        served.wire.rest()
    else:
        served.ends(status)
    if sign == "words":
        served.hears("Are you there?")
    else:
        served.hears_voice()
    served.says("Yes, I am.")
    served.ends()
    assert len(served.begun) == 2
    assert texts(served.accept()) == ["Yes, I am."]
    served.wire.append(OUTPUT)
    answer = served.wire.ask("")
    served.says("It is cold.")
    served.ends()
    assert texts(answer) == ["It is cold."]


@pytest.mark.parametrize("by", ["the caller", "a cut"])
def test_words_behind_the_pause_of_a_call_are_dropped_with_the_speech_that_the_caller_cuts(by: str) -> None:
    served = Served()
    served.calls()
    first = served.accept()
    first.feed.take_unread()
    served.wire.rest()
    served.says("I am looking.")
    served.ends()
    if by == "a cut":
        served.wire.give_up(first)
    served.hears("When do you open?")
    served.says("At seven.")
    served.ends()
    assert texts(served.accept()) == ["At seven."]


def leave_out(served: Served) -> None:
    """Have the session take the answer with the call, and not run the call."""
    served.accept().feed.take_unread()
    not_run(served)


def refuse(served: Served) -> None:
    """Have the session refuse the answer with the call."""
    served.wire.refuse(served.begun[-1].reply_id)


def outputs(served: Served) -> list[str | None]:
    """Return the calls whose outputs were sent."""
    sent = [one.arguments["function_responses"] for one in served.posted if one.method == "send_tool_response"]
    return sorted(response.id for responses in sent for response in responses)


@pytest.mark.parametrize("waits", [False, True], ids=["goes on", "waits"])
@pytest.mark.parametrize("is_complete", [False, True], ids=["turn goes on", "turn complete"])
@pytest.mark.parametrize("do_not_run", [leave_out, refuse])
def test_a_call_behind_the_pause_of_one_that_is_not_run_gets_its_output_too(
    do_not_run: Callable[[Served], None], is_complete: bool, waits: bool
) -> None:
    served = Served(waits=waits)
    served.calls()
    served.wire.rest()
    served.calls("c2")
    if is_complete:
        served.ends()
    do_not_run(served)
    assert outputs(served) == ["c1", "c2"]


@pytest.mark.parametrize("do_not_run", [leave_out, refuse])
def test_words_behind_the_pause_of_a_call_that_is_not_run_are_not_said_once_their_turn_is_complete(
    do_not_run: Callable[[Served], None],
) -> None:
    served = Served()
    served.calls()
    served.wire.rest()
    served.says("I am looking.")
    served.ends()
    do_not_run(served)
    served.says("At seven.")
    served.ends()
    assert texts(served.accept()) == ["At seven."]


def test_a_call_of_a_turn_that_has_ended_behind_the_pause_is_run_though_an_older_answer_is_refused() -> None:
    served = Served()
    served.says("Hello.")
    served.ends()
    older = served.begun[-1].reply_id
    served.calls()
    served.accept().feed.take_unread()
    served.wire.rest()
    served.calls("c2")
    served.ends()
    served.wire.refuse(older)
    served.wire.append(OUTPUT)
    answer = served.wire.ask("")
    assert [item.call_id for item in answer.feed.take_unread() if isinstance(item, ToolCall)] == ["c2"]
    assert outputs(served) == ["c1"]


@pytest.mark.parametrize("waits", [False, True], ids=["goes on", "waits"])
def test_an_answer_to_the_caller_whose_words_come_behind_its_first_piece_is_kept_after_a_call_that_was_not_run(
    waits: bool,
) -> None:
    served = Served(waits=waits)
    served.calls()
    served.wire.refuse(served.begun[-1].reply_id)
    served.ends()
    if waits:
        served.wire.push(AudioFrame(b"\x00\x10" * 320, 16000))
    served.posted.clear()
    served.says("At seven")
    served.hears("When do you open?")
    served.says(" o'clock.")
    served.ends()
    assert texts(served.accept()) == ["At seven", " o'clock."]
    assert not [one for one in served.posted if one.method == "send_client_content"]


def test_an_answer_to_a_call_that_was_not_run_is_cut_while_the_caller_is_silent() -> None:
    served = Served(waits=True)
    served.calls()
    served.wire.refuse(served.begun[-1].reply_id)
    served.ends()
    served.wire.push(AudioFrame.silence(0.02, 16000))
    served.says("I cannot look.")
    assert len(served.begun) == 1
    assert served.posted[-1].method == "send_client_content"
