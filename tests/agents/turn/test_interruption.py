"""Effects of the user's speech on the agent's: hold, continue, cut, take back."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


def test_a_short_mhm_does_not_touch_the_agent_and_is_kept_as_a_backchannel() -> None:
    talk = Conversation().speaking().says("mhm", 2.0, 2.25).until(5.0)
    assert talk.take() == [(2.65, "aside", "turn_1", "mhm")]
    assert talk.agent_states[-1] == ("speaking", 1.0)
    assert talk.user_states == [("listening", 1.0), ("speaking", 2.0), ("listening", 2.25)]


def test_words_of_min_duration_pause_and_then_interrupt() -> None:
    talk = Conversation().speaking().says("wait stop", 2.0, 2.6).until(4.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (2.8, "interrupted", "talk"),
        (3.0, "commit", "turn_1", "wait stop"),
        (3.0, "grant", "answer_1"),
    ]
    assert talk.agent_states[-3:] == [("speaking", 1.0), ("listening", 2.8), ("thinking", 3.0)]


def test_short_words_pause_at_their_final_and_interrupt_at_their_commit() -> None:
    talk = Conversation().speaking().says("stop", 2.0, 2.2).until(4.0)
    assert talk.take() == [
        (2.4, "pause", "talk"),
        (2.6, "interrupted", "talk"),
        (2.6, "commit", "turn_1", "stop"),
        (2.6, "grant", "answer_1"),
    ]


def test_short_words_whose_final_is_early_pause_when_the_user_is_silent() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.2, i.UserFinal(text="stop")).stops(2.25).until(2.6)
    assert talk.take() == [(2.45, "pause", "talk")]


def test_short_words_before_a_cough_pause_when_that_is_over() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.2, i.UserVoicePaused(2.2)).at(2.38, i.UserSpeechEnded(2.2))
    talk.at(2.4, i.UserSpeechStarted(2.35)).at(2.5, i.UserFinal(text="stop")).stops(2.75).until(5.0)
    assert talk.take()[:2] == [(2.95, "pause", "talk"), (3.75, "interrupted", "talk")]


def test_short_words_whose_turn_lasts_cut_after_false_timeout() -> None:
    talk = Conversation(false_timeout=0.1).speaking().says("stop", 2.0, 2.2).until(2.55)
    assert talk.take() == [(2.4, "pause", "talk"), (2.5, "interrupted", "talk")]


def test_in_push_to_talk_short_words_without_a_request_let_the_agent_go_on() -> None:
    talk = Conversation(endpointing_mode="manual").speaking().says("stop", 2.0, 2.2).until(6.0)
    assert talk.take() == [(2.4, "pause", "talk"), (3.4, "resume", "talk", "false interruption")]


@pytest.mark.parametrize("is_one_burst", [True, False])
def test_a_backchannel_in_two_finals_does_not_cut(is_one_burst: bool) -> None:
    talk = Conversation().speaking().starts(2.0)
    if is_one_burst:
        talk.at(2.2, i.UserFinal(text="I")).stops(2.4).at(2.75, i.UserFinal(text="see"))
    else:
        talk.stops(2.15).at(2.36, i.UserFinal(text="I")).at(2.4, i.UserSpeechStarted(2.36)).stops(2.6)
        talk.at(2.81, i.UserFinal(text="see"))
    assert [entry[1:3] for entry in talk.until(4.0).take()] == [
        ("pause", "talk"),
        ("resume", "talk"),
        ("aside", "turn_1"),
    ]


def test_a_long_noise_pauses_and_the_agent_goes_on_after_false_timeout() -> None:
    talk = Conversation().speaking().starts(2.0).stops(3.0).until(6.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (4.0, "resume", "talk", "false interruption"),
        (4.0, "drop", "turn_1", "transcript_missing"),
    ]


def test_a_sound_whose_turn_is_dropped_for_want_of_a_transcript_resumes_the_agent() -> None:
    talk = Conversation(false_timeout=8.0).speaking().starts(2.0).stops(3.0).until(6.0)
    assert talk.take()[1:] == [
        (4.0, "drop", "turn_1", "transcript_missing"),
        (4.0, "resume", "talk", "false interruption"),
    ]


def test_a_noise_settled_as_nothing_resumes_at_once() -> None:
    talk = Conversation().speaking().starts(2.0).stops(3.0).at(3.3, i.UserFinal(text=""))
    assert talk.take()[1:] == [(3.3, "drop", "turn_1", "noise"), (3.3, "resume", "talk", "false interruption")]


def test_speech_that_turns_out_short_resumes_at_its_report() -> None:
    talk = Conversation().speaking().starts(2.0)
    talk.reports_edges = False  # it took its time to be sure
    talk.stops(2.4)
    assert talk.take() == [(2.5, "pause", "talk"), (2.6, "resume", "talk", "false interruption")]


def short_after_all(talk: Conversation, interim: str) -> Conversation:
    """A sound that held the agent, whose interim shows words, and that turns out shorter than `min_duration`."""
    talk.speaking().starts(2.0).at(2.5, i.UserInterim(text=interim))
    talk.reports_edges = False
    return talk.stops(2.45)


def test_a_short_word_that_an_interim_shows_holds_the_agent_until_its_commit() -> None:
    """Else the agent goes on for a moment and is cut again."""
    talk = short_after_all(Conversation(), "goodbye").at(2.8, i.UserFinal(text="Good-bye.")).until(4.0)
    assert talk.take()[:2] == [(2.5, "pause", "talk"), (2.85, "interrupted", "talk")]


def test_an_interim_of_a_short_sound_cuts_nothing_however_stable_it_is() -> None:
    talk = short_after_all(Conversation(), "three").at(2.8, i.UserFinal(text=""))
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (2.8, "drop", "turn_1", "noise"),
        (2.8, "resume", "talk", "false interruption"),
    ]


def test_a_short_word_whose_final_never_comes_interrupts_at_its_commit() -> None:
    talk = short_after_all(Conversation(), "stop").until(5.0)
    assert talk.take()[:2] == [(2.5, "pause", "talk"), (3.45, "interrupted", "talk")]


def test_a_short_word_that_is_not_settled_in_time_resumes_the_agent_after_false_timeout() -> None:
    talk = short_after_all(Conversation(false_timeout=0.3), "good").until(2.8)
    assert talk.take() == [(2.5, "pause", "talk"), (2.75, "resume", "talk", "false interruption")]


@pytest.mark.parametrize(("interim", "min_words"), [("mhm", 0), ("goodbye", 2)])
def test_a_short_interim_that_takes_no_floor_resumes_the_agent_at_its_report(interim: str, min_words: int) -> None:
    talk = short_after_all(Conversation(min_words=min_words), interim)
    assert talk.take() == [(2.5, "pause", "talk"), (2.65, "resume", "talk", "false interruption")]


@pytest.mark.parametrize("revised", ["", "right"])
def test_a_short_interim_that_turns_into_a_backchannel_or_nothing_resumes_the_agent_at_once(revised: str) -> None:
    talk = short_after_all(Conversation(), "right now").at(2.68, i.UserInterim(text=revised))
    assert talk.take() == [(2.5, "pause", "talk"), (2.68, "resume", "talk", "false interruption")]


def test_words_before_a_short_sound_do_not_make_it_one_of_words() -> None:
    """They were said when no voice took the floor."""
    talk = Conversation(echo_warm_up=2.0).speaking().says("wait there", 1.5, 2.1)
    talk.starts(3.2).at(3.7, i.UserInterim(text="mhm"))
    talk.reports_edges = False
    assert talk.take() == [(3.7, "pause", "talk")]
    assert talk.stops(3.65).take() == [(3.85, "resume", "talk", "false interruption")]


@pytest.mark.parametrize(
    ("final", "effects"),
    [
        ("and for two", [(2.65, "withdraw", "answer_1"), (2.65, "merge", "turn_1", "hello and for two")]),
        ("", [(2.65, "drop", "turn_2", "noise"), (2.65, "resume", "answer_1", "")]),
    ],
)
def test_a_short_word_that_an_interim_shows_holds_an_answer_back(final: str, effects: list[tuple[object, ...]]) -> None:
    talk = Conversation().says("hello", 0.5, 1.0).until(1.5)
    talk.take()
    talk.starts(2.0).at(2.2, i.UserVoicePaused(2.2)).at(2.35, i.UserInterim(text="the"))
    talk.at(2.4, i.UserSpeechEnded(2.2)).at(2.65, i.UserFinal(text=final)).until(3.5)
    assert talk.take()[:3] == [(2.05, "pause", "answer_1"), *effects]


def test_a_short_second_sound_does_not_cut_the_wait_of_a_longer_first_one() -> None:
    talk = Conversation().speaking().starts(2.0).stops(2.8).starts(3.1).stops(3.2).until(4.15)
    assert talk.take() == [(2.5, "pause", "talk")]
    assert talk.until(4.2).take()[0] == (4.2, "resume", "talk", "false interruption")


def test_a_long_backchannel_resumes_the_agent_at_its_final() -> None:
    talk = Conversation().speaking().says("Yeah, okay.", 2.0, 2.8, final_at=3.2).until(5.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (3.2, "resume", "talk", "false interruption"),
        (3.2, "aside", "turn_1", "Yeah, okay."),
    ]


def test_a_long_backchannel_whose_final_is_early_resumes_when_the_user_is_silent() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.7, i.UserFinal(text="okay")).stops(2.8).until(5.0)
    assert talk.take()[1:] == [(3.0, "resume", "talk", "false interruption"), (3.2, "aside", "turn_1", "okay")]


def test_an_unstable_interim_takes_no_floor_and_a_stable_one_does() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.6, i.UserInterim(text="wait"))
    talk.at(2.7, i.UserInterim(text="wait a")).until(2.85)
    assert talk.take() == [(2.5, "pause", "talk")]
    assert talk.until(3.0).take() == [(2.9, "interrupted", "talk")]


def test_words_known_at_min_duration_interrupt_without_a_pause() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.3, i.UserFinal(text="wait")).until(2.6)
    assert talk.take() == [(2.5, "interrupted", "talk")]


def test_words_without_a_vad_interrupt_as_they_come() -> None:
    talk = Conversation().speaking().at(2.0, i.UserFinal(text="wait"))
    assert talk.take() == [(2.0, "interrupted", "talk")]


def test_fewer_words_than_min_words_are_kept_as_a_backchannel() -> None:
    talk = Conversation(min_words=2).speaking().says("wait", 2.0, 2.8).says("wait please", 4.0, 4.8).until(7.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (3.0, "resume", "talk", "false interruption"),
        (3.2, "aside", "turn_1", "wait"),
        (4.5, "pause", "talk"),
        (5.0, "interrupted", "talk"),
        (5.2, "commit", "turn_2", "wait please"),
        (5.2, "grant", "answer_1"),
    ]


def test_immediate_mode_cuts_at_min_duration_without_words() -> None:
    talk = Conversation(mode="immediate").speaking().starts(2.0).until(3.0)
    assert talk.take() == [(2.5, "interrupted", "talk")]


def test_interruption_switched_off_keeps_the_words_until_the_agent_is_done() -> None:
    talk = Conversation(enabled=False).speaking().says("wait stop", 2.0, 3.0).until(5.0).played(6.0)
    assert talk.take() == [(6.0, "commit", "turn_1", "wait stop"), (6.0, "grant", "answer_1")]


def test_typed_text_cuts_also_with_interruption_by_voice_switched_off() -> None:
    talk = Conversation(enabled=False).speaking().at(2.0, i.TextReceived("ok"))
    assert talk.take()[0] == (2.0, "interrupted", "talk")


@pytest.mark.parametrize("ends_as", ["played", "failed", "forced", "tools"])
def test_words_during_a_protected_speech_are_answered_when_the_floor_is_free(ends_as: str) -> None:
    talk = Conversation().speaking(interruptible=False).says("hello stop", 2.0, 3.0).until(5.0)
    assert talk.take() == []
    match ends_as:
        case "played":
            talk.played(6.0)
        case "failed":
            talk.at(6.0, i.SpeechEnded("talk", "failed", "tts"))
        case "forced":
            talk.at(6.0, i.InterruptRequested(force=True))
        case "tools":
            talk.at(6.0, i.ToolsAwaited("talk"))
    assert talk.take()[-2:] == [(6.0, "commit", "turn_1", "hello stop"), (6.0, "grant", "answer_1")]


def test_typed_text_during_a_protected_speech_waits_with_what_is_being_said() -> None:
    talk = Conversation().speaking(interruptible=False).at(2.0, i.TextReceived("hello"), i.TextReceived("there"))
    talk.played(3.0)
    assert talk.take() == [(3.0, "commit", "turn_1", "hello there"), (3.0, "grant", "answer_1")]
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.5, i.TextReceived("hello"))
    talk.stops(3.0).at(3.2, i.UserFinal(text="you")).played(4.0)
    assert talk.take() == [(4.0, "commit", "turn_1", "you hello"), (4.0, "grant", "answer_1")]


def test_noise_during_a_protected_speech_is_dropped_in_time() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).stops(2.2).until(5.0)
    assert talk.take() == [(3.2, "drop", "turn_1", "transcript_missing")]


def test_a_short_noise_while_thinking_holds_the_answer_only_until_its_report() -> None:
    talk = Conversation().says("hello", 0.5, 1.0).starts(1.6).stops(1.7)
    assert talk.take()[2:] == [(1.65, "pause", "answer_1"), (1.9, "resume", "answer_1", "")]
    assert talk.agent_states[-1] == ("thinking", 1.4)


def test_a_longer_noise_while_thinking_holds_the_answer_until_false_timeout() -> None:
    talk = Conversation().says("hello", 0.5, 1.0).starts(1.6).stops(2.2).until(4.0)
    assert talk.take()[2:] == [
        (1.65, "pause", "answer_1"),
        (3.2, "resume", "answer_1", ""),
        (3.2, "drop", "turn_2", "transcript_missing"),
    ]


@pytest.mark.parametrize("text", ["for two", "okay"])
def test_words_while_thinking_merge_into_one_turn(text: str) -> None:
    talk = Conversation().says("a table", 0.5, 1.0).says(text, 1.6, 2.0).until(4.0)
    assert talk.take() == [
        (1.4, "commit", "turn_1", "a table"),
        (1.4, "grant", "answer_1"),
        (1.65, "pause", "answer_1"),
        (2.2, "withdraw", "answer_1"),
        (2.4, "merge", "turn_1", f"a table {text}"),
        (2.4, "grant", "answer_2"),
    ]


def test_a_merged_turn_whose_interim_came_to_nothing_is_answered_again() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).starts(1.6).at(1.8, i.UserInterim(text="for")).until(2.1)
    assert talk.take()[-1] == (2.0, "withdraw", "answer_1")
    talk.stops(2.2).at(2.5, i.UserFinal(text="")).until(4.0)
    assert talk.take() == [(2.6, "merge", "turn_1", "a table"), (2.6, "grant", "answer_2")]


def test_words_after_a_tool_call_are_a_new_turn() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).at(1.5, i.ToolsStarted("answer_1")).says("for two", 1.6, 2.0)
    assert talk.until(4.0).take()[-3:] == [
        (2.2, "cancelled", "answer_1"),
        (2.4, "commit", "turn_2", "for two"),
        (2.4, "grant", "answer_2"),
    ]


def test_a_backchannel_while_the_tools_of_a_heard_speech_run_is_answered_by_nobody() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).plays(2.0).at(2.5, i.ToolsStarted("answer_1"))
    talk.played(3.0, is_last=False).at(3.0, i.ToolsAwaited("answer_1")).says("okay", 4.0, 4.3).until(6.0)
    assert talk.take()[2:] == [(4.7, "aside", "turn_2", "okay")]


def test_overlap_with_the_last_words_cuts_nothing_and_is_a_turn_of_its_own() -> None:
    talk = Conversation().speaking().starts(1.9).played(2.0).stops(2.6).at(2.8, i.UserFinal(text="yes")).until(4.0)
    assert talk.take() == [(3.0, "commit", "turn_1", "yes"), (3.0, "grant", "answer_1")]
    assert talk.agent_states[-3:] == [("speaking", 1.0), ("listening", 2.0), ("thinking", 3.0)]


def test_an_interruption_drops_what_waits_up_to_the_first_protected_speech() -> None:
    talk = Conversation().speaking().asks(1.5, "second").asks(1.5, "third", interruptible=False).asks(1.5, "fourth")
    talk.says("wait stop", 2.0, 2.8).until(4.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (3.0, "interrupted", "talk"),
        (3.0, "cancelled", "second"),
        (3.0, "grant", "third"),
    ]
    assert talk.played(5.0).take() == [
        (5.0, "cancelled", "fourth"),
        (5.0, "commit", "turn_1", "wait stop"),
        (5.0, "grant", "answer_1"),
    ]


def test_an_answer_that_still_waits_is_taken_back_by_more_words() -> None:
    talk = Conversation().speaking().asks(1.5, "safe", interruptible=False).says("a table", 2.0, 2.2)
    # The floor goes to the protected speech first, then the turn is committed behind it.
    talk.until(2.6)
    assert talk.take() == [
        (2.4, "pause", "talk"),
        (2.6, "interrupted", "talk"),
        (2.6, "commit", "turn_1", "a table"),
        (2.6, "grant", "safe"),
        (2.6, "prepare", "answer_1"),
    ]
    talk.says("for two", 3.0, 3.5).played(5.0)
    assert talk.take() == [
        (5.0, "withdraw", "answer_1"),
        (5.0, "merge", "turn_1", "a table for two"),
        (5.0, "grant", "answer_2"),
    ]


@pytest.mark.parametrize("interims", [(), ("the",)])
def test_in_push_to_talk_a_short_sound_does_not_hold_speech_that_it_cannot_cut(interims: tuple[str, ...]) -> None:
    """It was asked for after the words of the turn, and the caller has not spoken since it sounds."""
    talk = Conversation(endpointing_mode="manual").says("hello", 0.5, 1.0).asks(1.5, "say").starts(1.6)
    talk.at(1.66, *(i.UserInterim(text=text) for text in interims)).stops(1.7).until(6.0)
    assert talk.take() == [(1.5, "grant", "say"), (1.65, "pause", "say"), (1.9, "resume", "say", "")]


def test_a_say_that_has_not_begun_is_held_back_when_the_user_begins() -> None:
    talk = Conversation().asks(0.5, "say").starts(0.6)
    assert talk.take() == [(0.5, "grant", "say"), (0.65, "pause", "say")]


def test_the_next_step_does_not_begin_over_the_user() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).plays(2.0).starts(2.7).played(3.0, is_last=False)
    assert talk.take()[2:] == [(3.0, "pause", "answer_1")]


def test_a_pause_does_not_outlast_the_speech_that_it_came_too_late_for() -> None:
    talk = Conversation().speaking().starts(2.0).until(2.5).played(2.5)
    assert talk.take() == [(2.5, "pause", "talk"), (2.5, "resume", "talk", "")]
    talk = Conversation().says("a table", 0.5, 1.0).starts(1.6).at(2.0, i.ToolsAwaited("answer_1"))
    assert talk.take()[2:] == [(1.65, "pause", "answer_1"), (2.0, "resume", "answer_1", "")]


def test_a_paused_speech_that_is_cancelled_leaves_no_deadline() -> None:
    talk = Conversation().speaking().starts(2.0).until(2.6).at(2.6, i.InterruptRequested())
    assert talk.take() == [(2.5, "pause", "talk"), (2.6, "interrupted", "talk")]
    talk.at(3.0, i.UserAudioStopped(), i.UserFinal(text=""))
    assert talk.machine.next_deadline() is None


def test_clearing_the_turn_lets_a_paused_agent_go_on() -> None:
    talk = Conversation().speaking().starts(2.0).stops(3.0).at(3.3, i.TurnClearRequested())
    assert talk.take()[1:] == [
        (3.3, "ClearAudio"),
        (3.3, "drop", "turn_1", "cleared"),
        (3.3, "resume", "talk", "false interruption"),
    ]


def test_a_sound_that_never_ends_does_not_hold_the_agent_for_longer_than_max_pause() -> None:
    talk = Conversation().speaking().starts(2.0).until(60.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (7.0, "resume", "talk", "false interruption"),
        (7.0, "drop", "turn_1", "noise"),
    ]
    talk.asks(61.0, "more", "reply").played(62.0).plays(62.5).until(90.0)
    assert talk.take() == [(62.0, "grant", "more")]
    talk.played(91.0).asks(92.0, "after", interruptible=True).plays(92.0).stops(95.0).starts(96.0).until(97.0)
    assert (96.5, "pause", "after") in talk.take()


def test_an_answer_held_back_by_a_sound_that_never_ends_begins_after_max_pause() -> None:
    talk = Conversation().says("hello", 0.5, 1.0).starts(2.0).until(60.0)
    assert talk.take()[2:] == [
        (2.05, "pause", "answer_1"),
        (7.0, "resume", "answer_1", ""),
        (7.0, "drop", "turn_2", "noise"),
    ]


def test_words_not_settled_after_max_pause_take_the_floor() -> None:
    talk = Conversation(stable_interim=1.0).speaking().starts(2.0).at(6.8, i.UserInterim(text="wait")).until(7.5)
    assert talk.take() == [(2.5, "pause", "talk"), (7.0, "interrupted", "talk")]


def test_words_that_come_after_max_pause_still_take_the_floor() -> None:
    talk = Conversation().speaking().starts(2.0).until(8.0).at(8.0, i.UserFinal(text="wait"))
    assert talk.take()[3:] == [(8.0, "interrupted", "talk")]


def test_a_sound_remains_mere_noise_when_a_turn_is_committed_in_it() -> None:
    talk = Conversation().speaking().starts(2.0).until(8.0).at(8.0, i.TextReceived("hello")).plays(8.5).until(20.0)
    assert talk.take()[3:] == [
        (8.0, "interrupted", "talk"),
        (8.0, "commit", "turn_2", "hello"),
        (8.0, "grant", "answer_1"),
    ]


def test_without_max_pause_the_agent_waits_for_the_end_of_the_sound() -> None:
    talk = Conversation(max_pause=None).speaking().starts(2.0).until(60.0)
    assert talk.take() == [(2.5, "pause", "talk")]


def test_speech_ends_where_the_audio_of_the_user_stops() -> None:
    talk = Conversation().speaking().starts(2.0).at(3.0, i.UserAudioStopped()).until(6.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (4.0, "resume", "talk", "false interruption"),
        (4.0, "drop", "turn_1", "transcript_missing"),
    ]
    assert talk.user_states[-2:] == [("speaking", 2.0), ("listening", 3.0)]


@pytest.mark.parametrize(("end", "resumed_at"), [(3.28, 3.48), (3.3, 4.3)])
def test_noise_of_thinking_min_duration_is_no_short_one(end: float, resumed_at: float) -> None:
    talk = Conversation().says("hello", 0.5, 1.0).until(2.0)
    talk.take()
    talk.starts(3.0).stops(end).until(9.0)
    assert [(at, what) for at, what, *_ in talk.take() if what in ("pause", "resume")] == [
        (3.05, "pause"),
        (resumed_at, "resume"),
    ]


def test_min_words_counts_words_of_scripts_without_spaces() -> None:
    talk = Conversation(min_words=3).speaking().says("等一下", 2.0, 2.8).says("等一下，我想订位", 4.0, 4.8).until(7.0)
    assert [entry for entry in talk.take() if entry[1] in ("aside", "commit", "interrupted")] == [
        (3.2, "aside", "turn_1", "等一下"),
        (5.0, "interrupted", "talk"),
        (5.2, "commit", "turn_2", "等一下，我想订位"),
    ]
