"""The session's record of a conversation: hooks of the turn, the room's transcripts, usage, the report."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import anyio
import pytest

from vivavoce.agents import Agent, CompletedTurn, EndpointingOptions, SessionOptions, StopResponse, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.base import AudioChunk, Word

TEN_WORDS = "one two three four five six seven eight nine ten."


class Editor(Agent):
    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if "forget" in turn.text:
            raise StopResponse
        if "break" in turn.text:
            raise ZeroDivisionError("mine")
        if "hang" in turn.text:
            await anyio.sleep_forever()
        if "slow" in turn.text:
            await anyio.sleep(0.5)
        turn.text = turn.text.replace("darn", "****")
        turn.instructions = "Answer politely."


def edit(text: str, *answers: str) -> SessionHarness:
    harness = SessionHarness(Editor("Help."), ScriptedLLM(*(answers or ("Sure.",)), delay=0.1))
    harness.caller.says(text, 0.5, 1.5)
    return harness


def test_a_hook_may_edit_the_turn_and_instruct_its_answer() -> None:
    harness = edit("darn thing").run(until=5.0)
    harness.expect_history(("user", "**** thing"), ("assistant", "Sure."))
    assert harness.llm.requests[0].extra_instructions == "Answer politely."
    assert harness.llm.requests[0].context.messages()[-1].content == "**** thing"


def test_a_hook_may_drop_the_turn() -> None:
    harness = edit("forget it").run(until=5.0)
    harness.expect_history().expect_outcomes("discarded")
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("idle", 1.9))
    assert harness.llm.requests == []


def test_a_hook_that_raises_is_an_error_and_the_turn_is_answered() -> None:
    harness = edit("break it").expects_error("hook").run(until=5.0)
    harness.expect_history(("user", "break it"), ("assistant", "Sure.")).expect_outcomes("completed")
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["hook"]


def test_a_hook_that_hangs_is_given_up_at_its_limit_and_the_turn_is_answered() -> None:
    harness = edit("hang it").expects_error("hook").run(until=20.0)
    harness.expect_history(("user", "hang it"), ("assistant", "Sure."))
    harness.expect_played((12.2, 0.2))


def test_the_time_of_a_hook_is_a_stage_of_the_turn() -> None:
    harness = edit("slow thing").run(until=5.0)
    stages = {stage.name: stage.seconds for stage in harness.session.turns[0].stages}
    assert stages["hook"] == pytest.approx(0.5)


def test_the_room_is_shown_both_sides_and_the_agents_words_as_they_are_heard() -> None:
    harness = SessionHarness(Agent("Count."), ScriptedLLM(TEN_WORDS, delay=0.1), tts=ScriptedTTS(emits_words=True))
    harness.caller.says("count please", 0.5, 1.5, interims=[(1.0, "count")])

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.1)  # heard since 2.2
        await harness.session.interrupt()

    harness.run(scenario, until=4.0)
    shown = [(part.who, part.text, part.is_final) for part in harness.room.transcripts]
    assert shown[:2] == [("user", "count", False), ("user", "count please", True)]
    assert shown[-1] == ("agent", "one two three four", True)
    agent = [text for who, text, _ in shown if who == "agent"]
    assert agent == sorted(agent, key=len)
    assert len({part.segment_id for part in harness.room.transcripts}) == 2
    first_word = next(
        at
        for at, part in zip(harness.room.transcript_times, harness.room.transcripts, strict=True)
        if part.text == "one"
    )
    assert first_word == pytest.approx(2.4, abs=0.03)


class Normalising(ScriptedTTS):
    """Reports its words in lower case, as pieces of one letter where they are names."""

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        async with aclosing(super().synthesize(text)) as chunks:
            async for chunk in chunks:
                yield replace(chunk, words=tuple(part for word in chunk.words for part in self._reports(word)))

    def _reports(self, word: Word) -> list[Word]:
        letters = word.text.strip(".").lower() if word.text.isupper() else word.text.strip(".").lower().split()
        step = (word.end - word.start) / len(letters)
        return [Word(part, word.start + n * step, word.start + (n + 1) * step) for n, part in enumerate(letters)]


@pytest.mark.usefixtures("each_pipeline")
def test_an_answer_is_cut_to_the_words_heard_whatever_form_the_voice_reports_them_in() -> None:
    answer = "It is right that I think so of IBM and others."
    harness = SessionHarness(Agent("x"), ScriptedLLM(answer, delay=0.1), tts=Normalising(emits_words=True))
    harness.caller.says("count please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.25)  # heard since 2.2
        await harness.session.interrupt()

    harness.run(scenario, until=4.0)
    harness.expect_history(("user", "count please"), ("assistant", "It is right that I"))
    shown = [part.text for part in harness.room.transcripts if part.who == "agent"]
    assert shown == sorted(shown, key=len)
    assert all(answer.startswith(part) for part in shown)


def test_the_room_is_shown_the_agents_states() -> None:
    harness = edit("hello").run(until=5.0)
    assert harness.room.states == ["starting", "idle", "listening", "thinking", "speaking", "idle", "closing", "closed"]


def test_usage_and_the_report_add_everything_up() -> None:
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM(["Sure thing.", Usage(input_tokens=12, output_tokens=3)], delay=0.1)
    )
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=5.0)
    usage = harness.session.usage
    assert (usage.llm_input_tokens, usage.llm_output_tokens) == (12, 3)
    assert usage.tts_characters == len("Sure thing.")
    assert usage.tts_audio_seconds == pytest.approx(0.4)
    report = json.loads(json.dumps(harness.session.report().to_json()))
    assert report["version"] == 1
    assert [turn["outcome"] for turn in report["turns"]] == ["completed"]
    assert report["close"]["reason"] == "user_initiated"
    assert [(state["who"], state["state"]) for state in report["states"]][-1] == ("agent", "closed")


def test_an_empty_answer_is_an_outcome_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([], "Better.", delay=0.1))
    harness.caller.says("hello", 0.5, 1.5)
    harness.caller.says("hello again", 3.5, 4.5)
    with caplog.at_level(logging.WARNING, logger="vivavoce.agents"):
        harness.run(until=8.0)
    assert "empty" in caplog.text
    harness.expect_outcomes("completed", "completed")
    harness.expect_history(("user", "hello"), ("user", "hello again"), ("assistant", "Better."))


def test_waits_that_add_up_to_more_than_the_budget_are_named_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    options = SessionOptions(endpointing=EndpointingOptions(min_delay=1.5))
    with caplog.at_level(logging.WARNING, logger="vivavoce.agents"):
        SessionHarness(Agent("Help."), options=options).run()
    assert "endpointing.min_delay" in caplog.text
    caplog.clear()
    SessionHarness(Agent("Help.")).run()
    assert "add up to more than" not in caplog.text


def test_application_code_may_add_to_the_history() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.history.add_message("system", "The caller is called Ada.")
        await harness.session.reply("Greet by name.")

    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hello Ada.")).run(scenario)
    assert harness.messages == [("system", "The caller is called Ada."), ("assistant", "Hello Ada.")]
    assert harness.llm.requests[0].context.messages()[0].content == "The caller is called Ada."


def test_logs_hold_no_content(caplog: pytest.LogCaptureFixture) -> None:
    @function_tool
    async def leak(secret: str) -> str:
        """Fail."""
        raise RuntimeError("unrelated")

    call = ToolCall(call_id="c1", name="leak", arguments='{"secret": "hunter2"}')
    harness = SessionHarness(Agent("hunter2", tools=[leak]), ScriptedLLM([call], "hunter2.", delay=0.1))
    harness.caller.says("hunter2", 0.5, 1.5)
    with caplog.at_level(logging.DEBUG, logger="vivavoce"):
        harness.expects_error("tool").run(until=5.0)
    assert caplog.records
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"close_timeout": 0},
        {"tool_timeout": -1.0},
        {"max_errors": 0},
        {"start_step": 0.0},
        {"callback_timeout": 0.0},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="need"):
        SessionOptions(**wrong)  # type: ignore[arg-type]  # numbers of either kind
