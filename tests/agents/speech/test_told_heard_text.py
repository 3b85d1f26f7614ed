"""A voice that itself knows what was heard of a speech that is cut: its word counts, if it comes in time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import anyio
import pytest

from vivavoce.agents import Agent
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts.base import TTS, AudioChunk, Heard, TTSCapabilities

RATE = 24_000
ANSWER = "One two three four five six seven eight nine ten."


class Teller(TTS):
    """Speaks half a second for each word, and has `tell` answer what was heard."""

    provider = "teller"

    def __init__(self, tell: Callable[[float], Awaitable[str | None]]) -> None:
        self.asked: list[float] = []
        self._tell = tell

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=RATE, streams_text=True)

    def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        async def whole() -> AsyncGenerator[str, None]:
            yield text

        return self.stream(whole())

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        heard: Heard | None = self._heard
        async for piece in text:
            for _ in piece.split():
                yield AudioChunk(AudioFrame.silence(0.5, RATE), heard=heard)
                heard = None

    async def _heard(self, seconds: float) -> str | None:
        self.asked.append(seconds)
        return await self._tell(seconds)


async def at_once(seconds: float) -> str | None:
    return "One two"


async def not_at_all(seconds: float) -> str | None:
    return None


async def nothing(seconds: float) -> str | None:
    return ""


async def too_late(seconds: float) -> str | None:
    await anyio.sleep(60)
    return "One"


async def broken(seconds: float) -> str | None:
    raise RuntimeError("a fault of the voice")


@pytest.mark.parametrize(
    ("tell", "is_told"), [(at_once, True), (not_at_all, False), (too_late, False), (broken, False)]
)
def test_the_history_has_what_the_voice_tells_or_else_an_estimate(
    tell: Callable[[float], Awaitable[str | None]], is_told: bool
) -> None:
    async def main() -> tuple[Teller, SessionHarness]:
        voice = Teller(tell)
        harness = SessionHarness(Agent("Be brief."), ScriptedLLM(ANSWER, "Yes."), tts=voice)
        harness.caller.says("count", 0.5, 1.0)
        harness.caller.says("stop it please", 3.5, 4.5)
        async with harness:
            for _ in range(2):
                await harness.next(TurnCompleted)
        return voice, harness

    voice, harness = run_virtual(main())
    record = harness.session.turns[0]
    heard = harness.messages[1][1]
    assert record.outcome == "interrupted"
    assert record.heard_text == heard
    assert voice.asked == [pytest.approx(record.played_seconds, abs=0.001)]
    assert (heard == "One two") is is_told
    assert ANSWER.startswith(heard), "the message stands before the words that cut it"
    assert harness.messages[2:] == [("user", "stop it please"), ("assistant", "Yes.")]


def test_a_speech_of_which_nothing_was_heard_leaves_no_message() -> None:
    async def main() -> SessionHarness:
        harness = SessionHarness(Agent("Be brief."), ScriptedLLM(ANSWER, "Yes."), tts=Teller(nothing))
        harness.caller.says("count", 0.5, 1.0)
        harness.caller.says("stop it please", 3.5, 4.5)
        async with harness:
            for _ in range(2):
                await harness.next(TurnCompleted)
        return harness

    harness = run_virtual(main())
    assert harness.session.turns[0].heard_text == ""
    assert [role for role, _ in harness.messages] == ["user", "user", "assistant"]


def test_a_speech_that_is_heard_to_its_end_is_not_asked_about() -> None:
    async def main() -> Teller:
        voice = Teller(at_once)
        harness = SessionHarness(Agent("Be brief."), ScriptedLLM(ANSWER), tts=voice)
        harness.caller.says("count", 0.5, 1.0)
        async with harness:
            await harness.next(TurnCompleted)
        assert harness.messages[1] == ("assistant", ANSWER)
        return voice

    assert run_virtual(main()).asked == []
