"""Conversations for tests: items in short, and any conversation as a hypothesis strategy."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatItem,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
)
from vivavoce.pipelines.media.frame import VideoFrame


def system(text: str, **fields: Any) -> ChatMessage:
    """The system says."""
    return ChatMessage(role="system", content=text, **fields)


def user(text: str, **fields: Any) -> ChatMessage:
    """The user says."""
    return ChatMessage(role="user", content=text, **fields)


def assistant(text: str, **fields: Any) -> ChatMessage:
    """The agent says."""
    return ChatMessage(role="assistant", content=text, **fields)


def call(call_id: str, name: str = "book", arguments: str = "{}", **fields: Any) -> FunctionCall:
    """The model calls."""
    return FunctionCall(call_id=call_id, name=name, arguments=arguments, **fields)


def output(call_id: str, text: str = "ok", name: str = "book", **fields: Any) -> FunctionCallOutput:
    """The tool returns."""
    return FunctionCallOutput(call_id=call_id, name=name, output=text, **fields)


def outline(items: Any) -> list[str]:
    """Return the items as short texts: words, "call:a", "out:a", types of the others."""
    shown = []
    for item in items:
        if isinstance(item, ChatMessage):
            shown.append(item.content)
        elif isinstance(item, FunctionCall):
            shown.append(f"call:{item.call_id}")
        elif isinstance(item, FunctionCallOutput):
            shown.append(f"out:{item.call_id}")
        else:
            shown.append(item.type)
    return shown


_stamps: dict[str, st.SearchStrategy[Any]] = {
    "turn_id": st.sampled_from(["", "turn_1", "turn_2"]),
    "sequence": st.integers(0, 99),
    "created_at": st.floats(0, 1e9),
}
_text = st.text(max_size=40)
_ids = st.sampled_from("abc")
_pictures = st.builds(
    VideoFrame,
    st.binary(max_size=8),
    st.sampled_from(["image/png", "image/jpeg"]),
    st.integers(0, 9),
    st.integers(0, 9),
)
items: st.SearchStrategy[ChatItem] = st.one_of(
    st.builds(
        ChatMessage,
        role=st.sampled_from(["system", "user", "assistant"]),
        content=_text,
        interrupted=st.booleans(),
        backchannel=st.booleans(),
        is_summary=st.booleans(),
        images=st.lists(_pictures, max_size=2).map(tuple),
        speaker=_text,
        **_stamps,
    ),
    st.builds(FunctionCall, call_id=_ids, name=_text, arguments=_text, extra=_text, **_stamps),
    st.builds(FunctionCallOutput, call_id=_ids, name=_text, output=_text, is_error=st.booleans(), **_stamps),
    st.builds(AgentHandoff, old_agent=_text, new_agent=_text, **_stamps),
    st.builds(
        ConfigChange,
        agent=_text,
        instructions=st.none() | _text,
        tools_added=st.lists(_text, max_size=2).map(tuple),
        tools_removed=st.lists(_text, max_size=2).map(tuple),
        **_stamps,
    ),
)
"""Any item; calls and outputs share three call ids, so that they pair up, repeat and stand alone."""

conversations = st.lists(items, max_size=15)
