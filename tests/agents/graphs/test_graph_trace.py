"""The trace of a session with a conversation graph: the graph's inputs replay as the turn machine's do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kit.graphs import RealtimeHarness, booking, graph_harness, way
from vivavoce.agents import AgentSession
from vivavoce.agents.graphs import GraphEvent, Intent, IntentClassifier, IntentMatch, StateGraph
from vivavoce.agents.graphs.trace import GRAPH, fresh_graph, replay_graph
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.turn.trace.replay import Trace, read_trace, replay, replay_steps
from vivavoce.pipelines.core.errors import TraceError
from vivavoce.pipelines.llm.chat_context import ChatContext

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


def lines_of(harness: SessionHarness, folder: Path) -> list[str]:
    return (folder / f"{harness.session.id}.jsonl").read_text().splitlines()


def moves(trace: Trace) -> list[Any]:
    return [effect["state"] for step in trace.graph for effect in step.effects or [] if effect["is"] == "Moved"]


def check_replay(trace: Trace, harness: SessionHarness) -> None:
    """Both machines replay; the graph's comes to the state that the session ended with."""
    assert (trace.end, trace.damaged_line) == ("closed", 0)
    assert replay(trace) is None
    assert moves(trace) == way(harness) != []
    machine = fresh_graph(trace)
    assert replay_steps(machine, trace.graph[1:], GRAPH) is None
    ended, replayed = harness.session.snapshot()["extensions"]["graph"], machine.to_json(now=trace.graph[-1].at)
    for state in (ended, replayed):
        state["timers"] = [rule for rule, _ in state["timers"]]  # the seconds that are left count from other moments
    assert ended == replayed


