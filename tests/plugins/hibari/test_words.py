"""The times of a text's words, from those of the words that the voice reads."""

from __future__ import annotations

from vivavoce.plugins.hibari.words import ReadWord, words_of_text


def read(text: str) -> list[ReadWord]:
    """Words of a second each."""
    return [ReadWord(word, float(at), at + 1.0) for at, word in enumerate(text.split())]


def times(text: str, said: str) -> list[tuple[str, float, float]]:
    return [(word.text, word.start, word.end) for word in words_of_text(text, read(said))]


def test_words_that_are_read_as_written_have_their_times() -> None:
    assert times("Hello, you.", "Hello, you.") == [("Hello,", 0, 1), ("you.", 1, 2)]


def test_a_word_that_is_read_as_several_lasts_as_long_as_they_do() -> None:
    assert times("at 7:30 please", "at seven thirty please") == [("at", 0, 1), ("7:30", 1, 3), ("please", 3, 4)]


def test_words_that_are_read_as_other_ones_share_their_time_by_length() -> None:
    assert times("on May 12th ok", "on the twelfth of May ok")[0] == ("on", 0, 1)
    assert times("a b to", "five of it to") == [("a", 0, 1.5), ("b", 1.5, 3), ("to", 3, 4)]


def test_words_that_are_not_read_have_no_length_and_keep_their_place() -> None:
    assert times("so it is", "so is") == [("so", 0, 1), ("it", 1, 1), ("is", 1, 2)]


def test_pieces_without_letters_belong_to_the_word_before_or_at_the_beginning_behind() -> None:
    assert times("- one - two -", "one two") == [("- one -", 0, 1), ("two -", 1, 2)]


def test_a_text_without_words_has_none() -> None:
    assert times("…", "one") == []
    assert times("one", "") == []
