"""HeardText: which words the caller has heard at a sample, with and without word times."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.audio.heard import HeardText
from vivavoce.pipelines.tts.base import Word

RATE = 1000
TEN_WORDS = "one two three four five six seven eight nine ten."


def with_times(seconds_per_word: float = 0.2) -> HeardText:
    heard = HeardText(RATE)
    heard.add_text(TEN_WORDS)
    heard.begin_segment(TEN_WORDS, 0)
    heard.add_words(
        tuple(
            Word(word, number * seconds_per_word, (number + 1) * seconds_per_word)
            for number, word in enumerate(TEN_WORDS.split())
        )
    )
    heard.finish(2000)
    return heard


def without_times() -> HeardText:
    heard = HeardText(RATE)
    heard.add_text(TEN_WORDS)
    heard.begin_segment(TEN_WORDS, 0)
    heard.finish(2000)
    return heard


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        (0, ""),
        (199, ""),
        (200, "one"),
        (399, "one"),
        (1000, "one two three four five"),
        (1999, "one two three four five six seven eight nine"),
        (2000, TEN_WORDS),
        (9999, TEN_WORDS),
    ],
)
def test_with_word_times_a_word_counts_when_it_was_played_to_its_end(sample: int, text: str) -> None:
    assert with_times().at(sample) == text


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_without_word_times_the_cut_is_within_one_word(share: float) -> None:
    heard = without_times().at(round(2000 * share))
    assert TEN_WORDS.startswith(heard)
    assert abs(len(heard.split()) - 10 * share) <= 1


def test_without_word_times_all_of_it_is_heard_at_the_end() -> None:
    assert without_times().at(2000) == TEN_WORDS


def test_segments_that_were_heard_whole_count_whole() -> None:
    heard = HeardText(RATE)
    heard.add_text("First one. Second one.")
    heard.begin_segment("First one.", 0)
    heard.begin_segment("Second one.", 1000)
    heard.finish(2000)
    assert heard.at(1000) == "First one."
    assert heard.at(1600) == "First one. Second"
    assert heard.at(2000) == "First one. Second one."


def test_a_voice_that_is_not_done_yet_is_taken_to_speak_at_its_own_pace() -> None:
    heard = HeardText(RATE)
    heard.add_text("one two three four five. six seven eight nine ten.")
    heard.begin_segment("one two three four five.", 0)
    heard.begin_segment("six seven eight nine ten.", 1000)
    assert heard.at(1500).split()[-1] in ("six", "seven", "eight")


def test_a_voice_that_speaks_a_filtered_text_still_maps() -> None:
    heard = HeardText(RATE)
    heard.add_text("This is *very* important.")
    heard.begin_segment("This is very important.", 0)
    heard.finish(1000)
    assert heard.at(1000) == "This is *very* important."
    assert heard.at(500).startswith("This is")


@pytest.mark.parametrize(
    ("share", "expected"), [(0.2, "See"), (0.6, "See [our page](https://vivavoce.dev/a/long/way)")]
)
def test_without_word_times_the_share_is_one_of_what_is_said(share: float, expected: str) -> None:
    heard = HeardText(RATE)
    text = "See [our page](https://vivavoce.dev/a/long/way) now, please."
    heard.add_text(text)
    heard.begin_segment(text, 0, "See our page now, please.")
    heard.finish(1000)
    assert heard.at(round(1000 * share)) == expected
    assert heard.at(1000) == text


def test_the_pace_of_a_segment_to_come_is_that_of_what_was_said() -> None:
    heard = HeardText(RATE)
    heard.add_text("[one](https://vivavoce.dev/a/long/way). five six seven eight.")
    heard.begin_segment("[one](https://vivavoce.dev/a/long/way).", 0, "one.")
    heard.begin_segment("five six seven eight.", 400)  # 100 samples a letter said
    assert heard.at(400 + 1000).endswith("way). five six")


def test_a_word_that_stands_in_a_later_sentence_only_is_not_looked_for_there() -> None:
    heard = HeardText(RATE)
    heard.add_text("I have 1. You have one more.")
    heard.begin_segment("I have 1.", 0)
    heard.add_words((Word("I", 0.0, 0.1), Word("have", 0.1, 0.2), Word("one", 0.2, 0.3)))
    assert heard.at(round(0.35 * RATE)) == "I have 1."


def test_nothing_played_is_nothing_heard() -> None:
    heard = HeardText(RATE)
    assert heard.at(0) == ""
    heard.add_text("hello")
    assert heard.at(0) == ""


@given(
    st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=20),
    st.lists(st.integers(0, 5000), min_size=2, max_size=20),
    st.booleans(),
)
def test_what_was_heard_only_grows_and_is_always_a_beginning_of_the_text(
    words: list[str], samples: list[int], has_times: bool
) -> None:
    text = " ".join(words)
    heard = HeardText(RATE)
    heard.add_text(text)
    heard.begin_segment(text, 0)
    if has_times:
        heard.add_words(tuple(Word(word, number * 0.2, (number + 1) * 0.2) for number, word in enumerate(words)))
    heard.finish(200 * len(words))
    parts = [heard.at(sample) for sample in sorted(samples)]
    assert all(text.startswith(part) for part in parts)
    assert parts == sorted(parts, key=len)
    assert all(part == "" or part.split() == words[: len(part.split())] for part in parts)


CHINESE = "好的，我帮您订明天晚上七点的桌子。"
THAI = "สวัสดีครับ ยินดีต้อนรับ"


def heard_of(text: str) -> HeardText:
    heard = HeardText(RATE)
    heard.add_text(text)
    heard.begin_segment(text, 0)
    heard.finish(1000)
    return heard


@pytest.mark.parametrize(("share", "expected"), [(0.1, "好"), (0.5, "好的，我帮您订明"), (0.9, CHINESE[:-2])])
def test_without_spaces_the_cut_is_within_one_sign(share: float, expected: str) -> None:
    assert heard_of(CHINESE).at(round(1000 * share)) == expected


@pytest.mark.parametrize("text", [THAI, "👨\u200d👩\u200d👧👨\u200d👩\u200d👧", "សួស្តី សូមស្វាគមន៍"])
def test_a_cut_never_splits_what_the_reader_sees_as_one_sign(text: str) -> None:
    ends = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    heard = heard_of(text)
    assert {len(heard.at(sample)) for sample in range(0, 1001, 10)} <= ends


def test_a_filtered_text_without_spaces_is_cut_within_one_sign() -> None:
    heard = HeardText(RATE)
    heard.add_text("**สวัสดี**ครับ")
    heard.begin_segment("**สวัสดี**ครับ", 0, "สวัสดีครับ")
    heard.finish(1000)
    assert heard.at(500) == "**สวัส"


def test_a_word_that_the_voice_spells_in_its_own_way_ends_where_one_is_written() -> None:
    heard = HeardText(RATE)
    heard.add_text("ที่นี่ดี")
    heard.begin_segment("ที่นี่ดี", 0)
    heard.add_words((Word("thi", 0.0, 0.3), Word("ni", 0.3, 0.6)))
    assert heard.at(400) == "ที่"


def test_a_voice_that_is_not_done_yet_is_taken_to_say_five_signs_a_second_of_a_script_without_spaces() -> None:
    heard = HeardText(RATE)
    heard.add_text(CHINESE)
    heard.begin_segment(CHINESE, 0)
    assert heard.at(RATE) == "好的，我帮"  # at 15 characters a second, as English, it would be nearly all of it


def test_another_voice_that_goes_on_in_mid_sentence_has_a_segment_of_its_own_though_its_words_come_again_later() -> (
    None
):
    heard = HeardText(1000)
    heard.add_text("I say yes. You say yes.")
    heard.begin_segment("I say yes.", 0)
    heard.begin_segment("yes.", 600)
    heard.begin_segment("You say yes.", 900)
    heard.finish(2000)
    assert [heard.at(sample) for sample in (590, 600, 700, 900)] == ["I say", "I say", "I say", "I say yes."]
    assert heard.at(1400) == "I say yes. You"
    assert heard.at(2000) == "I say yes. You say yes."


def test_text_without_audio_is_never_heard() -> None:
    heard = HeardText(1000)
    heard.add_text("Yes. No. Yes. Perhaps.")
    heard.leave_out("Yes.")
    heard.begin_segment("No.", 0)
    heard.end_segment(200)
    heard.leave_out("Yes.")
    heard.begin_segment("Perhaps.", 200)
    heard.finish(600)
    assert [heard.at(sample) for sample in (0, 100, 200, 300, 600)] == ["", "", "No.", "No.", "No. Perhaps."]


def test_text_without_audio_at_the_end_is_not_heard_either() -> None:
    heard = HeardText(1000)
    heard.add_text("Yes.\n\nNo. Perhaps.")
    heard.begin_segment("Yes.", 0)
    heard.end_segment(200)
    heard.leave_out("No.")
    heard.leave_out("Perhaps.")
    assert heard.at(200) == "Yes."
    heard.finish(200)
    assert heard.at(200) == "Yes."


def test_words_behind_a_text_without_audio_are_not_sought_in_it() -> None:
    heard = HeardText(1000)
    heard.add_text("I see. The end, the end. The sun.")
    heard.add_words((Word("I", 0.0, 0.2), Word("see.", 0.2, 0.4)))
    heard.leave_out("The end, the end.")
    heard.add_words((Word("The", 0.4, 0.6), Word("sun.", 0.6, 0.8)))
    assert [heard.at(sample) for sample in (400, 600, 800)] == ["I see.", "I see. The", "I see. The sun."]


def reported(text: str, *words: str, seconds: float = 0.3) -> HeardText:
    """Return the text of a voice that reports these words, one after the other, each as long as the others."""
    heard = HeardText(RATE)
    heard.add_text(text)
    heard.begin_segment(text, 0)
    heard.add_words(tuple(Word(word, n * seconds, (n + 1) * seconds) for n, word in enumerate(words)))
    heard.finish(round(RATE * (len(words) * seconds + 1)))
    return heard


def steps(heard: HeardText, count: int, seconds: float = 0.3) -> list[str]:
    """Return the text heard after each of the first `count` words."""
    return [heard.at(round(RATE * (n + 1) * seconds)) for n in range(count)]


SURE = "It is right that I think so."


def test_a_word_reported_in_another_case_is_not_found_inside_of_a_later_word() -> None:
    heard = reported(SURE, "it", "is", "right", "that", "i", "think", "so")
    assert steps(heard, 7) == [SURE[:end] for end in (2, 5, 11, 16, 18, 24, 27)]
    heard = reported("I think right.", "i", "THINK", "Right.")
    assert steps(heard, 3) == ["I", "I think", "I think right."]


def test_a_number_reported_in_words_or_in_digits_is_one_word_of_the_text() -> None:
    heard = reported("I have 25 red apples for you.", "i", "have", "twenty", "five", "red", "apples", "for", "you")
    assert steps(heard, 8)[3:] == [
        "I have 25",
        *(f"I have 25 {rest}" for rest in ("red", "red apples", "red apples for", "red apples for you")),
    ]
    heard = reported("I have twenty five red apples.", "I", "have", "25", "red", "apples")
    assert steps(heard, 5)[2:] == ["I have twenty five", "I have twenty five red", "I have twenty five red apples"]
    heard = reported(
        "That costs $1,250 in all, sir.", "that", "costs", "twelve", "hundred", "fifty", "dollars", "in", "all"
    )
    assert steps(heard, 8)[1] == "That costs"
    assert steps(heard, 8)[5:] == ["That costs $1,250", "That costs $1,250 in", "That costs $1,250 in all"]


def test_words_reported_in_pieces_or_together_are_found_by_their_letters() -> None:
    heard = reported("Book the restaurant now.", "Book", "the", "res", "tau", "rant", "now")
    assert steps(heard, 6)[1:] == ["Book the"] * 3 + ["Book the restaurant", "Book the restaurant now"]
    heard = reported("Going to well-known places.", "going to", "well", "known", "places.")
    assert steps(heard, 4) == ["Going to", "Going to well", "Going to well-known", "Going to well-known places."]
    heard = reported("您好，我是小王。", "您好", "，", "我", "是小", "王")
    assert steps(heard, 5) == ["您好", "您好，", "您好，我", "您好，我是小", "您好，我是小王"]
    heard = reported("It’s FBI, isn't it?", "its", "F", "B", "I", ",", "isn’t", "it")
    assert steps(heard, 7) == ["It’s", "It’s", "It’s", "It’s FBI", "It’s FBI,", "It’s FBI, isn't", "It’s FBI, isn't it"]


def test_words_reported_by_other_code_points_are_the_same() -> None:
    heard = reported("\u00e0 \u00e9 \u00f4 25 \u00fc", "a\u0300", "e\u0301", "o\u0302", "２５", "u\u0308")
    assert [len(part) for part in steps(heard, 5)] == [1, 3, 5, 8, 10]


def test_signs_and_blanks_among_words_of_another_form_move_nothing_back() -> None:
    heard = reported("I want 25, and 3.", "I", "want", "twenty", " ", "five", ",", "", "and", "three", ".")
    assert steps(heard, 10) == [
        *("I", "I want", *["I want 25,"] * 5, "I want 25, and", "I want 25, and 3.", "I want 25, and 3."),
    ]


def test_a_sign_at_the_end_of_a_sentence_is_not_found_in_the_next_one() -> None:
    heard = HeardText(RATE)
    heard.add_text("您好。“再见。”")
    heard.begin_segment("您好。", 0)
    heard.begin_segment("“再见。”", 600)
    heard.add_words((Word("您好。", 0.0, 0.4), Word("“", 0.4, 0.5), Word("再见", 0.6, 0.8)))
    assert [heard.at(sample) for sample in (400, 500, 700, 800)] == ["您好。", "您好。", "您好。", "您好。“再见"]


def test_a_word_that_the_voice_leaves_out_or_adds_does_not_lose_the_place() -> None:
    heard = reported("Well, I think that we can go.", "i", "think", "uh", "we", "can", "go")
    assert steps(heard, 6) == [
        "Well, I",
        "Well, I think",
        "Well, I think that",
        "Well, I think that we",
        "Well, I think that we can",
        "Well, I think that we can go",
    ]


def test_short_words_in_the_place_of_contractions_do_not_run_ahead() -> None:
    text = "That's what it is, as that is all it's for, so it is fine."
    words = "that is what it is as that is all it is for so it is fine".split()
    assert steps(reported(text, *words), len(words))[1:8] == [
        "That's" if n == 1 else text[: text.index(end) + len(end)]
        for n, end in enumerate(("'s", "what", "what it", "it is", "as", "as that", "that is"), 1)
    ]
    assert steps(reported(text, *words), len(words))[-1] == text[:-1]


def test_the_place_is_found_again_behind_a_part_that_the_voice_leaves_out() -> None:
    text = "Take the bus, or if the weather is fine and you walk take the path, to the old town hall and ask there."
    words = ["take", "the", "bus", "to", "the", "old", "town", "hall", "and", "ask", "there"]
    heard = steps(reported(text, *words), len(words))
    assert heard[2] == "Take the bus"
    assert all(text.startswith(part) for part in heard)
    assert heard[7:] == [text[: text.index(end) + len(end)] for end in ("hall", "hall and", "ask", "there")]


def test_an_equal_word_far_away_is_not_the_one_that_was_spoken() -> None:
    text = "The colour of this sofa is grey, and after many other words comes a tint."
    heard = reported(text, "the", "tint", "of", "this")
    assert [len(part.split()) for part in steps(heard, 4)] == [1, 2, 3, 4]


def test_reports_in_another_script_are_followed_by_their_length() -> None:
    text = " ".join(["spasibo bolshoe, dorogoj drug."] * 100)
    reports = ["спасибо", "большое", "дорогой", "друг"] * 100
    heard = reported(text, *reports)
    counts = [len(part.split()) for part in steps(heard, len(reports))]
    assert counts == sorted(counts)
    assert all(abs(count - n) <= 1 for n, count in enumerate(counts, 1))


@pytest.mark.parametrize("form", [str.upper, str.lower, lambda word: word.strip(",."), lambda word: f"{word} "])
@given(
    words=st.lists(st.sampled_from("I i right the think this, a about. is It it's in".split()), min_size=1, max_size=12)
)
def test_law_the_form_of_the_reports_does_not_change_what_was_heard(
    form: Callable[[str], str], words: list[str]
) -> None:
    text = " ".join(words)
    heard = reported(text, *map(form, words))
    assert [part.rstrip(",.") for part in steps(heard, len(words))] == [
        " ".join(words[: n + 1]).rstrip(",.") for n in range(len(words))
    ]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("", ""),
        ("One two", "One two"),
        ("one TWO, (three)", "One two (three)"),
        ("One two three. Four.", "One two (three). Four."),
    ],
)
def test_what_the_voice_tells_for_a_position_counts_there_and_nowhere_else(told: str, text: str) -> None:
    heard = HeardText(RATE)
    heard.add_text("One two (three). Four. Five.")
    heard.finish(5 * RATE)
    before = heard.at(4 * RATE)
    heard.tell(3 * RATE, told)
    assert heard.at(3 * RATE) == text
    assert heard.at(4 * RATE) == before
