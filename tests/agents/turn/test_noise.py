"""Sound without words: how long it holds the agent, and a turn that it keeps open."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import EndpointingOptions, WakeUp


def entries(talk: Conversation, *kinds: str) -> list[tuple[object, ...]]:
    return [entry for entry in talk.take() if entry[1] in kinds]


# --- the effects of a sound without words


def test_max_pause_counts_from_the_onset_of_the_sound_that_is_heard() -> None:
    talk = Conversation().speaking().starts(3.0).stops(6.0).starts(6.9).stops(9.4).until(10.3)
    assert entries(talk, "pause", "resume") == [(3.5, "pause", "talk")]
    assert entries(talk.until(10.4), "resume") == [(10.4, "resume", "talk", "false interruption")]


def test_sounds_without_a_word_hold_a_speech_for_twice_max_pause_together() -> None:
    talk = Conversation(max_pause=2.0).speaking()
    for onset in (2.0, 4.0, 6.0, 8.0):
        talk.starts(onset).stops(onset + 1.6)
    talk.starts(10.0).until(12.5)
    # It is held for 1.1 by the first one and for 1.6 by the second; the third one may hold it for another 1.3.
    assert entries(talk, "pause", "resume") == [(2.5, "pause", "talk"), (7.3, "resume", "talk", "false interruption")]


def test_a_speech_that_sounds_have_held_for_less_than_twice_max_pause_is_held_by_the_next_sound() -> None:
    talk = Conversation(max_pause=2.0).speaking()
    for onset in (2.0, 6.0, 10.0):  # each holds it for 1.1
        talk.starts(onset).stops(onset + 1.6)
    assert [entry[0] for entry in entries(talk, "pause")] == [2.5, 6.5, 10.5]


def test_a_word_makes_what_sounds_after_it_count_anew() -> None:
    talk = Conversation(max_pause=2.0).speaking().starts(2.0).stops(3.7).starts(4.0).stops(5.7)
    talk.at(5.8, i.UserFinal(text="okay")).take()
    talk.starts(7.0).until(10.0)
    assert entries(talk, "pause", "resume") == [(7.5, "pause", "talk"), (9.0, "resume", "talk", "false interruption")]


def test_where_the_recogniser_gives_no_interims_a_voice_holds_the_agent_for_thirty_seconds() -> None:
    talk = Conversation(emits_interims=False).speaking().starts(2.0).until(31.9)
    assert talk.take() == [(2.5, "pause", "talk")]
    assert talk.until(32.0).take() == [
        (32.0, "resume", "talk", "false interruption"),
        (32.0, "drop", "turn_1", "noise"),
    ]
    assert talk.at(33.0, i.UserFinal(text="wait")).take() == [(33.0, "interrupted", "talk")]


def test_a_sound_of_max_pause_without_a_word_is_silence_until_a_word_comes() -> None:
    talk = Conversation(wake_up=WakeUp(after=8.0), away_after=6.0).at(0.0, i.ParticipantLinked()).starts(1.0)
    talk.until(5.99)
    assert talk.user_states == [("speaking", 1.0)]
    talk.until(9.0)
    assert talk.user_states[-1] == ("away", 6.0)
    assert talk.take() == [(6.0, "drop", "turn_1", "noise"), (8.0, "wake up", 1)]
    talk.at(9.0, i.UserInterim(text="hello"))
    assert talk.user_states[-1] == ("speaking", 9.0)
    assert talk.agent_states[-1] == ("listening", 9.0)
    talk.at(9.5, i.UserFinal(text="hello")).stops(9.6).until(11.0)
    assert entries(talk, "commit") == [(10.0, "commit", "turn_2", "hello")]


def test_what_was_asked_for_is_heard_over_noise() -> None:
    talk = Conversation().starts(1.0).until(6.5).asks(7.0, "news", "reply").until(9.0)
    assert talk.take() == [(6.0, "drop", "turn_1", "noise"), (7.0, "grant", "news")]


def test_without_max_pause_a_sound_is_never_noise() -> None:
    talk = Conversation(max_pause=None).starts(1.0).until(60.0)
    assert talk.take() == []


def test_a_push_to_talk_turn_and_what_a_model_hears_itself_are_not_dropped() -> None:
    talk = Conversation(endpointing_mode="manual").starts(1.0).until(8.0)
    assert (talk.take(), talk.machine.open_turn_id) == ([], "turn_1")
    talk = Conversation(hears_audio=True, emits_interims=False).starts(1.0).until(40.0).stops(40.0).until(41.0)
    assert entries(talk, "drop", "commit") == [(31.0, "commit", "turn_1", "")]


def test_noise_in_push_to_talk_holds_neither_wake_up_nor_away() -> None:
    talk = Conversation(endpointing_mode="manual", wake_up=WakeUp(after=10.0), away_after=15.0)
    talk.at(0.0, i.ParticipantLinked()).starts(3.0).until(20.0)
    assert entries(talk, "wake up") == [(10.0, "wake up", 1)]
    assert talk.user_states[-1] == ("away", 15.0)
    talk.at(21.0, i.TurnCommitRequested()).at(21.2, i.UserFinal(text="a table"))
    assert entries(talk, "commit") == [(21.2, "commit", "turn_1", "a table")]


# --- a turn that sound keeps open


def test_a_turn_with_words_ends_though_a_television_goes_on() -> None:
    talk = Conversation().says("a table", 0.5, 1.5).starts(1.7).until(4.69)
    assert talk.take() == []
    assert talk.until(4.7).take() == [(4.7, "commit", "turn_1", "a table"), (4.7, "grant", "answer_1")]
    talk.plays(5.0).until(20.0)
    assert talk.take() == []
    assert talk.user_states[-1] == ("listening", 5.0)


def test_each_new_word_puts_the_end_off() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a")).at(3.5, i.UserInterim(text="a table"))
    assert entries(talk.until(6.49), "commit") == []
    assert entries(talk.until(6.5), "commit") == [(6.5, "commit", "turn_1", "a table")]


def test_max_delay_is_waited_for_at_least() -> None:
    talk = Conversation(max_delay=5.0).says("a table", 0.5, 1.5).starts(1.7).until(8.0)
    assert entries(talk, "commit") == [(6.7, "commit", "turn_1", "a table")]


def test_a_sound_that_begins_late_has_a_second_for_its_first_word() -> None:
    talk = Conversation(detector_timeout=1.0).says("a table", 0.5, 1.5).at(1.8, i.UserTurnPredicted(False))
    talk.starts(4.3).until(5.2)
    assert entries(talk, "commit") == []
    talk.at(5.2, i.UserInterim(text="for two")).at(5.5, i.UserFinal(text="for two")).stops(5.6)
    talk.at(5.9, i.UserTurnPredicted(True)).until(7.0)
    assert entries(talk, "commit") == [(6.0, "commit", "turn_1", "a table for two")]


def test_a_sound_that_begins_late_is_given_that_second_and_no_more() -> None:
    talk = Conversation(detector_timeout=1.0).says("a table", 0.5, 1.5).at(1.8, i.UserTurnPredicted(False))
    talk.starts(4.3).until(5.29)
    assert entries(talk, "commit") == []
    assert entries(talk.until(5.3), "commit") == [(5.3, "commit", "turn_1", "a table")]


def test_short_sounds_one_after_the_other_do_not_keep_a_turn_open_for_ever() -> None:
    talk = Conversation().says("a table", 0.5, 1.5)
    for number in range(30):
        onset = round(1.75 + number * 0.5, 2)
        talk.starts(onset).stops(round(onset + 0.25, 2))
    assert [entry for entry in talk.take() if entry[1] == "commit"][0][0] <= 8.3


def test_words_that_are_no_more_than_a_sign_of_listening_stay_one() -> None:
    talk = Conversation().speaking().says("okay", 2.0, 2.3).starts(2.5).until(9.0)
    assert entries(talk, "aside", "commit") == [(5.5, "aside", "turn_1", "okay")]


@pytest.mark.parametrize(
    "options",
    [{"emits_interims": False}, {"endpointing_mode": "manual"}, {"remote_decides": True, "hears_audio": True}],
    ids=str,
)
def test_where_words_do_not_tell_the_turn_stays_open(options: dict[str, object]) -> None:
    talk = Conversation(max_pause=None, **options).says("a table", 0.5, 1.5).starts(1.7).until(60.0)  # type: ignore[arg-type]
    assert entries(talk, "commit") == []


def test_a_turn_with_words_ends_when_a_voice_without_interims_has_held_it_for_its_longest() -> None:
    talk = Conversation(emits_interims=False).says("a table", 0.5, 1.5).starts(1.7).asks(5.0, "timer").until(60.0)
    assert talk.take()[:2] == [(31.7, "commit", "turn_1", "a table"), (31.7, "grant", "timer")]


def test_a_new_word_ends_the_noise_that_a_turn_ended_with_while_it_waits_for_protected_speech() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.3, i.UserInterim(text="a table")).until(8.0)
    talk.at(8.2, i.UserInterim(text="a table for two")).played(8.4).stops(9.0).until(9.1)
    assert entries(talk, "commit") == []
    talk.at(9.2, i.UserFinal(text="a table for two please")).until(10.0)
    assert entries(talk, "commit") == [(9.4, "commit", "turn_1", "a table for two please")]


def test_a_second_final_of_that_sound_ends_the_noise_too() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.3, i.UserFinal(text="a table")).until(8.0)
    talk.at(8.2, i.UserFinal(text="for two")).played(8.4).stops(9.0).until(10.0)
    assert entries(talk, "commit") == [(9.4, "commit", "turn_1", "a table for two")]


def test_while_the_recogniser_is_lost_nothing_is_noise() -> None:
    talk = Conversation().says("a table", 0.5, 1.5).starts(1.7).at(2.0, i.RecogniserLost()).until(9.0)
    assert talk.take() == []
    talk.at(9.0, i.RecogniserBack()).until(11.9)
    assert talk.take() == []
    assert talk.until(12.0).take()[0] == (12.0, "commit", "turn_1", "a table")


def test_a_sound_is_noise_max_pause_after_a_lost_recogniser_is_back() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.RecogniserLost()).at(4.0, i.RecogniserBack()).until(8.9)
    assert talk.take() == []
    assert talk.until(9.0).take() == [(9.0, "drop", "turn_1", "noise")]


def test_another_pipeline_hears_words_from_its_first_moment_on() -> None:
    talk = Conversation().at(1.0, i.RecogniserLost())
    talk.at(2.0, i.PipelineChangeRequested(change_id="c", pipeline="p", within=1.0))
    talk.at(2.0, i.PipelineReady(change_id="c"), i.PipelineChangeDue())
    talk.starts(3.0).until(9.0)
    assert entries(talk, "drop") == [(8.0, "drop", "turn_1", "noise")]


def test_a_wait_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no_words"):
        EndpointingOptions(no_words=0.0)


@pytest.mark.parametrize("nothing", [i.UserFinal(text=""), i.UserInterim(text="")], ids=["final", "interim"])
def test_a_sound_whose_only_words_were_taken_back_is_noise_after_max_pause(nothing: i.TurnInput) -> None:
    talk = Conversation(max_pause=5.0).starts(0.5).at(1.0, i.UserInterim(text="hm")).at(1.5, nothing)
    assert talk.until(60.0).take() == [(5.5, "drop", "turn_1", "noise")]


def test_in_push_to_talk_no_sound_ends_a_turn_with_words_also_where_the_recogniser_gives_no_interims() -> None:
    talk = Conversation(endpointing_mode="manual", emits_interims=False).says("a table", 0.5, 1.5).starts(1.7)
    assert talk.until(60.0).take() == []


def test_a_sound_of_max_pause_does_not_end_a_turn_whose_next_words_may_still_come() -> None:
    talk = Conversation(max_pause=1.0).says("a table", 0.5, 1.5).starts(1.7).until(4.69)
    assert entries(talk, "commit") == []


@pytest.mark.parametrize("emits_interims", [False, True])
def test_a_turn_that_ends_while_the_sound_goes_on_settles_the_audio_of_its_words(emits_interims: bool) -> None:
    talk = Conversation(emits_interims=emits_interims).says("a table", 0.5, 1.5).starts(1.7).until(60.0)
    (commit,) = [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)]
    assert commit.settles_audio
