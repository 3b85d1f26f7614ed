"""Scenario 17: an answer begun before the turn is over is used only where nothing differs."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, CompletedTurn, SessionOptions, SpeechLimits, StopResponse, function_tool
from vivavoce.agents.events import ErrorOccurred, SpeechCreated, UserTranscript
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedTTS,
    ScriptedTTSOptions,
    SessionHarness,
)
from vivavoce.agents.testing.harness import Scenario
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.chat_context import FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import HANG, StepItem

ANSWER = "Sure, I can help you with that right away, madam."
AHEAD = SessionOptions()
SHORT_START = SessionOptions(speech=SpeechLimits(llm_first_token=0.15))
SHORT_STALL = SessionOptions(speech=SpeechLimits(llm_stall=0.15))


def ask(
    *steps: str | list[StepItem],
    agent: Agent | None = None,
    options: SessionOptions = AHEAD,
    interims: tuple[tuple[float, str], ...] = (),
    tts: ScriptedTTS | None = None,
) -> SessionHarness:
    """Scenario 1, with each model step and with interims at will."""
    harness = SessionHarness(
        agent or Agent("Be nice."),
        ScriptedLLM(*steps),
        tts=tts or ScriptedTTS(first_byte=0.2, options=ScriptedTTSOptions(duration=2.0)),
        options=options,
    )
    harness.preemptive = options.preemptive
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7, interims=interims)
    return harness


def record(harness: SessionHarness) -> TurnRecord:
    return harness.session.turns[-1]


def stages(harness: SessionHarness) -> dict[str, float]:
    return {stage.name: round(stage.seconds, 6) for stage in record(harness).stages}


def requests(harness: SessionHarness) -> list[tuple[float, str]]:
    """(when, the last message) of each request."""
    llm = harness.llm
    asked = zip(llm.requested_at, llm.requests, strict=True)
    return [(round(at, 6), request.context.messages("user")[-1].content) for at, request in asked]


def cancelled_by(at: float) -> Scenario:
    """Return a scenario that expects the first request to be cancelled by then, and not by the close."""

    async def look(harness: SessionHarness) -> None:
        await harness.until(at)
        assert harness.llm.cancelled == [0]

    return look


def expect_no_trace(harness: SessionHarness) -> None:
    """The discarded attempt left only its tokens: one transcript, one speech, one answer, no error."""
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER)).expect_outcomes("completed")
    assert [event.text for event in harness.recording.of(UserTranscript) if event.is_final] == ["hello there"]
    assert len(harness.recording.of(SpeechCreated)) == 1
    assert harness.recording.of(ErrorOccurred) == []
    assert len(harness.played) == 1


# --- used


def test_with_an_early_final_the_answer_sounds_earlier_by_the_models_time() -> None:
    harness = ask([0.1, ANSWER]).run(until=6.0)
    harness.expect_states("user", ("speaking", 0.5), ("idle", 2.5), ("listening", 3.1), ("idle", 5.1))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 2.9), ("speaking", 3.1), ("idle", 5.1))
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER))
    harness.expect_played((3.1, 2.0)).expect_outcomes("completed")
    assert requests(harness) == [(2.7, "hello there")]


@pytest.mark.parametrize(("model", "sounds_at"), [(0.1, 3.1), (0.2, 3.1), (0.35, 3.25)])
def test_the_latency_drops_by_exactly_the_overlap(model: float, sounds_at: float) -> None:
    """The model begins at 2.7; the turn is over at 2.9; the voice takes 0.2."""
    harness = ask([model, ANSWER]).run(until=6.0)
    harness.expect_played((sounds_at, 2.0))
    assert sum(stages(harness).values()) == pytest.approx(sounds_at - 2.5)
    assert record(harness).e2e_latency == pytest.approx(sounds_at - 2.5)
    assert stages(harness).get("model_first_token", 0.0) == pytest.approx(max(0.0, model - 0.2))
    assert record(harness).preemptive
    assert record(harness).llm_first_token == pytest.approx(model)
    assert record(harness).tts_first_byte == pytest.approx(0.2)


def test_a_record_without_an_answer_begun_ahead_tells_the_providers_times_too() -> None:
    harness = ask([0.1, ANSWER], options=SessionOptions(preemptive=False)).run(until=6.0)
    harness.expect_played((3.2, 2.0))
    assert not record(harness).preemptive
    assert record(harness).llm_first_token == pytest.approx(0.1) == stages(harness)["model_first_token"]
    assert record(harness).tts_first_byte == pytest.approx(0.2) == stages(harness)["tts_first_byte"]


def test_a_stable_interim_that_the_final_confirms_is_answered_from_then_on() -> None:
    harness = ask([0.7, ANSWER], interims=((1.9, "Hello"), (2.0, "Hello, there."))).run(until=6.0)
    assert requests(harness) == [(2.2, "Hello, there.")]  # not 1.9 + 0.2: it was not stable
    harness.expect_played((3.1, 2.0)).expect_history(("user", "hello there"), ("assistant", ANSWER))


def test_an_answer_that_is_there_before_the_turn_is_over_waits_for_its_end() -> None:
    harness = ask([0.1, ANSWER, Usage(output_tokens=9)], interims=((1.0, "hello there"),)).run(until=6.0)
    harness.expect_played((3.1, 2.0))
    assert record(harness).llm_first_token == pytest.approx(0.1)
    assert harness.session.usage.llm_output_tokens == 9


def test_the_hook_runs_while_the_model_already_answers() -> None:
    class Looks(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await anyio.sleep(0.3)

    harness = ask([0.5, ANSWER], agent=Looks("Be nice.")).run(until=6.0)
    harness.expect_played((3.4, 2.0))  # model 2.7 to 3.2, hook 2.9 to 3.2, voice 0.2
    assert stages(harness)["hook"] == pytest.approx(0.3)
    assert len(harness.llm.requests) == 1


def test_the_public_default_begins_answers_ahead_and_the_voice_waits() -> None:
    assert (SessionOptions().preemptive, SessionOptions().preemptive_tts) == (True, False)


def test_a_model_that_speaks_is_not_asked_before_the_turn_is_over() -> None:
    """The request would stay in the model's conversation."""
    model = ScriptedRealtimeModel([0.3, ANSWER], capabilities=RealtimeCapabilities(turn_detection=frozenset({"local"})))
    harness = SessionHarness(Agent("Be nice."), model=model)
    harness.preemptive = True
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)
    harness.run(until=6.0)
    harness.expect_played((3.2, 2.0))
    assert not record(harness).preemptive


