"""How a conversation is put for Gemini."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.plugins.google.messages import contents, waits_for_outputs


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"day": 1}', {"day": 1}),
        ("", {}),
        ("[1]", {"value": [1]}),
        ("{", {"unreadable": "{"}),
        ("[" * 50_000, {"unreadable": "[" * 50_000}),
    ],
    ids=["an object", "nothing", "a list", "cut off", "nested without end"],
)
def test_a_call_of_any_arguments_can_be_told_again(text: str, told: dict[str, Any]) -> None:
    (content,) = contents([FunctionCall(call_id="c", name="book", arguments=text)])
    (part,) = content.parts or []
    assert part.function_call is not None
    assert part.function_call.args == told


@pytest.mark.parametrize(
    ("model", "waits"),
    [
        ("gemini-3.8-live", False),
        ("gemini-3.8-live-extended-thinking", False),
        ("gemini-3.1-flash-live-preview", True),
        ("gemini-2.5-flash-native-audio-preview-12-2025", True),
        ("gemini-live-2.5-flash-preview", True),
        ("gemini-2.0-flash-live-001", True),
        ("one-of-ones-own", False),
    ],
)
def test_a_model_waits_for_the_outputs_of_its_calls_as_its_documentation_or_the_declaration_says(
    model: str, waits: bool
) -> None:
    assert waits_for_outputs(model, types.LiveConnectConfig()) is waits
    for behavior, declared in ((types.Behavior.BLOCKING, True), (types.Behavior.NON_BLOCKING, False)):
        tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", behavior=behavior)])
        assert waits_for_outputs(model, types.LiveConnectConfig(tools=[tool])) is declared
