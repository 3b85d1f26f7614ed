"""Late finals: a message that was committed on a guess is amended, never repeated, and answered where it has to be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.events import UserFinal, UserInterim


def guessed(*answers: object) -> SessionHarness:
    """A turn that is committed at 2.5 by its interim, and heard to be answered from 2.8 on."""
    harness = SessionHarness(Agent("Help."), ScriptedLLM(*answers, delay=0.1))  # type: ignore[arg-type]
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised("a table", 1.2, is_final=False)
    return harness


@pytest.mark.parametrize("final_at", [3.0, 4.0, 9.0])
def test_a_late_final_of_the_same_words_changes_nothing_but_their_spelling(final_at: float) -> None:
    harness = guessed("For how many?")
    harness.caller.is_recognised("A table.", final_at)
    harness.run(until=12.0)
    harness.expect_history(("user", "A table."), ("assistant", "For how many?")).expect_outcomes("completed")


def test_a_late_final_with_more_words_has_an_answer_that_nobody_heard_made_anew() -> None:
    harness = guessed([5.0, "For how many?"], "A table for two.")
    harness.caller.is_recognised("a table for two", 4.0)
    harness.run(until=9.0)
    harness.expect_history(("user", "a table for two"), ("assistant", "A table for two.")).expect_outcomes("completed")


@pytest.mark.parametrize("final_at", [3.0, 6.0])
def test_a_late_final_with_more_words_than_were_answered_is_one_message_and_answered_as_the_next_turn(
    final_at: float,
) -> None:
    harness = guessed("For how many people?", "A table for two.")
    harness.caller.is_recognised("a table for two", final_at)
    harness.run(until=12.0)
    assert [text for role, text in harness.messages if role == "user"] == ["a table for two"]
    assert harness.messages[-1] == ("assistant", "A table for two.")
    assert harness.session.history.messages("user")[0].turn_id == "turn_2"
    assert [(turn.turn_id, turn.ended_by) for turn in harness.session.turns] == [
        ("turn_1", "transcript_timeout"),
        ("turn_2", "late_final"),
    ]


class Slow(Agent):
    """Takes almost a second for each final."""

    async def stt_stage(self, transcripts: AsyncIterator[UserFinal | UserInterim]) -> Any:
        async for transcript in transcripts:
            await anyio.sleep(0.9 if isinstance(transcript, UserFinal) else 0.0)
            yield transcript


@pytest.mark.parametrize("ends_at", [3.6, 4.6])
def test_a_final_is_as_late_as_the_recogniser_gave_it_however_long_the_agent_s_stage_has_it(ends_at: float) -> None:
    harness = SessionHarness(Slow("Help."), ScriptedLLM("Sure.", "A table for two.", delay=0.1))
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised("a table please", 1.2, is_final=False)  # committed at 2.5
    harness.caller.is_recognised("A table, please.", 3.0)
    harness.caller.makes_noise(3.4, ends_at)  # the final comes out of the stage at 3.9
    harness.caller.is_recognised("for two", 5.0)
    harness.run(until=9.0)
    harness.expect_history(
        ("user", "A table, please."), ("assistant", "Sure."), ("user", "for two"), ("assistant", "A table for two.")
    )


@pytest.mark.parametrize("has_vad", [True, False], ids=["a VAD", "no VAD"])
def test_words_typed_on_are_not_repeated_by_their_final_behind_new_words(has_vad: bool) -> None:
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM("For how many?", "At nine."), **({} if has_vad else {"vad": None})
    )
    if has_vad:
        harness.caller.makes_noise(0.5, 1.0)
        harness.caller.makes_noise(1.5, 1.6)
    harness.caller.is_recognised("a table", 0.8, is_final=False)
    harness.caller.is_recognised("tonight then", 1.6, is_final=False)
    harness.caller.is_recognised("A table.", 1.9)
    harness.caller.is_recognised("Tonight then?", 2.0)

    async def type_on(running: SessionHarness) -> None:
        await running.until(1.3)
        running.session.input.text("please")

    harness.run(type_on, until=6.0)
    assert [text for role, text in harness.messages if role == "user"] == ["A table. please", "Tonight then?"]


def test_a_late_final_that_covers_new_speech_too_repeats_no_words() -> None:
    harness = guessed("Sure.", "A table for two.")
    harness.caller.makes_noise(4.0, 4.6)
    harness.caller.is_recognised("a table for two", 4.9)
    harness.run(until=9.0)
    harness.expect_history(
        ("user", "a table"), ("assistant", "Sure."), ("user", "for two"), ("assistant", "A table for two.")
    )
