"""Stores of session state: the port, and stores in this process, in a SQLite file and in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.memory.stores.store import Change, LogState, Place, Record

_PLACES = {
    "vivavoce.agents.memory.stores.store": "Change LogState Place Record",
}

__all__ = [
    "Change",
    "LogState",
    "Place",
    "Record",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
