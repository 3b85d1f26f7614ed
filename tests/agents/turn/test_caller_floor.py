"""The floor is the caller's from a turn's onset to its commit or drop: the effect on speech requested meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.floor.caller_floor import CallerFloor
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide


def asked(talk: Conversation, now: float, speech_id: str, **fields: Any) -> Conversation:
    """A say, by default, that is asked for with fields that `Conversation.asks` has no word for."""
    return talk.at(now, i.SpeechRequested(**{"speech_id": speech_id, "kind": "say", **fields}))


def short(talk: Conversation) -> list[tuple[Any, ...]]:
    return [entry[:3] for entry in talk.take()]


@pytest.mark.parametrize("kind", ["say", "reply"])
def test_speech_asked_for_while_the_caller_talks_waits_for_the_end_of_the_turn(kind: i.SpeechKind) -> None:
    talk = Conversation().starts(0.5).asks(1.0, "timer", kind, when_busy="queue").until(1.4)
    assert talk.take() == []
    assert talk.agent_states == [("listening", 0.5)]
    talk.stops(1.5).at(1.7, i.UserFinal(text="a table")).until(2.0)
    first, second = ("timer", "answer_1") if kind == "say" else ("answer_1", "timer")
    assert short(talk)[:2] == [(1.9, "commit", "turn_1"), (1.9, "grant", first)]
    assert talk.plays(2.1).played(3.0).take()[-1] == (3.0, "grant", second)


def test_a_say_that_waited_is_heard_before_the_answer_which_is_generated_meanwhile() -> None:
    talk = Conversation().starts(0.5).asks(1.0, "timer").stops(1.5).at(1.7, i.UserFinal(text="a table")).until(2.0)
    assert short(talk) == [(1.9, "commit", "turn_1"), (1.9, "grant", "timer"), (1.9, "prepare", "answer_1")]
    assert talk.machine.heard_before("answer_1") == ["timer"]
    talk.plays(2.1).played(4.0).plays(4.1).played(5.0)
    assert talk.agent_states == [
        ("listening", 0.5),
        ("thinking", 1.9),
        ("speaking", 2.1),
        ("thinking", 4.0),
        ("speaking", 4.1),
        ("idle", 5.0),
    ]


def test_an_answer_is_not_generated_behind_words_that_are_not_known_yet() -> None:
    talk = asked(Conversation().starts(0.5), 1.0, "stream", is_whole=False).stops(1.5).at(1.7, i.UserFinal(text="a"))
    assert short(talk.until(2.0)) == [(1.9, "commit", "turn_1"), (1.9, "grant", "stream")]
    asked(talk, 2.1, "more")
    assert talk.plays(2.2).played(3.0).take() == [(3.0, "grant", "answer_1")]
    talk = Conversation().starts(0.5)
    asked(asked(talk, 1.0, "say"), 1.1, "stream", is_whole=False).stops(1.5).at(1.7, i.UserFinal(text="a")).until(2.0)
    assert short(talk) == [(1.9, "commit", "turn_1"), (1.9, "grant", "say")]
    assert talk.machine.heard_before("answer_1") == ["say", "stream"]


def test_a_waiting_reply_comes_behind_the_answer_unless_its_priority_is_higher_or_an_agents_hook_asked() -> None:
    for fields in ({"priority": 1}, {"by_hook": True}):
        talk = asked(Conversation().starts(0.5), 1.0, "reply", kind="reply", **fields)
        talk.stops(1.5).at(1.7, i.UserFinal(text="a table")).until(2.0)
        assert short(talk) == [(1.9, "commit", "turn_1"), (1.9, "grant", "reply")]


def test_speech_that_waits_is_heard_when_the_turn_was_mere_noise_or_a_sign_of_listening() -> None:
    talk = Conversation().starts(0.5).asks(1.0, "timer").stops(1.5).until(3.0)
    assert talk.take() == [(2.5, "drop", "turn_1", "transcript_missing"), (2.5, "grant", "timer")]
    talk = Conversation().speaking().starts(1.5).asks(1.6, "next").stops(1.8).at(2.0, i.UserFinal(text="mhm"))
    assert talk.played(2.1).take() == []
    assert talk.until(2.5).take() == [
        (2.2, "commit", "turn_1", "mhm"),
        (2.2, "grant", "next"),
        (2.2, "prepare", "answer_1"),
    ]


def test_a_discard_is_discarded_and_a_plain_reply_waits() -> None:
    talk = Conversation().starts(0.5).asks(1.0, "say", when_busy="discard")
    talk.asks(1.0, "reply", "reply", when_busy="discard")
    assert talk.take() == [(1.0, "discarded", "say"), (1.0, "discarded", "reply")]
    asked(talk, 1.1, "plain", kind="reply", when_busy=None)
    assert asked(talk, 1.2, "second", kind="reply", when_busy=None).take() == [(1.2, "discarded", "second")]
    asked(talk, 1.3, "spoken", when_busy=None)
    talk.stops(1.5).until(3.0)
    assert short(talk)[1:] == [(2.5, "grant", "plain")]


def test_an_interrupt_speaks_over_the_caller_and_only_words_that_begin_after_its_first_frame_cut_it() -> None:
    talk = Conversation().starts(0.5).asks(1.0, "fire", when_busy="interrupt").plays(1.2).until(2.5)
    assert talk.take() == [(1.0, "grant", "fire")]
    talk.at(2.6, i.UserInterim(text="I want a table")).stops(2.7).at(2.9, i.UserFinal(text="I want a table")).until(3.2)
    assert short(talk) == [(3.1, "commit", "turn_1"), (3.1, "prepare", "answer_1")]
    talk.says("stop it", 3.5, 4.1).until(5.0)
    assert short(talk) == [
        (4.0, "pause", "fire"),
        (4.3, "interrupted", "fire"),
        (4.3, "cancelled", "answer_1"),
        (4.5, "commit", "turn_2"),
        (4.5, "grant", "answer_2"),
    ]


def test_a_reply_over_the_caller_is_not_held_by_the_voice_that_it_was_asked_to_interrupt() -> None:
    talk = Conversation().starts(0.5).asks(1.0, "fire", "reply", when_busy="interrupt").plays(1.2).until(2.5)
    assert talk.take() == [(1.0, "grant", "fire")]


def test_words_of_a_new_burst_of_the_same_turn_cut_what_speaks_over_the_caller() -> None:
    talk = Conversation(detector_timeout=3.0).starts(0.5).asks(1.0, "fire", when_busy="interrupt").plays(1.2)
    talk.stops(1.3).at(1.5, i.UserFinal(text="I want"), i.UserTurnPredicted(False)).says("a table", 2.0, 2.6)
    assert [entry for entry in talk.take() if entry[1] != "predict"] == [
        (1.0, "grant", "fire"),
        (2.5, "pause", "fire"),
        (2.8, "interrupted", "fire"),
    ]


def test_an_interrupt_that_has_not_begun_when_the_next_turn_begins_is_held_like_any_speech() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).until(1.45).at(1.5, i.InterruptRequested()).starts(2.0)
    talk.take()
    talk.asks(2.2, "fire", when_busy="interrupt").stops(2.3).at(2.5, i.UserFinal(text="hello")).until(2.8).starts(2.9)
    assert short(talk) == [
        (2.2, "grant", "fire"),
        (2.7, "commit", "turn_2"),
        (2.7, "prepare", "answer_2"),
        (2.95, "pause", "fire"),
    ]


def test_protected_speech_queued_before_the_onset_follows_its_predecessor_at_once_and_other_speech_does_not() -> None:
    for interruptible in (False, True):
        talk = Conversation().speaking().asks(1.5, "next", interruptible=interruptible).starts(2.0).played(2.3)
        assert talk.take() == ([] if interruptible else [(2.3, "grant", "next")])
        talk = Conversation().speaking().starts(2.0).asks(2.1, "next", interruptible=interruptible).played(2.3)
        assert talk.take() == []


def test_speech_asked_for_after_the_onset_is_not_dropped_by_that_turns_interruption() -> None:
    talk = Conversation().speaking().asks(1.5, "early").starts(2.0).asks(2.2, "late").stops(2.6)
    talk.at(2.8, i.UserFinal(text="wait stop")).until(3.5)
    assert short(talk) == [
        (2.5, "pause", "talk"),
        (2.8, "interrupted", "talk"),
        (2.8, "cancelled", "early"),
        (3.0, "commit", "turn_1"),
        (3.0, "grant", "late"),
        (3.0, "prepare", "answer_1"),
    ]


def test_speech_asked_for_before_the_onset_was_reported_is_held_and_heard_at_the_commit() -> None:
    talk = Conversation().asks(0.52, "timer").starts(0.5).says("a table", 0.5, 1.5).until(2.0)
    assert short(talk) == [
        (0.52, "grant", "timer"),
        (0.55, "pause", "timer"),
        (1.9, "commit", "turn_1"),
        (1.9, "resume", "timer"),
        (1.9, "prepare", "answer_1"),
    ]


def test_speech_of_a_wake_up_and_of_a_tool_call_that_has_settled_is_discarded_at_the_commit() -> None:
    talk = Conversation().starts(0.5)
    asked(talk, 1.0, "awake", by_wake_up=True)
    asked(talk, 1.0, "filler", from_call="call_1", from_tool_of="old")
    asked(talk, 1.0, "working", from_call="call_2", from_tool_of="old")
    talk.at(1.2, i.ToolCallSettled("call_1")).stops(1.5).at(1.7, i.UserFinal(text="a table")).until(2.0)
    assert short(talk) == [
        (1.9, "commit", "turn_1"),
        (1.9, "discarded", "awake"),
        (1.9, "discarded", "filler"),
        (1.9, "grant", "working"),
        (1.9, "prepare", "answer_1"),
    ]


def test_in_push_to_talk_the_floor_is_the_callers_while_speech_is_heard() -> None:
    talk = Conversation(endpointing_mode="manual").starts(0.5).asks(1.0, "timer").until(1.4)
    assert talk.take() == []
    talk.stops(1.5).at(1.8, i.UserFinal(text="a table")).plays(2.0)
    assert talk.take() == [(1.7, "grant", "timer")]
    assert short(talk.at(2.5, i.TurnCommitRequested())) == [(2.5, "commit", "turn_1"), (2.5, "prepare", "answer_1")]


def test_where_a_server_decides_turns_the_floor_is_the_callers_as_far_as_it_reports_speech() -> None:
    talk = Conversation(remote_decides=True).starts(0.5).asks(1.0, "timer").until(1.4)
    assert talk.take() == []
    talk.stops(1.5).at(1.8, i.RemoteReplyStarted("r"))
    assert short(talk) == [(1.7, "grant", "timer"), (1.8, "commit", "turn_1"), (1.8, "prepare", "answer_1")]


def test_sound_without_words_has_the_floor_for_at_most_max_pause() -> None:
    talk = Conversation(max_pause=5.0).starts(0.5).asks(1.0, "timer", "reply").until(7.0)
    assert talk.take() == [(5.5, "drop", "turn_1", "noise"), (5.5, "grant", "timer")]
    talk = Conversation(max_pause=5.0)
    for onset in (0.5, 2.0, 3.5, 5.0, 6.5):
        talk.starts(onset).stops(onset + 0.6)
        if onset == 0.5:
            talk.asks(1.3, "timer")
    assert talk.take() == [(5.5, "grant", "timer")]
    assert Conversation(max_pause=None).starts(0.5).asks(1.0, "timer").until(60.0).take() == []


def test_a_word_gives_the_floor_back_to_who_was_taken_for_noise() -> None:
    talk = Conversation(max_pause=5.0).starts(0.5).asks(1.0, "timer").plays(5.7).played(6.0).asks(6.1, "second")
    talk.plays(6.2).at(6.3, i.UserInterim(text="hello")).asks(6.4, "third").until(7.0)
    assert talk.take()[-1] == (6.5, "interrupted", "second")
    talk.stops(7.0).at(7.2, i.UserFinal(text="hello there")).until(8.0)
    assert short(talk)[:2] == [(7.4, "commit", "turn_2"), (7.4, "grant", "third")]


def test_once_other_speech_was_heard_before_the_answer_the_turn_merges_no_more() -> None:
    talk = Conversation().starts(0.5).asks(1.0, "timer").stops(1.5).at(1.7, i.UserFinal(text="a table")).plays(2.1)
    talk.says("for two", 2.5, 3.2).until(4.0)
    assert short(talk)[3:] == [
        (3.0, "pause", "timer"),
        (3.4, "interrupted", "timer"),
        (3.4, "cancelled", "answer_1"),
        (3.6, "commit", "turn_2"),
        (3.6, "grant", "answer_2"),
    ]


# --- speech of a turn's hook


def hooked() -> Conversation:
    """A turn whose answer has the floor and whose hook runs and then speaks."""
    talk = Conversation().says("a table", 0.5, 1.0).until(1.5)
    asked(talk, 1.5, "aside", hook_of="answer_1").at(1.5, i.FloorYielded("answer_1"))
    return talk


def test_what_a_hook_says_is_heard_before_the_answer() -> None:
    talk = hooked()
    assert short(talk)[1:] == [
        (1.4, "grant", "answer_1"),
        (1.5, "grant", "aside"),
        (1.5, "prepare", "answer_1"),
    ]
    asked(talk, 1.6, "more", hook_of="answer_1", priority=-3).asks(1.7, "later", priority=0)
    assert talk.plays(1.8).played(2.5).take() == [(2.5, "grant", "more")]
    assert talk.plays(2.6).played(3.0).take() == [(3.0, "grant", "answer_1")]
    assert talk.plays(3.2).played(4.0).take() == [(4.0, "grant", "later")]


def test_a_hooks_reply_is_no_second_reply_and_the_answer_waits_for_its_words() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).until(1.5)
    asked(talk, 1.5, "aside", kind="reply", when_busy="discard", hook_of="answer_1").at(1.5, i.FloorYielded("answer_1"))
    assert short(talk)[2:] == [(1.5, "grant", "aside")]
    assert talk.agent_states[-1] == ("thinking", 1.4)
    assert talk.plays(1.8).played(2.5).take() == [(2.5, "grant", "answer_1")]


def test_words_before_a_hooks_speech_is_heard_merge_the_turn_and_drop_it_and_words_after_that_do_not_merge() -> None:
    talk = hooked().says("for two", 1.6, 2.2).until(3.0)
    assert short(talk)[-5:] == [
        (1.65, "pause", "aside"),
        (2.4, "withdraw", "answer_1"),
        (2.4, "cancelled", "aside"),
        (2.6, "merge", "turn_1"),
        (2.6, "grant", "answer_2"),
    ]
    talk = hooked().plays(1.55).says("for two", 1.6, 2.2).until(3.0)
    assert short(talk)[-4:] == [
        (2.4, "interrupted", "aside"),
        (2.4, "cancelled", "answer_1"),
        (2.6, "commit", "turn_2"),
        (2.6, "grant", "answer_2"),
    ]


def test_an_interrupt_in_the_hook_stops_its_speech_and_one_from_elsewhere_the_answer_too() -> None:
    talk = hooked().plays(1.7).at(1.8, i.InterruptRequested(hook_of="answer_1"))
    assert short(talk)[4:] == [(1.8, "interrupted", "aside"), (1.8, "grant", "answer_1")]
    assert talk.at(1.9, i.InterruptRequested(hook_of="answer_1")).take() == []
    talk = hooked().plays(1.7).at(1.8, i.InterruptRequested())
    assert short(talk)[4:] == [(1.8, "interrupted", "aside"), (1.8, "cancelled", "answer_1")]
    talk = asked(hooked().plays(1.7), 1.8, "now", hook_of="answer_1", when_busy="interrupt")
    assert short(talk)[4:] == [(1.8, "interrupted", "aside"), (1.8, "grant", "now")]


def test_an_interrupt_in_the_hook_spares_no_speech_but_its_answer() -> None:
    talk = hooked().plays(1.7).asks(1.75, "a").asks(1.75, "z").at(1.8, i.InterruptRequested(hook_of="answer_1"))
    assert {entry[2] for entry in short(talk)[4:] if entry[1] in ("cancelled", "interrupted")} == {"aside", "a", "z"}


def test_what_a_hook_said_that_dropped_the_answer_is_heard_all_the_same() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).until(1.5)
    asked(talk, 1.5, "sorry", hook_of="answer_1").at(1.5, i.SpeechEnded("answer_1", "discarded"))
    assert short(talk)[2:] == [(1.5, "grant", "sorry")]
    asked(talk, 1.6, "late", hook_of="answer_1").at(1.7, i.FloorYielded("answer_1"))
    assert talk.plays(1.8).played(2.0).take() == [(2.0, "grant", "late")]


# --- answers that wait for their tools


def in_tools(**options: Any) -> Conversation:
    """The agent has said "one moment" and its tool runs."""
    talk = Conversation(**options).says("a table", 0.5, 1.0).plays(1.6).at(1.7, i.ToolsStarted("answer_1"))
    talk.played(2.0, is_last=False).at(2.0, i.ToolsAwaited("answer_1"))
    talk.take()
    return talk


def test_words_interrupt_the_calls_of_an_answer_that_waits_for_them_once_and_signs_of_listening_do_not() -> None:
    talk = in_tools().starts(2.5).at(2.8, i.UserInterim(text="never mind")).stops(3.2)
    talk.at(3.4, i.UserFinal(text="never mind")).until(4.0)
    assert [entry for entry in short(talk) if entry[1] == "interrupt calls"] == [(3.0, "interrupt calls", "answer_1")]
    assert [entry[1] for entry in short(in_tools().says("mhm", 2.5, 2.8).until(4.0))] == ["aside"]
    unheard = Conversation().says("a table", 0.5, 1.0).until(1.5)
    unheard.at(1.6, i.ToolsStarted("answer_1"), i.ToolsAwaited("answer_1")).take()
    assert [entry[1] for entry in short(unheard.says("mhm", 2.5, 2.8).until(4.0))] == ["commit", "grant"]


def test_calls_of_a_protected_answer_or_where_no_voice_interrupts_go_on() -> None:
    talk = in_tools().at(2.1, i.SpeechProtected("answer_1")).says("never mind", 2.5, 3.0).until(4.0)
    assert "interrupt calls" not in [entry[1] for entry in talk.take()]
    talk = in_tools(enabled=False).says("never mind", 2.5, 3.0).until(4.0)
    assert "interrupt calls" not in [entry[1] for entry in talk.take()]


def test_an_answer_prepared_without_the_floor_may_wait_for_its_tools_and_then_for_the_floor() -> None:
    talk = Conversation().starts(0.5).asks(1.0, "timer").stops(1.5).at(1.7, i.UserFinal(text="a table")).plays(2.1)
    talk.at(2.2, i.ToolsStarted("answer_1"), i.ToolsAwaited("answer_1"), i.ToolsFinished("answer_1"))
    assert short(talk)[2:] == [(1.9, "prepare", "answer_1")]
    assert talk.played(4.0).take() == [(4.0, "grant", "answer_1")]


def test_noise_in_bursts_has_the_floor_no_longer_when_it_pauses_just_then() -> None:
    talk = Conversation(max_pause=5.0)
    for onset in (0.5, 2.0, 3.5, 4.6):
        talk.starts(onset).stops(onset + 0.6)
        if onset == 0.5:
            talk.asks(1.3, "timer")
    assert talk.until(5.6).take() == [(5.5, "grant", "timer")]


def test_speech_held_by_sound_that_began_before_its_request_goes_on_when_that_was_noise() -> None:
    talk = Conversation(max_pause=5.0, emits_interims=False).asks(0.52, "timer").starts(0.5).until(31.0)
    assert [entry[1:3] for entry in talk.take()][:3] == [("grant", "timer"), ("pause", "timer"), ("resume", "timer")]


def test_nothing_but_the_queue_is_heard_before_a_speech_that_does_not_wait() -> None:
    talk = Conversation().speaking().asks(1.5, "next")
    assert talk.machine.heard_before("ghost") == ["talk", "next"]


def test_in_push_to_talk_noise_behind_words_holds_the_floor_for_max_pause() -> None:
    talk = Conversation(endpointing_mode="manual").says("a table", 0.5, 1.5).starts(3.0).asks(5.0, "timer").until(60.0)
    assert talk.take() == [(8.0, "grant", "timer")]


def test_words_said_over_speech_that_they_spare_do_not_wait_for_the_next_speech_too() -> None:
    talk = Conversation(remote_decides=True).asks(1.0, "news").at(1.0, i.RemoteReplyStarted("one")).plays(1.1)
    talk.starts(1.0).at(1.4, i.UserFinal(text="wait")).stops(1.5).take()
    assert talk.at(1.8, i.ToolsAwaited("news")).take() == [(1.8, "grant", "answer_1")]
    assert talk.until(9.0).take()[1:3] == [(4.5, "cancelled", "answer_1"), (4.5, "commit", "turn_2", "wait")]


def test_a_remote_models_answer_waits_for_speech_over_the_caller_that_does_not_sound_yet() -> None:
    talk = Conversation(remote_decides=True, hears_audio=True, emits_interims=False).starts(0.5)
    talk.asks(1.0, "over", when_busy="interrupt").stops(1.1).at(1.35, i.RemoteReplyStarted("r")).plays(1.4).played(3.0)
    assert short(talk) == [
        (1.0, "grant", "over"),
        (1.35, "commit", "turn_1"),
        (1.35, "prepare", "answer_1"),
        (3.0, "grant", "answer_1"),
    ]


def test_words_from_before_a_speech_over_the_caller_sounds_do_not_cut_it() -> None:
    talk = Conversation().starts(0.5).at(0.9, i.UserFinal(text="a table")).stops(1.0)
    talk.asks(1.25, "now", when_busy="interrupt").plays(1.3).starts(1.32).until(1.9)
    assert talk.take() == [(1.25, "grant", "now"), (1.82, "pause", "now")]
    assert talk.at(2.0, i.UserFinal(text="for two")).take()[0] == (2.0, "interrupted", "now")


def test_only_a_voice_that_began_before_the_first_frame_spares_what_speaks_over_the_caller() -> None:
    for onset, outcome in ((1.29, []), (1.3, [(1.9, "interrupted", "now")])):
        talk = Conversation().starts(0.5).stops(0.9).asks(1.15, "now", when_busy="interrupt")
        talk.at(1.3, i.UserSpeechStarted(onset), i.PlayoutStarted("now", 1.3)).take()
        assert [e for e in talk.at(1.9, i.UserFinal(text="for two")).take() if e[1] == "interrupted"] == outcome


def test_a_wake_up_is_discarded_also_behind_speech_that_was_asked_for_before_the_turn() -> None:
    talk = Conversation().speaking(interruptible=False).asks(1.2, "old", interruptible=False).starts(2.0)
    asked(talk, 2.3, "awake", by_wake_up=True).stops(3.0).at(3.2, i.UserFinal(text="a table")).played(4.0)
    assert short(talk) == [
        (4.0, "commit", "turn_1"),
        (4.0, "discarded", "awake"),
        (4.0, "grant", "old"),
        (4.0, "prepare", "answer_1"),
    ]


def test_a_reply_that_gets_the_floor_over_mere_noise_is_not_held_by_it() -> None:
    talk = Conversation(remote_decides=True, hears_audio=True).starts(0.5).asks(1.0, "timer", "reply").until(5.6)
    assert talk.take() == [(5.5, "grant", "timer")]
    assert talk.plays(6.0).until(9.0).take() == []


def test_only_the_first_in_the_queue_may_follow_its_predecessor_over_the_caller() -> None:
    for first in (True, False):  # whether that is the interruptible one
        talk = Conversation().speaking().asks(1.5, "next", interruptible=first).starts(2.0)
        talk.asks(2.1, "later", interruptible=not first)
        assert talk.played(2.3).take() == ([] if first else [(2.3, "grant", "next")])
    talk = Conversation().speaking().asks(1.5, "next").asks(1.6, "later", interruptible=False).starts(2.0)
    assert talk.played(2.3).take() == []


def test_words_that_were_taken_back_without_a_voice_have_the_floor_for_at_most_max_pause() -> None:
    talk = Conversation(max_pause=0.5).at(1.0, i.UserInterim(text="hm")).at(1.1, i.UserInterim(text=""))
    assert talk.asks(1.2, "timer").until(1.6).take() == [(1.5, "grant", "timer")]


def test_a_voice_without_interims_has_the_floor_for_its_longest() -> None:
    talk = Conversation(emits_interims=False, max_pause=5.0).starts(0.5).asks(1.0, "timer").until(60.0)
    assert talk.take() == [(30.5, "drop", "turn_1", "noise"), (30.5, "grant", "timer")]


def test_a_reply_whose_tools_have_run_keeps_its_place_before_the_answer() -> None:
    talk = Conversation(endpointing_mode="manual").says("a table", 0.5, 1.0)
    asked(talk, 1.5, "reply", kind="reply").plays(1.6).asks(1.65, "next").at(1.7, i.ToolsStarted("reply"))
    talk.played(2.0, is_last=False).at(2.0, i.ToolsAwaited("reply")).plays(2.1).at(2.2, i.ToolsFinished("reply")).take()
    assert short(talk.at(3.0, i.TurnCommitRequested()))[0] == (3.0, "commit", "turn_1")
    assert talk.played(3.5).take() == [(3.5, "grant", "reply")]


def test_speech_of_a_wake_up_from_before_the_turn_is_not_discarded_behind_protected_speech() -> None:
    talk = Conversation().speaking(interruptible=False).asks(1.2, "old", interruptible=False)
    asked(talk, 1.3, "awake", by_wake_up=True).starts(2.0).stops(3.0).at(3.2, i.UserFinal(text="a table")).played(4.0)
    assert short(talk) == [(4.0, "commit", "turn_1"), (4.0, "grant", "old"), (4.0, "prepare", "answer_1")]


def test_words_said_before_the_next_step_of_a_speech_count_with_those_said_over_it() -> None:
    talk = Conversation(min_words=3).speaking().played(2.0, is_last=False).starts(2.1)
    talk.at(2.3, i.UserFinal(text="wait please")).plays(2.4).take()
    assert talk.at(3.0, i.UserFinal(text="now")).take() == [(3.0, "interrupted", "talk")]


def test_all_words_that_waited_for_the_end_of_one_speech_count_for_the_next_one() -> None:
    user = UserSide(turn=UserTurn("turn_1", 1.0, segments=["one", "two"], hushed=2))
    floor = Floor([])
    caller = CallerFloor(OptionsInUse(TurnOptions()), floor, user)
    InterruptionGuard(floor, user, caller, 0.0).floor_given(floor.add("next", "say", asked_at=0.5))
    assert user.turn is not None
    assert user.turn.loud_text == "one two"
