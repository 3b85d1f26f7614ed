"""KeyEntry: how the keys that a caller presses become one entry."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_flag, check_number, check_text, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError

KEYS = "0123456789*#ABCD"
"""The keys of a telephone (RFC 4733)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """How keys become one entry; times in seconds.

    Each option: docs/options.md.
    """

    length: int | None = None
    """The number of keys that completes the entry; None: any number, until a terminator or a pause."""
    max_length: int = 32
    """The number of keys at which any entry ends."""
    terminator: str = "#"
    """The key that ends the entry and is no part of it; "" for none."""
    pause: float = 3.0
    """How long the next key may take; then the keys there are count."""
    limit: float = 30.0
    """How long the whole entry may take, from its first key."""
    interrupts: bool = True
    """Whether its first key stops the agent's speech; protected speech goes on."""

    def __post_init__(self) -> None:
        check_whole("length", self.length, at_least=1, or_none=True)
        check_whole("max_length", self.max_length, at_least=1)
        if self.length is not None and self.length > self.max_length:
            raise ConfigurationError(f"need length <= max_length, got {self.length!r} and {self.max_length!r}")
        if check_text("terminator", self.terminator) and self.terminator not in tuple(KEYS):
            raise ConfigurationError(f'terminator must be one of {KEYS}, or "" for none, got {shown(self.terminator)}')
        for name in ("pause", "limit"):
            check_number(name, getattr(self, name), above=0, unit="s")
        check_flag("interrupts", self.interrupts)
