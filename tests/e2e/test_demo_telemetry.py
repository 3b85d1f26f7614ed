"""The demo's call in a collector, over HTTP and gRPC: tree, metrics and logs are read back, and match the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kit.e2e.demo_run import Ran
from kit.servers.otel_collector import Collector

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

Span = dict[str, Any]

OUTLIVES = {"tool", "tts", "llm", "attempt", "flow", "hook"}
"""May go on when the turn is over: tools by design, providers for as long as their close takes."""


class Tree:
    """Spans by their parents."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans = sorted(spans, key=lambda span: int(span["startTimeUnixNano"]))

    def below(self, span: Span) -> list[Span]:
        """Return the spans in a span, in the order of their starts."""
        return [each for each in self.spans if each.get("parentSpanId") == span["spanId"]]

    def of(self, kind: str) -> list[Span]:
        """Return the spans of a kind, in the order of their starts."""
        return [span for span in self.spans if kind_of(span) == kind]

    def one(self, kind: str) -> Span:
        """Return the only one."""
        (found,) = self.of(kind)
        return found

    def pairs(self) -> Iterator[tuple[Span, Span]]:
        """Yield each span with the one that it is in."""
        by_id = {span["spanId"]: span for span in self.spans}
        for span in self.spans:
            if span.get("parentSpanId"):
                yield span, by_id[span["parentSpanId"]]


def kind_of(span: Span) -> str:
    return str(span["attributes"]["vivavoce.kind"])


def is_dropped(span: Span) -> bool:
    """Whether it is a turn without an answer: a real recogniser may hear nothing in a line, which is then repeated."""
    return bool(span["attributes"].get("vivavoce.turn.outcome") == "dropped")


@pytest.fixture(
    params=[
        pytest.param(("on_livekit", "http_collector"), marks=pytest.mark.test_all("a second demo call")),
        ("on_embedded", "grpc_collector"),
    ],
    ids=["http", "grpc"],
)
def sent(request: pytest.FixtureRequest) -> tuple[Ran, Collector]:
    """A demo that has ended, and the collector that it sent to."""
    ran, collector = (request.getfixturevalue(name) for name in request.param)
    return ran, collector


@pytest.fixture
def ran(sent: tuple[Ran, Collector]) -> Ran:
    return sent[0]


@pytest.fixture
def collector(sent: tuple[Ran, Collector]) -> Collector:
    return sent[1]


@pytest.fixture
def tree(collector: Collector) -> Tree:
    return Tree(collector.spans())


@pytest.fixture
def turns(ran: Ran) -> list[dict[str, Any]]:
    """The turns of the report."""
    found: list[dict[str, Any]] = ran.report["turns"]
    return found


def test_the_call_is_one_tree_from_the_job_to_the_last_step_of_the_close(ran: Ran, tree: Tree) -> None:
    job, session = tree.one("job"), tree.one("session")
    assert "parentSpanId" not in job or not job["parentSpanId"]
    assert len({span["traceId"] for span in tree.spans}) == 1
    assert tree.below(job) == [session]
    assert job["attributes"]["vivavoce.job.id"] == ran.report["job_id"]
    below = tree.below(session)
    assert kind_of(below[0]) == "session_start"
    assert kind_of(below[-1]) == "session_close"
    said = [span for span in below if kind_of(span) in ("say", "turn") and not is_dropped(span)]
    assert [kind_of(span) for span in said] == [turn["kind"] for turn in ran.report["turns"]]
    dropped = [span["attributes"] for span in tree.of("turn") if is_dropped(span)]
    assert [(span["vivavoce.turn.id"], span["vivavoce.turn.reason"]) for span in dropped] == [
        (turn["turn_id"], turn["reason"]) for turn in ran.report["dropped_turns"]
    ]
    rest = {kind_of(span) for span in below[1:-1]} - {"say", "turn"}
    assert rest == {"room"}
    assert {"connect", "pipeline", "room audio", "on_enter"} <= {span["name"] for span in tree.below(below[0])}
    closed = [step["name"] for step in ran.report["close"]["steps"] if step["name"] != "telemetry flush"]
    assert [span["name"] for span in tree.below(below[-1])] == closed
    assert not [span for span in tree.spans if span.get("status", {}).get("code")]


