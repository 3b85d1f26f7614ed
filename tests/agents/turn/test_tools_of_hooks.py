"""A hook's speech that waits for its tools goes on before the answer: all that waits does not wait for the answer."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import PipelineTraits


def in_tools() -> Conversation:
    """A turn whose hook has asked for a reply, which the answer gave way to and whose tools run."""
    talk = Conversation().says("a table", 0.5, 1.0).until(1.5)
    talk.at(1.5, i.SpeechRequested(speech_id="aside", kind="reply", hook_of="answer_1"), i.FloorYielded("answer_1"))
    talk.at(1.7, i.ToolsStarted("aside"), i.ToolsAwaited("aside"))
    assert [entry[1:3] for entry in talk.take()][1:] == [("grant", "answer_1"), ("grant", "aside")]
    return talk


@pytest.mark.parametrize("begins_task", [False, True])
def test_a_handoff_of_those_tools_begins(begins_task: bool) -> None:
    talk = in_tools().at(2.0, i.HandoffRequested("h", begins_task=begins_task))
    assert talk.take() == [(2.0, "hand off", "h")]
    ends_task = "h" if begins_task else ""
    talk.at(3.0, i.HandoffEnded("h", ends_task=ends_task), i.ToolsFinished("aside"))
    assert talk.plays(3.2).played(4.0).take()[-1] == (4.0, "grant", "answer_1")


def test_a_handoff_of_those_tools_waits_for_other_speech_that_was_asked_for_before() -> None:
    talk = in_tools().asks(1.8, "one moment").asks(1.9, "please").at(2.0, i.HandoffRequested("h"))
    assert talk.take() == [(1.8, "grant", "one moment")]
    talk.plays(2.1).played(3.0)
    assert talk.take() == [(3.0, "grant", "please")]
    assert talk.plays(3.1).played(4.0).take() == [(4.0, "hand off", "h")]


@pytest.mark.parametrize("keeps_ears", [False, True])
@pytest.mark.parametrize("hears_audio", [False, True])
def test_a_change_of_the_pipeline_by_those_tools_begins(keeps_ears: bool, hears_audio: bool) -> None:
    talk = in_tools().at(2.0, i.PipelineChangeRequested(change_id="c", pipeline="p", within=60.0))
    traits = PipelineTraits(hears_audio=hears_audio)
    talk.at(2.1, i.PipelineReady(change_id="c", traits=traits, keeps_ears=keeps_ears)).until(4.0)
    assert talk.machine.is_change_due
    assert talk.at(4.0, i.PipelineChangeDue()).take()[-1] == (4.0, "take pipeline", "c")


def test_the_answer_does_not_generate_before_those_tools_are_done() -> None:
    talk = in_tools().asks(1.8, "one moment").until(2.0)
    assert talk.take() == [(1.8, "grant", "one moment")]
    talk.at(2.5, i.ToolsFinished("aside")).plays(2.6).played(3.0)
    assert talk.take() == [(3.0, "grant", "aside")]
    assert talk.plays(3.2).played(4.0).take() == [(4.0, "grant", "answer_1")]


# --- speech of the body of a graph's state


def by_body(now: float, talk: Conversation, speech_id: str, priority: int = 0) -> Conversation:
    """The body of a state asks for speech, outside of turns."""
    return talk.at(now, i.SpeechRequested(speech_id=speech_id, kind="say", priority=priority, by_body=True))


def test_speech_of_a_body_waits_behind_what_was_asked_for_while_an_answer_sounds() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).plays(1.6).asks(1.8, "news")
    by_body(2.0, talk, "body").take()
    assert talk.played(3.0).take() == [(3.0, "grant", "news")]
    assert talk.plays(3.1).played(4.0).take() == [(4.0, "grant", "body")]


def test_speech_of_a_body_before_an_answer_keeps_its_own_higher_priority() -> None:
    talk = Conversation().starts(0.5).asks(0.7, "news", priority=1).stops(1.0)
    talk.at(1.2, i.UserFinal(text="a table")).until(1.5)
    talk.asks(1.6, "more", priority=1)
    by_body(1.7, talk, "low", -1)
    by_body(1.7, talk, "urgent", 2).take()
    order = []
    for now in (2.0, 3.0, 4.0, 5.0, 6.0):
        order.append(talk.machine.current_speech_id)
        talk.plays(now).played(now + 0.5)
    assert order == ["news", "urgent", "more", "low", "answer_1"]


def test_an_answer_that_has_left_the_floor_to_its_hook_may_then_wait_for_a_task_of_the_hook() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).until(1.5)
    talk.at(1.5, i.SpeechRequested(speech_id="aside", kind="say", is_whole=False, hook_of="answer_1"))
    talk.at(1.5, i.FloorYielded("answer_1")).at(1.6, i.ToolsAwaited("answer_1")).plays(1.7)
    talk.take()
    assert talk.played(3.0).take() == []
    assert talk.at(4.0, i.ToolsFinished("answer_1")).take() == [(4.0, "grant", "answer_1")]