def test_no_more_than_three_answers_are_begun_in_a_turn() -> None:
    guesses = tuple((0.7 + 0.3 * number, f"word {number}") for number in range(5))
    harness = ask("Wrong.", "Wrong.", "Wrong.", [0.1, ANSWER], interims=guesses).run(until=6.0)
    assert requests(harness) == [(0.9, "word 0"), (1.2, "word 1"), (1.5, "word 2"), (2.9, "hello there")]
    expect_no_trace(harness)


# --- thrown away


def test_an_interim_that_the_final_corrects_is_thrown_away_without_a_trace() -> None:
    harness = ask(
        [0.1, "Wrong.", Usage(output_tokens=3)],
        [0.1, ANSWER, Usage(output_tokens=9)],
        interims=((2.0, "yellow hair"),),
    ).run(until=6.0)
    assert requests(harness) == [(2.2, "yellow hair"), (2.7, "hello there")]
    expect_no_trace(harness)
    assert harness.session.usage.llm_output_tokens == 12  # they were spent
    assert record(harness).preemptive  # by the second one


def test_a_model_that_is_still_at_work_on_other_words_is_cancelled_when_they_come() -> None:
    harness = ask([0.1, "Wrong, ", HANG], [0.1, ANSWER], interims=((2.0, "yellow hair"),))
    harness.run(cancelled_by(2.72), until=6.0)
    expect_no_trace(harness)


