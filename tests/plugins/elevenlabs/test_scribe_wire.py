"""The messages of the realtime recogniser, without a server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim
from vivavoce.plugins.elevenlabs.client import PROVIDER, STATUSES
from vivavoce.plugins.elevenlabs.scribe_wire import ERRORS, ScribeWire, chunk

RATE = 16_000
FAILURES = Failures(provider=PROVIDER, statuses=STATUSES)
PLAIN, COMMITTED = "committed_transcript", "committed_transcript_with_timestamps"


class Told:
    """A wire, and what it has told."""

    def __init__(self, *, silence: float | None = None, offset: float = 0.0) -> None:
        self.events: list[STTEvent] = []
        self.settled: list[float] = []
        self.wire = ScribeWire(
            "en",
            RATE,
            silence=silence,
            at=lambda seconds: offset + seconds,
            settle=self.settled.append,
            report=self.events.append,
            failures=FAILURES,
        )

    def hear(self, **fields: object) -> None:
        self.wire.feed(json.dumps(fields))

    def send(self, item: str | bytes) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.wire.encode(item))
        return message


def pcm(seconds: float) -> bytes:
    return bytes(round(seconds * RATE) * 2)


def word(text: str, start: float, end: float) -> dict[str, object]:
    return {"text": text, "start": start, "end": end, "type": "word", "logprob": 0.0}


def test_audio_and_commits_are_the_documented_messages_and_a_short_one_is_filled_up() -> None:
    told = Told()
    assert json.loads(chunk(b"\1\0", RATE)) == {
        "message_type": "input_audio_chunk",
        "audio_base_64": "AQA=",
        "commit": False,
        "sample_rate": RATE,
    }
    told.send(pcm(0.1))
    filled = told.send("commit")
    assert filled["commit"] is True
    assert len(base64.b64decode(filled["audio_base_64"])) == round(0.22 * RATE) * 2
    told.send(pcm(0.4))
    assert told.send("commit")["audio_base_64"] == ""


def test_times_leave_out_the_silence_that_was_added_and_count_from_the_streams_beginning() -> None:
    told = Told(offset=10.0)
    told.send(pcm(0.1))
    told.send("commit")
    told.hear(message_type=PLAIN, text="")
    told.send(pcm(1.0))
    told.send("commit")
    told.hear(message_type=COMMITTED, text="Hi you.", words=[word("Hi", 0.42, 0.62), word("you.", 0.72, 0.92)])
    final = told.events[-1]
    assert isinstance(final, STTFinal)
    times = [time for one in final.words for time in (one.start, one.end)]
    assert times == pytest.approx([10.2, 10.4, 10.5, 10.7])
    assert told.settled == pytest.approx([10.1, 11.1])


def test_the_services_own_commits_settle_no_more_than_was_heard_before_the_pause() -> None:
    told = Told(silence=1.5)
    told.send(pcm(4.0))
    told.hear(message_type=COMMITTED, text="Hi.", words=[word("Hi.", 3.0, 3.2)])  # times that have run ahead
    assert told.settled == pytest.approx([2.5])


def test_words_without_times_or_of_another_type_are_left_out_and_the_text_stays() -> None:
    told = Told()
    told.send(pcm(1.0))
    told.send("commit")
    told.hear(message_type=COMMITTED, text="Hi you.", words=None, language_code="de")
    told.hear(message_type=COMMITTED, text="Well.", words=[{"text": " ", "type": "spacing"}, word("Well.", 1.0, 1.2)])
    first, second = told.events
    assert isinstance(first, STTFinal)
    assert isinstance(second, STTFinal)
    assert (first.text, first.words, first.language, first.confidence) == ("Hi you.", (), "de", None)
    assert [one.text for one in second.words] == ["Well."]


@pytest.mark.parametrize("has_empty", [False, True])
@pytest.mark.parametrize("is_delayed", [False, True])
def test_each_commit_has_one_final_whether_or_not_an_empty_one_comes_twice(has_empty: bool, is_delayed: bool) -> None:
    told = Told()
    texts = ["", "One.", "", "Two."]
    plain: list[dict[str, Any]] = [{"message_type": PLAIN, "text": text} for text in texts]
    timed: list[dict[str, Any]] = [
        {"message_type": COMMITTED, "text": text, "words": [word(text, at + 0.1, at + 0.4)] if text else []}
        for at, text in enumerate(texts)
    ]
    for _ in texts:
        told.send(pcm(1.0))
        told.send("commit")
    pairs = [*plain, *timed] if is_delayed else [one for pair in zip(plain, timed, strict=True) for one in pair]
    for one in pairs:
        if has_empty or one["text"] or one["message_type"] == PLAIN:
            told.hear(**one)
    finals = [event for event in told.events if isinstance(event, STTFinal)]
    assert [final.text for final in finals] == texts
    assert [len(final.words) for final in finals] == [0, 1, 0, 1]
    assert told.settled == pytest.approx([1.0, 2.0, 3.0, 4.0])


def test_a_transcript_whose_times_do_not_come_is_reported_with_the_next_one() -> None:
    told = Told()
    for text in ("One.", "Two."):
        told.send(pcm(1.0))
        told.send("commit")
        told.hear(message_type=PLAIN, text=text)
    told.hear(message_type=COMMITTED, text="Two.", words=[word("Two.", 1.1, 1.4)])
    finals = [event for event in told.events if isinstance(event, STTFinal)]
    assert [(final.text, len(final.words)) for final in finals] == [("One.", 0), ("Two.", 1)]


@pytest.mark.parametrize("kind", sorted(ERRORS))
def test_each_error_of_the_service_is_raised(kind: str) -> None:
    with pytest.raises(ProviderError):
        Told().hear(message_type=kind, error="No.")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
KINDS = st.sampled_from(["session_started", "partial_transcript", PLAIN, COMMITTED, "warning", "of_the_future"])
WORDS = st.lists(
    st.fixed_dictionaries({}, optional={"text": JSON, "start": JSON, "end": JSON, "type": st.just("word")}), max_size=3
)
MESSAGES = st.fixed_dictionaries(
    {"message_type": KINDS}, optional={"text": JSON | st.text(), "words": JSON | WORDS, "language_code": JSON}
)


@settings(max_examples=40)
@given(st.lists(MESSAGES | JSON | st.sampled_from(["commit", "discard", "begin"]), max_size=8))
def test_any_message_is_an_event_or_nothing(messages: list[object]) -> None:
    told = Told()
    for message in messages:
        told.send(pcm(0.1))
        if message == "commit":
            told.send("commit")
        elif message == "discard":
            told.wire.discard(1.0)
            told.wire.unwanted()
        elif message == "begin":
            told.wire.begin()
        else:
            told.wire.feed(json.dumps(message))
    assert all(isinstance(event, STTFinal | STTInterim) for event in told.events)
