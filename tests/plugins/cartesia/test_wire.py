"""The messages of Cartesia's websocket, without a server."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ProviderProtocolError, ProviderStatusError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.tts.base import Word
from vivavoce.plugins.cartesia import TTSOptions, wire
from vivavoce.plugins.cartesia.wire import Audio, Done, Failed, Words

FAILURES = Failures(provider="cartesia")
FIELDS = wire.settings("sonic-3.5", "v", "en", TTSOptions())


def test_a_request_holds_the_settings_and_the_text_as_it_is() -> None:
    assert json.loads(wire.speak(FIELDS, "c", "Hello, ")) == {
        "model_id": "sonic-3.5",
        "voice": {"mode": "id", "id": "v"},
        "language": "en",
        "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000},
        "add_timestamps": True,
        "max_buffer_delay_ms": 0,
        "context_id": "c",
        "transcript": "Hello, ",
        "continue": True,
    }
    assert json.loads(wire.speak(FIELDS, "c", "", is_last=True))["continue"] is False
    assert json.loads(wire.cancel("c")) == {"context_id": "c", "cancel": True}


def test_the_documented_messages_are_events() -> None:
    """The examples of https://docs.cartesia.ai/2026-03-01/api-reference/tts/websocket."""
    common = {"status_code": 206, "context_id": "c", "done": False}
    data = base64.b64encode(b"\1\0\2").decode()
    times = {"words": ["Hello", "world"], "start": [0, 0.5], "end": [0.4, 0.9]}
    phonemes = {"phonemes": ["h"], "start": [0.093], "end": [0.174]}
    said = [
        {"type": "chunk", "data": data, "step_time": 123, **common},
        {"type": "timestamps", "word_timestamps": times, **common},
        {"type": "phoneme_timestamps", "phoneme_timestamps": phonemes, **common},
        {"type": "flush_done", "flush_done": True, "flush_id": 1, **common},
        {"type": "done", **common, "done": True},
    ]
    assert [wire.event(json.dumps(each), FAILURES) for each in said] == [
        Audio("c", b"\1\0\2"),
        Words("c", (Word("Hello", 0.0, 0.4), Word("world", 0.5, 0.9))),
        None,
        None,
        Done("c"),
    ]


def failed(**fields: object) -> Failed:
    event = wire.event(json.dumps({"type": "error", "done": True, **fields}), FAILURES)
    assert isinstance(event, Failed)
    return event


def test_an_error_has_status_name_text_and_request_in_both_forms() -> None:
    new = failed(
        title="Too many concurrent requests",
        message="You have exceeded your plan's concurrency limit.",
        error_code="concurrency_limited",
        status_code=429,
        request_id="r_1",
        context_id="c",
    )
    assert new.context == "c"
    assert new.error.retryable
    for fact in ("status 429", "concurrency_limited", "request r_1", "Too many concurrent requests: You have"):
        assert fact in str(new.error)
    old = failed(error="Invalid model: The model is not valid.", status_code=400, context_id="c")
    assert isinstance(old.error, ProviderStatusError)
    assert "Invalid model: The model is not valid." in str(old.error)
    assert not old.error.retryable


def test_an_error_without_a_context_or_a_status_is_one_of_the_whole_connection() -> None:
    assert failed(title="Internal", message="x", error_code=None, status_code=500).context == ""
    assert failed(message="x", status_code="?", context_id=5).error.retryable


@pytest.mark.parametrize(
    "message",
    [
        {"type": "chunk", "context_id": "c"},
        {"type": "chunk", "context_id": "c", "data": "?"},
        {"type": "timestamps", "context_id": "c"},
        {"type": "timestamps", "context_id": "c", "word_timestamps": {"words": ["a"], "start": 0, "end": [1]}},
        {"type": "timestamps", "context_id": "c", "word_timestamps": {"words": ["a"], "start": ["b"], "end": [1]}},
        {"type": "timestamps", "context_id": "c", "word_timestamps": {"words": ["a"], "start": [-1], "end": [1]}},
    ],
)
def test_a_malformed_message_is_an_error_without_its_content(message: dict[str, object]) -> None:
    with pytest.raises(ProviderProtocolError, match="is the server compatible"):
        wire.event(json.dumps(message), FAILURES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = "type context_id data word_timestamps words start end status_code error_code title message error".split()
KINDS = st.sampled_from(["chunk", "timestamps", "done", "error", "flush_done"])
MESSAGES = st.dictionaries(st.sampled_from(NAMES), JSON | KINDS) | JSON


@given(MESSAGES, KINDS, st.booleans())
def test_any_message_is_an_event_or_nothing_or_an_error_of_the_protocol(
    message: object, kind: str, is_known: bool
) -> None:
    if is_known and isinstance(message, dict):
        message = {**message, "type": kind, "context_id": "c"}
    try:
        event = wire.event(json.dumps(message), FAILURES)
    except ProviderProtocolError:
        return
    assert event is None or isinstance(event, Audio | Words | Done | Failed)
