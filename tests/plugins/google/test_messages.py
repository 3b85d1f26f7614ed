"""How a conversation is put for Gemini."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.plugins.google.messages import contents


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
