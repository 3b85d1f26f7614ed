"""The protocol of peers without I/O: frames as texts, their order, and whatever else may come."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.peers.messages import named
from vivavoce.agents.peers.wire import (
    MAX_FRAME,
    MAX_OPEN,
    Call,
    Cancel,
    Delivery,
    Hello,
    Outcome,
    PeerProtocolError,
    PeerWire,
    Refused,
    Takes,
    decode,
    encode,
)
from vivavoce.pipelines.core.errors import ConfigurationError

FRAMES = (
    Hello(id="desk", wants="dialogues", dialogues=("dialogue:1",), takes=("", "Question"), traceparent="00-1-2-01"),
    Refused(detail="no"),
    Takes(models=("Note",)),
    Call(number=3, wants_answer=True, model="Question", content={"words": 'é "quoted" \n'}),
    Delivery(number=4, dialogue="d", session_id="c", sender="a", receiver="b", model="model:1", content='{"x": 1}'),
    Outcome(number=3, status="rejected", detail="it takes nothing", content=[1, None, "x"]),
    Cancel(number=3),
)
JSON = st.sampled_from([None, True, 0, 1, 2, 3, -1, 2**60, 1.5, "", "Question", [], ["x"], [1], {"a": 1}])
KINDS = ["hello", "refused", "takes", "call", "delivery", "outcome", "cancel"]
FIELDS = "number wants_answer model content traceparent status detail models id wants dialogues takes version".split()
ODD = st.text() | st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional=dict.fromkeys(FIELDS, JSON)).map(
    json.dumps
)


def open_wire() -> PeerWire:
    """A wire whose other end has said hello, and which has made two calls."""
    wire = PeerWire(Hello(id="here"))
    wire.take(encode(Hello(id="there", takes=("Question",))))
    wire.call(Call(model="Question"))
    wire.call(Call(model="Question"))
    return wire


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_is_read_as_it_was_written(frame: Any) -> None:
    assert decode(encode(frame)) == frame
    assert decode(json.dumps({**json.loads(encode(frame)), "of a later version": 1})) == frame


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '{"type": 7}',
        '{"type": "bye"}',
        '{"type": "call", "number": "1"}',
        '{"type": "call", "number": -1}',
        '{"type": "call", "number": true}',
        '{"type": "call", "number": NaN}',
        '{"type": "call", "number": 1e400}',
        '{"type": "cancel"}',
        '{"type": "takes", "models": "Note"}',
        '{"type": "outcome", "status": "lost"}',
        '{"type": "hello", "wants": "all"}',
        "[" * 100_000,
        '{"type": "call", "content": ' + "9" * 5_000 + "}",
    ],
)
def test_what_is_no_frame_breaks_the_protocol(text: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        decode(text)
    assert len(str(caught.value)) < 100


@given(st.lists(ODD, max_size=5))
def test_whatever_comes_ends_the_connection_or_is_a_frame_that_may_come(texts: list[str]) -> None:
    wire = open_wire()
    for text in texts:
        try:
            frame = wire.take(text)
        except PeerProtocolError:
            return
        assert frame is None or isinstance(frame, Call | Delivery | Outcome | Takes | Cancel)
        assert (wire.other.id, wire.own.id) == ("there", "here")


def test_texts_of_the_other_end_for_errors_and_logs_are_short_and_one_line() -> None:
    for text in ("x" * 400_000, "no\n\x1b[2J" * 1000):
        for frame in (Outcome(detail=text, model=text), Hello(id=text), Refused(detail=text)):
            read = decode(encode(frame))
            for name in {"id", "detail", "model"} & {one.name for one in fields(read)}:
                assert len(getattr(read, name)) <= 500
                assert getattr(read, name).isprintable()
    assert len(named(tuple(str(number) for number in range(100_000)))) <= 501


def test_the_first_frame_is_a_hello_and_there_is_one() -> None:
    for first in (*FRAMES[2:],):
        with pytest.raises(PeerProtocolError, match="the first frame is no hello"):
            PeerWire(Hello()).take(encode(first))
    for second in FRAMES[:2]:
        with pytest.raises(PeerProtocolError, match="behind the hello"):
            open_wire().take(encode(second))


def test_an_outcome_ends_its_call_once_and_one_of_no_call_breaks_the_protocol() -> None:
    wire = open_wire()
    assert wire.take(encode(Outcome(number=2, content="x"))) == Outcome(number=2, content="x")
    assert wire.take(encode(Outcome(number=2))) is None
    assert wire.cancel(1) == encode(Cancel(number=1))
    assert wire.cancel(1) == ""
    assert wire.take(encode(Outcome(number=1))) is None
    for number in (0, 3):
        with pytest.raises(PeerProtocolError, match="a call that was never made"):
            wire.take(encode(Outcome(number=number)))


def test_the_numbers_of_calls_count_up_and_only_so_many_are_open() -> None:
    wire = open_wire()
    wire.take(encode(Call(number=5)))
    for number in (5, 4):
        with pytest.raises(PeerProtocolError, match="does not count up"):
            wire.take(encode(Call(number=number)))
    for number in range(6, 5 + MAX_OPEN):
        wire.take(encode(Call(number=number)))
    with pytest.raises(PeerProtocolError, match="without an outcome"):
        wire.take(encode(Call(number=9000)))
    wire.take(encode(Cancel(number=5)))
    assert wire.outcome(6, Outcome(content="x")) == encode(Outcome(number=6, content="x"))
    wire.take(encode(Call(number=9000)))
    wire.take(encode(Call(number=9001)))


def test_the_models_that_the_other_end_takes_may_change() -> None:
    wire = open_wire()
    wire.take(encode(Takes(models=("Note",))))
    assert (wire.other.takes, wire.other.id) == (("Note",), "there")


def test_a_message_that_is_too_long_or_no_json_is_refused_and_takes_no_number() -> None:
    wire = open_wire()
    for content, match in (
        ("é" * (MAX_FRAME // 2), "may have 1,048,576 bytes"),
        (float("nan"), "must be JSON"),
        ({1, 2}, "must be JSON"),
        ("\ud800", "must be JSON"),
    ):
        with pytest.raises(ConfigurationError, match=match):
            wire.call(Call(content=content))
    assert wire.call(Call())[0] == 3
    wire.take(encode(Call(number=1)))
    failed = decode(wire.outcome(1, Outcome(content="x" * MAX_FRAME)))
    assert isinstance(failed, Outcome)
    assert failed.status == "failed"
    assert "the answer cannot be sent: a message may have" in failed.detail
