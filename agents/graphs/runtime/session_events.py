"""The events of the session that its graph names, and those that extensions post for it, as events of the graph."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from vivavoce.agents import events as ev
from vivavoce.agents.core.emitter import SessionEmitter
from vivavoce.agents.graphs.machine.rules import EventKind, GraphRules, OnEvent, OnFile, OnForm
from vivavoce.agents.graphs.runtime.turns import KEY
from vivavoce.agents.records import GraphEvent


class Receive(Protocol):
    """Takes an event of the graph."""

    def __call__(
        self, event: GraphEvent, *, kind: EventKind = "event", subject: str = "", is_own: bool = False
    ) -> None: ...


def listen(emitter: SessionEmitter, rules: GraphRules, receive: Receive) -> None:
    """Pass the session's events that the graph names to `receive`, and those that extensions post for it."""
    emitter.on(ev.GraphEventPosted, lambda posted: receive(posted.event, is_own=True))
    names = {event.name for event in ev.EVENT_TYPES} - {ev.GraphEventPosted.name}
    triggers = [rule.trigger for state in rules.states.values() for rule in state.rules]
    wanted: dict[str, None] = {one.name: None for one in triggers if isinstance(one, OnEvent) and one.name in names}
    if any(isinstance(one, OnFile) for one in triggers):
        wanted[ev.FileReceived.name] = None
    if any(isinstance(one, OnForm) for one in triggers):
        wanted[ev.FormSubmitted.name] = None
    for name in wanted:
        emitter.on(name, partial(_noted, receive, name))


def _noted(receive: Receive, name: str, event: ev.SessionEvent) -> None:
    if isinstance(event, ev.FileReceived):
        receive(GraphEvent(name, event.file), kind="file", subject=event.file.media_type)
    elif isinstance(event, ev.FormSubmitted):
        receive(GraphEvent(name, event.form), kind="form", subject=type(event.form).__name__)
    elif not (isinstance(event, ev.ErrorOccurred) and event.source == KEY):  # its own errors would be a loop
        receive(GraphEvent(name, event), is_own=True)
