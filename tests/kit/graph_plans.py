"""Any conversation graph as a hypothesis strategy: plans, and the graph of a plan, whose bodies note their runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from hypothesis import strategies as st

from vivavoce.agents import AgentSession
from vivavoce.agents.graphs import Intent, IntentMatch, PatternIntents, State, StateGraph
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.pipelines.llm.chat_context import ChatContext

NAMES = ("a", "b", "c", "d")
INTENTS = ("x", "y")

BodyKind = Literal[
    "",
    "speaks",
    "pauses",
    "says",
    "asks",
    "replies",
    "task",
    "turn",
    "raises",
    "raises late",
    "hangs",
    "keeps",
    "plain",
]
ConditionKind = Literal["", "yes", "no", "raises", "slow", "hangs", "flag"]
Judge = Literal["model", "at once", "slow", "raises", "hangs"]


@dataclass(frozen=True)
class Way:
    """A transition: its trigger, its condition, its target by number."""

    trigger: Literal["intent", "none", "event", "any", "heard", "tool", "failed", "after", "state"]
    to: int
    condition: ConditionKind = ""
    intent: int = 0
    seconds: float = 0.5


@dataclass(frozen=True)
class Place:
    """A state."""

    body: BodyKind = ""
    fallback: BodyKind = ""
    ways: tuple[Way, ...] = ()
    is_global: bool = False


@dataclass(frozen=True)
class Plan:
    """A graph."""

    places: tuple[Place, ...]
    judge: Judge = "at once"


bodies = st.sampled_from(
    ["", "", "speaks", "speaks", "pauses", "says", "asks", "replies", "task", "turn", "raises", "raises late", "hangs"]
    + ["keeps", "plain"]
)
ways = st.builds(
    Way,
    trigger=st.sampled_from(["intent", "intent", "none", "event", "any", "heard", "tool", "failed", "after", "state"]),
    to=st.integers(0, 3),
    condition=st.sampled_from(["", "", "", "yes", "no", "raises", "slow", "hangs", "flag"]),
    intent=st.integers(0, 1),
    seconds=st.sampled_from([0.3, 1.0, 3.0]),
)
places = st.builds(
    Place,
    body=bodies,
    fallback=bodies,
    ways=st.lists(ways, max_size=3).map(tuple),
    is_global=st.sampled_from([False, False, True]),
)
plans = st.builds(
    Plan,
    places=st.tuples(places, places, places, places),
    judge=st.sampled_from(["model", "at once", "at once", "slow", "raises", "hangs"]),
)


class Judging(PatternIntents):
    """Judges late, or not at all."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        if self.judge == "slow":
            await anyio.sleep(0.8)
        elif self.judge == "hangs" and "there" in text:
            await anyio.sleep_forever()
        elif self.judge == "raises" and "there" in text:
            raise RuntimeError("planned")
        return await super().classify(text, intents, history)


class Ask(AgentTask[str]):
    """Asks, and has its answer at once, or after one turn of the caller."""

    def __init__(self, *, waits: bool) -> None:
        options = TaskOptions(max_turns=1, max_seconds=3.0) if waits else TaskOptions()
        super().__init__("Ask.", id="ask", options=options)
        self.waits = waits

    async def on_enter(self) -> None:
        await self.session.say("Name?")
        if not self.waits:
            self.complete("Bob")


