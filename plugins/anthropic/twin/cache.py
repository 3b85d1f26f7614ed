"""Cache: the twin's prompt cache, which keeps prefixes of requests up to their breakpoints.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching: the order is tools, system, messages; a
breakpoint is a block with `cache_control`; a request reads the longest kept prefix that ends at most 20 blocks before
one of its breakpoints; a prefix that is too short is not kept. Tokens are a quarter of the characters here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LOOKBACK = 20
"""Blocks before a breakpoint in which a kept prefix may end."""

Block = tuple[str, Mapping[str, Any]]
"""A place (`tools`, `system`, or a role) and the block that stands there."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The input of one request. Source: `types/usage.py`."""

    read: int = 0
    created: int = 0
    rest: int = 0

    @property
    def usage(self) -> dict[str, int]:
        """The fields of the answer."""
        return {
            "input_tokens": self.rest,
            "cache_creation_input_tokens": self.created,
            "cache_read_input_tokens": self.read,
        }


class Cache:
    """Holds the prefixes of the requests so far.

    Args:
        minimum: Tokens of the shortest prefix that is kept; with Anthropic 1024 or more, by model.
    """

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._kept: set[str] = set()

    def take(self, body: Mapping[str, Any]) -> Tokens:
        """Read the cache for a request, and keep its prefixes."""
        blocks = list(blocks_of(body))
        counts, digests, total = [], [], 0
        for number, (_, block) in enumerate(blocks):
            total += len(_text(block)) // 4 + 1
            counts.append(total)
            digests.append(digest_of(blocks[: number + 1]))
        breakpoints = [
            number
            for number, (_, block) in enumerate(blocks)
            if block.get("cache_control") and counts[number] >= self._minimum
        ]
        hits = [
            number
            for at in breakpoints
            for number in range(max(0, at - LOOKBACK), at + 1)
            if digests[number] in self._kept
        ]
        read = counts[max(hits)] if hits else 0
        end = counts[max(breakpoints)] if breakpoints else 0
        self._kept |= {digests[number] for number in breakpoints}
        return Tokens(read=read, created=max(0, end - read), rest=total - max(end, read))


def blocks_of(body: Mapping[str, Any]) -> Iterator[Block]:
    """Yield all blocks of a request in the order of its prefix."""
    for tool in body.get("tools") or ():
        yield "tools", tool
    yield from (("system", block) for block in content_of(body.get("system")))
    for message in body.get("messages") or ():
        yield from ((message["role"], block) for block in content_of(message.get("content")))


def content_of(content: Any) -> list[dict[str, Any]]:
    """Return content as blocks; a text stands for one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def digest_of(blocks: list[Block]) -> str:
    """Return the fingerprint of a prefix; breakpoints are no part of it."""
    return hashlib.sha256("\n".join(f"{place}:{_text(block)}" for place, block in blocks).encode()).hexdigest()


def _text(block: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in block.items() if name != "cache_control"}, sort_keys=True)
