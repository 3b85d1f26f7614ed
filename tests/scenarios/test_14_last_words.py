"""Scenarios 14 and 22 where the agent would fall silent: an empty answer, and a close by errors."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents import Agent, EmptyReply, SessionOptions, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness, TTSFault
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.llm.tools import ToolCall


class Polite(Agent):
    def __init__(self) -> None:
        super().__init__("Help.")
        self.empty: list[EmptyReply] = []

    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        return "found"

    async def on_empty_reply(self, reply: EmptyReply) -> None:
        self.empty.append(reply)
        await self.session.say("Pardon?")


def test_an_agent_may_speak_where_its_models_answer_is_empty() -> None:
    agent = Polite()
    harness = SessionHarness(agent, ScriptedLLM([0.1], [0.1, "All is well."]))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("hello again", 5.0, 6.0)
    harness.run(until=9.0)
    harness.expect_outcomes("completed", "completed", "completed")
    assert [(turn.kind, turn.is_empty) for turn in harness.session.turns] == [
        ("turn", True),
        ("say", False),
        ("turn", False),
    ]
    harness.expect_history(
        ("user", "hello there"), ("assistant", "Pardon?"), ("user", "hello again"), ("assistant", "All is well.")
    )
    harness.expect_played((2.2, 0.2), (6.7, 0.6))  # the empty answer was over at 2.0
    assert agent.empty == [EmptyReply(harness.session.turns[0].turn_id, "hello there")]


def test_an_answer_that_is_empty_after_a_tool_is_told_with_the_tool() -> None:
    agent = Polite()
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = SessionHarness(agent, ScriptedLLM([0.1, "Let me see. ", call], [0.1]))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=6.0)
    assert [(reply.text, reply.tools) for reply in agent.empty] == [("hello there", ("look_up",))]
    assert harness.messages[-1] == ("assistant", "Pardon?")


class Failing(Agent):
    async def on_empty_reply(self, reply: EmptyReply) -> None:
        raise LookupError("oh")


class Hanging(Agent):
    async def on_empty_reply(self, reply: EmptyReply) -> None:
        await self.session.say("Pardon?")  # over at 2.4
        await anyio.sleep_forever()


@pytest.mark.parametrize(("agent", "at"), [(Failing("x"), 2.0), (Hanging("x"), 12.4)])
def test_a_hook_that_raises_or_does_not_end_is_an_error_event(agent: Agent, at: float) -> None:
    harness = SessionHarness(agent, ScriptedLLM([0.1], [0.1, "All is well."]))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.expects_error("hook").run(until=14.0)
    assert [(event.source, round(event.at, 6)) for event in harness.recording.of(ErrorOccurred)] == [("hook", at)]
    assert harness.close_report is not None
    assert harness.close_report.is_clean


class Explaining(Agent):
    said = False

    async def on_empty_reply(self, reply: EmptyReply) -> None:
        await self.session.say(" ".join(["sorry"] * 60))  # 12 s
        self.said = True


def test_a_hook_may_await_a_speech_that_is_longer_than_its_limit() -> None:
    agent = Explaining("x")
    harness = SessionHarness(agent, ScriptedLLM([0.1], [0.1, "All is well."]))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=16.0)
    assert agent.said
    assert harness.recording.of(ErrorOccurred) == []
    harness.expect_outcomes("completed", "completed")


def failing(component: str, *, apology: str = "Sorry, something is broken.") -> SessionHarness:
    options = SessionOptions(max_errors=2, apology=apology)
    broken = ProviderError("it broke", provider="scripted")
    if component == "llm":
        llm, tts = ScriptedLLM([0.1, broken], [0.1, broken]), ScriptedTTS()
    else:
        llm = ScriptedLLM(default="Hello.")
        tts = ScriptedTTS(faults={number: TTSFault("before", broken) for number in range(3)})
    harness = SessionHarness(Agent("Help."), llm, tts=tts, options=options)
    harness.caller.says("first question", 0.5, 1.5)
    harness.caller.says("second question", 4.0, 5.0)
    harness.expects_error("session").run(until=12.0)
    assert harness.close_report is not None
    assert harness.close_report.reason == "error"
    return harness


def test_the_apology_is_spoken_before_a_close_by_errors() -> None:
    harness = failing("llm")
    harness.expect_played((5.7, 0.8)).expect_outcomes("failed", "failed", "completed")  # the second failed at 5.5
    assert harness.messages[-1] == ("assistant", "Sorry, something is broken.")
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert "apology" in [step.name for step in harness.close_report.steps]
    closing = [at for who, state, at in harness.states if (who, state) == ("agent", "closing")]
    assert [round(at, 6) for at in closing] == [5.5]


@pytest.mark.parametrize(("component", "apology"), [("tts", "Sorry."), ("llm", "")])
def test_without_a_voice_or_a_text_there_is_no_apology(component: str, apology: str) -> None:
    harness = failing(component, apology=apology)
    harness.expect_played().expect_outcomes("failed", "failed")
    assert harness.close_report is not None
    assert "apology" not in [step.name for step in harness.close_report.steps]


def test_an_apology_that_is_too_long_for_the_close_is_cut() -> None:
    harness = failing("llm", apology=" ".join(["sorry"] * 100))
    report = harness.close_report
    assert report is not None
    assert report.seconds <= 5.0
    assert [step.name for step in report.steps if step.error] == ["apology"]
    assert harness.session.turns[-1].outcome == "interrupted"


def test_the_apology_is_spoken_before_the_close_that_follows_the_loss_of_all_ears() -> None:
    lost, stt = ProviderConnectionError("down", provider="scripted"), ScriptedSTT()
    options = SessionOptions(apology="Sorry, please call again.")
    harness = SessionHarness(Agent("Help."), ScriptedLLM(), stt=stt, options=options)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        stt.fail_open(*[lost] * 9)
        stt.fail(lost)

    harness.expects_error("session").expects_error("stt").run(scenario, until=8.0)
    assert harness.messages == [("assistant", "Sorry, please call again.")]
    report = harness.close_report
    assert report is not None
    assert (report.reason, report.is_clean) == ("error", True)
