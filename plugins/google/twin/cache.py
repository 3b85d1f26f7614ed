"""Cache: the implicit cache of the twin, which keeps the beginnings of requests.

Source: https://ai.google.dev/gemini-api/docs/caching: a request whose beginning is that of an earlier one reads it from
the cache, unless it is too short; `cachedContentTokenCount` tells it. Tokens are a quarter of the characters here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


class Cache:
    """Holds the beginnings of the requests so far.

    Args:
        minimum: Tokens of the shortest beginning that is read; with Google 1024 or more, by model.
    """

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._kept: set[str] = set()

    def take(self, model: str, body: Mapping[str, Any]) -> dict[str, int]:
        """Read the cache for a request, and keep its beginnings; return the prompt's fields of the usage."""
        head = [model, body.get("systemInstruction"), body.get("tools"), body.get("toolConfig")]
        parts = [[content.get("role"), part] for content in body["contents"] for part in content["parts"]]
        digest, total, cached, beginnings = hashlib.sha256(), 0, 0, []
        for piece in (head, *parts):
            text = json.dumps(piece, sort_keys=True)
            digest.update(text.encode())
            total += len(text) // 4 + 1
            beginnings.append(digest.hexdigest())
            if beginnings[-1] in self._kept and total >= self._minimum:
                cached = total
        self._kept.update(beginnings)
        return {"promptTokenCount": total, **({"cachedContentTokenCount": cached} if cached else {})}
