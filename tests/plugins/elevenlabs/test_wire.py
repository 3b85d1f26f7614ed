"""The messages of ElevenLabs' voices, without a server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ProviderProtocolError, ProviderStatusError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.tts.base import Word
from vivavoce.plugins.elevenlabs import TTSOptions, wire
from vivavoce.plugins.elevenlabs.client import PROVIDER, STATUSES
from vivavoce.plugins.elevenlabs.wire import Audio, Done, Failed, Letter, WordTimes

FAILURES = Failures(provider=PROVIDER, statuses=STATUSES)
DATA = base64.b64encode(b"\1\0\2").decode()


def event(**fields: object) -> wire.Event | None:
    return wire.event(json.dumps(fields), FAILURES)


def test_the_messages_of_a_context_are_those_of_the_documents() -> None:
    assert json.loads(wire.begin(wire.first_message(TTSOptions(speed=1.1)), "c")) == {
        "text": " ",
        "voice_settings": {"speed": 1.1},
        "context_id": "c",
    }
    assert json.loads(wire.speak("c", "Hello.")) == {"text": "Hello. ", "context_id": "c", "flush": True}
    assert json.loads(wire.close("c")) == {"context_id": "c", "close_context": True}


@pytest.mark.parametrize("many", ["", "s"])
@pytest.mark.parametrize("name", ["contextId", "context_id"])
def test_audio_and_its_characters_are_read_in_both_spellings(name: str, many: str) -> None:
    times: dict[str, Any] = {
        "chars": ["H", "i"],
        f"char{many}StartTimesMs": [0, 100],
        f"char{many}DurationsMs": [100, 50],
    }
    letters = (Letter("H", 0.0, 0.1), Letter("i", 0.1, 0.15))
    assert event(**{name: "c", "audio": DATA, "alignment": times}) == Audio("c", b"\1\0\2", letters)
    assert event(**{name: "c", "audio": DATA, "alignment": None, "normalizedAlignment": times}) == Audio(
        "c", b"\1\0\2", letters
    )
    assert event(**{name: "c", "audio": DATA}) == Audio("c", b"\1\0\2", ())
    assert event(**{name: "c", "isFinal": True, "audio": None}) == Done("c")
    assert event(**{name: "c", "is_final": True}) == Done("c")
    assert event(**{name: "c", "audio": None}) is None
    assert event(audio=DATA) is None


def test_an_error_has_the_status_that_its_name_means() -> None:
    failed = event(message="A voice with voice_id x does not exist.", error="voice_id_does_not_exist", code=1008)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, ProviderStatusError)
    assert (failed.context, failed.error.status, failed.error.retryable) == ("", 404, False)
    full = event(message="Maximum …", error="max_active_conversations", code=1008, contextId="c")
    assert isinstance(full, Failed)
    assert full.context == "c"
    assert full.error.retryable
    assert FAILURES.closed(1008, "Maximum simultaneous contexts per WebSocket connection exceeded (5).").retryable


@pytest.mark.parametrize(
    "message",
    [
        {"contextId": "c", "audio": "?"},
        {"contextId": "c", "audio": DATA, "alignment": {"chars": ["a"], "charStartTimesMs": 5, "charDurationsMs": [5]}},
        {"contextId": "c", "audio": DATA, "alignment": {"charStartTimesMs": [0], "charDurationsMs": [5]}},
        {"contextId": "c", "audio": DATA, "alignment": {"chars": [1], "charStartTimesMs": [0], "charDurationsMs": [5]}},
    ],
)
def test_a_malformed_message_is_an_error_without_its_content(message: dict[str, object]) -> None:
    with pytest.raises(ProviderProtocolError, match="is the server compatible"):
        event(**message)


TEXTS = st.lists(st.text("abc ", min_size=1, max_size=6), max_size=12)


@settings(max_examples=40)
@given(TEXTS, st.booleans())
def test_words_and_their_times_do_not_depend_on_the_messages_in_which_they_come(
    texts: list[str], is_absolute: bool
) -> None:
    """Each letter sounds for 0.1 s; 10 Hz, so that a letter is one sample."""
    times, words, at = WordTimes(10), list[Word](), 0
    for text in texts:
        start = at if is_absolute else 0
        letters = tuple(Letter(a, (start + n) / 10, (start + n + 1) / 10) for n, a in enumerate(text))
        words += times.take(Audio("c", b"\0\0" * len(text), letters))
        at += len(text)
    words += times.finish()
    whole = "".join(texts)
    assert [word.text for word in words] == whole.split()
    found = 0
    for word in words:
        found = whole.index(word.text, found)
        assert word.start == pytest.approx(found / 10)
        assert word.end == pytest.approx((found + len(word.text)) / 10)
        found += len(word.text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
TIMES = st.dictionaries(st.sampled_from("chars charStartTimesMs charsDurationsMs charDurationsMs".split()), JSON)
NAMES = "contextId context_id audio alignment normalizedAlignment isFinal is_final error message code".split()
MESSAGES = st.dictionaries(st.sampled_from(NAMES), JSON | TIMES) | JSON


@settings(max_examples=40)
@given(MESSAGES, st.booleans())
def test_any_message_is_an_event_or_nothing_or_an_error_of_the_protocol(message: object, is_audio: bool) -> None:
    if is_audio and isinstance(message, dict):
        message = {**message, "audio": DATA, "contextId": "c"}
    try:
        found = wire.event(json.dumps(message), FAILURES)
    except ProviderProtocolError:
        return
    assert found is None or isinstance(found, Audio | Done | Failed)
    if isinstance(found, Audio):
        WordTimes(24_000).take(found)
