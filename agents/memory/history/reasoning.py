"""Reasoning events: the steps that led to a reply, each with the reply that they belong to. Pure; no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vivavoce.agents.core.values import Json, encode, plain
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput

SavedKind = Literal["reasoning_step", "task_list_update"]
SAVED_KINDS: tuple[SavedKind, ...] = ("reasoning_step", "task_list_update")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningEvent:
    """A step of an agent's reasoning, or a tool call or its result.

    Args:
        payload: As given to `save_reasoning_event()`. Of a `tool_call`: `call_id`, `name` and `arguments` (JSON text);
            of a `tool_result`: `call_id`, `name`, `output` and `is_error`.
        at: Time in seconds since the Unix epoch; for tool calls, the time when they came into the history.
        turn_id: The turn in which it happened; empty outside any turn.
        reply_id: The id of the reply's message in the history; empty while there is none.
    """

    id: str
    kind: Literal["reasoning_step", "task_list_update", "tool_call", "tool_result"]
    payload: Json = field(repr=False)
    at: float
    turn_id: str = ""
    reply_id: str = ""


def event_record(event: ReasoningEvent) -> str:
    """Return the record of a saved event."""
    facts = {"id": event.id, "kind": event.kind, "payload": event.payload, "at": event.at, "turn_id": event.turn_id}
    return plain(encode(facts))


def link_record(event_ids: Sequence[str], reply_id: str) -> str:
    """Return the record that links events to a reply."""
    return json.dumps({"links": list(event_ids), "reply_id": reply_id})


def saved_events(records: Iterable[str]) -> list[ReasoningEvent]:
    """Return the saved events of a log, with the replies that they were linked to."""
    found: dict[str, ReasoningEvent] = {}
    for text in records:
        record: dict[str, Any] = json.loads(text)
        if "links" not in record:
            found[record["id"]] = ReasoningEvent(**record)
            continue
        for event_id in record["links"]:
            if (event := found.get(event_id)) is not None:
                found[event_id] = replace(event, reply_id=record["reply_id"])
    return list(found.values())


def pending(events: Iterable[ReasoningEvent]) -> list[str]:
    """Return the ids of events outside any turn that have no reply yet."""
    return [event.id for event in events if not event.turn_id and not event.reply_id]


def tool_events(items: Iterable[ChatItem]) -> list[ReasoningEvent]:
    """Return the tool calls and results of a history."""
    found: list[ReasoningEvent] = []
    for item in items:
        facts: dict[str, Any]
        if isinstance(item, FunctionCall):
            facts = {"call_id": item.call_id, "name": item.name, "arguments": item.arguments}
            kind: Literal["tool_call", "tool_result"] = "tool_call"
        elif isinstance(item, FunctionCallOutput):
            facts = {"call_id": item.call_id, "name": item.name, "output": item.output, "is_error": item.is_error}
            kind = "tool_result"
        else:
            continue
        found.append(ReasoningEvent(id=item.id, kind=kind, payload=facts, at=item.created_at, turn_id=item.turn_id))
    return found


def with_replies(events: Iterable[ReasoningEvent], replies: Sequence[ChatMessage]) -> list[ReasoningEvent]:
    """Return the events, oldest first. Events of a turn get the last message of its reply.

    Args:
        replies: The agent's messages, oldest first.
    """
    of_turn = {reply.turn_id: reply.id for reply in replies if reply.turn_id}
    linked = (replace(event, reply_id=event.reply_id or of_turn.get(event.turn_id, "")) for event in events)
    return sorted(linked, key=lambda event: event.at)
