"""The conformance checks pass on components that keep their promises: the scripted providers, in virtual time."""

from __future__ import annotations

import pytest

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderStatusError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall, function_tool
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.stt.base import STTCapabilities, STTFinal
from vivavoce.pipelines.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    check_failure,
    check_llm,
    check_realtime_model,
    check_stt,
    check_tts,
    check_vad,
    run_virtual,
)
from vivavoce.pipelines.testing.script import tone

SPEECH = tone(16000, 16000)


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


def request() -> GenerateRequest:
    return GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]), tools=(book,))


def test_the_scripted_stt_keeps_the_promises_of_an_stt() -> None:
    run_virtual(check_stt(lambda: ScriptedSTT(["Hello there.", *["hello there"] * 3]), SPEECH, expected="hello there"))


@pytest.mark.parametrize("needs_flush", [False, True])
def test_the_scripted_stt_keeps_the_promises_of_words_speakers_and_key_terms(needs_flush: bool) -> None:
    can = STTCapabilities(emits_words=True, diarizes=True, takes_key_terms=True, needs_flush=needs_flush)
    finals = [STTFinal(text="Hello there.", speaker="A")] * 4
    run_virtual(check_stt(lambda: ScriptedSTT(finals, capabilities=can), SPEECH, expected="hello there"))


def test_the_scripted_vad_keeps_the_promises_of_a_vad() -> None:
    run_virtual(check_vad(ScriptedVAD, SPEECH, min_share=0.95))


@pytest.mark.parametrize("streams_text", [False, True])
@pytest.mark.parametrize("emits_words", [False, True])
def test_the_scripted_tts_keeps_the_promises_of_a_tts(emits_words: bool, streams_text: bool) -> None:
    run_virtual(check_tts(lambda: ScriptedTTS(emits_words=emits_words, streams_text=streams_text)))


def test_the_scripted_llm_keeps_the_promises_of_an_llm() -> None:
    def make() -> ScriptedLLM:
        call = ToolCall(call_id="1", name="book", arguments='{"day": "Friday"}', extra="signed")
        return ScriptedLLM([0.1, "Hello ", 0.05, "there."], [call], default="Again.")

    answers: list[tuple[LLMEvent, ...]] = run_virtual(check_llm(make, request(), request()))
    assert answers[0][:2] == (TextDelta("Hello "), TextDelta("there."))
    assert isinstance(answers[1][0], ToolCall)


@pytest.mark.parametrize("answers", ["audio", "text"])
def test_the_scripted_realtime_model_keeps_the_promises_of_a_realtime_model(answers: str) -> None:
    capabilities = RealtimeCapabilities(generates_audio=answers == "audio", generates_text=answers == "text")

    def make() -> ScriptedRealtimeModel:
        steps = ("One two.", "Three.", "Four five.", "Six.", "Seven.")
        return ScriptedRealtimeModel(*steps, hears=["a table", "a table"], delay=0.1, capabilities=capabilities)

    run_virtual(check_realtime_model(make, request(), SPEECH, hears="table"))


def test_scripted_faults_are_provider_errors() -> None:
    refusal = ProviderStatusError("no such key", provider="scripted", status=401)

    async def main() -> None:
        stt = ScriptedSTT()
        stt.fail_open(refusal)
        await check_failure(stt.open)
        llm = ScriptedLLM(["Hel", ProviderConnectionError("cut", provider="scripted")])
        await check_failure(lambda: llm.generate(request()))

    run_virtual(main())
