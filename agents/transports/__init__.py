"""Transports: a LiveKit room, a console, or a program in the same process. Public names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.transports.livekit.avatar_token import avatar_token
    from vivavoce.agents.transports.local import LocalTransport
    from vivavoce.agents.transports.options import AvatarOptions, FileInputOptions
    from vivavoce.agents.transports.text import AgentText, TextTransport

_PLACES = {
    "vivavoce.agents.transports.livekit.avatar_token": "avatar_token",
    "vivavoce.agents.transports.local": "LocalTransport",
    "vivavoce.agents.transports.options": "AvatarOptions FileInputOptions",
    "vivavoce.agents.transports.text": "AgentText TextTransport",
}

__all__ = [
    "AgentText",
    "AvatarOptions",
    "FileInputOptions",
    "LocalTransport",
    "TextTransport",
    "avatar_token",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
