"""Items of a conversation: frozen, with ids of their own, and no content in their repr."""

from __future__ import annotations

import dataclasses

import pytest

from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatItem,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
)

ITEMS: list[ChatItem] = [
    ChatMessage(role="user", content="hunter2"),
    FunctionCall(call_id="c1", name="look_up", arguments='{"what": "hunter2"}', extra="hunter2"),
    FunctionCallOutput(call_id="c1", name="look_up", output="hunter2"),
    AgentHandoff(old_agent="Host", new_agent="Cashier"),
    ConfigChange(agent="Host", instructions="Say hunter2.", tools_added=("look_up",)),
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.type)
def test_an_item_shows_no_content(item: ChatItem) -> None:
    assert "hunter2" not in repr(item)
    assert item.id in repr(item)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.type)
def test_an_item_cannot_be_changed_and_a_changed_copy_keeps_its_id(item: ChatItem) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        item.turn_id = "turn_2"  # type: ignore[misc]  # that is the test
    assert dataclasses.replace(item, turn_id="turn_2").id == item.id


def test_each_item_has_an_id_of_its_own() -> None:
    assert len({AgentHandoff(old_agent="", new_agent="Host").id for _ in range(100)}) == 100
