"""Scenario 7 with the application's own judgement of interruptions."""

from __future__ import annotations

from vivavoce.agents import Agent, InterruptionOptions, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.agents.turn import InterruptionMoment, backchannels_for
from vivavoce.agents.turn.policy import Decision

TEN_WORDS = "one two three four five six seven eight nine ten."


class Counting(Agent):
    async def on_enter(self) -> None:
        await self.session.say(TEN_WORDS)  # heard from 0.2 to 2.2


def counting(**options: object) -> SessionHarness:
    chosen = SessionOptions(interruption=InterruptionOptions(**options))  # type: ignore[arg-type]
    llm = ScriptedLLM(default="All right.", delay=0.1)
    return SessionHarness(Counting("Count."), llm, tts=ScriptedTTS(emits_words=True), options=chosen)


class OnlyStop:
    """Nothing but "stop" cuts the agent, and it cuts at once."""

    def decide(self, moment: InterruptionMoment) -> Decision:
        return "interrupt" if "stop" in moment.text.split() else "ignore"


def test_a_policy_decides_which_words_cut_the_agent() -> None:
    harness = counting(mode=OnlyStop())
    harness.caller.says("what a nice voice", 0.4, 1.0, final_at=1.1)
    harness.run(until=4.0)
    harness.expect_played((0.2, 2.0)).expect_outcomes("completed")
    harness.expect_history(("user", "what a nice voice"), ("assistant", TEN_WORDS))
    assert harness.llm.requests == []

    harness = counting(mode=OnlyStop())
    harness.caller.says("please stop", 0.4, 1.0, final_at=1.2, interims=[(0.9, "please stop")])
    harness.run(until=4.0)
    harness.expect_played((0.2, 0.75), (1.7, 0.4)).expect_outcomes("interrupted", "completed")
    harness.expect_history(("assistant", "one two three"), ("user", "please stop"), ("assistant", "All right."))


class Broken:
    def decide(self, moment: InterruptionMoment) -> Decision:
        raise LookupError(moment.text)


def test_a_policy_that_raises_is_told_and_the_conversation_goes_on_without_it() -> None:
    harness = counting(mode=Broken())
    harness.caller.says("wait stop", 0.6, 1.2, final_at=1.4)
    harness.expects_error("policy").run(until=4.0)
    harness.expect_outcomes("interrupted", "completed")
    errors = harness.recording.of(ErrorOccurred)
    assert [(event.source, round(event.at, 6)) for event in errors] == [("policy", 1.1), ("policy", 1.4)]
    assert str(errors[0].error) == "InterruptionOptions.mode: LookupError; the default was taken"


def test_backchannels_of_the_callers_language_do_not_cut_the_agent() -> None:
    for backchannels, outcome in ((backchannels_for("de"), "completed"), (backchannels_for("en"), "interrupted")):
        harness = counting(backchannels=backchannels)
        harness.caller.says("ach so, verstehe", 0.4, 1.0, final_at=1.2)
        harness.run(until=6.0)
        assert harness.session.turns[0].outcome == outcome
