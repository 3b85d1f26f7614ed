"""The last turn, over whose answer the pipeline was lost: the pipeline that takes over answers it."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from kit.turn.pipelines import due, wants
from vivavoce.agents.turn import inputs as i


def failed(text: str = "hello", **options: Any) -> Conversation:
    """A turn of 1.0 to 2.0 whose answer fails at 3.0, with its pipeline."""
    talk = Conversation(**options).says(text, 1.0, 2.0).until(2.5)
    talk.at(3.0, i.PipelineLost("first", "llm", "spare"), i.SpeechEnded("answer_1", "failed", "llm"))
    talk.take()
    return talk


def follows(talk: Conversation) -> list[tuple[Any, ...]]:
    return due(talk.at(3.5, i.PipelineReady(change_id="fallback_1"))).take()


def test_the_new_pipeline_answers_it() -> None:
    assert follows(failed()) == [
        (3.5, "take pipeline", "fallback_1"),
        (3.5, "AnswerHistory", "late_answer_1", "turn_1"),
        (3.5, "grant", "late_answer_1"),
    ]


def test_the_new_pipeline_answers_it_with_the_words_that_came_after_the_failure() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.5)
    talk.at(3.0, i.PipelineLost("first", "realtime_model", "spare"), i.SpeechEnded("answer_1", "failed", "llm"))
    talk.at(3.2, i.UserFinal(text="hello"))
    assert (3.5, "AnswerHistory", "late_answer_1", "turn_1") in follows(talk)


def test_a_turn_without_known_words_is_not_answered() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.5)
    talk.at(3.0, i.PipelineLost("first", "realtime_model", "spare"), i.SpeechEnded("answer_1", "failed", "llm"))
    assert follows(talk)[-1] == (3.5, "take pipeline", "fallback_1")


@pytest.mark.parametrize("before", ["audible", "tools", "completed", "other speech", "open turn", "no loss"])
def test_it_is_not_answered_again_otherwise(before: str) -> None:
    talk = Conversation().says("hello", 1.0, 2.0).until(2.5)
    if before == "audible":
        talk.plays(2.6)
    elif before == "tools":
        talk.at(2.6, i.ToolsStarted("answer_1"))
    outcome: i.EndedAs = "completed" if before == "completed" else "failed"
    talk.at(2.8, i.SpeechEnded("answer_1", outcome, "llm"))
    if before == "other speech":
        talk.asks(2.8, "sorry").plays(2.9).played(3.0)
    elif before == "open turn":
        talk.starts(2.9).at(3.0, i.UserInterim(text="and"))
    if before == "no loss":
        wants(talk, "fallback_1", "p1")
    else:
        talk.at(3.0, i.PipelineLost("first", "stt", "spare"))
    assert "AnswerHistory" not in [entry[1] for entry in follows(talk)]


def test_it_is_not_answered_again_where_its_next_answer_is_under_way() -> None:
    talk = Conversation().says("hello", 1.0, 2.0).says("and more", 2.5, 3.0).until(3.5)
    assert talk.take()[-3:] == [
        (3.2, "withdraw", "answer_1"),
        (3.4, "merge", "turn_1", "hello and more"),
        (3.4, "grant", "answer_2"),
    ]
    talk.at(3.5, i.PipelineLost("first", "llm", "spare"), i.SpeechEnded("answer_1", "failed", "llm")).take()
    assert "AnswerHistory" not in [entry[1] for entry in follows(talk)]
