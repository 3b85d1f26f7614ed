"""A sentence that looks finished is said when nothing follows it for a while; one that may go on waits."""

from __future__ import annotations

from typing import Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.speech.text_channel import TextChannel
from vivavoce.pipelines.speaking.voice import Voice
from vivavoce.pipelines.speech import SpeechOptions
from vivavoce.pipelines.testing import ScriptedTTS, VirtualClock, run_virtual
from vivavoce.pipelines.testing.script import wait
from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions
from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS


def settled(text: str, options: SentenceOptions | None = None, *, keeps_code: bool = True) -> list[str]:
    """Return the sentences that are complete when nothing follows `text`."""
    cutter = SentenceCutter(options or SentenceOptions(), keeps_code=keeps_code)
    list(cutter.push(text))
    return list(cutter.settle())


@pytest.mark.parametrize(
    "text",
    [
        "One moment please.",
        "One moment please. ",
        "Let me see...",
        "Let me see… ",
        "Really?!",
        'He said "stop."',
        "(I will look.)",
        "**One moment!**",
        "See [our page](http://x.org/a).",
        "- A list item that is a sentence.",
        "Visit vivavoce.dev.",
        "Is it 5?",
        "请稍等。",
        "少々お待ちください。",
        "本当ですか？",
        "「はい。」",
        "我有3个。",
        "एक मिनट रुकिए।",
        "لحظة من فضلك؟",
        "ခဏစောင့်ပါ။",
        "សូមរង់ចាំ។",
    ],
)
def test_a_sentence_that_looks_finished_is_one_when_nothing_follows(text: str) -> None:
    assert settled(text) == [text.strip()]


@pytest.mark.parametrize(
    "text",
    [
        "It costs 3.",
        "It costs 3. ",
        "圆周率是３．",
        "Ask Dr.",
        "We have apples etc. and e.g.",
        "That is No.",
        "My name is J.",
        "So did I.",
        "It is at 5 p.m.",
        "1.",
        "First this:\n2. ",
        "iv.",
        "One moment",
        "One moment,",
        "Sure:",
        'He said "stop.',
        "Er sagte „halt.",
        "She said “stop.",
        "(I will look.",
        "「はい。",
        "See [the page.",
        "Call `a.",
        "**One moment!",
        "```\nprint(1).",
        "...",
        "  ",
        "",
    ],
)
def test_a_text_that_may_go_on_waits(text: str) -> None:
    assert settled(text) == []


def test_a_sentence_shorter_than_the_options_want_waits_for_the_next_one() -> None:
    assert settled("Yes.", SentenceOptions(min_first_length=10)) == []
    assert settled("Yes, it is so.", SentenceOptions(min_first_length=10)) == ["Yes, it is so."]


@given(st.lists(st.tuples(st.text('aB. 3\n!?。"(`“„-', max_size=8), st.booleans()), max_size=8))
def test_nothing_of_a_text_is_lost_wherever_it_pauses(pieces: list[tuple[str, bool]]) -> None:
    cutter = SentenceCutter()
    said: list[str] = []
    for piece, pauses in pieces:
        said += cutter.push(piece)
        if pauses:
            said += cutter.settle()
    said += cutter.finish()
    assert "".join("".join(said).split()) == "".join("".join(piece for piece, _ in pieces).split())


Kind = Literal["sentences", "streams text", "streams text as it is"]
KINDS: tuple[Kind, ...] = ("sentences", "streams text", "streams text as it is")


def spoken(kind: Kind, *pieces: str | float) -> list[tuple[float, str]]:
    """Speak text with pauses (numbers, s) in a voice of that kind; return the heard texts with times, to the first
    word.
    """
    tts = ScriptedTTS(first_byte=0.0, streams_text=kind != "sentences", emits_words=True)
    filters = () if kind == "streams text as it is" else DEFAULT_TEXT_FILTERS
    heard: list[tuple[float, str]] = []

    async def feed(channel: TextChannel) -> None:
        for piece in pieces:
            if isinstance(piece, str):
                channel.push(piece)
            else:
                await wait(piece)
        channel.close()

    async def main() -> None:
        clock, channel = VirtualClock(), TextChannel()
        voice = Voice(tts, SpeechOptions(text_filters=filters), clock, lambda event: None)
        async with anyio.create_task_group() as group:
            group.start_soon(feed, channel)
            async for chunk in voice.speak(channel):
                heard.extend((round(clock.now(), 2), word.text) for word in chunk.words)

    run_virtual(main())
    return heard


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["One moment please.", "One moment please. "])
def test_the_last_word_of_a_finished_sentence_is_said_though_nothing_follows(kind: Kind, text: str) -> None:
    heard = spoken(kind, text, 1.5, "Here it is.")
    at = {word.strip(" ."): when for when, word in heard}
    assert at["please"] <= 0.15
    assert at["is"] == 1.5
    assert [word.strip(" .") for _, word in heard] == ["One", "moment", "please", "Here", "it", "is"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_word_of_a_sentence_that_may_go_on_waits_for_what_follows(kind: Kind) -> None:
    heard = spoken(kind, "It costs 3.", 1.5, "50 a piece.")
    assert {when for when, word in heard if word.strip(" .") in ("3", "3.50", "three", "piece", "50")} == {1.5}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pause_of_the_text_shorter_than_the_limit_changes_nothing(kind: Kind) -> None:
    heard = spoken(kind, "One moment.", 0.1, " Here", 0.1, " it is.")
    assert [word.strip(" .") for _, word in heard] == ["One", "moment", "Here", "it", "is"]


def test_a_channel_says_whether_text_follows() -> None:
    async def main() -> None:
        clock, channel = VirtualClock(), TextChannel()
        assert not await channel.follows(0.15)
        assert clock.now() == pytest.approx(0.15)
        channel.push("a")
        assert await channel.follows(0.15)
        assert await anext(channel) == "a"
        clock.call_at(clock.now() + 0.1, lambda: channel.push("b"))
        assert await channel.follows(0.15)
        assert clock.now() == pytest.approx(0.25)
        assert await anext(channel) == "b"
        clock.call_at(clock.now() + 0.1, channel.close)
        assert await channel.follows(0.15)
        assert [piece async for piece in channel] == []

    run_virtual(main())
