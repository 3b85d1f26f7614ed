"""Sentences come out as soon as they are certain, and nothing of the text is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.testing import run_virtual
from vivavoce.pipelines.tts.sentences import sentences


async def pieces(*texts: str) -> AsyncGenerator[str, None]:
    for text in texts:
        yield text


async def split(*texts: str) -> list[str]:
    return [sentence async for sentence in sentences(pieces(*texts))]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Hello there. How are you?",), ["Hello there.", "How are you?"]),
        (("Hel", "lo there", ". ", "How", " are you?"), ["Hello there.", "How are you?"]),
        (("Dr. Smith will see you. Bye!",), ["Dr. Smith will see you.", "Bye!"]),
        (("Yes. What day? Mr. J. Smith, Fri. Oh. Bye.",), ["Yes.", "What day?", "Mr. J. Smith, Fri. Oh.", "Bye."]),
        (("At 7.30 p.m. it is.",), ["At 7.30 p.m. it is."]),
        (("你好。", "再见。"), ["你好。", "再见。"]),
        (("no end",), ["no end"]),
        (("  \n ",), []),
        ((), []),
        (("**Really** good.",), ["Really good."]),
    ],
)
def test_text_is_cut_at_the_ends_of_sentences(texts: tuple[str, ...], expected: list[str]) -> None:
    assert run_virtual(split(*texts)) == expected


def test_a_whole_text_is_cut_likewise() -> None:
    async def main() -> list[str]:
        return [sentence async for sentence in sentences("One. Two. Three.")]

    assert run_virtual(main()) == ["One.", "Two.", "Three."]


def test_a_sentence_comes_out_with_the_first_letter_of_the_next() -> None:
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


@given(st.lists(st.text(alphabet="aB.!? \n,", max_size=8), max_size=12))
def test_however_the_text_comes_no_letter_is_lost(texts: list[str]) -> None:
    spoken = "".join("".join(run_virtual(split(*texts))).split())
    assert spoken == "".join("".join(texts).split())
