"""Transcript: a request's history for a provider's API, before it takes the form of that API.

It adds notes for the model beside the words: interruptions, backchannels, speakers, instructions for one generation.
Calls stand next to their outputs, even if other words came between: all APIs refuse any other order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatItem,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
    Role,
)
from vivavoce.pipelines.llm.chat_units import pairs
from vivavoce.pipelines.media.frame import VideoFrame

INTERRUPTED = "The user interrupted your last message where it ends; they heard no more of it."
BACKCHANNEL = "[said while you were speaking: {}]"
NOTE = "[note to you, not said by the user: {}]"
OPENING = "The conversation begins."
STILL_RUNNING = "still running"


@dataclass(frozen=True, slots=True)
class Words:
    """One message."""

    role: Role
    text: str = field(repr=False)
    images: tuple[VideoFrame, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one step, each with its output."""

    pairs: tuple[tuple[FunctionCall, FunctionCallOutput], ...] = field(repr=False)


Part: TypeAlias = Words | Calls


@dataclass(frozen=True, slots=True)
class Transcript:
    """The content of one request."""

    instructions: str = field(repr=False)
    parts: tuple[Part, ...]


def transcript(request: GenerateRequest, *, is_strict: bool) -> Transcript:
    """Return the request's history in order.

    Args:
        is_strict: Whether the system may speak only first, and user and assistant must alternate.
    """
    parts = parts_of(request.context.items)
    if request.extra_instructions.strip():
        parts.append(Words("system", request.extra_instructions))
    if is_strict:
        return _strict(request.instructions, parts)
    return Transcript(request.instructions, tuple(parts))


def parts_of(items: tuple[ChatItem, ...]) -> list[Part]:
    """Return the parts of a history, in order."""
    outputs = {call: items[output] for call, output in pairs(items)}  # an id may come again in a later step
    parts: list[Part] = []
    previous: ChatItem | None = None
    for place, item in enumerate(items):
        if isinstance(item, AgentHandoff | ConfigChange):  # for readers; the request has the present instructions
            continue
        if isinstance(item, ChatMessage):
            parts.extend(_words(item))
        elif isinstance(item, FunctionCall):
            output = outputs.get(place)
            pair = (item, output if isinstance(output, FunctionCallOutput) else _pending(item))
            if isinstance(previous, FunctionCall) and isinstance(parts[-1], Calls):  # of the same step
                parts[-1] = Calls((*parts[-1].pairs, pair))
            else:
                parts.append(Calls((pair,)))
        previous = item
    return parts


def split_at_turn(request: GenerateRequest) -> tuple[list[Part], list[Part]]:
    """Return the history before the own words and calls of the request's turn, and those.

    Instructions for one generation stand between the two: then each step of a turn begins with all of the step before.
    """
    items = request.context.items
    parts = parts_of(items)
    for number, item in enumerate(items):
        is_own = isinstance(item, FunctionCall) or (isinstance(item, ChatMessage) and item.role == "assistant")
        if is_own and item.turn_id == request.turn_id != "":
            place = len(parts_of(items[:number]))
            return parts[:place], parts[place:]
    return parts, []


def _pending(call: FunctionCall) -> FunctionCallOutput:
    return FunctionCallOutput(call_id=call.call_id, name=call.name, output=STILL_RUNNING)


def _words(message: ChatMessage) -> list[Part]:
    text = message.content
    if not text.strip() and not message.images:
        return []
    if message.speaker:
        text = f"{message.speaker}: {text}"
    if message.backchannel:
        text = BACKCHANNEL.format(text)
    words: list[Part] = [Words(message.role, text, message.images)]
    if message.interrupted and message.role == "assistant":
        words.append(Words("system", INTERRUPTED))
    return words


def _strict(instructions: str, parts: list[Part]) -> Transcript:
    leading = 0
    while leading < len(parts) and is_from(parts[leading], "system") and leading < len(parts) - 1:
        leading += 1
    texts = [instructions, *(part.text for part in parts[:leading] if isinstance(part, Words))]
    merged: list[Part] = []
    for part in parts[leading:]:
        new = part
        if isinstance(new, Words) and new.role == "system":
            new = replace(new, role="user", text=NOTE.format(new.text))
        last = merged[-1] if merged else None
        if isinstance(new, Words) and isinstance(last, Words) and last.role == new.role:
            merged[-1] = Words(new.role, f"{last.text}\n{new.text}", last.images + new.images)
        else:
            merged.append(new)
    if not merged or not is_from(merged[0], "user"):
        merged.insert(0, Words("user", NOTE.format(OPENING)))
    return Transcript("\n\n".join(text for text in texts if text.strip()), tuple(merged))


def is_from(part: Part, role: Role) -> bool:
    """Return whether a part is a message of this role."""
    return isinstance(part, Words) and part.role == role
