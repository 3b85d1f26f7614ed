"""Scenario 23 with text filters: history, heard text and transcripts are the written text, cut at the heard place."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.cascading import CascadingOptions

WRITTEN = "**One** two [three](https://vivavoce.dev/a/b/c) four `five` 👍 six seven *eight* nine ten. 👍"
BEGINNINGS = {
    2: "**One** two",
    5: "**One** two [three](https://vivavoce.dev/a/b/c) four `five`",
    8: "**One** two [three](https://vivavoce.dev/a/b/c) four `five` 👍 six seven *eight*",
}


@pytest.mark.parametrize("streams_text", [False, True])
@pytest.mark.parametrize("words", BEGINNINGS)
def test_an_interrupted_answer_is_kept_as_it_is_written_up_to_the_word_heard(words: int, streams_text: bool) -> None:
    tts = ScriptedTTS(emits_words=True, streams_text=streams_text)
    harness = SessionHarness(Agent("Count."), tts=tts)

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say(WRITTEN)
        await harness.until(0.2 + 0.2 * words + 0.05)
        await harness.session.interrupt()
        assert handle.heard_text == BEGINNINGS[words]

    harness.run(scenario)
    assert [text.strip() for text in tts.texts] == ["One two three four five six seven eight nine ten."]
    harness.expect_history(("assistant", BEGINNINGS[words]))


@pytest.mark.parametrize("words", BEGINNINGS)
def test_without_word_times_it_is_within_a_word(words: int) -> None:
    harness = SessionHarness(Agent("Count."), tts=ScriptedTTS(emits_words=False))

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say(WRITTEN)
        await harness.until(0.2 + 0.2 * words + 0.05)
        await harness.session.interrupt()
        assert WRITTEN.startswith(handle.heard_text)
        heard = sum(word[-1:].isalnum() or word[-1:] in "*`)" for word in handle.heard_text.split())
        assert abs(heard - words) <= 1

    harness.run(scenario)


def test_a_model_answer_is_kept_as_it_is_written_and_said_without_marks() -> None:
    llm = ScriptedLLM("- **Tea** 👍\n- Milk\n", delay=0.1)
    harness = SessionHarness(Agent("Help."), llm)
    harness.caller.types("what is there?", 1.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "what is there?"), ("assistant", "- **Tea** 👍\n- Milk")).expect_outcomes(
        "completed"
    )
    assert harness.tts.texts == ["Tea.", "Milk."]


def test_a_filter_that_raises_is_an_error_event_and_the_answer_is_spoken() -> None:
    def broken(text: str) -> str:
        raise LookupError("no such word")

    tts = ScriptedTTS()
    pipeline = CascadingPipeline(tts=tts, options=CascadingOptions(text_filters=(broken,)))
    harness = SessionHarness(Agent("Help."), pipeline=pipeline)
    errors: list[str] = []

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on("error", lambda event: errors.append(event.source))
        await harness.session.say("One. Two.")
        await harness.until(3.0)

    harness.run(scenario)
    assert errors == ["text_filter"]
    assert tts.texts == ["One.", "Two."]
    harness.expect_history(("assistant", "One. Two.")).expect_outcomes("completed")
