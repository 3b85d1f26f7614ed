"""A takeover in which all components stay that hear the caller, and takeovers that a handoff waits for."""

from __future__ import annotations

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i

TAKEN = ("take pipeline", "c")


def due(talk: Conversation) -> Conversation:
    """Act as the session's loop, when no input is pending."""
    while talk.machine.is_change_due:
        talk.at(talk.now, i.PipelineChangeDue())
    return talk


def keeps_ears(talk: Conversation, at: float) -> Conversation:
    """A new pipeline with the components that hear the caller is asked for and ready at `at`."""
    talk.at(at, i.PipelineChangeRequested(change_id="c", pipeline="p", within=60.0))
    return due(talk.at(at, i.PipelineReady(change_id="c", keeps_ears=True)))


def test_with_the_same_ears_it_takes_over_in_a_turn_whose_words_are_heard_on() -> None:
    talk = keeps_ears(Conversation().starts(1.0).at(1.5, i.UserInterim(text="hello")), 1.6)
    talk.stops(2.0).at(2.2, i.UserFinal(text="hello there")).until(2.4)
    assert talk.take() == [(1.6, *TAKEN), (2.4, "commit", "turn_1", "hello there"), (2.4, "grant", "answer_1")]


def test_with_the_same_ears_a_final_that_is_owed_amends_its_turn() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="hello")).stops(2.0).until(3.0)
    keeps_ears(talk.at(3.05, i.SpeechEnded("answer_1", "completed")), 3.1)
    assert talk.take()[-1] == (3.1, *TAKEN)
    assert talk.at(3.2, i.UserFinal(text="Hello.")).take()[0] == (3.2, "amend", "turn_1", "Hello.")


def test_with_the_same_ears_it_waits_for_a_speech_all_the_same() -> None:
    talk = keeps_ears(Conversation().speaking(), 1.5)
    assert talk.take() == []
    assert due(talk.played(2.0)).take() == [(2.0, *TAKEN)]


def test_with_the_same_ears_an_answer_that_waits_for_a_handoff_is_not_waited_for() -> None:
    talk = Conversation(hears_audio=True).at(0.5, i.HandoffRequested("h")).starts(1.0).stops(2.0).until(2.4)
    assert ("hand off", "h") in [entry[1:] for entry in talk.take()]
    talk.at(2.5, i.PipelineChangeRequested(change_id="d", pipeline="q", within=0.5))
    due(talk.at(2.5, i.PipelineReady(change_id="d"))).until(3.0)
    assert talk.take() == [(3.0, "drop pipeline", "d", "no_moment")]  # the model that heard the turn answers it
    assert keeps_ears(talk, 3.1).take() == [(3.1, *TAKEN)]


def test_speech_behind_a_handoff_that_waits_for_the_change_does_not_hold_it_up() -> None:
    talk = Conversation().at(0.5, i.PipelineChangeRequested(change_id="c", pipeline="p", within=60.0))
    talk.at(0.6, i.HandoffRequested("h", opens=True)).asks(0.7, "news")
    assert talk.take() == []
    assert due(talk.at(1.0, i.PipelineReady(change_id="c"))).take() == [(1.0, *TAKEN)]
    assert talk.at(1.1, i.HandoffReady("h")).take() == [(1.1, "hand off", "h")]
