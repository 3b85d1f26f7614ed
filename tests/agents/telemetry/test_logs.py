"""Logs: each record has the ids of its own session and turn, JSON is a line, no content, no secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kit.logged_calls import Finder, cascading, in_job, mine, realtime
from vivavoce.agents import AgentSession, SessionOptions
from vivavoce.agents.cli.running import configure_logging
from vivavoce.agents.telemetry.logs.logs import ContextFilter, JsonFormatter, TextFormatter, mask
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import VirtualClock, run_virtual


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The log, as JSON."""
    root, out = logging.getLogger(), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(ContextFilter())
    handler.setFormatter(JsonFormatter())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield out
    root.removeHandler(handler)
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def call(pipeline: Pipeline, name: str, *, captures: bool = False) -> AgentSession[None]:
    clock = VirtualClock()
    options = SessionOptions(clock=clock, capture_content=captures)
    async with in_job(f"job of {name}"):
        session = AgentSession[None](Finder("Secret orders."), pipeline, options=options, id=name)
        async with session:
            await session.start(LocalTransport(clock))
            session.input.text("a secret question")
            await asyncio.sleep(3.0)  # noqa: TID251 - virtual, and not the session's own
            mine.warning("from outside")
    return session


@pytest.mark.parametrize("make", [cascading, realtime])
def test_records_carry_the_ids_of_their_own_session_and_turn(make: Any, stream: io.StringIO) -> None:
    async def both() -> list[AgentSession[None]]:
        return list(await asyncio.gather(call(make(), "one"), call(make(), "two")))

    sessions = run_virtual(both())
    found = [line for line in lines(stream) if line["message"] == "looking"]
    ids = sorted((line["session_id"], line["job_id"], line["turn_id"], line["shelf"]) for line in found)  # two at once
    assert ids == [(session.id, f"job of {session.id}", session.turns[0].turn_id, 4) for session in sessions]
    raised = [line for line in lines(stream) if "raised ValueError" in line["message"]]
    assert {(line["session_id"], line["turn_id"]) for line in raised} == {
        (session.id, session.turns[0].turn_id) for session in sessions
    }
    outside = [line for line in lines(stream) if line["message"] == "from outside"]
    assert [line.get("session_id", "") for line in outside] == ["", ""]  # a session marks nothing but its own tasks
    told = [line for line in lines(stream) if line["message"].startswith(sessions[0].turns[0].turn_id)]
    assert {line["turn_id"] for line in told} == {sessions[0].turns[0].turn_id}


@pytest.mark.parametrize("make", [cascading, realtime])
def test_no_content_is_logged_unless_asked_for(make: Any, stream: io.StringIO) -> None:
    run_virtual(call(make(), "one"))
    text = stream.getvalue()
    assert "secret" not in text.lower()
    assert "card is 4711" not in text
    assert "its text may hold content" in text
    assert "in look_up" in text  # the lines of code are there
    stream.truncate(0)
    stream.seek(0)
    run_virtual(call(make(), "two", captures=True))
    assert "card is 4711" in stream.getvalue()


def test_a_line_is_an_object_with_its_time_its_exception_and_no_secret(stream: io.StringIO) -> None:
    try:
        raise KeyError("lost")
    except KeyError:
        mine.exception("it broke:\n%s", "twice", extra={"api_key": "abc", "count": 2, "thing": object})
    (line,) = lines(stream)
    assert line["message"] == "it broke:\ntwice"
    assert (line["level"], line["logger"], line["count"]) == ("ERROR", "my.app", 2)
    assert line["api_key"] == "•••"
    assert line["time"].endswith("Z")
    assert "KeyError: 'lost'" in line["exception"]  # an application's own error is unchanged
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
def test_half_a_character_in_a_line_does_not_cost_the_line(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("my.app", logging.INFO, "app.py", 1, "no such file %r \udcff \ud83d", ("a\udcff",), None)
    line = formatter.format(record)
    line.encode()
    assert "no such file" in line
    assert "\ufffd \ufffd" in line


def test_the_trace_is_that_of_the_current_span(stream: io.StringIO) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("turn") as span:
        mine.info("inside")
    mine.info("outside")
    inside, outside = lines(stream)
    context = span.get_span_context()
    assert (inside["trace_id"], inside["span_id"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert "trace_id" not in outside


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET /rtc?access_token=eyJhbGciOi.eyJzdWIi.c2ln&x=1", "GET /rtc?access_token=•••&x=1"),
        ("Authorization: Bearer abcdefghijk", "Authorization: Bearer •••"),
        ("key sk-abcdefghijklmnop1234 refused", "key ••• refused"),
        ("api_secret='hush' next", "api_secret='•••' next"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.c2lnbmF0dXJl", "token •••"),
        ("max_tokens=5 and a basic thing", "max_tokens=5 and a basic thing"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    assert mask(text) == shown


def test_the_commands_log_as_text_or_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        monkeypatch.setenv("LOG_FORMAT", "json")
        configure_logging(logging.INFO)
        mine.info("hello", extra={"session_id": "s1"})
        assert json.loads(capsys.readouterr().err)["session_id"] == "s1"
        configure_logging(logging.INFO, "text")
        mine.info("hello", extra={"session_id": "s1", "turn_id": "t1"})
        assert capsys.readouterr().err.endswith("INFO    my.app [s1 t1]: hello\n")
        with pytest.raises(ConfigurationError, match="'yaml'"):
            configure_logging(logging.INFO, "yaml")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert TextFormatter().format(logging.makeLogRecord({"msg": "x", "name": "n"})).endswith("n: x")