def test_a_turn_that_goes_on_throws_its_answer_away() -> None:
    harness = ask([0.1, "Wrong."], [0.1, ANSWER])
    harness.caller.says("my friend", 2.76, 3.5, final_at=3.7)
    harness.run(until=8.0)
    assert requests(harness) == [(2.7, "hello there"), (3.7, "hello there my friend")]
    harness.expect_history(("user", "hello there my friend"), ("assistant", ANSWER)).expect_outcomes("completed")
    harness.expect_played((4.1, 2.0))


def test_a_merged_turn_is_answered_ahead_by_its_joined_words() -> None:
    harness = ask([0.1, "Wrong."], [0.1, ANSWER])
    harness.caller.says("my friend", 3.0, 3.5, final_at=3.7)  # before the first answer sounds
    harness.run(until=8.0)
    assert requests(harness) == [(2.7, "hello there"), (3.7, "hello there my friend")]
    harness.expect_history(("user", "hello there my friend"), ("assistant", ANSWER)).expect_outcomes("completed")
    harness.expect_played((4.1, 2.0))


def test_words_that_cut_the_agent_are_answered_ahead() -> None:
    harness = ask([0.1, ANSWER], [0.3, "Fine."])
    harness.caller.says("wait stop now", 3.6, 4.6, final_at=4.8, interims=((4.2, "wait stop now"),))
    harness.run(until=9.0)
    assert requests(harness)[1:] == [(4.4, "wait stop now")]
    heard = harness.llm.requests[1].context.messages("assistant")[-1]
    assert heard.interrupted
    assert len(harness.llm.requests) == 2
    assert record(harness).preemptive
    harness.expect_outcomes("interrupted", "completed")


@pytest.mark.parametrize("edit", ["hello world", "hello there!"])
def test_an_answer_to_words_that_the_hook_edits_is_thrown_away(edit: str) -> None:
    class Edits(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = edit

    harness = ask([0.1, "Wrong."], [0.1, ANSWER], agent=Edits("Be nice.")).run(until=6.0)
    assert requests(harness) == [(2.7, "hello there"), (2.9, edit)]
    harness.expect_history(("user", edit), ("assistant", ANSWER)).expect_played((3.2, 2.0))
    assert not record(harness).preemptive


def test_an_answer_without_what_the_hook_looked_up_is_thrown_away() -> None:
    class Retrieves(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.instructions = "We close at nine."

    harness = ask([0.1, "Wrong."], [0.1, ANSWER], agent=Retrieves("Be nice.")).run(until=6.0)
    assert [request.extra_instructions for request in harness.llm.requests] == ["", "We close at nine."]
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER)).expect_played((3.2, 2.0))


