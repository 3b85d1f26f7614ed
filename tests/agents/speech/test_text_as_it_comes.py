"""`say` of a text that comes piece by piece: to its end, and within a bound where it has none."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.speech.text_channel import MAX_TEXT
from vivavoce.agents.testing import SessionHarness

SENTENCE = "One two three four five six seven eight nine ten. "


def test_a_text_without_end_fails_its_speech_at_the_bound_and_is_closed() -> None:
    given, is_closed = 0, False

    async def endless() -> AsyncGenerator[str, None]:
        nonlocal given, is_closed
        try:
            while True:
                given += len(SENTENCE)
                yield SENTENCE
        finally:
            is_closed = True

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say(endless())
        assert is_closed
        assert MAX_TEXT < given <= MAX_TEXT + len(SENTENCE)
        await harness.session.say("Here I am.")

    harness = SessionHarness(Agent("x")).run(scenario)
    harness.expect.failure(contains=f"at most {MAX_TEXT} characters, got more; say it in parts")
    harness.expect.next_message("Here I am.").no_more()


def test_a_long_text_is_said_to_its_end() -> None:
    async def long() -> AsyncGenerator[str, None]:
        for _ in range(100):
            yield SENTENCE

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say(long())
        assert harness.now == pytest.approx(200.2, abs=1.0)

    harness = SessionHarness(Agent("x")).run(scenario)
    harness.expect.next_message((SENTENCE * 100).strip()).no_more()
