"""The frames, the phrases and the words of Azure's wires, sans-I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTWord
from vivavoce.plugins import azure
from vivavoce.plugins.azure.recognition import Recognition, shown_words
from vivavoce.plugins.azure.synthesis import SpokenWords, document, locale_of
from vivavoce.plugins.azure.wire import Frame, binary_frame, new_request, read_frame, text_frame

FAILURES = Failures(provider="azure")
SPEAK = "{http://www.w3.org/2001/10/synthesis}"


@given(st.text(), st.binary())
def test_a_frame_is_read_as_it_was_written(text: str, data: bytes) -> None:
    request = new_request()
    told = read_frame(text_frame("text.piece", text, request=request, kind="text/plain"), FAILURES)
    assert (told.path, told.request, told.body, told.heads["content-type"]) == (
        "text.piece",
        request,
        text,
        "text/plain",
    )
    heard = read_frame(binary_frame("audio", data, request=request, stream="2"), FAILURES)
    assert (heard.path, heard.request, heard.body, heard.heads["x-streamid"]) == ("audio", request, data, "2")


@given(st.one_of(st.text(), st.binary()))
def test_any_message_is_a_frame_or_breaks_the_protocol(message: str | bytes) -> None:
    is_cut = isinstance(message, bytes) and len(message) < 2 + int.from_bytes(message[:2], "big")
    with pytest.raises(ProviderProtocolError, match="binary frame") if is_cut else nullcontext():
        read_frame(message, FAILURES)


def spoken(*words: str) -> list[STTWord]:
    """Return words of a second each."""
    return [STTWord(text=word, start=float(at), end=at + 1.0, confidence=0.5) for at, word in enumerate(words)]


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("Hello there.", "hello there", [("Hello", 0, 1), ("there.", 1, 2)]),
        ("At 7:30 p.m.", "at seven thirty p m", [("At", 0, 1), ("7:30", 1, 3), ("p.m.", 3, 5)]),
        ("Yes — no.", "yes no", [("Yes", 0, 1), ("—", 1, 1), ("no.", 1, 2)]),
        ("1 2 3 go", "one two three go", [("1", 0, 1), ("2", 1, 2), ("3", 2, 3), ("go", 3, 4)]),
        ("$5,000", "five thousand dollars", [("$5,000", 0, 3)]),
        ("こんにちは。", "こん にちは", [("こん", 0, 1), ("にちは", 1, 2)]),
        ("Hello.", "", []),
    ],
)
def test_the_pieces_of_a_text_have_the_times_of_the_words_for_which_they_stand(
    text: str, words: str, told: list[tuple[str, float, float]]
) -> None:
    found = shown_words(text, spoken(*words.split()))
    assert [(word.text, word.start, word.end) for word in found] == told


@given(st.lists(st.text("abc1", min_size=1), max_size=8), st.lists(st.text("abc1.", min_size=1), max_size=8))
def test_words_are_in_order_and_are_those_of_the_text(words: list[str], pieces: list[str]) -> None:
    found = shown_words(" ".join(pieces), spoken(*words))
    starts = [word.start for word in found]
    assert starts == sorted(starts)
    if words and len(pieces) != 1:
        assert [word.text for word in found] == pieces


def heard(*messages: tuple[str, dict[str, Any]], known: Sequence[float] = ()) -> list[STTEvent]:
    """Return the events of messages; `known`: positions up to which earlier words are discarded, before the first."""
    events: list[STTEvent] = []
    recognition = Recognition(("en-US",), at=lambda s: s, settle=lambda _: None, report=events.append)
    for position in known:
        recognition.discard(position)
    for path, body in messages:
        recognition.take(Frame({"path": path}, json.dumps(body)), FAILURES)
    return events


def span(start: float, end: float) -> dict[str, int]:
    return {"Offset": round(start * 1e7), "Duration": round((end - start) * 1e7)}


def phrase(text: str, start: float, end: float, **more: Any) -> tuple[str, dict[str, Any]]:
    names = text.casefold().strip(".").split()
    size = (end - start) / max(1, len(names))
    words = [{"Word": one, **span(start + at * size, start + (at + 1) * size)} for at, one in enumerate(names)]
    best = {"Confidence": 0.7, "Display": text, "Words": words}
    told = {"RecognitionStatus": "Success", "DisplayText": text, **span(start, end), "NBest": [best]}
    return "speech.phrase", told | more


def test_words_that_are_not_wanted_are_cut_from_a_phrase_and_from_its_interims() -> None:
    interim, final = heard(
        ("speech.hypothesis", {"Text": "one two three four", **span(0, 4)}),
        phrase("One two three four.", 0, 4),
        known=[2],
    )
    assert isinstance(interim, STTInterim)
    assert isinstance(final, STTFinal)
    assert (interim.text, final.text) == ("three four", "three four.")
    assert [word.start for word in final.words] == [2, 3]


def test_a_phrase_without_words_behind_an_interim_is_an_empty_final() -> None:
    shown = ("speech.hypothesis", {"Text": "um", **span(0, 1)})
    events = heard(shown, ("speech.phrase", {"RecognitionStatus": "NoMatch", **span(0, 1)}))
    assert [event.text for event in events if isinstance(event, STTInterim | STTFinal)] == ["um", ""]
    assert heard(("speech.phrase", {"RecognitionStatus": "InitialSilenceTimeout", **span(0, 5)})) == []


@pytest.mark.parametrize(
    "body",
    [
        {"RecognitionStatus": "Success", "DisplayText": "so", "Offset": "x"},
        {"RecognitionStatus": "Success", "DisplayText": "so", "NBest": [{"Words": [{"Word": 5}]}]},
        {"RecognitionStatus": "Success", "DisplayText": "so", "Offset": -1},
    ],
)
def test_a_broken_phrase_is_passed_over(body: dict[str, Any]) -> None:
    assert heard(("speech.phrase", body), ("speech.hypothesis", {"Text": 5, **span(0, 1)})) == []


# --- voices


def boundaries(*words: str) -> Frame:
    rows = [
        {"Type": "WordBoundary", "Data": {**span(at, at + 1), "text": {"Text": word, "BoundaryType": "WordBoundary"}}}
        for at, word in enumerate(words)
    ]
    return Frame({"path": "audio.metadata"}, json.dumps({"Metadata": rows}))


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("Hello, world!", "Hello world", "Hello, | world!"),
        ("He said: “Go!”", "He said Go", "He | said: | “Go!”"),
        ("It costs $5 — well, 6.", "It costs $5 well 6", "It | costs | $5 | — well, | 6."),
        ("On 5/6 at last", "On fifth at last", "On | fifth | 5/6 at | last"),
        ("你好，世界。", "你好 世界", "你好， | 世界。"),
    ],
)
def test_spoken_words_have_the_spelling_of_the_text(text: str, words: str, told: str) -> None:
    finder = SpokenWords()
    finder.add(text)
    found = finder.take(boundaries(*words.split()), FAILURES)
    assert " | ".join(word.text for word in found) == told
    assert [word.start for word in found] == list(range(len(found)))


def test_boundaries_of_another_kind_are_passed_over() -> None:
    rows = [
        {"Type": "SessionEnd", "Data": {"Offset": 5}},
        {"Type": "WordBoundary", "Data": {"Offset": 5, "text": {"Text": ".", "BoundaryType": "PunctuationBoundary"}}},
    ]
    assert SpokenWords().take(Frame({}, json.dumps({"Metadata": rows})), FAILURES) == ()
    with pytest.raises(ProviderProtocolError, match="a list as Metadata"):
        SpokenWords().take(Frame({}, "{}"), FAILURES)


@given(st.text(), st.sampled_from([None, "cheerful", '<&">']))
def test_a_document_is_well_formed_and_says_the_text(text: str, style: str | None) -> None:
    options = azure.TTSOptions(style=style, rate=1.5)
    root = ElementTree.fromstring(document(text, 'a"voice', "", options))
    said = "".join(root.itertext())
    legal = "".join(one for one in text if one in "\t\n\r" or (" " <= one and not "\ud800" <= one <= "\udfff"))
    legal = legal.replace("\ufffe", "").replace("\uffff", "").replace("\r\n", "\n").replace("\r", "\n")
    assert said == legal
    assert root.find(f"{SPEAK}voice[@name='a\"voice']") is not None


def test_the_locale_of_a_voice_is_in_its_name() -> None:
    assert locale_of("en-US-AvaMultilingualNeural") == "en-US"
    assert locale_of("sr-Latn-RS-NicholasNeural") == "sr-Latn-RS"
    assert locale_of("MyVoice") == ""
