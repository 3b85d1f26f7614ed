"""A turn that is resumed again and again is answered in the end."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


def impatient(times: int, every: float = 2.5, **options: object) -> Conversation:
    """A caller who says "hello" of 0.5 s from 0.5 on, this number of times, while the model answers nothing."""
    talk = Conversation(**options)  # type: ignore[arg-type]
    for number in range(times):
        talk.says("hello", 0.5 + every * number, 1.0 + every * number)
    return talk


def test_after_two_resumes_with_long_pauses_the_answer_is_kept_and_held_while_the_caller_sounds() -> None:
    talk = impatient(4).until(9.0)  # the third resume from 8.0 to 8.5
    assert talk.take()[-3:] == [
        (6.4, "grant", "answer_3"),
        (8.05, "pause", "answer_3"),
        (8.7, "resume", "answer_3", ""),
    ]
    assert talk.machine.current_speech_id == "answer_3"


def test_what_is_said_while_an_answer_is_kept_is_the_next_turn_when_that_has_ended() -> None:
    talk = impatient(4).plays(9.0).played(11.0)
    talk.take()
    assert talk.until(11.5).take() == []
    talk = impatient(4).plays(9.0)
    talk.take()
    assert talk.played(11.0).take() == [(11.0, "commit", "turn_4", "hello"), (11.0, "grant", "answer_4")]


def test_words_that_begin_after_a_kept_answer_is_heard_interrupt_it() -> None:
    talk = impatient(4).plays(9.0)
    talk.take()
    talk.says("stop please", 9.5, 10.3).until(12.0)
    assert talk.take() == [
        (10.0, "pause", "answer_3"),
        (10.5, "interrupted", "answer_3"),
        (10.7, "commit", "turn_4", "hello stop please"),
        (10.7, "grant", "answer_4"),
    ]


def test_a_kept_answer_is_held_for_max_pause_at_most() -> None:
    talk = impatient(3).starts(8.0).at(8.5, i.UserInterim(text="hello are you there")).until(14.0)
    assert talk.take()[-2:] == [(8.05, "pause", "answer_3"), (13.0, "resume", "answer_3", "")]


def test_resumes_after_short_pauses_merge_however_often() -> None:
    talk = impatient(8, every=1.9).until(20.0)  # 1.4 s of silence
    assert talk.take()[-2] == (14.7, "merge", "turn_1", " ".join(["hello"] * 8))


def test_a_resume_after_a_short_pause_merges_after_long_ones_too() -> None:
    talk = impatient(3).says("please", 7.0, 7.5).until(9.0)
    assert talk.take()[-2] == (7.9, "merge", "turn_1", "hello hello hello please")


def test_an_answer_is_kept_too_if_a_third_late_resume_was_typed() -> None:
    talk = impatient(3).at(8.0, i.TextReceived("are you there"))
    assert talk.take()[-2] == (8.0, "merge", "turn_1", "hello hello hello are you there")
    talk.says("hello", 10.0, 10.5).until(12.0)
    assert talk.take() == [(10.05, "pause", "answer_4"), (10.7, "resume", "answer_4", "")]


def test_without_a_vad_an_answer_is_kept_too() -> None:
    talk = Conversation()
    for number in range(4):
        talk.at(1.0 + 2.5 * number, i.UserInterim(text="hello")).at(1.3 + 2.5 * number, i.UserFinal(text="hello"))
    assert talk.until(10.0).take()[-1] == (6.7, "grant", "answer_3")
    assert talk.plays(10.1).played(11.0).take()[0] == (11.0, "commit", "turn_4", "hello")


def test_a_model_that_hears_the_caller_keeps_its_answer_too() -> None:
    talk = Conversation(hears_audio=True)
    for number in range(4):
        talk.starts(0.5 + 2.5 * number).stops(1.0 + 2.5 * number)
    talk.until(9.5)
    assert [entry[1] for entry in talk.take()][-3:] == ["grant", "pause", "resume"]
    assert talk.plays(9.6).played(11.0).take()[0][:3] == (11.0, "commit", "turn_4")


@pytest.mark.parametrize("kind", ["interrupt", "typed"])
def test_a_kept_answer_yields_to_what_is_no_voice(kind: str) -> None:
    talk = impatient(4).until(9.0)
    talk.take()
    talk.at(9.1, i.InterruptRequested() if kind == "interrupt" else i.TextReceived("forget it"))
    assert (9.1, "cancelled", "answer_3") in talk.take()


def test_a_kept_answer_that_waits_behind_a_handoff_comes_before_the_words_said_meanwhile() -> None:
    talk = Conversation()
    for number in range(3):
        talk.at(1.0 + 2.5 * number, i.UserInterim(text="hello")).until(1.25 + 2.5 * number)
        if number == 2:
            talk.at(6.25, i.HandoffRequested("new agent"))
        talk.at(1.3 + 2.5 * number, i.UserFinal(text="hello"))
    assert talk.until(8.0).take()[-3:] == [
        (6.2, "withdraw", "answer_2"),
        (6.25, "hand off", "new agent"),
        (6.7, "merge", "turn_1", "hello hello hello"),
    ]
    talk.at(8.5, i.UserFinal(text="are you there")).at(8.6, i.HandoffEnded("new agent"))
    assert talk.plays(9.0).take() == [(8.6, "grant", "answer_3")]
    assert talk.played(10.0).take()[0] == (10.0, "commit", "turn_4", "are you there")