@BOTH
def test_a_booking_and_its_resumed_call_replay_and_no_line_of_the_graph_has_content(
    kind: type[SessionHarness], tmp_path: Path
) -> None:
    def asks_for(session: AgentSession[Any], wanted: str) -> bool:
        return bool(session.memory.private.get("wish") == wanted)

    def graph() -> StateGraph:
        made = booking()
        details, done = made.states[1], made.states[-1]
        details.when_event("wish").with_condition(asks_for, {"wanted": "lobster"}).go_to(done)
        return made

    taken: list[Any] = []

    async def wish(harness: SessionHarness) -> None:
        await harness.until(8.0)
        harness.session.memory.private.set("wish", "oysters")
        harness.session.graph.receive_event(GraphEvent("wish", data="caviar"))
        await harness.until(14.4)
        taken.append(json.loads(json.dumps(harness.session.snapshot())))

    first = graph_harness(graph(), ScriptedLLM("For which day?", "Noted."), kind=kind, trace_path=tmp_path)
    first.caller.says("book a table", 3.0, 4.0)
    first.caller.says("rather when are you open", 4.3, 6.0)
    first.caller.says("a table for nine on sunday", 10.0, 11.0)
    first.run(wish, until=15.0)
    second = graph_harness(graph(), ScriptedLLM("Noted."), kind=kind, trace_path=tmp_path)
    second.resume_from = taken[0]
    second.caller.says("sunday", 2.0, 3.0)
    second.run(until=24.0)

    for harness in (first, second):
        written = lines_of(harness, tmp_path)
        check_replay(read_trace(written), harness)
        of_graph = "\n".join(line for line in written if line.startswith('{"machine":"graph"'))
        for word in ("sunday", "nine", "oysters", "caviar", "lobster", "open from five", "Ask for the day"):
            assert word not in of_graph
    assert moves(read_trace(lines_of(second, tmp_path))) == ["done"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The trace of a call with one move by the caller's words."""
    folder = tmp_path_factory.mktemp("traces")
    harness = graph_harness(booking(), ScriptedLLM("For which day?"), trace_path=folder)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.run(until=6.0)
    return lines_of(harness, folder)


def with_change(written: list[str], what: str, old: str, new: str) -> tuple[list[str], int]:
    """Return the lines with a change of the first line of the graph that holds `what`, and the number of that line."""
    at = next(n for n, line in enumerate(written) if line.startswith('{"machine":"graph"') and f'"{what}"' in line)
    assert old in written[at]
    return [*written[:at], written[at].replace(old, new, 1), *written[at + 1 :]], at + 1


@pytest.mark.parametrize(
    ("what", "old", "new", "error"),
    [
        ("GraphBegins", "GraphBegins", "GraphEnds", "needed a class of the graph machine, got 'GraphEnds'"),
        ("GraphBegins", '"initial"', '"first"', "cannot make a GraphRules of"),
        ("GraphBegins", '"saved":null', '"saved":7', "'int' object has no attribute"),
        ("GraphBegins", '{"is":"GraphBegins"', '{"is":"Tick"},"of":{"is":"GraphBegins"', "the beginning of the graph"),
        ("Classified", '"question"', '"answer"', "cannot make a Classified of"),
    ],
)
def test_a_damaged_line_of_the_graph_is_named_and_the_turns_replay(
    what: str, old: str, new: str, error: str, written: list[str]
) -> None:
    lines, number = with_change(written, what, old, new)
    trace = read_trace(lines)
    assert replay(trace) is None
    with pytest.raises(TraceError, match=f"line {number} cannot be replayed: .*{error}"):
        replay_graph(trace)


def test_behind_a_line_of_an_unknown_machine_nothing_is_read(written: list[str]) -> None:
    lines, number = with_change(written, "Classified", '"machine":"graph"', '"machine":"weather"')
    trace = read_trace(lines)
    assert trace.damaged_line == number
    assert max(step.line for step in (*trace.steps, *trace.graph)) == number - 1
    assert replay_graph(trace) is None


def test_another_answer_of_a_classifier_is_the_first_difference(written: list[str]) -> None:
    lines, number = with_change(written, "Classified", '"intent":"book"', '"intent":""')
    difference = replay_graph(read_trace(lines))
    assert difference is not None
    assert (difference.step.line, difference.what) == (number, "effects")


def test_a_trace_without_a_graph_is_read_as_before_and_has_none_to_replay(written: list[str]) -> None:
    trace = read_trace(line for line in written if '"machine"' not in line)
    assert trace.graph == ()
    assert replay(trace) is None
    with pytest.raises(TraceError, match="needed a trace of a session with a conversation graph"):
        replay_graph(trace)
    with pytest.raises(TraceError, match="can be shown and not replayed"):
        replay_graph(read_trace([written[0].replace('"format":3', '"format":2'), *written[1:]]))


class Exact(IntentClassifier):
    """Gives its score as another kind of number, as a classifier made of numpy does."""

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        return IntentMatch(intents[0].name, Fraction(9, 10))  # type: ignore[arg-type]  # on purpose


def test_a_score_of_another_kind_of_number_replays(tmp_path: Path) -> None:
    graph = StateGraph(Exact())
    hall, kitchen = graph.new_state("hall", initial=True), graph.new_state("kitchen")
    hall.when_intent_matched(graph.new_intent("hungry")).go_to(kitchen)
    harness = graph_harness(graph, ScriptedLLM("Here."), trace_path=tmp_path)
    harness.caller.says("I am hungry", 1.0, 2.0)
    harness.run(until=4.0)

    trace = read_trace(lines_of(harness, tmp_path))
    check_replay(trace, harness)
    assert moves(trace) == ["hall", "kitchen"]


def test_a_name_of_a_class_that_no_trace_can_hold_is_shown_and_its_replay_refused(tmp_path: Path) -> None:
    class Place(StrEnum):
        HALL = "hall"

    graph = StateGraph()
    graph.new_state(Place.HALL, initial=True)
    harness = graph_harness(graph, trace_path=tmp_path).run(until=1.0)
    trace = read_trace(lines_of(harness, tmp_path))
    assert replay(trace) is None
    with pytest.raises(TraceError, match=r"cannot be replayed: needed a value that can be recorded, got '.*Place'"):
        replay_graph(trace)
