"""Transports: a LiveKit room, a console, or a program in the same process. Public names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vivavoce.agents.transports.local import LocalTransport
    from vivavoce.agents.transports.text import AgentText, TextTransport

_PLACES = {"AgentText": "text", "LocalTransport": "local", "TextTransport": "text"}

__all__ = ["AgentText", "LocalTransport", "TextTransport"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
