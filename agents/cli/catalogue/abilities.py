"""Abilities: the capabilities of a component in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORDS: Mapping[str, str] = {
    "emits_interims": "interims",
    "emits_end_of_turn": "ends of turns",
    "needs_flush": "needs a VAD",
    "emits_words": "word times",
    "diarizes": "speakers",
    "takes_key_terms": "key terms",
    "supports_tools": "tools",
    "supports_images": "pictures",
    "takes_video": "video",
    "streams_text": "text as it comes",
    "starts_replies": "answers by itself",
    "generates_audio": "speech",
    "generates_text": "text for another voice",
    "says_verbatim": "texts word for word",
    "truncates": "cut answers",
    "deletes": "deleted items",
    "sends_transcripts": "transcripts",
    "answers_results": "answers tools by itself",
    "updates": "updates in the connection",
    "needs_audio": "judges sound",
    "needs_transcript": "judges words",
}
"""Capability that is true or false -> what it means, if it is true."""


def abilities(capabilities: Mapping[str, Any]) -> list[str]:
    """Return what the capabilities that hold mean, in the order of the port."""
    return [words_of(name) for name, value in capabilities.items() if value is True]


def words_of(name: str) -> str:
    """Return what a capability means; a third party's own by its name."""
    return WORDS.get(name, name.replace("_", " "))
