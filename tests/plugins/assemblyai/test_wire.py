"""The wire of AssemblyAI's recognisers on messages in the vendor's form, without a connection."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.kept_audio import KeptAudio
from vivavoce.pipelines.stt.base import STTEagerEndOfTurn, STTEndOfTurn, STTEvent, STTFinal, STTInterim, STTTurnResumed
from vivavoce.pipelines.testing.ear import Lexicon, Said
from vivavoce.pipelines.testing.twin_connection import Close
from vivavoce.plugins.assemblyai.twin.session import TurnSession
from vivavoce.plugins.assemblyai.twin.settings import Settings
from vivavoce.plugins.assemblyai.wire import FORCE_ENDPOINT, TurnRules, TurnWire

RATE = 8000


class Stream:
    """What a stream does with a wire."""

    def __init__(self, **rules: Any) -> None:
        self.events: list[STTEvent] = []
        self.kept: KeptAudio[bytes] = KeptAudio(60.0)
        self.offset = 0.0
        self.wire = TurnWire(
            TurnRules(**rules),
            at=lambda seconds: self.offset + seconds,
            settle=self.kept.settle,
            report=self.events.append,
            failures=Failures(provider="a"),
        )

    @property
    def texts(self) -> list[str]:
        """The texts of the finals."""
        return [event.text for event in self.events if isinstance(event, STTFinal)]

    def kinds(self) -> list[type[STTEvent]]:
        return [type(event) for event in self.events]


def turn(text: str, start: float = 0.0, end: float = 1.0, *, order: int = 0, **fields: Any) -> str:
    """Return a message with words of equal length between these times."""
    words = text.split()
    size = (end - start) / max(1, len(words))
    told = [
        {
            "text": word,
            "start": round(1000 * (start + number * size)),
            "end": round(1000 * (start + (number + 1) * size)),
            "confidence": 0.9,
            "word_is_final": True,
        }
        for number, word in enumerate(words)
    ]
    common = {"type": "Turn", "turn_order": order, "turn_is_formatted": False, "end_of_turn": False}
    return json.dumps({**common, "transcript": text, "end_of_turn_confidence": 0.1, "words": told, **fields})


def test_words_that_may_still_change_are_shown_though_no_transcript_has_them() -> None:
    stream = Stream()
    stream.wire.feed(turn("hello there", transcript="hello"))
    assert isinstance(stream.events[0], STTInterim)
    assert stream.events[0].text == "hello there"


def test_a_language_without_spaces_is_joined_without_them() -> None:
    stream = Stream()
    stream.wire.feed(turn("食べ まし た", transcript=""))
    stream.wire.discard(0.5)
    stream.wire.feed(turn("もう 一度", 1.0, 2.0, order=1, transcript="もう一度", end_of_turn=True))
    assert [event.text for event in stream.events if isinstance(event, STTInterim | STTFinal)] == [
        "食べました",
        "もう一度",
    ]


def test_a_turn_whose_formatted_words_do_not_come_is_settled_by_the_next_one() -> None:
    stream = Stream(formats_later=True)
    stream.wire.feed(turn("hello", end_of_turn=True))
    stream.wire.feed(turn("and more", 2.0, 3.0, order=1))
    assert stream.kinds() == [STTInterim, STTEagerEndOfTurn, STTFinal, STTEndOfTurn, STTInterim]
    stream.wire.feed(turn("Hello.", end_of_turn=True, turn_is_formatted=True))
    assert stream.texts == ["hello"], "it comes once"


def test_a_lost_connection_settles_an_ended_turn_and_takes_the_eager_end_of_another_one_back() -> None:
    stream = Stream(formats_later=True, eager_threshold=0.5)
    stream.wire.feed(turn("hello", end_of_turn=True))
    stream.wire.begin()
    assert stream.kinds() == [STTInterim, STTEagerEndOfTurn, STTFinal, STTEndOfTurn]
    stream.wire.feed(turn("and more", 2.0, 3.0, end_of_turn_confidence=0.6))
    stream.wire.begin()
    assert stream.kinds()[4:] == [STTInterim, STTEagerEndOfTurn, STTTurnResumed]


def test_a_discard_before_the_first_message_of_a_connection_hides_none_of_its_turns() -> None:
    stream = Stream()
    stream.wire.feed(turn("never mind"))
    stream.wire.begin()
    stream.wire.discard(1.0)
    stream.wire.feed(turn("hello", 2.0, 3.0, end_of_turn=True))  # its number is that of the forgotten one
    assert stream.texts == ["hello"]


def test_an_empty_turn_is_no_end_takes_shown_words_back_and_hides_no_later_one() -> None:
    stream = Stream()
    stream.wire.feed(turn("", end_of_turn=True))
    assert stream.events == []
    stream.wire.feed(turn("hello"))
    stream.wire.feed(turn("", end_of_turn=True))
    assert stream.kinds() == [STTInterim, STTFinal]
    stream.wire.feed(turn("again", 2.0, 3.0, end_of_turn=True))
    assert stream.texts == ["", "again"]


def test_a_turn_of_words_that_were_settled_takes_nothing_back() -> None:
    stream = Stream()
    stream.wire.feed(turn("hello", end_of_turn=True))
    stream.wire.feed(turn("and more", 2.0, 3.0, order=1))
    stream.wire.begin()
    stream.wire.feed(turn("hello", end_of_turn=True))
    assert stream.texts == ["hello"]
    stream.wire.feed(turn("and more", 2.0, 3.0, order=1, end_of_turn=True))
    assert stream.texts == ["hello", "and more"]


def test_between_turns_old_audio_is_settled_and_within_one_it_is_kept() -> None:
    stream = Stream()
    for _ in range(200):
        stream.kept.push(b"", 0.05)
        stream.wire.pushed(stream.kept.end)
    assert stream.kept.settled == pytest.approx(7.0)
    stream.wire.feed(json.dumps({"type": "SpeechStarted", "timestamp": 9000}))
    for _ in range(200):
        stream.kept.push(b"", 0.05)
        stream.wire.pushed(stream.kept.end)
    assert stream.kept.settled == pytest.approx(7.0)
    stream.wire.feed(turn("hello", 9.0, 19.0, end_of_turn=True))
    assert stream.kept.settled == pytest.approx(19.0)


def test_a_turn_that_is_heard_again_and_brings_no_new_word_ends_as_well() -> None:
    stream = Stream()
    stream.kept.push(b"", 20.0)
    stream.wire.feed(turn("hello", end_of_turn=True))
    stream.wire.begin()
    stream.wire.feed(json.dumps({"type": "SpeechStarted", "timestamp": 0}))
    stream.wire.feed(turn("hello", end_of_turn=True))
    stream.wire.pushed(20.0)
    assert stream.kept.settled == pytest.approx(17.0)


def test_an_unknown_speaker_has_no_name() -> None:
    stream = Stream()
    stream.wire.feed(turn("hello there", speaker_label="UNKNOWN", end_of_turn=True))
    assert isinstance(stream.events[0], STTFinal)
    assert stream.events[0].speakers == ()


MALFORMED = [
    "{",
    "[]",
    turn("hello", transcript=5),
    turn("hello", turn_order=[]),
    turn("hello", words=[{"text": 5}]),
    turn("hello", words=["hello"]),
    turn("hello", words=[{"text": "hello", "start": "soon", "end": 5}]),
    turn("hello", end_of_turn_confidence="high"),
]


@pytest.mark.parametrize("message", MALFORMED)
def test_a_malformed_message_is_passed_over(message: str, caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream()
    stream.wire.feed(message)
    stream.wire.feed(turn("hello", end_of_turn=True))
    assert stream.texts == ["hello"]
    assert "is the server compatible" in caplog.text
    assert "hello" not in caplog.text


@pytest.mark.parametrize("message", [{"error_code": 3005, "error": "It broke."}, {"error": "It broke."}, {}])
def test_an_error_message_is_an_error(message: dict[str, object]) -> None:
    with pytest.raises(ProviderError) as caught:
        Stream().wire.feed(json.dumps({"type": "Error", **message}))
    assert caught.value.retryable
    assert message.get("error", "the answer failed") in str(caught.value)  # type: ignore[operator]


def test_a_warning_is_logged_and_other_messages_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream()
    with caplog.at_level(logging.WARNING):
        stream.wire.feed(json.dumps({"type": "Warning", "warning_code": 1, "warning": "mode is ignored"}))
    for kind in ("SpeakerRevision", "Heartbeat", "Silence", "Termination", "OfTheFuture"):
        stream.wire.feed(json.dumps({"type": kind}))
    assert "mode is ignored" in caplog.text
    assert stream.events == []


WORDS = ["One,", "two", "three.", "four?", "five"]
LEXICON = Lexicon()
AUDIO = {word: LEXICON.speech(Said(word), RATE).data for word in WORDS}
PIECE = RATE // 20 * 2


@given(
    script=st.lists(st.one_of(st.sampled_from([*WORDS, "flush"]), st.floats(0.02, 1.5)), min_size=1, max_size=24),
    cuts=st.lists(st.floats(0.1, 12.0), max_size=3),
    model=st.sampled_from(["universal-3-6-pro", "universal-streaming-english"]),
    decides=st.booleans(),
)
def test_whatever_connections_are_lost_each_word_is_settled_once_in_order(
    script: list[str | float], cuts: list[float], model: str, decides: bool
) -> None:
    """Words, silences and flushes, heard by a twin that is replaced at some positions, with the audio that is kept."""
    query = {"speech_model": [model], "sample_rate": [str(RATE)]}
    query |= {} if model == "universal-3-6-pro" else {"format_turns": ["true"]}
    query |= {} if decides else {"min_turn_silence": ["100"], "max_turn_silence": ["100"]}
    stream = Stream(formats_later="format_turns" in query, decides_turns=decides, eager_threshold=0.5)
    kept, wire, ends = stream.kept, stream.wire, sorted(cuts)
    session = TurnSession(Settings(query), LEXICON, "s")

    def send(item: bytes) -> None:
        for answer in session.audio(item) if item else session.text(FORCE_ENDPOINT):
            assert not isinstance(answer, Close)
            wire.feed(json.dumps(answer))

    held = b""
    for part in [*script, 1.5]:
        if part == "flush":
            wire.flush(kept.end)
            kept.push(b"", 0.0)
            send(b"")
            continue
        held += AUDIO[part] if isinstance(part, str) else bytes(2 * round(round(part / 0.02) * 0.02 * RATE))
        while len(held) >= PIECE:
            item, held = held[:PIECE], held[PIECE:]
            kept.push(item, 0.05)
            send(item)
            wire.pushed(kept.end)
            if ends and kept.end >= ends[0]:
                ends.pop(0)
                wire.begin()
                stream.offset = kept.start
                session = TurnSession(Settings(query), LEXICON, "s")
                for piece in kept.pieces():
                    send(piece.item)
    assert all(stream.texts), "no words were shown in vain"
    said = [part.strip(".,?").casefold() for part in script if isinstance(part, str) and part != "flush"]
    assert [word.strip(".,?").casefold() for word in " ".join(stream.texts).split()] == said
