"""Speech in contexts: a text that a context did not live to speak is spoken by another one, once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.tts.contexts import ContextSpeech, SpeechContext

RATE = 8000


class Short(SpeechContext):
    """A context whose server has ended it when its text number `lives_for` arrives; each text is two samples."""

    def __init__(self, lives_for: int, error: ProviderError | None) -> None:
        super().__init__("test", lambda _: None, 5.0)
        self.said: list[str] = []
        self.spoken: list[str] = []
        self._lives_for = lives_for
        self._failure = error

    def _send_text(self, text: str) -> None:
        self.said.append(text)
        if len(self.said) > self._lives_for:
            self.end(self._failure)
        else:
            self.spoken.append(text)
            self.take(bytes(4))

    def _send_end(self) -> None:
        self.end(None)

    def _send_cancel(self) -> None:
        pass

    def _lives_on(self, idle: float) -> bool:
        return True


async def heard(lives: list[int], error: ProviderError | None = None) -> tuple[list[list[str]], int]:
    """Return what each context has spoken of three sentences, and the number of samples."""
    contexts: list[Short] = []

    def begin() -> Short:
        contexts.append(Short(lives[len(contexts)] if len(contexts) < len(lives) else 9, error))
        return contexts[-1]

    async def sentences() -> AsyncGenerator[str, None]:
        for sentence in ("One. ", "Two. ", "Three. "):
            yield sentence

    speech, samples = ContextSpeech(begin, "test"), 0
    try:
        speech.start(sentences())
        async with aclosing(speech.chunks(RATE)) as chunks:
            async for chunk in chunks:
                samples += chunk.frame.samples
    finally:
        await speech.aclose()
    return [context.spoken for context in contexts], samples


async def test_a_text_on_its_way_to_a_context_that_ends_is_spoken_by_another_one() -> None:
    spoken, samples = await heard([1])
    assert spoken == [["One. "], ["Three. "], ["Two. "]]
    assert samples == 6


async def test_a_text_without_audio_is_tried_once_more_and_no_oftener() -> None:
    spoken, samples = await heard([0, 9, 0])
    assert spoken == [[], ["Two. ", "Three. "], []]
    assert samples == 4


async def test_a_context_that_fails_is_not_tried_again() -> None:
    with pytest.raises(ProviderConnectionError):
        await heard([1], ProviderConnectionError("the connection was lost", provider="test"))