def test_a_turn_that_the_hook_drops_leaves_no_answer_and_no_task() -> None:
    class Drops(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            raise StopResponse

    harness = ask([0.1, "Wrong, ", HANG], agent=Drops("Be nice.")).run(cancelled_by(2.92), until=6.0)
    harness.expect_history().expect_played().expect_outcomes("discarded")


def test_an_answer_to_a_history_that_has_changed_is_thrown_away() -> None:
    async def change(harness: SessionHarness) -> None:
        await harness.until(2.8)
        harness.session.history.add_message("system", "The shop has just closed.")
        await cancelled_by(2.92)(harness)

    harness = ask([0.1, "Wrong.", HANG], [0.1, ANSWER]).run(change, until=6.0)
    harness.expect_history(("system", "The shop has just closed."), ("user", "hello there"), ("assistant", ANSWER))
    harness.expect_played((3.2, 2.0))
    assert not record(harness).preemptive


def test_an_answer_to_a_history_that_the_hook_adds_to_is_thrown_away() -> None:
    class Adds(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            self.session.history.add_message("system", "The shop has just closed.")

    harness = ask([0.1, "Wrong."], [0.1, ANSWER], agent=Adds("Be nice.")).run(until=6.0)
    harness.expect_history(("user", "hello there"), ("system", "The shop has just closed."), ("assistant", ANSWER))
    harness.expect_played((3.2, 2.0))
    assert not record(harness).preemptive


def test_an_answer_to_a_history_with_other_words_of_the_caller_is_thrown_away() -> None:
    async def change(harness: SessionHarness) -> None:
        await harness.until(8.8)
        history = harness.session.history
        history.replace_text(history.messages("user")[0], "good morning")

    harness = ask([0.1, ANSWER], [0.1, "Wrong."], [0.1, "Fine."])
    harness.caller.says("once more", 7.0, 8.5, final_at=8.7)
    harness.run(change, until=12.0)
    assert requests(harness)[1:] == [(8.7, "once more"), (8.9, "once more")]
    assert harness.messages[-1] == ("assistant", "Fine.")


def test_without_tool_steps_the_model_may_call_no_tool_ahead_either() -> None:
    options = SessionOptions(speech=SpeechLimits(max_tool_steps=0))
    harness = ask([0.1, ANSWER], agent=Desk(), options=options).run(until=6.0)
    assert [request.tool_choice.mode for request in harness.llm.requests] == ["none"]
    expect_no_trace(harness)


def test_an_answer_under_other_instructions_is_thrown_away() -> None:
    agent = Agent("Be nice.")

    async def change(harness: SessionHarness) -> None:
        await harness.until(2.8)
        agent.instructions = "Be brief."

    harness = ask([0.1, "Wrong."], [0.1, ANSWER], agent=agent).run(change, until=6.0)
    assert [request.instructions for request in harness.llm.requests] == ["Be nice.", "Be brief."]
    expect_no_trace(harness)


def test_an_answer_with_other_tools_is_thrown_away() -> None:
    class Learns(Agent):
        knows_more = False

        @property
        def tools(self) -> tuple[Any, ...]:
            return super().tools if self.knows_more else ()

        @function_tool
        async def book(self) -> str:
            """Book a table."""
            return "booked"

    agent = Learns("Be nice.")

    async def change(harness: SessionHarness) -> None:
        await harness.until(2.8)
        agent.knows_more = True

    harness = ask([0.1, "Wrong."], [0.1, ANSWER], agent=agent).run(change, until=6.0)
    assert [len(request.tools) for request in harness.llm.requests] == [0, 1]
    expect_no_trace(harness)


# --- a tool waits


class Desk(Agent):
    """Books tables, and notes when."""

    def __init__(self) -> None:
        super().__init__("Take bookings.")
        self.booked_at: list[float] = []

    @function_tool
    async def book(self) -> str:
        """Book a table."""
        self.booked_at.append(round(anyio.current_time(), 6))
        return "booked"


def test_a_tool_call_that_is_reached_ahead_runs_after_the_commit_and_once() -> None:
    agent = Desk()
    call = ToolCall(call_id="c1", name="book", arguments="{}")
    harness = ask([0.1, call], [0.1, ANSWER], agent=agent).run(until=6.0)
    assert agent.booked_at == [2.9]
    harness.expect_tools(("book", "booked")).expect_played((3.2, 2.0)).expect_outcomes("completed")
    assert record(harness).preemptive
    assert len(harness.llm.requests) == 2


def test_a_tool_call_of_an_answer_that_is_thrown_away_never_runs() -> None:
    agent = Desk()
    call = ToolCall(call_id="c1", name="book", arguments="{}")
    harness = ask([0.1, call], [0.1, ANSWER], agent=agent, interims=((2.0, "yellow hair"),)).run(until=6.0)
    assert agent.booked_at == []
    harness.expect_tools()
    expect_no_trace(harness)


def test_a_call_that_still_runs_is_told_ahead_as_it_is_at_the_commit() -> None:
    class Slow(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look something up."""
            await anyio.sleep(20.0)
            return "found"

    async def cut(harness: SessionHarness) -> None:
        await harness.until(4.0)
        await harness.session.interrupt()

    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = ask([0.1, call], [0.1, ANSWER], "It is found.", agent=Slow("Be nice."))
    harness.caller.says("are you there", 5.0, 6.0)
    harness.run(cut, until=30.0)
    outputs = [item.output for item in harness.llm.requests[1].context.items if isinstance(item, FunctionCallOutput)]
    assert len(outputs) == 1
    assert "still running" in outputs[0]
    assert requests(harness)[1] == (6.2, "are you there")
    assert len(harness.llm.requests) == 3  # the last one is for the call's result
    assert [turn.preemptive for turn in harness.session.turns] == [True, True, False]


# --- failures


@pytest.mark.parametrize(
    ("broken", "options"),
    [
        pytest.param([ProviderStatusError("down", provider="scripted", status=500)], AHEAD, id="raises"),
        pytest.param([0.05, "Wr", RuntimeError("a bug")], AHEAD, id="raises in mid-sentence"),
        pytest.param([HANG], SHORT_START, id="hangs"),
        pytest.param([0.02, "Wr", HANG], SHORT_STALL, id="stalls"),
    ],
)
def test_an_answer_that_fails_before_the_turn_is_over_is_begun_anew_at_its_end(
    broken: list[StepItem], options: SessionOptions
) -> None:
    harness = ask(broken, [0.1, ANSWER], options=options).run(until=6.0)
    expect_no_trace(harness)
    harness.expect_played((3.2, 2.0))
    assert not record(harness).preemptive


def test_an_answer_that_fails_after_the_turn_is_over_fails_like_any_other() -> None:
    broken: list[StepItem] = [0.3, ProviderStatusError("down", provider="scripted", status=500)]
    harness = ask(broken, [0.1, ANSWER])
    harness.caller.says("once more", 4.0, 5.0)
    harness.run(until=9.0)
    errors = [(event.source, round(event.at, 6)) for event in harness.recording.of(ErrorOccurred)]
    assert errors == [("llm", 3.0)]
    harness.expect_outcomes("failed", "completed")


def test_an_answer_that_hangs_over_the_end_of_the_turn_fails_at_its_own_limit() -> None:
    options = SessionOptions(speech=SpeechLimits(llm_first_token=1.0))
    harness = ask([HANG], options=options).run(until=6.0)
    errors = [(event.source, round(event.at, 6)) for event in harness.recording.of(ErrorOccurred)]
    assert errors == [("llm", 3.7)]  # begun at 2.7
    harness.expect_outcomes("failed")


# --- interrupted, closed


def test_an_interruption_while_the_hook_runs_ends_the_answer_begun_ahead() -> None:
    class Waits(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await anyio.sleep(2.0)

    async def cut(harness: SessionHarness) -> None:
        await harness.until(3.5)
        await harness.session.interrupt()
        await cancelled_by(3.52)(harness)

    harness = ask([0.1, "Wrong, ", HANG], agent=Waits("Be nice.")).run(cut, until=6.0)
    harness.expect_history(("user", "hello there")).expect_played().expect_outcomes("cancelled")


def test_interrupt_does_not_touch_an_answer_to_a_turn_that_is_open() -> None:
    async def cut(harness: SessionHarness) -> None:
        await harness.until(2.8)
        await harness.session.interrupt()

    harness = ask([0.1, ANSWER]).run(cut, until=6.0)
    expect_no_trace(harness)
    harness.expect_played((3.1, 2.0))


@pytest.mark.parametrize("options", [AHEAD, SessionOptions(preemptive_tts=True)])
@pytest.mark.parametrize("at", [2.3, 2.8, 2.9, 3.0, 3.15])
def test_a_close_at_any_time_leaves_no_task_and_keeps_the_words(at: float, options: SessionOptions) -> None:
    harness = ask([0.1, "Sure, ", HANG], options=options, interims=((2.0, "hello there"),)).run(until=at)
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    owed = max(0.0, 2.7 - at)  # while an interim has no final yet, the close waits for it, and for nothing else
    assert owed <= harness.close_report.seconds + 1e-6 < owed + 0.1
    assert harness.llm.cancelled == [0]
    assert harness.messages[:1] == [("user", "hello there")]
