"""CascadingPipeline: model steps and speech, their retries and their closing, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.cascading import CascadingConnection
from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderStatusError,
)
from vivavoce.pipelines.events import (
    PipelineEvent,
)
from vivavoce.pipelines.llm.base import Done, GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import (
    ScriptedLLM,
    ScriptedTTS,
    TTSFault,
    VirtualClock,
)

REQUEST = GenerateRequest(context=ChatContext())
LOST = ProviderConnectionError("lost", provider="scripted")
REFUSED = ProviderStatusError("no such key", provider="scripted", status=401)

Serve = Callable[..., list[tuple[float, PipelineEvent]]]


def generate(serve: Serve, llm: ScriptedLLM) -> tuple[list[object], float]:
    """Return the output of one step, and the time of its end."""
    taken: list[object] = []

    async def ask(connection: CascadingConnection) -> None:
        async with aclosing(connection.generate(REQUEST)) as events:
            async for event in events:
                taken.append(event)
        taken.append(VirtualClock().now())

    serve(CascadingPipeline(tts=ScriptedTTS(), llm=llm), ask)
    over_at = taken.pop()
    assert isinstance(over_at, float)
    return taken, over_at


def test_a_step_is_tried_again_until_it_has_said_something(serve: Serve) -> None:
    taken, over_at = generate(serve, ScriptedLLM([LOST], [Usage(input_tokens=3), LOST], "Sure."))
    assert taken == [TextDelta("Sure."), Done()]
    assert over_at == 0.1 + 2.0


def test_a_step_is_not_tried_again_once_it_has_said_or_called_something(serve: Serve) -> None:
    call = ToolCall(call_id="1", name="book", arguments="{}")
    for begun in ("Su", call):
        llm = ScriptedLLM([begun, LOST], "never")
        with pytest.raises(ExceptionGroup) as caught:
            generate(serve, llm)
        assert caught.group_contains(ProviderConnectionError, match="lost")
        assert len(llm.requests) == 1


def test_three_tries_are_all(serve: Serve) -> None:
    llm = ScriptedLLM([LOST], [LOST], [LOST], "never")
    with pytest.raises(ExceptionGroup) as caught:
        generate(serve, llm)
    assert caught.group_contains(ProviderConnectionError)
    assert len(llm.requests) == 3


def test_an_error_that_is_not_retryable_is_not_tried_again(serve: Serve) -> None:
    llm = ScriptedLLM([REFUSED], "never")
    with pytest.raises(ExceptionGroup) as caught:
        generate(serve, llm)
    assert caught.group_contains(ProviderStatusError)
    assert len(llm.requests) == 1


def test_closing_an_answer_cancels_the_request(serve: Serve) -> None:
    llm = ScriptedLLM(["Sure. ", 5.0, "never"])

    async def ask(connection: CascadingConnection) -> None:
        async with aclosing(connection.generate(REQUEST)) as events:
            assert await anext(events) == TextDelta("Sure. ")

    serve(CascadingPipeline(tts=ScriptedTTS(), llm=llm), ask)
    assert llm.cancelled == [0]


async def trickle(*pieces: str, wait: float = 0.1) -> AsyncGenerator[str, None]:
    for piece in pieces:
        await anyio.sleep(wait)
        yield piece


def test_the_first_sentence_is_spoken_while_the_second_is_still_written(serve: Serve) -> None:
    tts = ScriptedTTS(first_byte=0.05)
    starts: list[tuple[float, str, float | None]] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak(trickle("Sure", ". ", "What ", "day", "?")):
            if chunk.text:
                starts.append((VirtualClock().now(), chunk.text, chunk.requested_at))

    serve(CascadingPipeline(tts=tts), speak)
    assert tts.texts == ["Sure.", "What day?"]
    assert [text for _, text, _ in starts] == ["Sure.", "What day?"]
    assert [at for at, _, _ in starts] == pytest.approx([0.35, 0.6])
    assert [requested for _, _, requested in starts] == pytest.approx([0.3, 0.55])


def test_word_times_count_from_the_start_of_everything_said(serve: Serve) -> None:
    words: list[tuple[str, float, float]] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak("One two. Three four."):
            words.extend((word.text, word.start, word.end) for word in chunk.words)

    serve(CascadingPipeline(tts=ScriptedTTS(emits_words=True)), speak)
    assert [word for word, _, _ in words] == ["One", "two.", "Three", "four."]
    assert [start for _, start, _ in words] == pytest.approx([0.0, 0.2, 0.4, 0.6])
    assert words[-1][2] == pytest.approx(0.8)


def test_a_voice_that_streams_text_gets_it_as_it_comes(serve: Serve) -> None:
    tts = ScriptedTTS(first_byte=0.1, streams_text=True, emits_words=True)
    chunks: list[tuple[float, str, float | None]] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak(trickle("One ", "two ", "three")):
            chunks.extend((VirtualClock().now(), word.text, chunk.requested_at) for word in chunk.words)

    serve(CascadingPipeline(tts=tts), speak)
    assert [word for _, word, _ in chunks] == ["One", "two", "three"]
    assert [at for at, _, _ in chunks] == pytest.approx([0.2, 0.3, 0.4])
    assert [requested for _, _, requested in chunks] == [pytest.approx(0.1), None, None]
    assert tts.texts == ["One two three"]


@pytest.mark.parametrize("streams_text", [False, True])
def test_speech_is_tried_again_before_its_first_audio(serve: Serve, streams_text: bool) -> None:
    tts = ScriptedTTS(
        first_byte=0.0, streams_text=streams_text, faults={0: TTSFault("before", LOST), 1: TTSFault("before", LOST)}
    )
    seconds: list[float] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak(trickle("One ", "two.", wait=0.0)):
            seconds.append(chunk.frame.duration)

    serve(CascadingPipeline(tts=tts), speak)
    assert sum(seconds) == pytest.approx(0.4)
    assert tts.requested_at == pytest.approx([0.0, 0.1, 2.1])
    assert tts.texts[-1] == "One two."


@pytest.mark.parametrize(("index", "when"), [(0, "middle"), (1, "before")])
def test_speech_is_not_tried_again_once_something_was_spoken(serve: Serve, index: int, when: Any) -> None:
    tts = ScriptedTTS(faults={index: TTSFault(when, LOST)})

    async def speak(connection: CascadingConnection) -> None:
        async for _ in connection.speak("One two. Three four."):
            pass

    with pytest.raises(ExceptionGroup) as caught:
        serve(CascadingPipeline(tts=tts), speak)
    assert caught.group_contains(ProviderConnectionError)
    assert len(tts.texts) == index + 1


def test_closing_a_speech_stops_the_synthesis(serve: Serve) -> None:
    tts = ScriptedTTS()

    async def speak(connection: CascadingConnection) -> None:
        async with aclosing(connection.speak("One two. Three four.")) as chunks:
            assert (await anext(chunks)).text == "One two."

    serve(CascadingPipeline(tts=tts), speak)
    assert tts.texts == ["One two."]
    assert tts.cancelled == [0]
