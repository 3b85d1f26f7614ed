"""Words by Unicode's rules: counted, cut and compared in scripts with and without spaces."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.words import count_words, pieces, same_words, word_end, words_of

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
TEXTS = st.text(st.sampled_from("ab' -.(我想カナーสวัดี안กြ្ញ\u0301\u200d\U0001f1e9\U0001f1ea\r\n"), max_size=24)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        (" ... ", 0),
        ("Hello, world!", 2),
        ("It's 3.5 o'clock", 3),
        ("안녕하세요 세계", 2),
        ("नमस्ते दुनिया", 2),
        ("我", 1),
        ("我想订", 2),
        ("我想订，一张", 3),  # two runs: of three, and of two
        ("コーヒーをください", 5),
        ("明日8時に", 3),  # 明日, 8, 時に
        ("สวัสดีครับ", 2),  # seven clusters
        ("ขอบคุณ ครับ", 3),
        ("ຂອບໃຈ", 2),
        ("សួស្តី", 1),
        ("မင်္ဂလာပါ", 2),
        (f"ok {FAMILY}", 1),
    ],
)
def test_words_are_counted_by_their_script(text: str, words: int) -> None:
    assert count_words(text) == words


@pytest.mark.parametrize(
    ("text", "at", "end"),
    [
        ("one two", 0, 0),
        ("one two", 2, 0),
        ("one two", 3, 3),
        ("one two", 5, 3),
        ("one two", 7, 7),
        ("one two", 99, 7),
        ("one, two.", 4, 4),
        ("one two.", 7, 7),
        ("one (two)", 6, 3),  # an opening bracket goes with its word
        ("let's go", 4, 0),
        ("我想订一张桌子", 3, 3),
        ("คำนี้", 3, 2),  # not between a letter and its vowel
        (f"{FAMILY} ok", 3, 0),
    ],
)
def test_a_cut_ends_with_a_word(text: str, at: int, end: int) -> None:
    assert word_end(text, at) == end


@given(TEXTS, st.integers(0, 30))
def test_a_cut_never_splits_a_grapheme_cluster_and_never_passes_its_place(text: str, at: int) -> None:
    end = word_end(text, at)
    ends = [0, *(found.end() for found in regex.finditer(r"\X", text))]
    assert end <= max(at, 0)
    assert end in ends or end == len(text)


@given(TEXTS)
def test_pieces_leave_out_nothing_but_white_space(text: str) -> None:
    assert "".join(text[start:end] for start, end in pieces(text)) == "".join(text.split())


def test_words_to_compare_have_neither_case_nor_punctuation() -> None:
    assert words_of("Well—I’m fine, 好的!") == ["well", "i'm", "fine", "好", "的"]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("hello there", "hello there", True),
        ("hello there", "Hello,  there!", True),
        ("„hello“ – there", "hello there", True),
        ("your call", "you're call", False),
        ("1.5", "15", False),
        ("$5", "5", False),
        ("-5", "5", False),
        ("hello", "hello there", False),
        ("", "?", True),
        ("我想订，一张桌子", "我想订一张桌子。", True),
        ("我想订一张桌子", "我想订两张桌子", False),
        ("สวัสดี ครับ", "สวัสดีครับ", True),
        ("ดี", "ดู", False),
    ],
)
def test_words_are_the_same_but_for_their_spelling(one: str, other: str, is_same: bool) -> None:
    assert same_words(one, other) == is_same
