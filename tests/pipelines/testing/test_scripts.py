"""Scripted providers are strict: a request beyond the script is an error, and unused parts can be found."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedTTSOptions,
    ScriptedVAD,
    ScriptError,
    VirtualClock,
    run_virtual,
)
from vivavoce.pipelines.testing.script import items, tone
from vivavoce.pipelines.vad.base import (
    VADEvent,
    VADOptions,
    VADSpeechEnded,
    VADSpeechStarted,
    VADVoicePaused,
    VADVoiceResumed,
)

REQUEST = GenerateRequest(context=ChatContext())


async def read(stream: AsyncGenerator[LLMEvent, None]) -> list[LLMEvent]:
    return [event async for event in stream]


def test_a_model_without_a_step_for_a_request_says_so() -> None:
    llm = ScriptedLLM("One.")

    async def main() -> None:
        assert await read(llm.generate(REQUEST)) == [TextDelta("One."), Done()]
        with pytest.raises(ScriptError, match=r"got request 2, its script has 1 step\(s\)"):
            await read(llm.generate(REQUEST))

    run_virtual(main())


@pytest.mark.parametrize("piece", [ToolCall(call_id="1", name="book", arguments="{}"), 0.5, ValueError("x"), Done()])
def test_a_piece_that_is_not_in_a_list_is_refused_with_the_remedy(piece: Any) -> None:
    with pytest.raises(TypeError, match=r"got .*; put it in a list"):
        ScriptedLLM(piece)


def test_a_call_whose_extra_is_lost_on_the_way_back_is_an_error_of_the_test() -> None:
    llm = ScriptedLLM([ToolCall(call_id="a", name="book", arguments="{}", extra="signed")], "Booked.")

    async def main() -> None:
        await read(llm.generate(REQUEST))
        lost = FunctionCall(call_id="a", name="book", arguments="{}")
        with pytest.raises(ScriptError, match="got its call 'a' back without its extra"):
            await read(llm.generate(replace(REQUEST, context=ChatContext([lost]))))
        kept = [replace(lost, extra="signed"), FunctionCall(call_id="b", name="book", arguments="{}")]
        assert await read(llm.generate(replace(REQUEST, context=ChatContext(kept)))) == [TextDelta("Booked."), Done()]

    run_virtual(main())


def test_a_default_answers_after_the_script() -> None:
    llm = ScriptedLLM("One.", default=["Two.", Done("length")])
    llm.add("One and a half.")

    async def main() -> list[list[LLMEvent]]:
        return [await read(llm.generate(REQUEST)) for _ in range(4)]

    answers = run_virtual(main())
    assert answers[1] == [TextDelta("One and a half."), Done()]
    assert answers[2] == answers[3] == [TextDelta("Two."), Done("length")]
    assert len(llm.requests) == 4
    llm.assert_done()


def test_what_was_not_asked_for_is_found_out() -> None:
    with pytest.raises(ScriptError, match="1 of 1 scripted steps"):
        ScriptedLLM("One.").assert_done()
    with pytest.raises(ScriptError, match="1 scripted finals"):
        ScriptedSTT(["hello"]).assert_done()
    with pytest.raises(ScriptError, match="1 scripted steps"):
        ScriptedRealtimeModel("One.").assert_done()


def test_a_stream_that_is_not_open_cannot_be_told_anything() -> None:
    with pytest.raises(ScriptError, match="start the session"):
        ScriptedSTT().final("hello")
    with pytest.raises(ScriptError, match="start the session"):
        ScriptedRealtimeModel().speech_started()


def test_a_step_with_something_strange_in_it_is_refused() -> None:
    with pytest.raises(TypeError, match="a step holds"):
        items([b"bytes"])  # type: ignore[list-item]


def test_scripted_speech_is_exact_to_the_sample() -> None:
    async def samples(tts: ScriptedTTS) -> int:
        return sum([chunk.frame.samples async for chunk in tts.synthesize("one two three")])

    assert run_virtual(samples(ScriptedTTS())) == 14400
    assert run_virtual(samples(ScriptedTTS(options=ScriptedTTSOptions(duration=2.0)))) == 48000
    assert run_virtual(samples(ScriptedTTS(options=ScriptedTTSOptions(duration=0.0123)))) == 295


def test_chunks_may_come_one_after_the_other() -> None:
    tts = ScriptedTTS(first_byte=0.5, options=ScriptedTTSOptions(duration=0.1, chunk_interval=0.02))

    async def main() -> list[float]:
        return [VirtualClock().now() async for chunk in tts.synthesize("one") if not chunk.is_end]

    assert run_virtual(main()) == pytest.approx([0.5, 0.52, 0.54, 0.56, 0.58])


def test_the_vad_ignores_short_sounds_and_short_pauses() -> None:
    vad = ScriptedVAD(VADOptions(min_speech=0.05, min_silence=0.2)).open()
    loud, quiet = tone(320, 16000), AudioFrame.silence(0.02, 16000)
    frames = [loud] * 2 + [quiet] * 5 + [loud] * 10 + [quiet] * 9 + [loud] * 5 + [quiet] * 10
    events: list[tuple[int, VADEvent]] = []
    for number, frame in enumerate(frames, start=1):
        events.extend((number, event) for event in vad.push(frame))
    assert [(number, type(event), round(event.ago, 6)) for number, event in events] == [
        (2 + 5 + 3, VADSpeechStarted, 0.06),
        (2 + 5 + 10 + 1, VADVoicePaused, 0.02),
        (2 + 5 + 10 + 9 + 1, VADVoiceResumed, 0.02),
        (2 + 5 + 10 + 9 + 5 + 1, VADVoicePaused, 0.02),
        (len(frames), VADSpeechEnded, 0.2),
    ]


def test_a_vad_that_reports_no_edges_reports_starts_and_ends_only() -> None:
    vad = ScriptedVAD(reports_edges=False)
    stream = vad.open()
    loud, quiet = tone(320, 16000), AudioFrame.silence(0.02, 16000)
    frames = [loud] * 10 + [quiet] * 5 + [loud] * 5 + [quiet] * 10
    assert [type(event) for frame in frames for event in stream.push(frame)] == [VADSpeechStarted, VADSpeechEnded]
    assert (vad.capabilities.edge_delay, vad.capabilities.voice_lag) == (None, 0.2)
