"""Handoffs on the floor: their beginning, speech during a handoff, and speech that waits for its end."""

from __future__ import annotations

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


def handing_off() -> Conversation:
    """A handoff has held the floor since 1.0, asked for out of silence."""
    talk = Conversation().at(1.0, i.HandoffRequested("h"))
    assert talk.take() == [(1.0, "hand off", "h")]
    return talk


def test_a_handoff_waits_for_what_was_asked_for_before_it() -> None:
    talk = Conversation().speaking().asks(1.2, "goodbye").at(1.3, i.HandoffRequested("h")).asks(1.4, "later")
    talk.played(2.0).plays(2.1).played(3.0)
    assert talk.take() == [(2.0, "grant", "goodbye"), (3.0, "hand off", "h")]
    assert talk.at(4.0, i.HandoffEnded("h")).take() == [(4.0, "grant", "later")]


def test_a_speech_of_higher_priority_goes_before_a_handoff_that_waits() -> None:
    talk = Conversation().speaking().at(1.3, i.HandoffRequested("h")).asks(1.4, "urgent", priority=1)
    assert talk.played(2.0).take() == [(2.0, "grant", "urgent")]


def test_while_a_handoff_runs_only_its_hooks_speak() -> None:
    talk = handing_off().asks(1.1, "news").asks(1.2, "greeting", by_hook=True)
    assert talk.take() == [(1.2, "grant", "greeting")]
    talk.plays(1.5).played(2.0)
    assert talk.take() == []
    assert talk.at(2.5, i.HandoffEnded("h")).take() == [(2.5, "grant", "news")]


def test_a_turn_committed_while_a_handoff_runs_is_answered_after_it() -> None:
    talk = handing_off().says("hello there", 1.2, 1.6).until(3.0)
    assert talk.take() == [(2.0, "commit", "turn_1", "hello there")]
    assert talk.agent_states == [("listening", 1.2), ("thinking", 2.0)]
    assert talk.at(3.0, i.HandoffEnded("h")).take() == [(3.0, "grant", "answer_1")]


def test_the_users_words_cut_a_greeting_and_are_answered_after_the_handoff() -> None:
    talk = handing_off().asks(1.1, "greeting", by_hook=True).plays(1.3).says("stop it please", 2.0, 3.0).until(3.5)
    assert talk.take() == [
        (1.1, "grant", "greeting"),
        (2.5, "pause", "greeting"),
        (3.2, "interrupted", "greeting"),
        (3.4, "commit", "turn_1", "stop it please"),
    ]
    talk.at(3.6, i.SpeechEnded("greeting", "interrupted"), i.HandoffEnded("h"))
    assert talk.take() == [(3.6, "grant", "answer_1")]


def test_a_speech_that_hands_off_thinks_until_the_new_agent_is_heard() -> None:
    talk = Conversation().asks(0.5, "transfer", "reply").at(1.0, i.ToolsStarted("transfer"))
    talk.at(1.1, i.ToolsAwaited("transfer")).at(1.5, i.HandoffRequested("h"))
    talk.asks(1.6, "greeting", by_hook=True).plays(2.0).played(3.0)
    assert talk.take() == [(0.5, "grant", "transfer"), (1.5, "hand off", "h"), (1.6, "grant", "greeting")]
    talk.at(3.0, i.HandoffEnded("h"), i.SpeechEnded("transfer", "completed"))
    assert talk.agent_states[:3] == [("thinking", 0.5), ("speaking", 2.0), ("idle", 3.0)]


def test_a_reply_by_a_hook_is_discarded_only_for_another_one_by_a_hook() -> None:
    talk = Conversation().asks(0.5, "transfer", "reply").at(1.1, i.ToolsAwaited("transfer"))
    talk.at(1.5, i.HandoffRequested("h")).take()
    talk.asks(1.6, "greeting", "reply", when_busy="discard", by_hook=True)
    talk.asks(1.7, "second", "reply", when_busy="discard", by_hook=True)
    talk.asks(1.8, "aside", when_busy="discard", by_hook=True)
    assert talk.take() == [
        (1.6, "grant", "greeting"),
        (1.7, "discarded", "second"),
        (1.8, "discarded", "aside"),
    ]


def test_a_hook_of_no_handoff_is_like_anybody_else() -> None:
    talk = Conversation().speaking().asks(1.5, "aside", when_busy="discard", by_hook=True)
    assert talk.take() == [(1.5, "discarded", "aside")]


