"""Intent: a wish that a caller may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True, eq=False)
class Intent:
    """A wish that a caller may have.

    Args:
        name: Unique in the graph.
        examples: Sentences of callers with that intent.
        slots: Model of the details that such a sentence may hold, or None without details.
        description: Words for the model that judges.
    """

    name: str
    examples: tuple[str, ...] = ()
    slots: type[BaseModel] | None = None
    description: str = ""