class PlannedGraph:
    """Makes the graph of a plan, for one session."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.runs: list[tuple[str, str]] = []
        """(state, "body" or "fallback") of each run."""
        self.with_body = {name for name, place in zip(NAMES, plan.places, strict=True) if place.body}

    def graph(self) -> StateGraph:
        """Return the graph; ways that a graph may not have are left out."""
        plan = self.plan
        graph = StateGraph(None if plan.judge == "model" else Judging(plan.judge))
        intents = [graph.new_intent(name, [name]) for name in INTENTS]
        states = [graph.new_state(name, initial=name == "a", instructions=f"In {name}.") for name in NAMES]
        free = list(intents)
        for number, (place, state) in enumerate(zip(plan.places, states, strict=True)):
            if place.body:
                state.body(self._body(place.body, state.name, "body"))
            if place.fallback and plan.judge != "model":
                state.set_fallback_body(self._body(place.fallback, state.name, "fallback"))
            if number and place.is_global and free:
                state.set_global(free.pop())
            seen: set[object] = set()
            for way in _legal(place, number, plan):
                key = (way.trigger, way.intent if way.trigger == "intent" else 0)
                if key in seen or "any" in {one[0] for one in seen if isinstance(one, tuple)}:
                    continue
                if not way.condition:
                    seen.add(key)
                _add(graph, states, number, way)
        for state in states:
            if state not in _reached(states):
                states[0].when_event(f"go {state.name}").go_to(state)
        return graph

    def _body(self, kind: BodyKind, name: str, role: str) -> Callable[..., Any]:
        """Return a body."""

        def begun(session: AgentSession[Any]) -> None:
            self.runs.append((name, role))

        async def speaks(session: AgentSession[Any]) -> AsyncIterator[str]:
            begun(session)
            yield f"In {name}. "
            if kind == "pauses":
                await anyio.sleep(0.6)
                yield "Go on. "
                await session.say("One moment.")
                yield "Please."
            if kind in ("task", "turn"):
                yield f"Thank you, {await Ask(waits=kind == 'turn')}."
            if kind == "raises late":
                raise RuntimeError("planned")

        async def acts(session: AgentSession[Any]) -> None:
            begun(session)
            match kind:
                case "says":
                    await session.say(f"In {name}.")
                case "asks":
                    _ = session.say(f"In {name}.")
                case "replies":
                    await session.reply("Say it.")
                case "raises":
                    raise RuntimeError("planned")
                case "hangs":
                    await anyio.sleep_forever()
                case "keeps":
                    session.memory.private.set("flag", True)

        def plain(session: AgentSession[Any]) -> None:
            begun(session)

        if kind in ("speaks", "pauses", "task", "turn", "raises late"):
            return speaks
        return plain if kind == "plain" else acts


def _reached(states: Sequence[State]) -> set[State]:
    """Return the states to which ways lead."""
    todo = [state for state in states if state.is_initial or state.global_intent is not None]
    found = set(todo)
    while todo:
        new = {way.target for way in todo.pop().transitions} - found
        found |= new
        todo += new
    return found


def _legal(place: Place, number: int, plan: Plan) -> list[Way]:
    """Return the ways that the state may have."""
    found = []
    for way in place.ways:
        if way.trigger == "none" and plan.judge == "model":
            continue
        if not number and not way.condition and way.trigger in ("state", "any"):
            continue  # the first state leads to those that no other one leads to
        if way.trigger == "failed" and not (place.body or (place.fallback and plan.judge != "model")):
            continue
        if way.trigger in ("after", "state", "failed", "heard", "any") and way.to <= number:
            if way.trigger != "state" or way.condition != "flag":
                continue  # else it might go round for ever
        found.append(way)
    automatic = [way for way in found if way.trigger == "state" and not way.condition]
    return automatic[:1] or found


def _add(graph: StateGraph, states: list[Any], number: int, way: Way) -> None:
    """Add a transition."""
    state, target = states[number], states[way.to]
    condition = _condition(way.condition)
    match way.trigger:
        case "intent":
            builder = state.when_intent_matched(graph.intents[way.intent])
        case "none":
            builder = state.when_no_intent_matched()
        case "event":
            builder = state.when_event("news")
        case "any":
            builder = state.when_event()
        case "heard":
            builder = state.when_event("user_transcript")
        case "tool":
            builder = state.when_tool_called("count")
        case "failed":
            builder = state.when_failed()
        case "after":
            builder = state.after(way.seconds)
        case "state":
            if condition is None:
                state.go_to(target)
            else:
                state.when_condition(condition).go_to(target)
            return
    if condition is not None:
        builder = builder.with_condition(condition)
    builder.go_to(target)


def _condition(kind: ConditionKind) -> Callable[..., Any] | None:
    """Return the function of a condition."""

    async def late(session: AgentSession[Any]) -> bool:
        if kind == "hangs":
            await anyio.sleep_forever()
        await anyio.sleep(0.4)
        return True

    def now(session: AgentSession[Any]) -> bool:
        if kind == "raises":
            raise RuntimeError("planned")
        if kind == "flag":
            return session.memory.private.delete("flag")
        return kind == "yes"

    return None if not kind else late if kind in ("slow", "hangs") else now
