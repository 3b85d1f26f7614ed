"""A sentence that looks finished is heard without waiting for the next part: a tool call, a flow's next piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import StepItem

CALL = ToolCall(call_id="c1", name="look_up", arguments="{}")


class Clerk(Agent):
    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        return "found"


def speaking_from(harness: SessionHarness) -> list[float]:
    return [at for who, state, at in harness.states if who == "agent" and state == "speaking"]


def ask(*step: StepItem, tts: ScriptedTTS | None = None) -> SessionHarness:
    """The caller's turn is committed at 1.9; the model answers with the step."""
    harness = SessionHarness(Clerk("Help."), ScriptedLLM(list(step), [0.1, "Here it is."]), tts=tts or ScriptedTTS())
    harness.caller.says("look it up", 0.5, 1.5)
    harness.run(until=10.0)
    harness.expect_outcomes("completed")
    return harness


@pytest.mark.parametrize("words", ["One moment please. ", "One moment please.", "请稍等。", "少々お待ちください！"])
def test_the_words_before_a_slow_call_are_heard_before_it(words: str) -> None:
    harness = ask(0.1, words, 1.5, CALL)
    assert speaking_from(harness)[0] == pytest.approx(1.9 + 0.1 + 0.15 + 0.2)
    assert harness.messages[1] == ("assistant", words.strip())


def test_words_that_may_go_on_wait_for_the_call() -> None:
    harness = ask(0.1, "It costs 3.", 1.5, CALL)
    assert speaking_from(harness)[0] == pytest.approx(1.9 + 0.1 + 1.5 + 0.2)


def test_a_voice_that_streams_text_says_the_last_word_before_a_slow_call() -> None:
    voice = ScriptedTTS(streams_text=True, emits_words=True)
    model = ScriptedLLM([0.1, "One moment please.", 1.5, CALL], [0.1, "Here it is."])
    harness = SessionHarness(Clerk("Help."), model, tts=voice)
    harness.caller.says("look it up", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.2)
        await harness.session.interrupt()

    harness.run(scenario)
    assert harness.messages[1] == ("assistant", "One moment please.")


def test_the_next_piece_of_a_stream_is_not_waited_for() -> None:
    async def slow() -> AsyncGenerator[str, None]:
        yield "One moment please. "
        await anyio.sleep(1.5)
        yield "Here it is."

    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(slow())
        await harness.until(0.36)
        assert harness.session.agent_state == "speaking"
        await speech
        assert speech.heard_text == "One moment please. Here it is."

    harness.run(scenario)


ANSWER = (
    "Good evening. Dr. Smith has time at 5.30 p.m. on the 3. floor, e.g. tomorrow. It costs $3.50, or $12. "
    '"Fine!" you may say... Is that right? 1. Call us. 2. Visit vivavoce.dev. Thank you, J. S. Bach. 谢谢。再见！'
)


@pytest.mark.parametrize("rate", [50, 20, 10])
def test_a_steady_model_is_cut_into_the_same_sentences_as_its_whole_text(rate: int) -> None:
    def sentences(step: list[StepItem]) -> list[str]:
        harness = SessionHarness(Agent("Help."), ScriptedLLM(step))
        harness.caller.says("a question", 0.5, 1.5)
        harness.run(until=60.0)
        return harness.tts.texts

    tokens = [ANSWER[start : start + 4] for start in range(0, len(ANSWER), 4)]
    timed: list[StepItem] = [part for token in tokens for part in (1 / rate, token)]
    assert sentences(timed) == sentences([0.1, ANSWER])
