"""`min_duration` counts voiced time: from the onset of a sound to its last voiced frame, for any `min_silence`."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


@pytest.mark.parametrize("mode", ["pause", "immediate"])
@pytest.mark.parametrize("report", [0.2, 0.5, 0.8])
def test_a_short_sound_does_not_touch_the_agent_however_late_its_end_is_reported(mode: str, report: float) -> None:
    talk = Conversation(mode=mode).speaking().starts(2.0).at(2.38, i.UserVoicePaused(2.36))
    talk.at(2.36 + report, i.UserSpeechEnded(2.36)).until(3.3)
    assert talk.take() == []
    assert talk.agent_states[-1] == ("speaking", 1.0)


@pytest.mark.parametrize(("mode", "what"), [("pause", "pause"), ("immediate", "interrupted")])
def test_a_sound_of_min_duration_does_at_once(mode: str, what: str) -> None:
    talk = Conversation(mode=mode).speaking().starts(2.0).at(2.5, i.UserVoicePaused(2.5)).until(2.6)
    assert talk.take() == [(2.5, what, "talk")]


def test_a_gap_within_the_sound_counts_when_the_voice_goes_on() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.2, i.UserVoicePaused(2.2)).at(2.3, i.UserVoiceResumed(2.3))
    assert talk.until(2.6).take() == [(2.5, "pause", "talk")]
    talk = Conversation().speaking().starts(2.0).at(2.4, i.UserVoicePaused(2.4)).until(2.55)
    assert talk.take() == []
    assert talk.at(2.56, i.UserVoiceResumed(2.56)).take() == [(2.56, "pause", "talk")]


def test_a_vad_that_reports_no_pauses_is_waited_for_until_it_would_have_reported_the_end() -> None:
    lagging = Conversation(voice_lag=0.3)
    lagging.reports_edges = False
    lagging.speaking().starts(2.0).at(2.79, i.UserSpeechEnded(2.49)).until(3.4)
    assert lagging.take() == []
    lagging.at(3.5, i.UserFinal(text="")).take()
    assert lagging.starts(4.0).until(5.0).take() == [(4.8, "pause", "talk")]


def test_words_settled_within_a_short_sound_wait_for_their_commit() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.4, i.UserVoicePaused(2.36)).at(2.9, i.UserFinal(text="stop"))
    assert talk.take() == []
    talk.at(2.95, i.UserSpeechEnded(2.36)).until(3.2)
    assert talk.take() == [
        (2.95, "pause", "talk"),
        (2.95, "interrupted", "talk"),
        (2.95, "commit", "turn_1", "stop"),
        (2.95, "grant", "answer_1"),
    ]


@pytest.mark.parametrize(("end", "resumed_at"), [(1.8, 2.4), (2.0, 3.0)])
def test_what_holds_an_answer_back_is_measured_by_its_voiced_time(end: float, resumed_at: float) -> None:
    talk = Conversation().says("hello", 0.5, 1.0).until(1.5)
    talk.starts(1.6).at(end, i.UserVoicePaused(end)).at(end + 0.6, i.UserSpeechEnded(end)).until(4.0)
    assert [entry for entry in talk.take() if entry[1] in ("pause", "resume")] == [
        (1.65, "pause", "answer_1"),
        (resumed_at, "resume", "answer_1", ""),
    ]


def test_immediate_mode_waits_for_min_words_and_goes_on_without() -> None:
    talk = Conversation(mode="immediate", min_words=2).speaking().says("wait", 2.0, 2.8).until(4.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (3.0, "resume", "talk", "false interruption"),
        (3.2, "aside", "turn_1", "wait"),
    ]
    talk.starts(5.0).at(5.3, i.UserFinal(text="wait please")).until(5.6)
    assert talk.take() == [(5.5, "interrupted", "talk")]


def test_edges_of_a_voice_that_is_not_heard_change_nothing() -> None:
    talk = Conversation().at(1.0, i.UserVoicePaused(1.0), i.UserVoiceResumed(1.0))
    talk.starts(2.0).stops(2.5).at(2.8, i.UserVoicePaused(2.8), i.UserVoiceResumed(2.9))
    assert talk.user_states[-1] == ("idle", 2.5)
