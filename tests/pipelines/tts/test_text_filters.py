"""The spoken form of a written text; a filter that fails costs only its own work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.cascading import CascadingOptions
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.tts.text_filters import (
    DEFAULT_TEXT_FILTERS,
    EmojiFilter,
    FilterChain,
    MarkdownFilter,
    UrlFilter,
)


def unexpected(error: Exception) -> None:
    raise AssertionError("no filter may fail here") from error


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Nothing to do - 2 * 3, f(x) = a*b in snake_case.", "Nothing to do - 2 * 3, f(x) = a*b in snake_case."),
        ("**really** _good_, ~~old~~ ***both***", "really good, old both"),
        ("## Title", "Title."),
        ("Title\n===", "Title."),
        ("- milk", "milk."),
        ("* milk!", "milk!"),
        ("2. milk", "2. milk."),
        ("1986. What a year!", "1986. What a year!"),
        ("> quoted", "quoted"),
        ("- milk\n- eggs", "milk. eggs."),
        ("See [our page](https://a.b/c) or ![a map](x.png).", "See our page or a map."),
        ("[Note]: this stays", "[Note]: this stays"),
        ("Run `pip install x` <b>now</b>, a &amp; b, \\*no\\*", "Run pip install x now, a & b, no"),
        ("Press <Enter>, say <your name>; if a<b and c>d", "Press Enter, say your name; if ab and cd"),
        ('A<br>B <SPEAK>c</SPEAK> <break time="1s"/>d<!-- e --><br/>f', "A B c d f"),
        ("```py\nprint(1)\n```", ""),
        ("---", ""),
        ("|---|:-:|", ""),
        ("| Tea | **3** euros |", "Tea, 3 euros."),
        ("line one\nline **two**", "line one line two"),
        ("<spell>ABC</spell>, <Say-As mode>12</say-as >", "ABC, 12"),
        ("<a1><spell>A <b>B</b></spell></a1> **<spell>C</spell>**", "A B C"),
        ('<ns:spell x="1">A <my_tag>B</my_tag></ns:spell>', "A B"),
        ("Now <spell>A, b", "Now A, b"),
        ("Type <Tab>, <spell>ABC</spell> <Tab>", "Type Tab, ABC Tab"),
        ("| <spell>A</spell> | <x>B</x> |", "A, B."),
        ("<ns:a><ns:a>A</ns:a> b</ns:a> c</x.y>", "A b c"),
        ('<mstts:express-as style="sad">Oh. <my_tag>No', "Oh. No"),
        ('A<amazon:breath/> b <spell\nmode="x">C', "A b C"),
        ('See <https://a.b/c>, <x.org> or `<x:a y="1">b</x:a>`', 'See https://a.b/c, <x.org> or <x:a y="1">b</x:a>'),
        ("5 < 6 & 7 > 3", "5 < 6 & 7 > 3"),
    ],
)
def test_markdown_is_said_without_its_marks(written: str, said: str) -> None:
    assert FilterChain([MarkdownFilter()], unexpected)(written) == said


@pytest.mark.parametrize("half", ["**One.", "One.**", "*One.", "One.*", "_One.", "`One.", "~~One.", "__One."])
def test_marks_whose_other_half_is_in_another_sentence_are_not_said(half: str) -> None:
    assert MarkdownFilter()(half) == "One."


def test_code_blocks_are_read_where_asked() -> None:
    assert MarkdownFilter(code="speak")("```py\nprint(1)\nx = 2\n```") == "print(1) x = 2"
    with pytest.raises(ValueError, match="'skip' or 'speak'"):
        MarkdownFilter(code="sing")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Great! 👍🏽", "Great!"),
        ("A family 👨‍👩‍👧 in 🇩🇪, ❤️ and 🏴󠁧󠁢󠁥󠁮󠁧󠁿.", "A family in, and."),
        ("1️⃣ first #️⃣", "1 first #"),
        ("© 2026 Vivavoce™ → done ‼", "© 2026 Vivavoce™ → done ‼"),
        ("Grüße, 你好", "Grüße, 你好"),
        ("👍", ""),
    ],
)
def test_emoji_are_left_out(written: str, said: str) -> None:
    assert FilterChain([EmojiFilter()], unexpected)(written) == said


def test_whatever_the_emoji_filter_changes_it_knows_at_a_glance() -> None:
    emoji = EmojiFilter()
    points = [*range(0x80, 0xD800), *range(0xE000, 0x20000)]
    assert [hex(point) for point in points if emoji(chr(point)) == "" and not emoji.may_change(chr(point))] == []
    assert not any(emoji.may_change(text) for text in ("ありがとう。", "你好，世界", "Grüße – „ja“ …", "€ © ®"))


@pytest.mark.parametrize(
    ("language", "written", "said"),
    [
        ("", "See https://www.vivavoce.dev/docs?x=1.", "See vivavoce.dev."),
        ("", "(http://a.org/b), www.c.de!", "(a.org), c.de!"),
        ("", "http://[bad and ann@x.org", "http://[bad and ann@x.org"),
        ("en", "See https://vivavoce.dev/docs.", "See vivavoce dot dev."),
        (
            "en",
            "Mail ann.b@my-site.org, e.g. today at 3.5.",
            "Mail ann dot b at my dash site dot org, e.g. today at 3.5.",
        ),
        ("de", "Auf vivavoce.dev.", "Auf vivavoce Punkt dev."),
    ],
)
def test_addresses_are_said_by_their_host(language: str, written: str, said: str) -> None:
    assert " ".join(FilterChain([UrlFilter(language)], unexpected)(written).split()) == said


def test_a_language_without_words_for_addresses_is_refused() -> None:
    with pytest.raises(ValueError, match="language must be one of"):
        UrlFilter("xx")


@given(st.text(alphabet="aZ 1.,*_`~#|[](){}<>&\\\n-+!?:/@w👍é", max_size=60))
def test_no_text_makes_a_default_filter_fail_and_what_none_may_change_stays(text: str) -> None:
    chain = FilterChain(DEFAULT_TEXT_FILTERS, unexpected)
    said = chain(text)
    assert said == text or not chain.leaves(text)
    assert {letter for letter in said if letter.isalnum()} <= {letter for letter in text if letter.isalnum()}


class Exiting(EmojiFilter):
    """Wants to end the process where it says whether it may change a text."""

    def may_change(self, text: str) -> bool:
        raise SystemExit


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), KeyboardInterrupt()])
def test_a_filter_that_raises_something_beside_an_exception_is_left_out_too(error: BaseException) -> None:
    errors: list[Exception] = []

    def leaving(text: str) -> str:
        raise error

    chain = FilterChain([str.upper, leaving, Exiting()], errors.append)
    assert not FilterChain([Exiting()], errors.append).leaves("one")
    assert chain("one") == "ONE"
    assert [str(each) for each in errors] == [
        f"a text filter ended with {type(error).__name__}",
        "a text filter ended with SystemExit",
    ]


def test_a_filter_that_raises_is_left_out_and_reported_once_a_speech() -> None:
    errors: list[Exception] = []

    def broken(text: str) -> str:
        raise LookupError("no such word")

    def wrong(text: str) -> str:
        return None  # type: ignore[return-value]

    chain = FilterChain([str.upper, broken, wrong, EmojiFilter()], errors.append)
    chain.begin()
    assert [chain("one 👍"), chain("two")] == ["ONE", "TWO"]
    assert [type(error) for error in errors] == [LookupError, TypeError]
    chain.begin()
    assert chain("three") == "THREE"
    assert len(errors) == 4


def test_what_is_no_filter_is_refused_at_once() -> None:
    for wrong in ("markdown", MarkdownFilter):
        with pytest.raises(ConfigurationError, match="a text filter must be a callable"):
            CascadingOptions(text_filters=(wrong,))  # type: ignore[arg-type]
