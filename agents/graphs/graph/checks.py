"""The checks of a StateGraph: every fault in one list, and warnings."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence

from vivavoce.agents.graphs.graph.condition import Condition, words
from vivavoce.agents.graphs.graph.examples import example_findings, example_warnings
from vivavoce.agents.graphs.graph.intent import Intent
from vivavoce.agents.graphs.graph.state import State
from vivavoce.agents.graphs.intents.classifier import ModelIntents
from vivavoce.agents.graphs.machine.rules import (
    OnEvent,
    OnFailure,
    OnFile,
    OnForm,
    OnIntent,
    OnTimer,
    OnTool,
    Trigger,
)
from vivavoce.pipelines.core.checks import takes

FRAMES = ("on_speech_in", "on_speech_out")
"""Session events that come 50 times a second."""
MOVED = "graph_moved"
"""The session event of each move of a graph."""


def findings_of(states: Sequence[State], intents: Sequence[Intent]) -> list[str]:
    """Return all faults of a graph, a sentence each."""
    return [
        *_names(states, intents),
        *_starts(states),
        *_transitions(states, intents),
        *example_findings(states, intents),
        *_functions(states),
        *_reach(states),
        *_automatic_cycles(states),
    ]


def warnings_of(states: Sequence[State], intents: Sequence[Intent]) -> list[str]:
    """Return the warnings for a graph without faults."""
    return [*_unseen(states), *_endless(states), *example_warnings(states, intents)]


def _unseen(states: Sequence[State]) -> Iterator[str]:
    for state in states:
        if state.global_intent is not None and state.on_enter is None and not state.transitions:
            yield f"the conversation returns from the global state {state.name!r} at once; give it a body"


def _endless(states: Sequence[State]) -> list[str]:
    ends = {state for state in states if not state.transitions}
    if not ends:
        return []  # a conversation that goes on until somebody hangs up
    sources: dict[State, list[State]] = {}
    for state in states:
        for transition in state.transitions:
            sources.setdefault(transition.target, []).append(state)
    found, todo = set(ends), list(ends)
    while todo:
        for source in sources.get(todo.pop(), ()):
            if source not in found:
                found.add(source)
                todo.append(source)
    endless = [state.name for state in states if state not in found]
    return [f"no way leads from {name!r} to a state without transitions" for name in endless]


def _names(states: Sequence[State], intents: Sequence[Intent]) -> Iterator[str]:
    for what, names in (("state", [state.name for state in states]), ("intent", [intent.name for intent in intents])):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{count} {what}s have the name {name!r}; give each its own"


def _starts(states: Sequence[State]) -> Iterator[str]:
    initial = [state.name for state in states if state.is_initial]
    if len(initial) != 1:
        got = ", ".join(map(repr, initial)) or "none"
        yield f"one state must be initial, got {got}; make it by new_state(name, initial=True)"


def _transitions(states: Sequence[State], intents: Sequence[Intent]) -> Iterator[str]:
    names = {intent.name for intent in intents}
    taken: dict[str, str] = {}
    for state in states:
        for builder in state.builders:
            if not builder.is_complete:
                way = words(builder.trigger, has_conditions=bool(builder.conditions))
                yield f"state {state.name!r}, {way} has no target; end it with go_to(state)"
        for transition in state.transitions:
            if transition.target not in states:
                yield f"state {transition!r}: the target is no state of this graph; make it by new_state()"
            if isinstance(transition.trigger, OnIntent) and transition.trigger.intent not in (*names, ""):
                yield f"state {transition!r}: the intent is none of this graph; make it by new_intent()"
        yield from _never_taken(state)
        yield from _frames(state)
        yield from _needs_classifier(state)
        if (intent := state.global_intent) is not None:
            if intent not in intents:
                yield f"state {state.name!r}: its global intent is none of this graph; make it by new_intent()"
            elif intent.name in taken:
                two = f"{taken[intent.name]!r} and {state.name!r}"
                yield f"the intent {intent.name!r} leads to two global states, {two}; keep one"
            taken.setdefault(getattr(intent, "name", ""), state.name)


def _never_taken(state: State) -> Iterator[str]:
    automatic = [transition for transition in state.transitions if transition.is_automatic]
    if automatic and len(state.transitions) > 1:
        yield f"state {automatic[0]!r} is automatic and must stand alone; {state.name!r} has other transitions too"
        return
    for index, transition in enumerate(state.transitions):
        if isinstance(transition.trigger, OnFailure) and state.on_enter is None and state.on_no_match is None:
            yield f"state {transition!r} can never be taken: the state has no body that could fail"
        for earlier in state.transitions[:index]:
            if not earlier.conditions and _covers(earlier.trigger, transition.trigger):
                yield f"state {transition!r} can never be taken: {earlier!r} comes first"
                break


def _frames(state: State) -> Iterator[str]:
    for transition in state.transitions:
        if isinstance(transition.trigger, OnEvent) and transition.trigger.name in FRAMES:
            yield f"state {transition!r}: frames of audio are no events of a graph; take another event"
        if transition.trigger == OnEvent(MOVED):
            yield f"state {transition!r}: a move of the graph is no event of it; take the transition that moves"


def _needs_classifier(state: State) -> Iterator[str]:
    if not isinstance(state.intents, ModelIntents):
        return
    remedy = "a classifier that judges before the answer; give intents=PatternIntents() or LLMIntents(llm)"
    if state.on_no_match is not None:
        yield f"the fallback body of {state.name!r} needs {remedy}"
    for transition in state.transitions:
        if transition.trigger == OnIntent():
            yield f"state {transition!r} needs {remedy}"


def _covers(first: Trigger, later: Trigger) -> bool:
    match first, later:
        case OnEvent(name=""), OnEvent() | OnIntent() | OnFile() | OnForm() | OnTool():
            return True
        case OnFile(types=first_types), OnFile(types=types):
            return not first_types or (bool(types) and set(types) <= set(first_types))
        case OnForm(form=""), OnForm():
            return True
        case OnTimer(seconds=sooner), OnTimer(seconds=seconds):
            return sooner <= seconds
        case _:
            return first == later


def _functions(states: Sequence[State]) -> Iterator[str]:
    for state in states:
        for name, body in (("body", state.on_enter), ("fallback body", state.on_no_match)):
            if body is not None and not takes(body, 1):
                yield f"the {name} of {state.name!r} must be a function of the session, got {_shown(body)}"
            elif inspect.isgeneratorfunction(body):
                yield f"the {name} of {state.name!r} yields, so it must be async, got {_shown(body)}; write async def"
        for transition in state.transitions:
            for condition in transition.conditions:
                if not takes(condition.function, _arguments(condition)):
                    given = "of the session" if condition.params is None else "of the session and its params"
                    got = _shown(condition.function)
                    yield f"state {transition!r}: a condition must be a function {given}, got {got}"


def _arguments(condition: Condition) -> int:
    return 1 if condition.params is None else 2


def _shown(function: object) -> str:
    name = getattr(function, "__qualname__", None)
    if name is None:
        return repr(function)
    try:
        return f"{name}{inspect.signature(function)}"  # type: ignore[arg-type]  # an object without one raises
    except (TypeError, ValueError):
        return str(name)


def _reach(states: Sequence[State]) -> Iterator[str]:
    begin = [state for state in states if state.is_initial or state.global_intent is not None]
    if not any(state.is_initial for state in states):
        return
    found = _reachable(begin)
    for state in states:
        if state not in found:
            yield f"no way leads to the state {state.name!r}; add a transition, or remove it"


def _reachable(begin: Sequence[State]) -> set[State]:
    found, todo = set(begin), list(begin)
    while todo:
        for transition in todo.pop().transitions:
            if transition.target not in found:
                found.add(transition.target)
                todo.append(transition.target)
    return found


def _automatic_cycles(states: Sequence[State]) -> Iterator[str]:
    following = {
        state: transition.target for state in states for transition in state.transitions if transition.is_automatic
    }
    reported: set[State] = set()
    for state in following:
        path = [state]
        while (step := following.get(path[-1])) is not None and step not in path:
            path.append(step)
        if step is not None and step is state and state not in reported:
            reported.update(path)
            way = " → ".join(repr(one.name) for one in [*path, state])
            yield f"the automatic transitions {way} never end; give one of them a condition"
