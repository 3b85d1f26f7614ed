"""Thoughts: the twin's signatures, which bind a thought to the conversation before it.

Source: https://platform.claude.com/docs/en/build-with-claude/preserved-thinking: a thought that comes back is valid
behind the same system prompt, tools and messages, unchanged; else the request is refused, or, if it says so
(`types/beta/beta_thinking_block_binding_param.py`, with its beta header), the thought is dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from vivavoce.plugins.anthropic.twin.cache import Block, blocks_of, digest_of

BINDING_BETA = "thinking-binding-controls-2026-08-01"


def sign(prefix: list[Block], text: str) -> str:
    """Return the signature of a thought; that of a redacted one is all of it."""
    return hashlib.sha256(f"{digest_of(prefix)}\n{text}".encode()).hexdigest()


def invalid_thoughts(body: Mapping[str, Any]) -> list[str]:
    """Return the problem of each thought in a request that stands behind another conversation, or was changed."""
    found: list[str] = []
    prefix: list[Block] = []
    for place, block in blocks_of(body):
        if block.get("type") == "thinking" and block.get("signature") != sign(prefix, block.get("thinking", "")):
            found.append("messages: The block is bound to a different conversation: `thinking`")
        elif block.get("type") == "redacted_thinking" and block.get("data") != sign(prefix, ""):
            found.append("messages: The block is bound to a different conversation: `redacted_thinking`")
        prefix.append((place, block))
    return found


def drops_invalid(body: Mapping[str, Any], betas: str) -> bool:
    """Return whether invalid thoughts are dropped rather than refused."""
    thinking = body.get("thinking") or {}
    binding = thinking.get("block_binding") or {}
    return BINDING_BETA in betas and binding.get("prefix_mismatch_behavior") == "drop_block"