def test_handoffs_follow_each_other() -> None:
    talk = handing_off().at(1.5, i.HandoffRequested("next")).until(2.0)
    assert talk.take() == []
    assert talk.at(2.0, i.HandoffEnded("ghost")).take() == []
    assert talk.at(3.0, i.HandoffEnded("h")).take() == [(3.0, "hand off", "next")]


def test_closing_drops_the_handoff_that_runs_and_those_that_wait() -> None:
    talk = handing_off().at(1.5, i.HandoffRequested("next")).at(2.0, i.SessionClosing())
    assert talk.take() == [(2.0, "drop handoff", "h"), (2.0, "drop handoff", "next")]
    talk.asks(2.1, "farewell").at(2.2, i.HandoffRequested("late")).at(2.3, i.HandoffEnded("h"))
    assert talk.take() == [(2.1, "grant", "farewell"), (2.2, "drop handoff", "late")]


def test_closing_drops_a_handoff_that_waits_for_a_speech() -> None:
    talk = Conversation().speaking().at(1.5, i.HandoffRequested("h")).at(2.0, i.SessionClosing())
    assert talk.take() == [(2.0, "interrupted", "talk"), (2.0, "drop handoff", "h")]


def test_an_answer_goes_before_what_was_asked_for_after_its_turn() -> None:
    talk = handing_off().at(1.5, i.TextReceived("hello")).asks(1.6, "news").at(3.0, i.HandoffEnded("h"))
    assert talk.take()[1:] == [(3.0, "grant", "answer_1")]
    assert talk.plays(3.5).played(4.0).take() == [(4.0, "grant", "news")]


def test_a_reply_that_waits_for_a_handoff_is_owed() -> None:
    talk = handing_off().asks(1.5, "reply", "reply")
    assert talk.agent_states == [("thinking", 1.5)]
    assert talk.at(3.0, i.HandoffEnded("h")).take() == [(3.0, "grant", "reply")]


# --- tasks


def in_task() -> Conversation:
    """A reply that waits for its tools since 1.1 is behind a task, which has entered at 1.6."""
    talk = Conversation().asks(0.5, "order", "reply").at(1.0, i.ToolsStarted("order"))
    talk.at(1.1, i.ToolsAwaited("order")).at(1.5, i.HandoffRequested("t", begins_task=True))
    talk.at(1.6, i.HandoffEnded("t"))
    assert talk.take() == [(0.5, "grant", "order"), (1.5, "hand off", "t")]
    return talk


def test_speech_behind_a_task_thinks_until_the_task_has_entered_and_when_it_ends() -> None:
    talk = in_task().at(9.0, i.HandoffRequested("back", ends_task="t"))
    talk.at(9.2, i.HandoffEnded("back", "t")).at(9.3, i.ToolsFinished("order")).until(10.0)
    assert talk.take() == [(9.0, "hand off", "back"), (9.3, "grant", "order")]
    assert talk.agent_states == [("thinking", 0.5), ("idle", 1.6), ("thinking", 9.0)]


def test_speech_behind_a_task_does_not_get_the_floor_though_its_tools_are_finished() -> None:
    talk = in_task().at(2.0, i.ToolsFinished("order")).asks(2.1, "news")
    assert talk.take() == [(2.1, "grant", "news")]
    talk.at(3.0, i.SpeechEnded("news", "completed")).at(4.0, i.HandoffEnded("back", "t"))
    assert talk.take() == [(4.0, "grant", "order")]


def test_the_users_words_do_not_cut_the_calls_of_speech_behind_a_task() -> None:
    talk = in_task().says("high street", 2.0, 3.0).until(4.0)
    assert talk.take() == [(3.4, "commit", "turn_1", "high street"), (3.4, "grant", "answer_1")]


def test_a_reply_that_a_task_asks_for_is_no_second_one_beside_the_reply_behind_it() -> None:
    talk = in_task().asks(2.0, "question", "reply")
    assert talk.take() == [(2.0, "grant", "question")]


def test_speech_that_waited_when_a_task_began_is_heard_in_the_task() -> None:
    talk = Conversation().asks(0.5, "first", "say").at(1.0, i.HandoffRequested("t", begins_task=True))
    talk.asks(1.5, "second", "say").at(2.0, i.SpeechEnded("first", "completed", "")).at(2.5, i.HandoffEnded("t"))
    assert talk.take()[-2:] == [(2.0, "hand off", "t"), (2.5, "grant", "second")]


