"""The rules of the twin: the requests that the API refuses. The provers show the ones that it takes."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.plugins.anthropic.twin.rules import refusal_of

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
HELLO = {"role": "user", "content": "Hello"}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "book", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}
BOOK = {"name": "book", "input_schema": {"type": "object"}}


def said(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


CACHED = {"cache_control": {"type": "ephemeral"}}

WRONG: dict[str, dict[str, Any]] = {
    "max_tokens": {"max_tokens": None},
    "messages: at least one": {"messages": []},
    'first message must use the "user" role': {"messages": [said(text("Hi"), role="assistant"), HELLO]},
    "prefill": {"messages": [HELLO, said(text("Hi"), role="assistant")]},
    "non-whitespace": {"messages": [said(text("  "))]},
    "system: text": {"system": [text("")]},
    "non-empty content": {"messages": [{"role": "user", "content": []}]},
    "not permitted in user": {"messages": [said({"type": "thinking", "thinking": "", "signature": ""})]},
    "invalid base64": {
        "messages": [said({"type": "image", "source": {"media_type": "image/png", "data": "?"}})],
    },
    "media_type": {"messages": [said({"type": "image", "source": {"media_type": "image/bmp", "data": ""}})]},
    "without `tool_result`": {"messages": [HELLO, CALL, HELLO], "tools": [BOOK]},
    "unexpected `tool_use_id`": {"messages": [RESULT]},
    "ids must be unique": {"messages": [HELLO, CALL, RESULT, CALL, RESULT], "tools": [BOOK]},
    "must define tools": {"messages": [HELLO, CALL, RESULT]},
    "tools.0.custom.name": {"tools": [{**BOOK, "name": "a b"}]},
    "input_schema.type": {"tools": [{"name": "book", "input_schema": {}}]},
    "at the top level": {"tools": [{"name": "book", "input_schema": {"type": "object", "anyOf": []}}]},
    "Tool names must be unique": {"tools": [BOOK, BOOK]},
    "only be specified while providing tools": {"tool_choice": {"type": "auto"}},
    "not found in provided tools": {"tools": [BOOK], "tool_choice": {"type": "tool", "name": "leave"}},
    "greater than or equal to 1024": {"thinking": {"type": "enabled", "budget_tokens": 10}},
    "greater than `thinking.budget_tokens`": {"thinking": {"type": "enabled", "budget_tokens": 5000}},
    "only be set to 1": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "temperature": 0},
    "forces tool use": {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [BOOK],
        "tool_choice": {"type": "any"},
    },
    "must start with a thinking block": {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [HELLO, CALL, RESULT],
        "tools": [BOOK],
    },
    "block_binding": {"thinking": {"type": "adaptive", "block_binding": {}}},
    "maximum of 4 blocks": {"messages": [said(*(text("a", **CACHED) for _ in range(5)))]},
    "temperature: range": {"temperature": 2},
    "valid dictionary": {"tools": ["book"]},
}


@pytest.mark.parametrize("says", WRONG)
def test_a_request_that_the_api_refuses_is_refused(says: str) -> None:
    body = {"model": "m", "max_tokens": 2000, "messages": [HELLO], **WRONG[says]}
    refusal = refusal_of(HEADERS, body, keys=None, models=None)
    assert refusal is not None
    assert (refusal.status, refusal.body["error"]["type"]) == (400, "invalid_request_error")
    assert says in refusal.message


def test_keys_models_and_the_version_are_checked() -> None:
    body = {"model": "m", "max_tokens": 2000, "messages": [HELLO]}
    keys, models = frozenset("k"), frozenset("m")
    assert refusal_of(HEADERS, body, keys=keys, models=models) is None
    bearer = {"authorization": "Bearer k", "anthropic-version": "2023-06-01"}
    assert refusal_of(bearer, body, keys=keys, models=models) is None
    refusals = [
        refusal_of({}, body, keys=None, models=None),
        refusal_of(HEADERS, body, keys=frozenset("z"), models=None),
        refusal_of({"x-api-key": "k"}, body, keys=None, models=None),
        refusal_of(HEADERS, None, keys=None, models=None),
        refusal_of(HEADERS, body, keys=None, models=frozenset("z")),
    ]
    assert [refusal and refusal.status for refusal in refusals] == [401, 401, 400, 400, 404]
