"""A conversation as JSON: the same after a round trip, and a clear refusal of anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from kit.chat import call, conversations, output, user
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, ChatMessage
from vivavoce.pipelines.media.frame import VideoFrame


@given(conversations)
def test_law_a_conversation_survives_the_round_trip_pictures_included(items: list[ChatItem]) -> None:
    context = ChatContext(items)
    assert ChatContext.from_json(json.loads(json.dumps(context.to_json(images=True)))) == context


@given(conversations)
def test_law_without_pictures_only_they_are_missing(items: list[ChatItem]) -> None:
    bare = [replace(item, images=()) if isinstance(item, ChatMessage) else item for item in items]
    data = json.loads(json.dumps(ChatContext(items).to_json()))
    assert ChatContext.from_json(data) == ChatContext(bare)
    assert all("images" not in item for item in data["items"])


def test_half_of_a_character_survives_too() -> None:
    context = ChatContext([user("\ud83d")])
    assert ChatContext.from_json(json.loads(json.dumps(context.to_json()))) == context


def test_fields_of_later_versions_are_passed_over_and_missing_ones_have_their_defaults() -> None:
    raw = {"type": "message", "id": "item_1", "role": "user", "content": "Hi", "created_at": 3, "mood": "good"}
    context = ChatContext.from_json({"version": 1, "items": [raw], "more": True})
    assert context.items == (ChatMessage(role="user", content="Hi", id="item_1", created_at=3.0),)


def test_a_call_of_an_older_file_has_no_extra() -> None:
    data = ChatContext([call("a", extra="signed")]).to_json()
    assert data["items"][0].pop("extra") == "signed"
    (item,) = ChatContext.from_json(data)
    assert item == call("a", id=item.id)


PICTURE = {"data": "AAAA", "media_type": "image/png", "width": 1, "height": 1}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"role": "robot"}, "items[1].role"),
        ({"content": 5}, "items[1].content"),
        ({"content": None}, "items[1].content"),
        ({"interrupted": "yes"}, "items[1].interrupted"),
        ({"sequence": 1.5}, "items[1].sequence"),
        ({"sequence": True}, "items[1].sequence"),
        ({"created_at": True}, "items[1].created_at"),
        ({"type": "riddle"}, "items[1].type must be one of message"),
        ({"type": None}, "items[1].type"),
        ({"type": "config_change", "tools_added": "x"}, "items[1].tools_added"),
        ({"type": "config_change", "instructions": 5}, "items[1].instructions"),
        ({"type": "function_call", "call_id": "a", "name": "b", "arguments": "{}", "extra": 5}, "items[1].extra"),
        ({"images": "x"}, "items[1].images must be a list"),
        ({"images": ["x"]}, "items[1].images[0] must be an object"),
        ({"images": [PICTURE | {"data": "%"}]}, "items[1].images[0].data must be base64"),
        ({"images": [PICTURE | {"data": "ä"}]}, "items[1].images[0].data must be base64"),
        ({"images": [PICTURE | {"width": "1"}]}, "items[1].images[0].width"),
        ({"images": [{"data": "AAAA"}]}, "items[1].images[0].media_type"),
    ],
)
def test_a_wrong_field_is_named_and_no_content_is_quoted(change: dict[str, Any], place: str) -> None:
    data = ChatContext([user("Hi"), user("hunter2", images=(VideoFrame(b"abc", "image/png"),))]).to_json(images=True)
    data["items"][1] |= change
    with pytest.raises(ConfigurationError) as caught:
        ChatContext.from_json(data)
    assert place in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("field", ["call_id", "name", "arguments", "id", "type"])
def test_a_missing_field_is_named(field: str) -> None:
    data = ChatContext([call("a"), output("a")]).to_json()
    del data["items"][0][field]
    with pytest.raises(ConfigurationError, match=rf"items\[0\]\.{field}"):
        ChatContext.from_json(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "got nothing"),
        ([], "got list"),
        ({}, "version 1, got None"),
        ({"version": 2, "items": []}, "version 1, got 2"),
        ({"version": 1}, "items must be a list"),
        ({"version": 1, "items": {}}, "items must be a list"),
        ({"version": 1, "items": ["x"]}, r"items\[0\] must be an object"),
    ],
)
def test_other_data_is_refused(data: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        ChatContext.from_json(data)


def test_two_items_with_one_id_are_refused() -> None:
    data = ChatContext([user("a", id="item_1"), user("b", id="item_1")]).to_json()
    with pytest.raises(ConfigurationError, match=r"items\[1\]\.id"):
        ChatContext.from_json(data)
