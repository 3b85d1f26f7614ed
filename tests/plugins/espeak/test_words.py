"""WordTimer: events and audio to words, for espeak's odd event orders."""

from __future__ import annotations

from array import array

from vivavoce.plugins.espeak.words import WordTimer

RATE = 10000
LOUD, QUIET = 5000, 10


def audio(*spans: tuple[int, int]) -> bytes:
    """Return PCM of `(milliseconds, amplitude)`."""
    return array("h", [amplitude for size, amplitude in spans for _ in range(10 * size)]).tobytes()


def timed(text: str, pcm: bytes, *events: tuple[int, int], offset: int = 0) -> list[tuple[str, float, float]]:
    """Return words with times in seconds; `events` have milliseconds."""
    timer = WordTimer(text, RATE, offset=10 * offset)
    words = (*timer.feed(pcm, [(position, 10 * at) for position, at in events]), *timer.finish())
    return [(word.text, round(word.start, 2), round(word.end, 2)) for word in words]


def test_a_word_ends_with_its_last_audible_sample() -> None:
    pcm = audio((100, LOUD), (50, QUIET), (100, LOUD), (40, QUIET))
    assert timed("one, two.", pcm, (1, 0), (6, 150)) == [("one,", 0.0, 0.1), ("two.", 0.15, 0.25)]


def test_several_events_of_one_word_are_one_word() -> None:
    pcm = audio((400, LOUD))
    assert timed("$25.50 please", pcm, (1, 0), (2, 100), (2, 200), (8, 300)) == [
        ("$25.50", 0.0, 0.3),
        ("please", 0.3, 0.4),
    ]


def test_words_told_as_one_share_its_time_by_length() -> None:
    assert timed("of a day", audio((400, LOUD)), (1, 0), (6, 300)) == [
        ("of", 0.0, 0.2),
        ("a", 0.2, 0.3),
        ("day", 0.3, 0.4),
    ]


def test_punctuation_alone_joins_a_word() -> None:
    pcm = audio((200, LOUD))
    assert timed("- one - two -", pcm, (3, 0), (9, 100)) == [("- one -", 0.0, 0.1), ("two -", 0.1, 0.2)]
    assert timed("...", audio((60, QUIET))) == [("...", 0.0, 0.06)]


def test_times_count_from_the_offset_and_events_that_go_back_are_ignored() -> None:
    pcm = audio((300, LOUD))
    assert timed("one two", pcm, (1, 0), (5, 100), (1, 200), offset=1000) == [("one", 1.0, 1.1), ("two", 1.1, 1.3)]


def test_a_word_is_told_with_the_audio_in_which_the_next_one_begins() -> None:
    timer = WordTimer("one two", RATE)
    assert timer.feed(audio((60, LOUD)), [(1, 0)]) == ()
    assert timer.feed(audio((60, LOUD)), []) == ()
    (word,) = timer.feed(audio((60, LOUD)), [(5, 1300)])
    assert (word.text, word.start, word.end) == ("one", 0.0, 0.13)
