"""Scenario 23 in scripts without spaces between words: a cut sentence keeps its heard part."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness

CHINESE = "好的我帮您订明天晚上的桌子。"
"""Thirteen signs, 0.2 s each."""


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("signs", [2, 7, 12])
def test_a_chinese_answer_that_is_cut_keeps_the_signs_that_were_heard(signs: int, words: bool) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(CHINESE, delay=0.1), tts=ScriptedTTS(emits_words=words))
    harness.caller.types("订位", 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.3 + 0.2 * signs + 0.05)
        await harness.session.interrupt()

    harness.run(scenario, until=6.0)
    harness.expect_outcomes("interrupted")
    heard = harness.session.history.messages("assistant")[0]
    assert heard.interrupted
    assert CHINESE.startswith(heard.content)
    assert abs(len(heard.content) - signs) <= 1


def test_a_chinese_answer_whose_synthesis_still_runs_keeps_no_more_than_was_heard() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(CHINESE[:-1] * 6, delay=0.1))  # 15.6 s, of which 10 are ahead
    harness.caller.types("订位", 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.3 + 0.2 * 7 + 0.05)
        await harness.session.interrupt()

    harness.run(scenario, until=6.0).check_laws()
    heard = harness.session.history.messages("assistant")[0]
    assert abs(len(heard.content) - 7) <= 1
