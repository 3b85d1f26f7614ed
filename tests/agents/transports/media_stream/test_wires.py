"""The vendors' messages, as their public documentation has them, and everything else that may come."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.wanted import all_are_wanted
from vivavoce.agents.transports.media_stream.coding import Coding, l16
from vivavoce.agents.transports.media_stream.plivo.wire import PlivoWire
from vivavoce.agents.transports.media_stream.raw.wire import RawWire
from vivavoce.agents.transports.media_stream.telnyx.wire import TelnyxWire
from vivavoce.agents.transports.media_stream.twilio.wire import TwilioWire
from vivavoce.agents.transports.media_stream.vonage.wire import VonageWire
from vivavoce.agents.transports.media_stream.wire import (
    Failed,
    Heard,
    KeyPressed,
    MarkPlayed,
    MediaWire,
    Message,
    Started,
    Stopped,
    WireError,
)
from vivavoce.pipelines.media import g711

CODES = bytes(range(160))
IN_BASE64 = base64.b64encode(CODES).decode()
MULAW, ALAW = g711.decode(CODES, "mulaw"), g711.decode(CODES, "alaw")

TWILIO: list[dict[str, Any]] = [
    {"event": "connected", "protocol": "Call", "version": "1.0.0"},
    {
        "event": "start",
        "sequenceNumber": "1",
        "start": {
            "accountSid": "AC1",
            "streamSid": "MZ1",
            "callSid": "CA1",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
            "customParameters": {"from": "+15550100", "to": "+15550199", "token": "t"},
        },
        "streamSid": "MZ1",
    },
    {
        "event": "media",
        "sequenceNumber": "3",
        "media": {"track": "inbound", "chunk": "1", "timestamp": "5", "payload": IN_BASE64},
        "streamSid": "MZ1",
    },
    {
        "event": "dtmf",
        "streamSid": "MZ1",
        "sequenceNumber": "5",
        "dtmf": {"track": "inbound_track", "digit": "1"},
    },
    {"event": "mark", "sequenceNumber": "4", "streamSid": "MZ1", "mark": {"name": "my label"}},
    {"event": "stop", "sequenceNumber": "5", "stop": {"accountSid": "AC1", "callSid": "CA1"}, "streamSid": "MZ1"},
]
TELNYX: list[dict[str, Any]] = [
    {"event": "connected", "version": "1.0.0"},
    {
        "event": "start",
        "sequence_number": "1",
        "start": {
            "user_id": "u",
            "call_control_id": "v2:1",
            "call_session_id": "s",
            "from": "+15550100",
            "to": "+15550199",
            "tags": [],
            "client_state": "aGVsbG8=",
            "custom_parameters": {"token": "t"},
            "media_format": {"encoding": "PCMA", "sample_rate": 8000, "channels": 1},
        },
        "stream_id": "MZ1",
    },
    {
        "event": "media",
        "sequence_number": "4",
        "media": {"track": "inbound", "chunk": "2", "timestamp": "5", "payload": IN_BASE64},
        "stream_id": "MZ1",
    },
    {"event": "dtmf", "stream_id": "MZ1", "occurred_at": "…", "sequence_number": "5", "dtmf": {"digit": "1"}},
    {"event": "mark", "sequence_number": "5", "mark": {"name": "my label"}, "stream_id": "MZ1"},
    {"event": "stop", "sequence_number": "5", "stop": {"user_id": "u", "call_control_id": "v2:1"}, "stream_id": "MZ1"},
]
PLIVO: list[dict[str, Any]] = [
    {
        "event": "start",
        "sequenceNumber": 0,
        "start": {
            "callId": "c1",
            "streamId": "MZ1",
            "accountId": "a",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000},
        },
        "extra_headers": "from=15550100;to=15550199;token=t",
    },
    {
        "event": "media",
        "sequenceNumber": 42,
        "streamId": "MZ1",
        "media": {"track": "inbound", "timestamp": "5", "chunk": 1, "payload": IN_BASE64},
        "extra_headers": "",
    },
    {"event": "dtmf", "sequenceNumber": 5, "streamId": "MZ1", "dtmf": {"track": "inbound", "digit": "1"}},
    {"event": "playedStream", "sequenceNumber": 6, "streamId": "MZ1", "name": "my label"},
    {"event": "clearedAudio", "sequenceNumber": 7, "streamId": "MZ1"},
]
VONAGE: list[dict[str, Any] | bytes] = [
    {
        "event": "websocket:connected",
        "content-type": "audio/l16;rate=16000",
        "from": "15550100",
        "to": "15550199",
        "call": "c1",
        "token": "t",
    },
    bytes(640),
    {"event": "websocket:dtmf", "digit": "1", "duration": 260},
    {"event": "websocket:notify", "payload": {"name": "my label"}},
    {"event": "websocket:cleared"},
]
RAW: list[dict[str, Any] | bytes] = [
    {"event": "start", "sample_rate": 16000, "call_id": "c1", "from": "1", "to": "2", "parameters": {"token": "t"}},
    bytes(640),
    {"event": "key", "key": "1"},
    {"event": "mark", "name": "my label"},
    {"event": "stop"},
]
WIRES: dict[Any, Any] = {
    TwilioWire: TWILIO,
    TelnyxWire: TELNYX,
    PlivoWire: PLIVO,
    VonageWire: VONAGE,
    RawWire: RAW,
}
Make = Callable[[], MediaWire]


def text(message: Any) -> Message:
    return message if isinstance(message, bytes) else json.dumps(message)


def begun(make: Make) -> MediaWire:
    """Return a wire whose stream has started."""
    wire = make()
    for message in WIRES[make]:
        if any(isinstance(event, Started) for event in wire.receive(text(message))):
            break
    return wire


@pytest.mark.parametrize("make", WIRES)
def test_the_examples_of_the_documentation_are_understood(make: Make) -> None:
    wire = make()
    found = [event for message in WIRES[make] for event in wire.receive(text(message))]
    started, heard = found[0], found[1]
    assert isinstance(started, Started)
    assert started.parameters == {"token": "t"}
    assert started.call_id in ("CA1", "v2:1", "c1")
    assert (started.number[-4:], started.called_number[-4:]) in (("0100", "0199"), ("1", "2"))
    assert isinstance(heard, Heard)
    expected: dict[Any, bytes] = {TwilioWire: MULAW, TelnyxWire: ALAW, PlivoWire: MULAW}
    assert heard.pcm == expected.get(make, bytes(640))
    ends = [Stopped()] if make in (TwilioWire, TelnyxWire, RawWire) else []
    assert found[2:] == [KeyPressed("1"), MarkPlayed("my label"), *ends]


def test_the_messages_to_twilio() -> None:
    wire = begun(TwilioWire)
    payload = {"payload": IN_BASE64}
    assert json.loads(wire.audio(MULAW))["media"]["payload"][:-64] == IN_BASE64[:-64]
    assert json.loads(wire.audio(g711.decode(CODES, "mulaw"))) | {"media": payload} == {
        "event": "media",
        "streamSid": "MZ1",
        "media": payload,
    }
    assert json.loads(wire.mark("0:1")) == {"event": "mark", "streamSid": "MZ1", "mark": {"name": "0:1"}}
    assert json.loads(wire.clear()) == {"event": "clear", "streamSid": "MZ1"}


def test_telnyx_gets_the_form_that_was_asked_for_and_sends_that_of_the_phone() -> None:
    wire = begun(TelnyxWire)  # the phone's leg has A-law
    assert base64.b64decode(json.loads(wire.audio(bytes(4)))["media"]["payload"]) == b"\xff\xff"
    assert json.loads(wire.mark("0:1")) == {"event": "mark", "mark": {"name": "0:1"}}
    assert json.loads(wire.clear()) == {"event": "clear"}
    wide = TelnyxWire(l16(16000))
    assert (wide.output_rate, wide.input_rate) == (16000, 8000)


def test_the_messages_to_plivo_and_vonage() -> None:
    plivo, vonage = begun(PlivoWire), begun(VonageWire)
    assert json.loads(plivo.audio(bytes(4))) == {
        "event": "playAudio",
        "media": {"contentType": "audio/x-mulaw", "sampleRate": 8000, "payload": "//8="},
    }
    assert json.loads(plivo.mark("0:1")) == {"event": "checkpoint", "streamId": "MZ1", "name": "0:1"}
    assert json.loads(plivo.clear()) == {"event": "clearAudio", "streamId": "MZ1"}
    assert json.loads(plivo.keys("12#") or "") == {"event": "sendDTMF", "dtmf": "12#"}
    assert vonage.keys("12#") is None
    assert vonage.audio(b"\x01\x00" * 100) == b"\x01\x00" * 100 + bytes(440)  # exactly one frame
    assert json.loads(vonage.mark("0:1")) == {"action": "notify", "payload": {"name": "0:1"}}
    assert json.loads(vonage.clear()) == {"action": "clear"}


@pytest.mark.parametrize("make", WIRES)
def test_a_second_start_and_what_comes_before_the_first_are_refused(make: Make) -> None:
    wire = make()
    start = next(each for each in WIRES[make] if not isinstance(each, bytes) and "connected" != each["event"])
    others = [each for each in WIRES[make] if each is not start]
    assert [event for event in _received(wire, others) if not isinstance(event, WireError)] == []
    assert isinstance(_received(wire, [start])[0], Started)
    again = _received(wire, [start])
    assert isinstance(again[0], WireError)
    assert "got a second one" in str(again[0])


def _received(wire: MediaWire, messages: list[Any]) -> list[Any]:
    found = list[Any]()
    for message in messages:
        try:
            found += wire.receive(text(message))
        except WireError as error:
            found.append(error)
    return found


@pytest.mark.parametrize("make", [TwilioWire, TelnyxWire, PlivoWire])
def test_another_stream_in_the_middle_is_refused(make: Make) -> None:
    wire = begun(make)
    names: dict[Any, str] = {TwilioWire: "streamSid", TelnyxWire: "stream_id", PlivoWire: "streamId"}
    media = next(each for each in WIRES[make] if each["event"] == "media")
    (error,) = _received(wire, [media | {names[make]: "MZ2"}])
    assert "got one of another" in str(error)
    assert isinstance(_received(wire, [media])[0], Heard)


@pytest.mark.parametrize(
    ("make", "message", "words"),
    [
        (TwilioWire, b"\x00", "needed a message of text, got 1 bytes"),
        (TwilioWire, "[" * 100_000, "needed a message in JSON"),
        (TwilioWire, {"event": "media", "streamSid": "MZ1", "media": []}, "needed an object in 'media'"),
        (TwilioWire, {"event": "media", "streamSid": "MZ1", "media": {"payload": 1}}, "needed audio in base64"),
        (TwilioWire, {"event": "dtmf", "streamSid": "MZ1", "dtmf": {"digit": "77"}}, "needed a key of a telephone"),
        (
            TwilioWire,
            {"event": "media", "streamSid": "MZ1", "media": {"payload": "", "chunk": "x"}},
            "needed a whole number in 'chunk', got 'x'",
        ),
        (TwilioWire, {"event": "dtmf", "streamSid": "MZ1", "dtmf": {"digit": ["77"]}}, "needed a text in 'digit'"),
        (TwilioWire, {"event": "dtmf", "streamSid": "MZ1", "dtmf": "77"}, "needed an object in 'dtmf', got a text"),
        (VonageWire, '{"event":"websocket:dtmf","digit":"77"', "needed a message in JSON, got 38 characters"),
        (RawWire, '["key", "77"]', "needed a JSON object, got a list"),
        (
            TwilioWire,
            {"event": "media", "streamSid": "MZ1", "media": {"payload": "", "timestamp": 10**400}},
            "needed a whole number in 'timestamp', got 1000",
        ),
        (VonageWire, bytes(3), "needed whole samples of 16 bits, got 3 bytes"),
        (RawWire, {"event": "dance"}, "got 'dance'"),
        (RawWire, "5", "needed a JSON object"),
    ],
)
def test_a_malformed_message_is_named(make: Make, message: Any, words: str) -> None:
    wire = begun(make)
    with pytest.raises(WireError) as caught:
        wire.receive(message if isinstance(message, str | bytes) else json.dumps(message))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200
    assert "77" not in str(caught.value)  # digits are secrets


@pytest.mark.parametrize(
    ("make", "path", "value", "words"),
    [
        (TwilioWire, ("start", "mediaFormat", "encoding"), "audio/opus", "got 'audio/opus'"),
        (TelnyxWire, ("start", "media_format", "encoding"), "G722", "allow only G.711 on the connection"),
        (TelnyxWire, ("start", "media_format", "encoding"), "x" * 100_000, "got 'X{59}… of 8000 Hz"),
        (PlivoWire, ("start", "mediaFormat", "sampleRate"), 44100, "got 'audio/x-mulaw' of 44100 Hz"),
        (VonageWire, ("content-type",), "audio/l16;rate=44100", "got 44100 Hz"),
        (RawWire, ("sample_rate",), 44100, "got 44100 Hz"),
    ],
)
def test_a_form_of_audio_that_is_unknown_is_refused_by_name(make: Make, path: Any, value: Any, words: str) -> None:
    start = json.loads(
        json.dumps(next(each for each in WIRES[make] if isinstance(each, dict) and each["event"] != "connected"))
    )
    at = start
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    with pytest.raises(WireError, match=words):
        make().receive(json.dumps(start))


def test_l16_with_the_high_byte_first() -> None:
    coding = Coding("l16", 16000, is_big_endian=True)
    assert coding.decode(b"\x01\x02\x03\x04") == b"\x02\x01\x04\x03"
    assert coding.encode(coding.decode(CODES)) == CODES


def test_an_error_that_telnyx_reports_is_an_event() -> None:
    wire = begun(TelnyxWire)
    (event,) = wire.receive(json.dumps({"event": "error", "payload": {"code": 100003, "title": "malformed_frame"}}))
    assert event == Failed("Telnyx reports an error of the stream: malformed_frame (100003)")
    assert isinstance(wire.receive('{"event": "error"}')[0], Failed)


# --- fuzz

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("make", WIRES)
@given(st.binary(max_size=40) | st.text(max_size=40) | VALUES.map(json.dumps))
def test_any_message_gives_events_or_an_error_of_the_wire(make: Make, message: Message) -> None:
    _received(begun(make), [message])
    _received(make(), [message])


def _mutated(message: Any, chance: random.Random) -> Message:
    """Return a message of the vendor with one thing wrong in it, or nothing."""
    if isinstance(message, bytes):
        return message[: chance.randrange(len(message) + 1)]
    whole = json.loads(json.dumps(message))
    at = whole
    for _ in range(chance.randrange(3)):
        inner = [value for value in at.values() if isinstance(value, dict)]
        at = chance.choice(inner) if inner else at
    foreign: list[Any] = [None, True, -1, 2**70, 0.5, "", "x", "9" * 30, [], {}, {"name": []}, "\u0000", "§", "AAA"]
    if at and (kind := chance.randrange(4)):
        name = chance.choice(list(at))
        if kind == 1:
            at[name] = chance.choice(foreign)
        elif kind == 2:
            del at[name]
        else:
            at[chance.choice(["event", "media", "start", name])] = at[name]
    said = json.dumps(whole)
    if chance.random() < 0.2:
        cut = chance.randrange(len(said))
        said = said[:cut] + chance.choice(["", "\x00", "é", said[:3]]) + said[cut + 1 :]
    return said.encode() if chance.random() < 0.02 else said


def _fuzz(make: Make, count: int) -> None:
    chance, wire, heard = random.Random(f"{make}"), make(), 0
    for number in range(count):
        if number % 200 == 0:
            wire = make()
        message = chance.choice(WIRES[make])
        try:
            events = wire.receive(_mutated(message, chance))
        except WireError as error:
            assert len(str(error)) < 400  # noqa: PT017 - every error of a hundred thousand
            continue
        for event in events:
            if isinstance(event, Heard):
                heard += 1
                assert len(event.pcm) % 2 == 0
                assert event.chunk is None or event.chunk >= -1
    assert heard > count / 100


@pytest.mark.parametrize("make", WIRES)
def test_messages_with_a_fault_in_them_give_events_or_an_error_of_the_wire(make: Make) -> None:
    _fuzz(make, 2_000)


@pytest.mark.test_all("100,000 messages of each wire")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", WIRES)
def test_a_hundred_thousand_messages_with_a_fault_in_them_do(make: Make) -> None:
    assert all_are_wanted()
    _fuzz(make, 100_000)
