"""Finals of committed words that come when interims of new speech have shown other words, with a VAD or without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i

NewSpeech = Callable[[str, str], Conversation]


def typed_on(*, has_vad: bool, text: str = "a table") -> Conversation:
    """A turn committed at 1.8, when "please" was typed after its interim; its answer is heard and over at 1.86."""
    talk = Conversation()
    if has_vad:
        talk.starts(0.5).at(1.0, i.UserInterim(text=text)).stops(1.5)
    else:
        talk.at(1.0, i.UserInterim(text=text))
    talk.at(1.8, i.TextReceived("please"))
    assert talk.take()[0] == (1.8, "commit", "turn_1", f"{text} please")
    return talk.plays(1.85).played(1.86)


def without_a_vad(text: str, shown: str) -> Conversation:
    """New words since 2.1, which only the recogniser hears."""
    return typed_on(has_vad=False, text=text).at(2.1, i.UserInterim(text=shown))


def while_it_goes_on(text: str, shown: str) -> Conversation:
    """New speech since 2.0, which the VAD hears."""
    return typed_on(has_vad=True, text=text).starts(2.0).at(2.1, i.UserInterim(text=shown))


def behind_its_end(text: str, shown: str) -> Conversation:
    """New speech whose end the VAD has reported at 2.35."""
    return while_it_goes_on(text, shown).stops(2.15)


def heard(talk: Conversation) -> list[tuple[object, ...]]:
    return [entry[1:] for entry in talk.take() if entry[1] in ("commit", "merge", "amend", "aside")]


every_new_speech = pytest.mark.parametrize("new_speech", [without_a_vad, while_it_goes_on, behind_its_end])


@every_new_speech
@pytest.mark.parametrize("final", ["A table.", "a cable"])
def test_a_final_that_reads_like_committed_words_and_not_like_the_new_ones_amends_them(
    new_speech: NewSpeech, final: str
) -> None:
    talk = new_speech("a table", "good evening").at(2.4, i.UserFinal(text=final))
    if new_speech is while_it_goes_on:
        talk.stops(2.5)
    talk.at(2.75, i.UserFinal(text="good evening")).until(9.0)
    assert heard(talk) == [("amend", "turn_1", f"{final} please"), ("commit", "turn_2", "good evening")]


@every_new_speech
def test_an_unchanged_final_of_committed_words_is_not_repeated_however_late_it_comes(
    new_speech: NewSpeech,
) -> None:
    talk = new_speech("a table", "good evening").at(2.9, i.UserFinal(text="A table."))
    assert heard(talk) == [("amend", "turn_1", "A table. please")]


@pytest.mark.parametrize("new_speech", [without_a_vad, behind_its_end])
@pytest.mark.parametrize("final", ["a big chair for one", "a chair for one"])
def test_a_final_that_reads_more_like_the_new_words_is_of_them(new_speech: NewSpeech, final: str) -> None:
    talk = new_speech("a table for two", "a big chair for one").at(2.4, i.UserFinal(text=final)).until(9.0)
    assert heard(talk) == [("commit", "turn_2", final)]


@pytest.mark.parametrize("new_speech", [without_a_vad, behind_its_end])
def test_a_final_that_reads_more_like_committed_words_than_new_ones_that_begin_alike_amends_them(
    new_speech: NewSpeech,
) -> None:
    talk = new_speech("a table for two", "a big chair for one").at(2.4, i.UserFinal(text="A table for two."))
    talk.at(2.5, i.UserFinal(text="a big chair for one")).until(9.0)
    assert heard(talk) == [("amend", "turn_1", "A table for two. please"), ("commit", "turn_2", "a big chair for one")]


@pytest.mark.parametrize("new_speech", [without_a_vad, behind_its_end])
def test_an_empty_final_takes_the_new_words_back(new_speech: NewSpeech) -> None:
    talk = new_speech("a table", "good evening").at(2.4, i.UserFinal(text="")).until(9.0)
    assert heard(talk) == []
