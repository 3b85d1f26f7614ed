"""The wires of Deepgram's recognisers on messages in the vendor's form, without a connection."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.stt.base import STTEagerEndOfTurn, STTEndOfTurn, STTEvent, STTFinal, STTInterim, STTTurnResumed
from vivavoce.pipelines.testing.ear import Lexicon, Said
from vivavoce.pipelines.testing.twin_connection import Close
from vivavoce.plugins.deepgram.flux_wire import FluxWire
from vivavoce.plugins.deepgram.twin.listen import NovaSession
from vivavoce.plugins.deepgram.wire import NovaWire

RATE = 8000


class Stream:
    """What a stream does with a wire."""

    def __init__(self) -> None:
        self.events: list[STTEvent] = []
        self.settled = 0.0
        self.offset = 0.0

    def settle(self, until: float) -> None:
        self.settled = max(self.settled, until)

    def nova(self, language: str = "en") -> NovaWire:
        return NovaWire(
            language, at=self.at, settle=self.settle, report=self.events.append, failures=Failures(provider="d")
        )

    def flux(self) -> FluxWire:
        return FluxWire(
            "en", at=self.at, settle=self.settle, report=self.events.append, failures=Failures(provider="d")
        )

    def at(self, seconds: float) -> float:
        return self.offset + seconds

    @property
    def texts(self) -> list[str]:
        """The texts of the finals."""
        return [event.text for event in self.events if isinstance(event, STTFinal)]


def results(text: str, start: float, end: float, **flags: bool) -> str:
    """Return a message with words of equal length between these times."""
    words = text.split()
    size = (end - start) / max(1, len(words))
    told = [
        {"word": word.casefold(), "punctuated_word": word, "start": start + n * size, "end": start + (n + 1) * size}
        for n, word in enumerate(words)
    ]
    best: dict[str, Any] = {"transcript": text, "confidence": 0.9, "words": told}
    message = {"type": "Results", "start": start, "duration": end - start, "channel": {"alternatives": [best]}}
    return json.dumps({**message, "is_final": False, "speech_final": False, **flags})


def turn(event: str, text: str, end: float, **more: Any) -> str:
    words = [{"word": word, "confidence": 0.9, "start": end - 0.1, "end": end} for word in text.split()]
    told = {"type": "TurnInfo", "event": event, "turn_index": 0, "audio_window_end": end, "transcript": text}
    return json.dumps({**told, "words": words, **more})


def test_pieces_are_one_final_and_interims_show_all_of_them() -> None:
    stream = Stream()
    wire = stream.nova()
    wire.feed(results("A table", 0, 1, is_final=True))
    wire.feed(results("for", 1, 1.5))
    wire.feed(results("for two.", 1, 2, is_final=True, speech_final=True))
    assert [event.text for event in stream.events if isinstance(event, STTInterim)] == ["A table", "A table for"]
    assert stream.texts == ["A table for two."]
    assert stream.settled == 2


def test_an_utterance_that_goes_on_in_noise_is_over_at_utterance_end() -> None:
    stream = Stream()
    wire = stream.nova()
    wire.feed(results("A table", 0, 3, is_final=True))
    wire.feed('{"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 3.0}')
    wire.feed('{"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 3.0}')
    assert stream.texts == ["A table"]


def test_words_shown_in_vain_are_taken_back_by_an_empty_final() -> None:
    stream = Stream()
    wire = stream.nova()
    wire.feed(results("Uh", 0, 1))
    wire.feed(results("", 0, 1.2, is_final=True, speech_final=True))
    assert stream.texts == [""]


def test_a_new_connection_settles_no_words_that_it_has_not_heard_yet() -> None:
    stream = Stream()
    wire = stream.nova()
    wire.feed(results("Hello.", 0, 1, is_final=True, speech_final=True))
    wire.feed(results("A table", 1, 2))
    stream.offset = 0.5
    wire.begin()
    wire.feed(results("lo.", 0, 0.5, is_final=True, speech_final=True))  # the end of a word that is known
    assert stream.texts == ["Hello."]
    wire.feed(results("A table", 0.5, 1.5, is_final=True, speech_final=True))
    assert stream.texts == ["Hello.", "A table"]


def test_a_word_that_begins_at_the_end_of_a_settled_silence_is_heard_by_the_next_connection() -> None:
    stream = Stream()
    wire = stream.nova()
    wire.feed(results("", 0, 3.1, is_final=True))
    stream.offset = 2.6
    wire.begin()
    wire.feed(results("Hello.", 0.4, 0.58, is_final=True, speech_final=True))  # 3.0 … 3.18 of the stream
    assert stream.texts == ["Hello."]


def test_a_language_without_spaces_is_joined_without_them_where_words_are_dropped() -> None:
    stream = Stream()
    wire = stream.nova("ja")
    wire.discard(1.0)
    words = [{"word": word, "start": n / 2, "end": n / 2 + 0.5} for n, word in enumerate("もしもし です か".split())]
    best = {"transcript": "もしもしですか", "confidence": 1, "words": words}
    told = {"type": "Results", "start": 0, "duration": 2, "is_final": True, "speech_final": True}
    wire.feed(json.dumps({**told, "channel": {"alternatives": [best]}}))
    assert stream.texts == ["か"]


@pytest.mark.parametrize(
    "message",
    [
        "{",
        "[]",
        '{"type": "Results"}',
        '{"type": "Results", "channel": 5}',
        '{"type": "Results", "channel": {"alternatives": [{"transcript": 5}]}}',
        '{"type": "Results", "start": "0", "channel": {"alternatives": []}}',
        '{"type": "Results", "channel": {"alternatives": [{"transcript": "a", "words": [5]}]}}',
        '{"type": "TurnInfo", "event": "EndOfTurn", "transcript": 5}',
        '{"type": "TurnInfo", "event": [], "transcript": "a"}',
        '{"type": "TurnInfo", "event": "Update", "transcript": "a", "words": [{"word": "a", "start": 1e99, "end": 2}]}',
    ],
)
def test_a_malformed_message_is_passed_over(message: str, caplog: pytest.LogCaptureFixture) -> None:
    for wire in (Stream().nova(), Stream().flux()):
        wire.feed(message)


@pytest.mark.parametrize("field", ["variant", "code"])
def test_an_error_message_is_an_error(field: str) -> None:
    wire = Stream().nova() if field == "variant" else Stream().flux()
    with pytest.raises(ProviderError, match="It broke"):
        wire.feed(json.dumps({"type": "Error", field: "INTERNAL_SERVER_ERROR", "description": "It broke."}))


def test_turns_that_are_ended_by_force_are_finals_alone() -> None:
    stream = Stream()
    wire = stream.flux()
    wire.feed(turn("StartOfTurn", "A table", 1))
    wire.feed(turn("EagerEndOfTurn", "A table", 1.5))
    wire.feed(turn("EndOfTurn", "A table", 1.6, trigger="manual"))
    assert [type(event) for event in stream.events] == [STTInterim, STTEagerEndOfTurn, STTFinal]


def test_an_end_without_words_is_none_and_takes_shown_ones_back() -> None:
    stream = Stream()
    wire = stream.flux()
    wire.feed(turn("EndOfTurn", "", 1))
    assert stream.events == []
    wire.feed(turn("StartOfTurn", "Uh", 1.5))
    wire.feed(turn("EndOfTurn", "", 2))
    assert stream.texts == [""]
    assert not any(isinstance(event, STTEndOfTurn) for event in stream.events)


def test_a_lost_connection_takes_an_eager_end_back() -> None:
    stream = Stream()
    wire = stream.flux()
    wire.feed(turn("EagerEndOfTurn", "A table", 1))
    wire.begin()
    assert isinstance(stream.events[-1], STTTurnResumed)


LEXICON = Lexicon()
WORDS = [f"word{number}" for number in range(12)]
AUDIO = {word: LEXICON.speech(Said(word), RATE).data for word in WORDS}


@given(
    script=st.lists(st.one_of(st.sampled_from(WORDS), st.floats(0.02, 1.5)), min_size=1, max_size=24),
    cuts=st.lists(st.floats(0.1, 12.0), max_size=3),
    endpointing=st.sampled_from([25, 300]),
)
def test_whatever_connections_are_lost_each_word_is_settled_once_in_order(
    script: list[str | float], cuts: list[float], endpointing: int
) -> None:
    """Words and silences, heard by a twin that is replaced at some positions, with the audio since the settled one."""
    pcm = b"".join(
        AUDIO[part] if isinstance(part, str) else bytes(2 * round(round(part / 0.02) * 0.02 * RATE)) for part in script
    ) + bytes(2 * RATE)
    query = {"model": ["nova-3"], "sample_rate": [str(RATE)], "endpointing": [str(endpointing)]}
    query |= {"interim_results": ["true"], "punctuate": ["true"]}
    stream = Stream()
    wire = stream.nova()
    second, ends = 2 * RATE, sorted(cuts)
    session = NovaSession(query, LEXICON, "r")
    at = 0
    while at < len(pcm):
        if ends and at / second >= ends[0]:
            ends.pop(0)
            stream.offset = max(0.0, round((stream.settled - 0.5) / 0.02) * 0.02)
            wire.begin()
            session, at = NovaSession(query, LEXICON, "r"), round(stream.offset * RATE) * 2
        for answer in session.audio(pcm[at : at + 320]):
            assert not isinstance(answer, Close)
            wire.feed(json.dumps(answer))
        at += 320
    assert " ".join(stream.texts).split() == [part for part in script if isinstance(part, str)]
