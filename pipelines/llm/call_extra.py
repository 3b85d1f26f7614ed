"""The extra of a tool call: data of the provider that made the call and needs it back with the call.

It holds signatures or blocks of the model's thoughts, without which some servers refuse the conversation. Gemini 3
needs the signature on the first call of each step, Anthropic the thinking blocks before the calls of a step, DeepSeek
the `reasoning_content` of a message with calls; OpenAI's responses API takes its encrypted reasoning back. No server
needs such data for an answer without calls, whose words in a history are the heard ones, and not all that the model has
signed. So the data of a step stands with its first call, and messages have none.

A history may hold the calls of several providers, after a fallback or a handoff. The text names its maker, and for all
others it is empty.

Sources: https://ai.google.dev/gemini-api/docs/thought-signatures,
https://docs.claude.com/en/docs/build-with-claude/extended-thinking,
https://api-docs.deepseek.com/guides/thinking_mode, https://platform.openai.com/docs/guides/reasoning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def pack_extra(maker: str, data: Mapping[str, Any]) -> str:
    """Return the text for `ToolCall.extra`; empty without data.

    Args:
        maker: The provider, and the server if it has several that do not know each other's data.
        data: JSON data.
    """
    return json.dumps({"maker": maker, "data": data}) if data else ""


def unpack_extra(extra: str, maker: str) -> dict[str, Any]:
    """Return the data that `maker` has packed; empty if another provider has, or nobody."""
    try:
        packed = json.loads(extra or "null")
    except (ValueError, RecursionError):
        return {}
    is_own = isinstance(packed, dict) and packed.get("maker") == maker
    return data if is_own and isinstance(data := packed.get("data"), dict) else {}