def test_every_span_lies_in_the_one_above_it_and_is_the_sessions(ran: Ran, tree: Tree) -> None:
    for span, above in tree.pairs():
        where = f"{span['name']} in {above['name']}"
        assert int(above["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]), where
        if kind_of(span) not in OUTLIVES:
            assert int(span["endTimeUnixNano"]) <= int(above["endTimeUnixNano"]), where
        assert span["attributes"]["vivavoce.session.id"] == ran.report["session_id"], where
    for span in tree.spans:
        assert span["resource"]["service.name"] == "vivavoce"
        assert span["resource"]["deployment.environment.name"] == "test"


def test_the_session_says_what_it_runs_on(ran: Ran, tree: Tree) -> None:
    facts = tree.one("session")["attributes"]
    assert facts["vivavoce.pipeline"] == "CascadingPipeline"
    assert facts["vivavoce.room"] == ran.report["room"]
    assert facts["vivavoce.tools.functions"] == ["book"]
    assert facts["vivavoce.close.reason"] == "participant_left"
    for part in ran.report["components"]:
        assert part["provider"] in facts.values(), part


def test_each_turns_span_adds_up_to_what_the_caller_waited(tree: Tree, turns: list[dict[str, Any]]) -> None:
    recorded = [turn for turn in turns if turn["kind"] == "turn"]
    answered = [span for span in tree.of("turn") if not is_dropped(span)]
    heard = 0
    for span, turn in zip(answered, recorded, strict=True):
        told = span["attributes"]
        assert (told["vivavoce.turn.id"], told["vivavoce.turn.outcome"]) == (turn["turn_id"], turn["outcome"])
        assert span["traceId"] == turn["trace_id"]
        if turn["e2e_latency"] is None:  # its answer was not heard: the caller went on in time
            assert "vivavoce.turn.e2e_latency" not in told
            continue
        assert told["vivavoce.turn.e2e_latency"] == pytest.approx(turn["e2e_latency"])
        stages = {name: value for name, value in told.items() if name.startswith("vivavoce.stage.")}
        assert sum(stages.values()) == pytest.approx(turn["e2e_latency"], abs=1e-6)
        kinds = [kind_of(each) for each in tree.below(span)]
        assert {"tts", "playout"} <= set(kinds)
        assert kinds.count("tool") == len(turn["tools"])
        assert kinds.count("interruption") == len(turn["interruptions"])
        speech = [each for each in tree.below(span) if kind_of(each) == "user_speech"]
        if not speech:  # it answers what a late final added to the turn before (on a slow machine)
            continue
        heard += 1
        assert {"stt", "end_of_turn"} <= set(kinds)
        playout = next(each for each in tree.below(span) if kind_of(each) == "playout")
        # A turn may have parts.
        waited = (int(playout["startTimeUnixNano"]) - int(speech[-1]["endTimeUnixNano"])) / 1e9
        assert waited == pytest.approx(turn["e2e_latency"], abs=0.002)
    assert heard
    held = sum(len(turn["interruptions"]) for turn in turns)
    assert len(tree.of("interruption")) == held
    called = sum(len(turn["tools"]) for turn in turns)
    assert [span["name"] for span in tree.of("tool")] == ["execute_tool book"] * called


def points(collector: Collector, name: str) -> list[dict[str, Any]]:
    metric = collector.metrics()[name]
    kind = "histogram" if "histogram" in metric else "sum"
    found: list[dict[str, Any]] = metric[kind]["dataPoints"]
    for point in found:
        point["told"] = {each["key"]: next(iter(each["value"].values())) for each in point.get("attributes", ())}
    return found


def test_the_metrics_are_those_of_the_report(ran: Ran, collector: Collector, turns: list[dict[str, Any]]) -> None:
    latencies = [turn["e2e_latency"] for turn in turns if turn["e2e_latency"] is not None]
    (latency,) = points(collector, "vivavoce.turn.e2e_latency")
    assert (int(latency["count"]), latency["sum"]) == (len(latencies), pytest.approx(sum(latencies)))
    stages = points(collector, "vivavoce.turn.stage.duration")
    assert sum(point["sum"] for point in stages) == pytest.approx(sum(latencies))
    assert {point["told"]["vivavoce.stage"] for point in stages} >= {"vad_silence", "transcript_wait", "tts_first_byte"}
    counted = {
        (point["told"]["vivavoce.turn.kind"], point["told"]["vivavoce.turn.outcome"]): int(point["asInt"])
        for point in points(collector, "vivavoce.turns")
    }
    for kind, outcome in counted:
        expected = [turn for turn in turns if (turn["kind"], turn["outcome"]) == (kind, outcome)]
        assert counted[kind, outcome] == len(expected)
    assert sum(counted.values()) == len(turns)
    (closed,) = points(collector, "vivavoce.sessions.closed")
    assert (closed["asInt"], closed["told"]["vivavoce.close.reason"]) == ("1", "participant_left")
    assert [point["asInt"] for point in points(collector, "vivavoce.sessions.active")] == ["0"]
    called = sum(len(turn["tools"]) for turn in turns)
    tools = points(collector, "vivavoce.tool.duration") if called else []
    assert [(tool["count"], tool["told"]["gen_ai.tool.name"]) for tool in tools] == [(str(called), "book")] * bool(
        called
    )
    phases = {point["told"]["vivavoce.phase"] for point in points(collector, "vivavoce.session.phase.duration")}
    assert phases == {"start", "close"}
    for name in ("vivavoce.turn.e2e_latency", "vivavoce.tts.first_byte", "vivavoce.turns"):
        assert all(point["told"].get("gen_ai.provider.name") for point in points(collector, name)), name


def test_the_logs_tell_each_turn_within_its_trace_and_nothing_that_was_said(
    ran: Ran, collector: Collector, tree: Tree, turns: list[dict[str, Any]]
) -> None:
    logs = collector.logs()
    for turn in turns:
        (line,) = [log for log in logs if log["body"].startswith(f"{turn['turn_id']} (")]
        assert turn["outcome"] in line["body"]
        assert line["attributes"]["vivavoce.turn.id"] == turn["turn_id"]
        assert line["attributes"]["vivavoce.session.id"] == ran.report["session_id"]
        assert line["attributes"]["vivavoce.job.id"] == ran.report["job_id"]
        assert line["traceId"] == tree.one("job")["traceId"]
        assert line["severityText"] == "INFO"
    said = repr(logs).lower()
    for turn in turns:
        for text in (turn["user_text"], turn["agent_text"]):
            assert " " not in text or text.lower() not in said  # a "no" is in many a word of the log's own
    assert "turn_1 (" not in ran.output  # for the backend alone: the terminal shows the same as ever
    assert "secret" not in said
