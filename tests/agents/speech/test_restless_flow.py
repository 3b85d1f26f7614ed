"""A flow that yields without ever waiting: it ends with its answer, and the next turn is answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from vivavoce.agents import Agent, ConversationFlow
from vivavoce.agents.agent import Speak
from vivavoce.agents.speech.text_channel import MAX_TEXT
from vivavoce.agents.testing import SessionHarness
from vivavoce.pipelines.tts.base import AudioChunk


class Restless(ConversationFlow):
    """Yields the same piece for ever, in its first turn."""

    def __init__(self, piece: str) -> None:
        self.piece = piece
        self.closed = 0

    async def run(self, transcript: str) -> AsyncIterator[str]:
        if transcript == "second":
            yield "Two."
            return
        yield "One. "
        try:
            while True:
                yield self.piece
        finally:
            self.closed += 1


class Mute(Agent):
    """Its voice fails in the first turn."""

    async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
        if not self.session.turns:
            raise OSError("no voice")
        async for chunk in speak(text):
            yield chunk


@pytest.mark.parametrize("piece", ["word. ", "", " "])
def test_beside_a_voice_that_fails_it_ends_with_the_error_of_the_voice(piece: str) -> None:
    flow = Restless(piece)
    answered(SessionHarness(Mute("Help."), conversation_flow=flow), flow, "tts_stage", "the hook raised OSError")


@pytest.mark.parametrize("piece", ["word. ", "", " " * 50])
def test_by_itself_it_ends_at_the_bound_of_its_text(piece: str) -> None:
    flow, error = Restless(piece), f"yields at most {MAX_TEXT} characters a turn"
    answered(SessionHarness(Agent("Help."), conversation_flow=flow), flow, "flow", error)


def answered(harness: SessionHarness, flow: Restless, source: str, error: str) -> None:
    """Run a call of two turns, of which the first one fails with that error."""
    harness.caller.says("first", 0.5, 1.5)
    harness.caller.says("second", 8.0, 8.5)
    harness.expects_error(source, contains=error).run(until=14.0)
    assert flow.closed == 1
    assert [turn.outcome for turn in harness.session.turns] == ["failed", "completed"]
    assert harness.messages[-1] == ("assistant", "Two.")