def test_the_close_cuts_speech_behind_a_task_and_forgets_the_tasks() -> None:
    talk = in_task().at(2.0, i.HandoffRequested("inner", begins_task=True)).at(2.1, i.SessionClosing())
    assert talk.take() == [(2.0, "hand off", "inner"), (2.1, "cancelled", "order"), (2.1, "drop handoff", "inner")]


# --- a handoff whose components are being opened


def opening(*, ends_task: str = "") -> Conversation:
    """A handoff was asked for at 1.0, and its components are being opened."""
    return Conversation().at(1.0, i.HandoffRequested("h", ends_task=ends_task, opens=True))


READY = i.HandoffReady("h")


def test_it_begins_when_they_are_open() -> None:
    talk = opening()
    assert talk.until(3.0).take() == []
    assert talk.at(3.0, READY).take() == [(3.0, "hand off", "h")]


def test_what_was_asked_for_behind_it_waits_for_it() -> None:
    talk = opening().asks(1.5, "news").asks(1.6, "urgent", priority=1)
    assert talk.take() == [(1.6, "grant", "urgent")]
    assert talk.plays(1.7).played(2.0).take() == []
    assert talk.at(3.0, READY).take() == [(3.0, "hand off", "h")]
    assert talk.at(4.0, i.HandoffEnded("h")).take() == [(4.0, "grant", "news")]


def test_the_agent_that_has_the_conversation_answers_the_caller_meanwhile() -> None:
    talk = opening().asks(1.1, "news").says("hello there", 1.2, 2.0).until(2.5)
    assert talk.take()[-2:] == [(2.4, "commit", "turn_1", "hello there"), (2.4, "grant", "answer_1")]
    talk.at(2.6, READY).plays(2.8)
    assert talk.take() == []
    assert talk.played(4.0).take() == [(4.0, "hand off", "h")]


def test_a_hook_of_that_turn_is_heard_before_its_answer() -> None:
    talk = opening().says("hello there", 1.2, 2.0).until(2.5)
    talk.take()
    asked = i.SpeechRequested(speech_id="filler", kind="say", hook_of="answer_1")
    assert talk.at(2.5, asked, i.FloorYielded("answer_1")).take() == [(2.5, "grant", "filler")]
    assert talk.plays(2.6).played(3.0).take() == [(3.0, "grant", "answer_1")]


def test_a_task_that_is_over_answers_nobody_while_those_of_the_agent_behind_it_are_opened() -> None:
    talk = opening(ends_task="task").says("hello there", 1.2, 2.0).until(2.5)
    assert talk.take() == [(2.4, "commit", "turn_1", "hello there")]
    assert talk.at(3.0, READY).take() == [(3.0, "hand off", "h")]


def test_a_handoff_behind_it_waits_too() -> None:
    talk = opening().at(1.1, i.HandoffRequested("next")).until(2.0)
    assert talk.take() == []
    talk.at(3.0, READY).at(4.0, i.HandoffEnded("h"))
    assert talk.take() == [(3.0, "hand off", "h"), (4.0, "hand off", "next")]


def test_one_before_it_does_not_wait_and_answers_wait_for_that() -> None:
    talk = Conversation().speaking().at(1.1, i.HandoffRequested("first"), i.HandoffRequested("h", opens=True))
    talk.at(1.2, i.TextReceived("hello there"), i.SpeechEnded("talk", "interrupted"))
    assert talk.take() == [
        (1.2, "interrupted", "talk"),
        (1.2, "commit", "turn_1", "hello there"),
        (1.2, "hand off", "first"),
    ]
    assert talk.at(2.0, i.HandoffEnded("first")).take() == [(2.0, "grant", "answer_1")]


def test_the_close_drops_it() -> None:
    talk = opening().at(2.0, i.SessionClosing())
    assert talk.take() == [(2.0, "drop handoff", "h")]
    assert talk.at(2.1, READY).take() == []


def test_urgent_speech_goes_before_a_handoff_that_is_ready_and_one_behind_it_that_is_not() -> None:
    talk = Conversation().speaking().at(1.1, i.HandoffRequested("first"), i.HandoffRequested("h", opens=True))
    talk.asks(1.2, "news").asks(1.3, "urgent", priority=1)
    assert talk.played(2.0).take() == [(2.0, "grant", "urgent")]
    assert talk.plays(2.1).played(3.0).take() == [(3.0, "hand off", "first")]
