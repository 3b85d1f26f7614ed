"""Server-sent events and JSON lines are the same however the network cuts them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.net import streams
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import EventReader, Lines, ServerEvent, json_object, json_value

FAILURES = Failures(provider="test")

# The examples of the specification, and what servers do.
STREAMS = [
    (b"data: YHOO\ndata: +2\ndata: 10\n\n", [ServerEvent("YHOO\n+2\n10")]),
    (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [ServerEvent("first event", id="1"), ServerEvent("second event"), ServerEvent(" third event")],
    ),
    (b"data\n\ndata\ndata\n\ndata:", [ServerEvent(""), ServerEvent("\n")]),
    (b"data:test\n\ndata: test\n\n", [ServerEvent("test"), ServerEvent("test")]),
    (b"event: add\ndata: 73857293\n\nevent: none\n\ndata: 2\n\n", [ServerEvent("73857293", "add"), ServerEvent("2")]),
    (b"\xef\xbb\xbfdata: behind a mark\r\n\r\n", [ServerEvent("behind a mark")]),
    (b"data: by returns\r\rdata: mixed\r\n\n", [ServerEvent("by returns"), ServerEvent("mixed")]),
    (b"data: one\r\ndata: event\r\n\r\ndata: more\r\n\r\n", [ServerEvent("one\nevent"), ServerEvent("more")]),
    (b": OPENROUTER PROCESSING\n\nretry: 10\ndata: [DONE]\n\n", [ServerEvent("[DONE]")]),
    ("data: größer ✓\n\n".encode(), [ServerEvent("größer ✓")]),
    (b"data: a line\xe2\x80\xa8of one\n\n", [ServerEvent("a line\u2028of one")]),
    (b"data: cut off\n", []),
    (b"", []),
]


def events(body: bytes, cuts: list[int]) -> list[ServerEvent]:
    reader = EventReader(FAILURES)
    edges = [0, *sorted(at % (len(body) + 1) for at in cuts), len(body)]
    return [event for a, b in zip(edges, edges[1:], strict=False) for event in reader.feed(body[a:b])]


@pytest.mark.parametrize(("body", "expected"), STREAMS)
def test_events_are_those_of_the_specification(body: bytes, expected: list[ServerEvent]) -> None:
    assert events(body, []) == expected


@given(st.sampled_from(STREAMS), st.lists(st.integers(min_value=0)))
def test_events_do_not_depend_on_the_cuts(stream: tuple[bytes, list[ServerEvent]], cuts: list[int]) -> None:
    body, expected = stream
    assert events(body, cuts) == expected
    assert events(body, list(range(len(body)))) == expected


@pytest.mark.parametrize(
    ("between", "retryable", "says"),
    [
        (b'{\n  "error": {\n    "code": 503,\n    "message": "Overloaded"\n  }\n}\n', True, "status 503; Overloaded"),
        (b'[{"error": {"code": 400, "message": "no"}}]\n', False, "status 400; no"),
        (b'{"error": {"type": "overloaded_error"}}\n', True, "overloaded_error"),
    ],
)
def test_an_error_that_stands_between_the_events_as_plain_json_is_read(
    between: bytes, retryable: bool, says: str
) -> None:
    reader = EventReader(FAILURES)
    assert reader.feed(b"data: one\n\n" + between) == [ServerEvent("one")]
    error = reader.error()
    assert error is not None
    assert says in str(error)
    assert error.retryable is retryable


@pytest.mark.parametrize(("body", "_"), [*STREAMS, (b'data: a\n\n{"b": 1}\n{\n', []), (b'"text"\nnull\n', [])])
def test_a_stream_without_such_an_error_has_none(body: bytes, _: object) -> None:
    reader = EventReader(FAILURES)
    reader.feed(body)
    assert reader.error() is None


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n", codec="utf-8"))), st.integers(1, 5))
def test_lines_do_not_depend_on_the_cuts(texts: list[str], size: int) -> None:
    lines = Lines(FAILURES, streams.LINE_FEED)
    body = "\n".join(texts).encode()
    found = [line for at in range(0, len(body), size) for line in lines.feed(body[at : at + size])]
    found += lines.feed(b"", is_last=True)
    assert found == (texts if texts and texts[-1] else texts[:-1])


@pytest.mark.parametrize("body", [b"data: \xff\n\n", b"\xc3(\n"])
def test_bytes_that_are_no_text_are_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProviderProtocolError, match="UTF-8"):
        EventReader(FAILURES).feed(body)
    with pytest.raises(ProviderProtocolError, match="UTF-8"):
        Lines(FAILURES).feed(b"\xc3", is_last=True)


@pytest.mark.parametrize("piece", [b"x" * 1000, b"data: " + b"x" * 1000 + b"\n"])
def test_a_line_and_an_event_without_an_end_are_refused(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_CHARACTERS", 10_000)
    reader = EventReader(FAILURES)
    with pytest.raises(ProviderProtocolError, match="at most 10000"):
        [reader.feed(piece) for _ in range(20)]


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000, b"\xff"])
def test_a_text_that_is_no_json_is_a_protocol_error_without_the_text(text: str | bytes) -> None:
    with pytest.raises(ProviderProtocolError) as caught:
        json_value(text, FAILURES)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("value", [None, 17, [], "text"])
def test_a_value_that_is_no_object_is_a_protocol_error(value: object) -> None:
    with pytest.raises(ProviderProtocolError, match="object"):
        json_object(json.dumps(value), FAILURES)
    assert json_object('{"a": 1}', FAILURES) == {"a": 1}
