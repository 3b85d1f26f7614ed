"""The check of names in graphs and dialogues, and of the ids of cards."""

from __future__ import annotations

from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError


def checked_name(name: str, *, what: str = "name") -> str:
    """Return the name of a state, an intent, a node or an edge, or what else the error calls it.

    Raises:
        ConfigurationError: It is no text, or empty.
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"{what} must be a text that is not empty, got {shown(name)}")
    return name
