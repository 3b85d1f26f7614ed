"""The wrappers of a fallback keep the promises of their ports, with a first member that works and one that does not."""

from __future__ import annotations

import pytest

from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.fallback import FallbackLLM
from vivavoce.pipelines.llm.tools import ToolCall, function_tool
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.fallback import FallbackSTT
from vivavoce.pipelines.testing import (
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    TTSFault,
    check_failure,
    check_llm,
    check_stt,
    check_tts,
    run_virtual,
)
from vivavoce.pipelines.testing.script import tone
from vivavoce.pipelines.tts.fallback import FallbackTTS

LOST = ProviderConnectionError("down", provider="scripted")
EVERY_TIME = {number: TTSFault("before", LOST) for number in range(20)}
IN_THE_MIDDLE = {number: TTSFault("middle", LOST) for number in range(20)}


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


def request() -> GenerateRequest:
    return GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]), tools=(book,))


@pytest.mark.parametrize("is_down", [False, True])
def test_a_fallback_llm_keeps_the_promises_of_an_llm(is_down: bool) -> None:
    def make() -> FallbackLLM:
        call = ToolCall(call_id="1", name="book", arguments='{"day": "Friday"}', extra="signed")
        works = ScriptedLLM([0.1, "Hello ", 0.05, "there."], [call], default="Again.")
        down = ScriptedLLM(default=[0.1, LOST])
        return FallbackLLM([down, works] if is_down else [works, down])

    run_virtual(check_llm(make, request(), request()))


WORKS: dict[int, TTSFault] = {}


@pytest.mark.parametrize(
    ("emits_words", "faults"),
    # Without word times the place of a break is an estimate, and the length of the speech too.
    [(False, WORKS), (True, WORKS), (False, EVERY_TIME), (True, EVERY_TIME), (True, IN_THE_MIDDLE)],
    ids=["works", "works, words", "down", "down, words", "breaks off, words"],
)
@pytest.mark.parametrize("streams_text", [False, True])
def test_a_fallback_tts_keeps_the_promises_of_a_tts(
    emits_words: bool, streams_text: bool, faults: dict[int, TTSFault]
) -> None:
    def make() -> FallbackTTS:
        first = ScriptedTTS(emits_words=emits_words, streams_text=streams_text, faults=faults)
        return FallbackTTS([first, ScriptedTTS(emits_words=emits_words, streams_text=streams_text)])

    run_virtual(check_tts(make))


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("needs_flush", [False, True])
def test_a_fallback_stt_keeps_the_promises_of_an_stt(needs_flush: bool, is_down: bool) -> None:
    def make() -> FallbackSTT:
        can = STTCapabilities(needs_flush=needs_flush)
        works = ScriptedSTT(["Hello there.", *["hello there"] * 3], capabilities=can)
        down = ScriptedSTT(capabilities=can)
        down.fail_open(*[LOST] * 10)
        return FallbackSTT([down, works] if is_down else [works, down])

    run_virtual(check_stt(make, tone(16000, 16000), expected="hello there"))


def test_a_fallback_fails_by_a_provider_error() -> None:
    async def main() -> None:
        llm = FallbackLLM([ScriptedLLM([LOST]), ScriptedLLM([LOST])])
        await check_failure(lambda: llm.generate(request()))
        tts = FallbackTTS([ScriptedTTS(faults=EVERY_TIME), ScriptedTTS(faults=EVERY_TIME)])
        await check_failure(lambda: tts.synthesize("Hello."))

    run_virtual(main())
