"""Sentences come out as soon as they are certain, and nothing of the text is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.testing import run_virtual
from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions, sentences


async def pieces(*texts: str) -> AsyncGenerator[str, None]:
    for text in texts:
        yield text


async def split(*texts: str) -> list[str]:
    return [sentence async for sentence in sentences(pieces(*texts))]


def cut(text: str, options: SentenceOptions | None = None, *, keeps_code: bool = False) -> list[str]:
    cutter = SentenceCutter(options or SentenceOptions(), keeps_code=keeps_code)
    return [*cutter.push(text), *cutter.finish()]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Hello there. How are you?",), ["Hello there.", "How are you?"]),
        (("Hel", "lo there", ". ", "How", " are you?"), ["Hello there.", "How are you?"]),
        (("你好。", "再见。"), ["你好。", "再见。"]),
        (("no end",), ["no end"]),
        (("  \n ",), []),
        ((), []),
    ],
)
def test_text_is_cut_as_it_comes(texts: tuple[str, ...], expected: list[str]) -> None:
    assert run_virtual(split(*texts)) == expected


@pytest.mark.parametrize(
    "marked",  # "|" marks a cut
    [
        "Dr. Smith will see you.| Bye!",
        "Yes.| What day?| Mr. J. Smith, Fri. Oh.| Bye.",
        "At 7.30 p.m. it is.| At 5 p.m.| The next.",
        "E.g. Bern, i.e. Berne, z.B. Bern, U.S. Army, Ph.D. Smith.| Ok.",
        "So did I.| Then we left.",
        "Take No. 5.| No.| I will not.| See Fig. 3.| No.| Five.",
        "It costs 3.5 euros.| Or 1,000.50.| 2 apples.| I have 3.| You have 4.",
        "Wir sehen uns am 3. Oktober.| Freitag, 3. Oktober.| Ich habe 3.| Du hast 4.",
        "Der 2. Versuch im 3. Stock.| Am 24. Dezember.",
        "Wait... what?| Wait...| What?| Well… yes.| No…| Ok.",
        'He said "Stop!" and left.| "Yes."| "No."| (Really?)| Ok.',
        "Yahoo! is old.| ¿Sí?| ¡No!| «Non.»| „Nein.“| Gut.",
        "See vivavoce.dev/a.html?x=1.| Or mail a.b@c.de.| Bye.",
        "你好。|再见！|他说：“好。”|然后走了。|３．５元？|好",
        "क्या है?| हाँ।| ठीक؟| نعم؟| لا",
        "Great! 👍 Ok.| Hi.".replace("! 👍", "!| 👍"),
        "One.|\nTwo.|\nthree",
        "Hard\nwraps are white space.|\n\nParagraph\n\n|Next",
        "Here:|\n- Apples|\n- Pears, red|\n* Plums|\n• Figs|\n\nDone",
        "1. Apples|\n2. Pears. Or not|\n10) Plums".replace("Pears. Or", "Pears.| Or"),
        "Temperature:\n-5 degrees",
        "## Title|\nText goes\non.|\n> quoted|\nText",
        "| a | b |\n|---|---|\n| 1 | 2 |\nEnd.".replace("|\n", "|¦\n"),
        "That is **all.| Folks.**| __Ok.__| Bye.",
        "See [Dr. Who? Yes. No.](http://a.b/c).| And `foo. Bar`.| Ok.",
    ],
)
def test_it_is_cut_at_the_ends_of_sentences(marked: str) -> None:
    sign = "¦" if "¦" in marked else "|"
    expected = [part.strip() for part in marked.split(sign)]
    assert cut(marked.replace(sign, "")) == expected


def test_a_whole_text_is_cut_likewise() -> None:
    async def main() -> list[str]:
        return [sentence async for sentence in sentences("One. Two. Three.")]

    assert run_virtual(main()) == ["One.", "Two.", "Three."]


@pytest.mark.parametrize(
    ("before", "certain"), [("One.", " T"), ("Yes!", "\n"), ("你好。", "再"), ("- Apples", "\n"), ("Is it?", ' "N')]
)
def test_a_sentence_comes_out_with_the_first_letter_that_makes_it_certain(before: str, certain: str) -> None:
    cutter = SentenceCutter()
    assert [*cutter.push(before), *cutter.push(certain[:-1])] == []
    assert cutter.pending == before + certain[:-1]
    assert list(cutter.push(certain[-1])) == [before]


def test_a_stalled_text_holds_back_no_more_than_the_open_sentence() -> None:
    async def main() -> str:
        async def slowly() -> AsyncGenerator[str, None]:
            for text in ("One.", " ", "T"):
                yield text
            raise AssertionError("the first sentence was certain before")

        stream = sentences(slowly())
        first = await anext(stream)
        await stream.aclose()
        return first

    assert run_virtual(main()) == "One."


def test_a_long_sentence_is_cut_at_a_comma_and_the_first_one_sooner() -> None:
    first, *rest = cut("and so on, " * 60)
    assert len(first) <= 140
    assert all(100 < len(part) <= 240 for part in rest[:-1])
    assert all(part.endswith(",") for part in [first, *rest])


def test_without_a_comma_it_is_cut_between_words_but_not_inside_a_number() -> None:
    parts = cut("word " * 100)
    assert {word for part in parts for word in part.split()} == {"word"}
    text = "a " * 65 + "costs 100 000 euros " + "b " * 60
    assert any("100 000 euros" in part for part in cut(text))


def test_an_address_longer_than_the_limit_stays_whole() -> None:
    address = "https://vivavoce.dev/" + "x" * 300
    assert any(address in part for part in cut(f"Look at {address} now, please. Bye."))


def test_text_without_spaces_is_cut_at_its_commas_or_at_the_limit() -> None:
    assert all(part.endswith("，") for part in cut("你好世界，" * 100))
    assert [len(part) for part in cut("好" * 400)] == [140, 240, 20]
    assert [len(part) for part in cut("x" * 1600)] == [560, 960, 80]


def test_a_link_at_the_limit_is_kept_whole() -> None:
    parts = cut("x " * 60 + "[a link of, some words](http://a.b) and more words that go on for long enough")
    assert any("[a link of, some words](http://a.b)" in part for part in parts)


def test_short_sentences_wait_for_the_next_one_where_asked() -> None:
    options = SentenceOptions(min_first_length=8, min_length=4)
    assert cut("Yes. It is. No. Ok. Bye.", options) == ["Yes. It is.", "No. Ok.", "Bye."]


def test_a_code_block_is_one_piece_where_asked() -> None:
    text = "So:\n```py\nprint(1). X\n\n# End.\n```\nDone. Yes"
    code = "```py\nprint(1). X\n\n# End.\n```"
    assert cut(text, keeps_code=True) == ["So:", code, "Done.", "Yes"]
    assert cut("~~~\na. B\n```\n", keeps_code=True) == ["~~~\na. B\n```"]
    assert cut("`a` is. B", keeps_code=True) == ["`a` is.", "B"]
    assert cut("~~~\na. B\n") == ["~~~", "a. B"]


@pytest.mark.parametrize(
    "wrong", [{"min_length": -1}, {"max_length": 10}, {"min_first_length": 200}, {"max_first_length": 0}]
)
def test_options_check_themselves(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="need 0 <= min length < max length"):
        SentenceOptions(**wrong)


def test_the_cut_of_a_long_text_without_spaces_waits_for_the_letters_that_go_on_with_its_last_word() -> None:
    options = SentenceOptions(max_first_length=20, max_length=30)
    cutter = SentenceCutter(options)
    assert list(cutter.push("aaaaaaaaaWord好Oktobe")) == []
    assert [*cutter.push("r"), *cutter.finish()] == ["aaaaaaaaaWord好", "Oktober"]
    assert cut("aaaaaaaaaWord好Oktober", options) == ["aaaaaaaaaWord好", "Oktober"]


TOKENS = st.sampled_from(
    "a Word word I J Dr e.g p.m 3 3.5 am Oktober 好 い 。 ！ . . . ! ? … ... , ; : - * ** _ ` ``` ~~~ [ ] ( ) |".split(
        " "
    )
    + ["#", '"', "”", "“", "👍", " ", " ", " ", "\n", "\n\n", "- ", "1. ", "\n```\n", "[a](b)"]
)


@given(st.lists(TOKENS, max_size=40).map("".join), st.data(), st.booleans())
def test_however_the_text_comes_the_sentences_are_the_same_and_make_up_the_text(
    text: str, data: st.DataObject, keeps_code: bool
) -> None:
    options = SentenceOptions(max_first_length=20, max_length=30)
    whole = cut(text, options, keeps_code=keeps_code)
    marks = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    cutter = SentenceCutter(options, keeps_code=keeps_code)
    parts: list[str] = []
    for start, end in zip([0, *marks], [*marks, len(text)], strict=True):
        parts += cutter.push(text[start:end])
    parts += cutter.finish()
    assert parts == whole
    assert all(part.strip() == part for part in whole)
    assert all(whole)
    cursor = 0
    for part in whole:  # each is in the text, in order, with nothing but white space between
        found = text.index(part, cursor)
        assert not text[cursor:found].strip()
        cursor = found + len(part)
    assert not text[cursor:].strip()
    if not keeps_code:
        assert all(len(part) <= 120 for part in whole)
