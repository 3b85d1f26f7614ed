"""Laws of a conversation graph in a session: they hold for all graphs and all actions, at any time, on both pipelines.

A quick run draws some calls; `VIVAVOCE_LAWS=1500 pytest tests/agents/graphs/test_graph_session_laws.py` more.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kit.graph_plans import NAMES, Place, Plan, PlannedGraph, Way, plans
from kit.graphs import RealtimeHarness, graph_harness
from vivavoce.agents import Agent, AgentSession, SpeechLimits, function_tool
from vivavoce.agents.events import ErrorOccurred, GraphMoved
from vivavoce.agents.graphs import GraphEvent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall

CALLS = int(os.environ.get("VIVAVOCE_LAWS", "6"))
pytestmark = pytest.mark.timeout(max(120, 2 * CALLS))

HOOK_TIMEOUT = 1.5
QUIET = 32.0
"""Seconds after the last action in which each turn must be answered."""
PLANNED = ("planned", "did not end within", "task 'ask'", "'ask'", "100 moves", "more than 64")
"""Words of the errors that these calls lead to."""


@dataclass(frozen=True)
class Action:
    """An action of caller or application at `at`."""

    kind: Literal["says", "types", "event", "flag", "move", "manage", "say", "reply", "interrupt", "snapshot"]
    at: float
    words: int = 0
    seconds: float = 0.6


WORDS = ("hello there", "x please", "y please", "x y")
actions = st.lists(
    st.builds(
        Action,
        kind=st.sampled_from(["says", "says", "says", "types", "event", "flag", "move", "manage", "say", "reply"])
        | st.sampled_from(["interrupt", "snapshot", "says"]),
        at=st.integers(1, 80).map(lambda tenths: tenths / 10),
        words=st.integers(0, 3),
        seconds=st.sampled_from([0.4, 1.0, 2.0]),
    ),
    min_size=1,
    max_size=7,
).map(lambda found: sorted(found, key=lambda action: action.at))


class Desk(Agent):
    """Has a tool."""

    @function_tool
    async def count(self) -> str:
        "Count."
        await anyio.sleep(0.2)
        return "1"


class Call:
    """One run of a plan: the session, and the runs of its bodies."""

    def __init__(self, plan: Plan, script: list[Any], kind: type[SessionHarness]) -> None:
        self.planned = PlannedGraph(plan)
        self.snapshots: list[tuple[dict[str, Any], str]] = []
        """Each with its state."""
        self.harness = graph_harness(
            self.planned.graph(),
            ScriptedLLM(*script, default="More."),
            agent=Desk("Help."),
            kind=kind,
            speech=SpeechLimits(hook_timeout=HOOK_TIMEOUT),
        )

    # --- the run

    def run(
        self, plan: Sequence[Action], *, closes_at: float | None, resume_from: dict[str, Any] | None = None
    ) -> None:
        """Run the session."""
        self.harness.resume_from = resume_from
        free_from = 0.0
        self.spoken: list[float] = []
        for action in plan:
            if action.kind == "says":
                start = round(max(action.at, free_from), 1)
                end = round(start + action.seconds, 1)
                free_from = end + 0.5
                self.spoken.append(start)
                words = WORDS[action.words]
                self.harness.caller.says(words, start, end, interims=[(round(start + 0.3, 1), words.split()[0])])
            if action.kind == "types":
                self.harness.caller.types(WORDS[action.words], action.at)
        self.cuts = [action.at for action in plan if action.kind in ("interrupt", "types")]
        self.spoken += [action.at for action in plan if action.kind == "types"]
        self.last = max([free_from, *(action.at for action in plan)])
        self.closes_at = closes_at
        self.until = self.last + QUIET if closes_at is None else closes_at

        async def act(harness: SessionHarness) -> None:
            for event in harness.recording.of(ErrorOccurred):
                self.allow(event)
            harness.session.on(ErrorOccurred, self.allow)
            for action in plan:
                if action.kind != "says" and (closes_at is None or action.at < closes_at):
                    await harness.until(action.at)
                    self.act(action, harness.session)

        self.harness.run(act, until=self.until)

    def allow(self, event: ErrorOccurred) -> None:
        """Let an error of the graph fail nothing yet: `check()` looks at its text."""
        if event.source == "graph":
            self.harness.expects_error("graph")

    def act(self, action: Action, session: AgentSession[Any]) -> None:
        """Do what the application does."""
        match action.kind:
            case "event":
                session.graph.receive_event(GraphEvent("news", action.words))
            case "flag":
                session.memory.private.set("flag", True)
            case "move":
                session.graph.move(NAMES[action.words])
            case "manage":
                session.graph.manage_transition()
            case "say":
                _ = session.say("By the way.")
            case "reply":
                _ = session.reply("Tell a joke.")
            case "interrupt":
                _ = session.interrupt()
            case "snapshot":
                state = session.graph.current_state
                taken = json.loads(json.dumps(session.snapshot()))
                self.snapshots.append((taken, "" if state is None else state.name))


steps = st.lists(
    st.sampled_from(
        [
            ["Fine."],
            [0.5, "I see."],
            [0.1, "Let me look.", ToolCall(call_id="", name="count", arguments="{}")],
            [ToolCall(call_id="", name="count", arguments="{}")],
            [ToolCall(call_id="", name="intent_x", arguments="{}")],
            [ToolCall(call_id="", name="intent_y", arguments="{}")],
        ]
    ),
    max_size=8,
)


def numbered(script: list[list[Any]]) -> list[list[Any]]:
    """Give each call its id."""
    return [
        [replace(item, call_id=f"c{number}") if isinstance(item, ToolCall) else item for item in step]
        for number, step in enumerate(script)
    ]


@pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])
@settings(max_examples=CALLS, suppress_health_check=list(HealthCheck))
@given(
    plan=plans,
    script=steps,
    first=actions,
    later=actions,
    closes_at=st.none() | st.integers(1, 120).map(lambda tenths: tenths / 10),
)
@example(  # a body speaks, and then awaits a task, while an answer whose floor it has waits for it
    plan=Plan(
        places=(
            Place(body="pauses", fallback="plain", ways=(Way("intent", 2, "no", 1, 3.0),), is_global=True),
            Place(body="task", ways=(Way("any", 1, "slow"), Way("any", 0, "no"))),
            Place(body="task", fallback="hangs", ways=(Way("event", 2, "yes"), Way("any", 0, "no"))),
            Place(body="turn", is_global=True),
        )
    ),
    script=[[0.1, "Let me look.", ToolCall(call_id="", name="count", arguments="{}")], ["Fine."]],
    first=[
        Action("says", 0.9, 0, 2.0),
        Action("says", 1.6, 3, 0.4),
        Action("move", 6.2, 3),
        Action("says", 7.5, 0, 2.0),
        Action("types", 7.7, 2),
    ],
    later=[],
    closes_at=None,
)
def test_whatever_happens_the_laws_of_a_graph_hold(
    kind: type[SessionHarness],
    plan: Plan,
    script: list[list[Any]],
    first: list[Action],
    later: list[Action],
    closes_at: float | None,
) -> None:
    call = Call(plan, numbered(script), kind)
    call.run(first, closes_at=closes_at)
    check(call, began_in="")
    if call.snapshots:
        taken, state = call.snapshots[-1]
        again = Call(plan, numbered(script), kind)
        again.run(later, closes_at=None, resume_from=taken)
        check(again, began_in=state)


def check(call: Call, *, began_in: str) -> None:
    """Check all laws of a run."""
    harness = call.harness
    report = harness.close_report
    assert report is not None
    assert report.is_clean, report
    assert report.seconds < 3.0, report
    harness.check_laws()
    for event in harness.recording.of(ErrorOccurred):
        assert any(words in str(event.error) for words in PLANNED), event
    moves = harness.recording.of(GraphMoved)
    check_way(moves, began_in)
    check_records(harness, moves)
    check_bodies(call, moves)
    check_answers(call)


def check_way(moves: Sequence[GraphMoved], began_in: str) -> None:
    """The moves hang together, from the beginning or from the state of the snapshot."""
    assert [move.old for move in moves] == [began_in, *(move.state for move in moves)][: len(moves)]
    assert {move.state for move in moves} <= set(NAMES)
    assert [move.reason for move in moves].count("begin") == (0 if began_in else min(1, len(moves)))
    for move in moves:
        assert bool(move.transition) == (move.reason == "transition")


def check_records(harness: SessionHarness, moves: Sequence[GraphMoved]) -> None:
    """Turn records name states of the graph, and transitions that were taken."""
    taken = Counter(move.transition for move in moves if move.transition)
    returned = {repr(move.old) for move in moves if move.reason == "return"}
    records = harness.session.turns
    assert {record.graph_state for record in records} <= {"", *NAMES}
    assert not Counter(one for record in records for one in record.transitions) - taken
    for record in records:
        for one, other in pairwise(record.transitions):
            reached = one.split(" → ")[-1]
            assert reached == other.split(",")[0] or reached in returned or "set_global" in other, record


def check_bodies(call: Call, moves: Sequence[GraphMoved]) -> None:
    """A body runs once for each entry into its state; a fallback body at most once a turn."""
    entries = [move.state for move in moves if move.reason != "undo" and move.state in call.planned.with_body]
    runs = [name for name, role in call.planned.runs if role == "body"]
    is_cut = call.closes_at is not None and runs == entries[:-1]
    assert runs == entries or is_cut, (runs, entries)
    turns = [record for record in call.harness.session.turns if record.kind == "turn"]
    assert sum(role == "fallback" for _, role in call.planned.runs) <= len(turns) + 1


def check_answers(call: Call) -> None:
    """Each turn is answered to its end, unless somebody interrupts or the session closes."""
    for record in call.harness.session.turns:
        if record.kind != "turn":
            continue
        assert record.outcome != "failed", record
        is_cut = any(record.started_at - 0.1 <= at <= record.ended_at + 0.01 for at in (*call.cuts, *call.spoken))
        if record.outcome != "completed":
            assert is_cut or (call.closes_at is not None and record.ended_at >= call.closes_at - 0.01), record
        elif not record.agent_text.strip() and record.agent_id != "ask":
            assert record.graph_state, record
            assert call.planned.runs, record
