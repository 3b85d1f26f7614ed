"""The voice gets filtered text; texts and words that come back are the original's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed
from vivavoce.pipelines.speaking.spoken_text import SpokenText
from vivavoce.pipelines.speaking.voice import Voice
from vivavoce.pipelines.speech import SpeechOptions
from vivavoce.pipelines.testing import ScriptedTTS, run_virtual
from vivavoce.pipelines.testing.virtual_time import VirtualClock
from vivavoce.pipelines.tts.base import AudioChunk, Word
from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS, EmojiFilter, MarkdownFilter, TextFilter


async def pieces(*texts: str) -> AsyncGenerator[str, None]:
    for text in texts:
        await anyio.sleep(0.01)
        yield text


def speak(
    tts: ScriptedTTS, *texts: str, filters: Sequence[TextFilter] = DEFAULT_TEXT_FILTERS
) -> tuple[list[AudioChunk], list[Exception]]:
    events: list[PipelineEvent] = []

    async def main() -> list[AudioChunk]:
        clock: Clock = VirtualClock()
        voice = Voice(tts, SpeechOptions(text_filters=tuple(filters)), clock, events.append)
        return [chunk async for chunk in voice.speak(pieces(*texts))]

    chunks = run_virtual(main())
    assert all(isinstance(event, PipelineFailed) and event.recovered for event in events)
    return chunks, [event.error for event in events if isinstance(event, PipelineFailed)]


def numbers(text: str) -> str:
    return text.replace("$23", "twenty-three dollars").replace("5", "five")


def test_a_voice_of_sentences_is_sent_what_is_said_and_names_what_is_written() -> None:
    tts = ScriptedTTS(emits_words=True)
    chunks, errors = speak(tts, "It is **ve", "ry** good 👍", ". Costs $23 or [5](http://x.org/a", ") each! 👍 Bye.")
    assert tts.texts == ["It is very good.", "Costs $23 or 5 each!", "Bye."]
    assert [chunk.text for chunk in chunks if chunk.text] == [
        "It is **very** good 👍.",
        "Costs $23 or [5](http://x.org/a) each!",
        "👍 Bye.",
    ]
    assert errors == []


def test_words_are_those_written_with_the_times_of_what_is_said() -> None:
    tts = ScriptedTTS(emits_words=True)
    chunks, _ = speak(tts, "Costs $23 or *5* each.", filters=[MarkdownFilter(), numbers])
    assert tts.texts == ["Costs twenty-three dollars or five each."]
    words = [word for chunk in chunks for word in chunk.words]
    assert [word.text for word in words] == ["Costs", "$23", "or", "*5*", "each."]
    assert [word.start for word in words] == pytest.approx([0.0, 0.2, 0.6, 0.8, 1.0])
    assert [word.end for word in words] == pytest.approx([0.2, 0.6, 0.8, 1.0, 1.2])


def test_a_voice_that_streams_gets_clean_words_at_once_and_others_with_their_sentence() -> None:
    tts = ScriptedTTS(streams_text=True, emits_words=True, first_byte=0.0)
    texts = ("It", " is", " *ve", "ry* ", "good", ". See", " ww", "w.vivavoce", ".dev/a now", ".")
    chunks, _ = speak(tts, *texts)
    assert tts.texts == ["It is very good. See vivavoce.dev now."]
    assert [word.text for chunk in chunks for word in chunk.words] == [
        "It",
        "is",
        "*very*",
        "good.",
        "See",
        "www.vivavoce.dev/a",
        "now.",
    ]


def test_a_stream_holds_back_the_last_word_only_while_nothing_is_to_be_changed() -> None:
    tts = ScriptedTTS(streams_text=True, first_byte=0.0)

    async def main() -> list[str]:
        seen = []

        async def text() -> AsyncGenerator[str, None]:
            for piece in ("One two", " three", " fo", "ur, *five", "* six. Se"):
                yield piece
                await anyio.sleep(1.0)
                seen.append(tts.texts[0] if tts.texts else "")

        voice = Voice(tts, SpeechOptions(), VirtualClock(), _unexpected)
        async for _ in voice.speak(text()):
            pass
        return seen

    assert run_virtual(main()) == [
        "One ",
        "One two ",
        "One two three ",
        "One two three four, ",
        "One two three four, five six. ",
    ]
    assert tts.texts == ["One two three four, five six. Se"]


def test_a_script_without_spaces_is_streamed_sign_by_sign() -> None:
    tts = ScriptedTTS(streams_text=True, first_byte=0.0)

    async def main() -> list[str]:
        seen = []

        async def text() -> AsyncGenerator[str, None]:
            for piece in ("你", "好，", "ありが", "**とう**", "。はい"):
                yield piece
                await anyio.sleep(1.0)
                seen.append(tts.texts[0])

        voice = Voice(tts, SpeechOptions(), VirtualClock(), _unexpected)
        async for _ in voice.speak(text()):
            pass
        return seen

    assert run_virtual(main()) == ["你", "你好，", "你好，ありが", "你好，ありが", "你好，ありがとう。 はい"]


def _unexpected(event: PipelineEvent) -> None:
    raise AssertionError(f"no filter may fail here: {event}")


@pytest.mark.parametrize("streams_text", [False, True])
def test_without_filters_the_text_goes_to_the_voice_as_it_is(streams_text: bool) -> None:
    tts = ScriptedTTS(streams_text=streams_text)
    speak(tts, "**One** 👍. Two", filters=())
    assert tts.texts == (["**One** 👍. Two"] if streams_text else ["**One** 👍.", "Two"])


@pytest.mark.parametrize("streams_text", [False, True])
def test_what_filters_leave_nothing_of_is_left_out_but_never_all_of_a_speech(streams_text: bool) -> None:
    tts = ScriptedTTS(streams_text=streams_text)
    code = "```py\nprint(1)\n```"
    chunks, _ = speak(tts, "👍\n\n---\n", f"\n{code}\n", "Done. 👍")
    assert "".join(tts.texts).strip() == "Done."
    assert chunks
    tts.texts.clear()
    chunks, _ = speak(tts, "👍\n\n", code)
    assert "".join(tts.texts).strip() == code
    assert chunks
    tts.texts.clear()
    assert speak(tts, "👍\n\n---")[0] == []
    assert "".join(tts.texts) == ""


@pytest.mark.parametrize("streams_text", [False, True])
def test_a_filter_that_raises_costs_no_word(streams_text: bool) -> None:
    def broken(text: str) -> str:
        raise LookupError("no such word")

    tts = ScriptedTTS(streams_text=streams_text)
    _, errors = speak(tts, "One 👍 is. ", "Two are.", filters=[broken, EmojiFilter()])
    assert " ".join(tts.texts) == "One is. Two are."
    assert [type(error) for error in errors] == [LookupError]


TOKENS = st.sampled_from(
    [
        "word",
        "Word",
        "$23",
        "5",
        "**",
        "*",
        "`",
        "👍",
        ". ",
        "! ",
        " ",
        " ",
        "\n",
        "\n\n",
        "- ",
        "[a](http://b.c)",
        "好。",
        "www.x.org",
    ]
)


@given(st.lists(TOKENS, max_size=30).map("".join), st.booleans(), st.integers(1, 7))
def test_the_reported_words_of_any_text_stand_in_it_in_order(text: str, streams: bool, size: int) -> None:
    tts = ScriptedTTS(emits_words=True, streams_text=streams)
    cut = [text[start : start + size] for start in range(0, len(text), size)]
    chunks, errors = speak(tts, *cut, filters=[*DEFAULT_TEXT_FILTERS, numbers])
    assert errors == []
    cursor = 0
    squeezed = "".join(text.split())
    for chunk in chunks:
        for word in chunk.words:
            plain = "".join(word.text.split())
            assert plain
            found = squeezed.find(plain, cursor)
            assert found >= 0
            cursor = found + len(plain)


def test_parts_that_a_streaming_voice_names_are_told_as_they_are_written() -> None:
    spoken = SpokenText()
    spoken.add("It costs *$23*. ", "It costs twenty-three dollars. ")
    spoken.add("👍 Now **you**. ", "Now you. ")
    assert spoken.part("It costs twenty-three dollars.") == "It costs *$23*."
    assert spoken.part("Now you.") == "👍 Now **you**."


def test_words_that_the_voice_spells_in_its_own_way_are_told_about_where_they_are() -> None:
    spoken = SpokenText()
    spoken.add("one 2 three 4 five", "one two three four five")
    told = [
        word.text
        for text, at in (("ONE", 0), ("TWO", 1), ("THREE", 2), ("FOUR", 3), ("five", 4))
        for word in spoken.words((Word(text, at, at + 1),))
    ]
    assert told == ["one", "2", "three", "4", "five"]


def test_a_word_reported_in_another_case_is_not_found_inside_of_a_later_word_of_a_filtered_text() -> None:
    spoken = SpokenText()
    spoken.add("*It* is right that I think so.", "It is right that I think so.")
    reports = ("it", "is", "right", "that", "i", "think", "so")
    told = [word.text for at, text in enumerate(reports) for word in spoken.words((Word(text, at, at + 1),))]
    assert told == ["*It*", "is", "right", "that", "I", "think", "so."]
