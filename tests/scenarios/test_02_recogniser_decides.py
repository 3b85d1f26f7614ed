"""Scenario 2: a recogniser judges the ends of turns in place of a turn detector and of all waits."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, EndpointingOptions, SessionOptions
from vivavoce.agents.events import ErrorOccurred, UserTranscript
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedTTSOptions, SessionHarness
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.stt.base import STTCapabilities

JUDGES = STTCapabilities(emits_end_of_turn=True)
Act = Callable[[SessionHarness], Any]


def call(*acts: tuple[float, Act], agent: Agent | None = None, until: float = 9.0, **options: Any) -> SessionHarness:
    """The caller speaks from 0.5 to 1.5; the recogniser's events come at their times."""
    harness = SessionHarness(
        agent or Agent("Be nice."),
        ScriptedLLM([0.1, "All right then."], [0.1, "And that too."]),
        stt=ScriptedSTT(capabilities=JUDGES),
        tts=ScriptedTTS(first_byte=0.2, options=ScriptedTTSOptions(duration=1.0)),
        options=SessionOptions(**options),
    )
    harness.preemptive = options.get("preemptive", False)
    harness.caller.makes_noise(0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        for at, act in acts:
            await harness.until(at)
            result = act(harness)
            if result is not None:
                await result

    return harness.run(scenario, until=until)


def shows(text: str) -> Act:
    return lambda harness: harness.stt.interim(text)


def eager(text: str = "") -> Act:
    return lambda harness: harness.stt.eager_end_of_turn(text)


def resumes(harness: SessionHarness) -> None:
    harness.stt.turn_resumed()


def ends(text: str) -> Act:
    def act(harness: SessionHarness) -> None:
        harness.stt.final(text)
        harness.stt.end_of_turn()

    return act


def thinking(harness: SessionHarness) -> list[float]:
    return [round(at, 6) for who, state, at in harness.states if (who, state) == ("agent", "thinking")]


def test_the_turn_is_over_when_the_recogniser_says_so_and_not_by_a_pause() -> None:
    harness = call((1.0, shows("a table")), (3.5, ends("A table.")))
    assert thinking(harness) == [3.5]
    harness.expect_history(("user", "A table."), ("assistant", "All right then.")).expect_outcomes("completed")
    (turn,) = harness.session.turns
    assert turn.ended_by == "recogniser"
    assert {stage.name: round(stage.seconds, 6) for stage in turn.stages}["end_of_turn_decision"] == 2.0
    assert turn.waits == ()
    assert harness.stt.streams[0].flushes == []


def test_the_turn_is_over_before_the_vad_has_heard_its_silence() -> None:
    harness = call((1.0, shows("a table")), (1.6, ends("A table.")))
    assert thinking(harness) == [1.6]
    (turn,) = harness.session.turns
    assert turn.e2e_latency == pytest.approx(sum(stage.seconds for stage in turn.stages))
    assert {stage.name: round(stage.seconds, 6) for stage in turn.stages}["end_of_turn_decision"] == 0.1
    harness.expect_outcomes("completed")


def test_a_recogniser_that_never_judges_is_waited_for_until_max_delay_and_asked_to_settle() -> None:
    harness = call((1.0, shows("a table")), endpointing=EndpointingOptions(max_delay=2.0))
    assert thinking(harness) == [3.5]
    assert len(harness.stt.streams[0].flushes) == 1
    assert harness.session.turns[0].ended_by == "pause"


def test_the_recogniser_is_lost_behind_an_eager_end_and_the_pause_ends_the_turn() -> None:
    harness = call((1.0, shows("a table")), (1.55, eager()), (1.6, lambda harness: harness.stt.fail()))
    assert thinking(harness) == [1.9]
    harness.expect_history(("user", "a table"), ("assistant", "All right then."))


def test_muted_input_is_silence_by_which_the_recogniser_ends_the_turn() -> None:
    harness = call(
        (1.0, shows("a table")),
        (1.2, lambda harness: harness.session.input.mute()),
        (1.4, ends("A table.")),
        (2.0, lambda harness: harness.session.input.mute(False)),
    )
    assert (thinking(harness), harness.stt.streams[0].flushes) == ([1.4], [])


def test_a_long_min_delay_is_no_wait_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        call(until=0.1, endpointing=EndpointingOptions(min_delay=2.5))
    assert "add up to more than" not in caplog.text


class Editor(Agent):
    """Writes the caller's words in capitals, and drops all that are secret."""

    async def stt_stage(self, transcripts: AsyncIterator[UserFinal | UserInterim]) -> Any:
        async for transcript in transcripts:
            if "secret" not in transcript.text:
                yield type(transcript)(text=transcript.text.upper())


def test_a_hook_that_drops_the_words_of_a_turn_leaves_nothing_to_answer_at_its_end() -> None:
    harness = call((1.0, shows("secret")), (1.7, eager("secret words")), (1.9, ends("secret words")), agent=Editor("x"))
    harness.expect_history()
    harness.expect_states("agent", ("listening", 0.5), ("idle", 1.9))
    assert (thinking(harness), harness.recording.of(UserTranscript), harness.llm.requests) == ([], [], [])


@pytest.mark.parametrize("judges_then", [False, True])
def test_another_recogniser_ends_the_next_turn_in_its_own_way(judges_then: bool) -> None:
    first, second = STTCapabilities(emits_end_of_turn=not judges_then), STTCapabilities(emits_end_of_turn=judges_then)
    stt = ScriptedSTT(capabilities=second)
    harness = SessionHarness(
        Agent("Be nice."), ScriptedLLM("All right then.", "And that too."), stt=ScriptedSTT(capabilities=first)
    )
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(6.0, 7.0)

    async def scenario(harness: SessionHarness) -> None:
        for at, one, text in ((1.0, harness.stt, "a table"), (6.5, stt, "for two")):
            await harness.until(at)
            one.interim(text)
            await harness.until(at + 0.75)
            one.final(text)
            await harness.until(at + 2.0)
            if one.capabilities.emits_end_of_turn:
                one.end_of_turn()
            await harness.until(at + 4.0)
            if one is harness.stt:
                await harness.session.update_components(stt=stt)

    harness.run(scenario, until=12.0)
    ways = [(3.0, 7.4), ("recogniser", "pause")] if not judges_then else [(1.9, 8.5), ("pause", "recogniser")]
    assert [tuple(thinking(harness)), tuple(turn.ended_by for turn in harness.session.turns)] == ways


# --- an answer begun ahead


def ahead(*acts: tuple[float, Act], **more: Any) -> SessionHarness:
    return call(*acts, preemptive=True, **more)


def test_an_eager_end_asks_the_model_at_once_and_the_end_takes_its_answer() -> None:
    harness = ahead((1.0, shows("a tab")), (1.6, eager("a table")), (2.0, ends("A table.")))
    assert [round(at, 6) for at in harness.llm.requested_at] == [1.6], "not at the stable interim"
    harness.expect_history(("user", "A table."), ("assistant", "All right then."))
    (turn,) = harness.session.turns
    assert turn.preemptive
    harness.expect_played((2.2, 1.0)).expect_outcomes("completed")
    assert [event.text for event in harness.recording.of(UserTranscript)] == ["a tab", "a table", "A table."]


def test_resumed_cancels_the_model_at_once_and_the_answer_leaves_no_trace() -> None:
    async def is_cancelled(harness: SessionHarness) -> None:
        assert harness.llm.cancelled == [0]

    harness = ahead((1.6, eager("a table")), (1.65, resumes), (1.66, is_cancelled), (3.0, ends("a table for two")))
    harness.expect_history(("user", "a table for two"), ("assistant", "And that too.")).expect_outcomes("completed")
    assert harness.recording.of(ErrorOccurred) == []


def test_the_answer_of_an_eager_end_is_begun_on_the_words_that_the_hook_gives() -> None:
    harness = ahead((1.6, eager("a table")), (2.0, ends("a table")), agent=Editor("x"))
    assert [request.context.messages("user")[-1].content for request in harness.llm.requests] == ["A TABLE"]
    harness.expect_history(("user", "A TABLE"), ("assistant", "All right then."))


class Slow(Agent):
    """Takes its time for each transcript."""

    async def stt_stage(self, transcripts: AsyncIterator[UserFinal | UserInterim]) -> Any:
        async for transcript in transcripts:
            await anyio.sleep(0.3)
            yield transcript


def test_judgements_wait_behind_the_words_that_a_hook_still_has() -> None:
    harness = ahead((1.6, eager("a table")), (2.2, ends("a table")), agent=Slow("x"))
    assert [round(at, 6) for at in harness.llm.requested_at] == [1.9]
    assert thinking(harness) == [2.5]
    harness.expect_history(("user", "a table"), ("assistant", "All right then."))
