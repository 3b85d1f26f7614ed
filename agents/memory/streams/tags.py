"""Tags of streams, and the streams that they select: pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from vivavoce.agents.memory.streams.items import checked_name
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError

Wanted = str | tuple[str, ...]
"""A tag, or tags that a stream must all have."""


def matches(tags: Collection[str], wanted: Iterable[Wanted], exclude: Iterable[Wanted] = ()) -> bool:
    """Return whether a stream with these tags is wanted by at least one entry, and excluded by none."""
    return any(_has(tags, entry) for entry in wanted) and not any(_has(tags, entry) for entry in exclude)


def _has(tags: Collection[str], entry: Wanted) -> bool:
    return entry in tags if isinstance(entry, str) else all(tag in tags for tag in entry)


def checked_tags(tags: object) -> tuple[str, ...]:
    """Check the tags of a stream, and return each once, in their order.

    Raises:
        ConfigurationError: They are not a list of tags.
    """
    return tuple(dict.fromkeys(checked_name("a tag", tag) for tag in _listed("tags", tags)))


def checked_wanted(name: str, entries: object) -> tuple[Wanted, ...]:
    """Check entries that select streams.

    Raises:
        ConfigurationError: One of them is neither a tag nor a tuple of tags, or the tuple is empty.
    """
    return tuple(_checked_entry(name, entry) for entry in _listed(name, entries))


def _checked_entry(name: str, entry: object) -> Wanted:
    if not isinstance(entry, list | tuple):
        return checked_name(f"each of {name}", entry)
    if not entry:
        raise ConfigurationError(f"need tags in each tuple of {name}, got an empty one, which every stream would match")
    return tuple(checked_name(f"each of {name}", tag) for tag in entry)


def _listed(name: str, given: object) -> Iterable[object]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | set | frozenset):
        raise ConfigurationError(f'need {name} as a list of tags, got {shown(given)}; such as {name}=("orders",)')
    return given
