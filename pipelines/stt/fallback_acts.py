"""The members, streams and acts of `FallbackMachine`; `FallbackStream` carries the acts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.stt.base import STTEvent

Purpose = Literal["successor", "witness", "return"]
"""The reason why another stream is opened: the present one is lost or late, it is in doubt, or a preferred one may
work."""


@dataclass(frozen=True, slots=True)
class MemberTraits:
    """The behaviour of one recogniser.

    Args:
        provider: For errors.
        needs_flush: Whether it reports one final for each flush, and must.
        emits_interims: Whether words show before their final.
    """

    provider: str
    needs_flush: bool = False
    emits_interims: bool = True

    @property
    def shows_words(self) -> bool:
        """Whether the recogniser shows words while they are spoken; others may wait for the end."""
        return self.emits_interims and not self.needs_flush


@dataclass(slots=True)
class MemberStream:
    """A stream that serves, or may soon serve."""

    id: int
    member: int = -1
    since: float = 0.0
    """The time when it began to hear."""
    is_open: bool = False
    is_slow: bool = False
    purpose: Purpose = "successor"
    heard: int | None = None
    """For a witness, the number of ended utterances that it hears, or None for all. Words of later utterances would
    prove nothing, since the serving recogniser may still report them in time."""
    settled: int = 0
    """The number of ended utterances in which it, as a witness, heard no words."""


class Acts(Protocol):
    """The acts that `FallbackMachine` decides on. None of them calls the machine."""

    def emit(self, event: STTEvent) -> None:
        """Pass an event on."""

    def open(self, stream: int, among: frozenset[int]) -> None:
        """Open a stream of the first of these members, in the order of preference; the result is an input."""

    def let_hear(self, stream: int, begin: int = 0, end: int | None = None) -> None:
        """Have a stream hear the unsettled audio.

        Args:
            begin: The number of ended utterances that it has heard already.
            end: The number of ended utterances up to which it hears; None for all audio, later audio included.
        """

    def pause(self, stream: int) -> None:
        """Keep further audio from a stream."""

    def close(self, stream: int) -> None:
        """Close a stream; its events do not count any more."""

    def fails(self, member: int, *, is_slow: bool) -> None:
        """Note that a member failed; `is_slow` if by its silence."""

    def works(self, member: int) -> None:
        """Note that a member has heard words."""

    def take_over(self, member: int, failures: Sequence[tuple[int, ProviderError]], dropped: int) -> None:
        """Let a member serve from now on.

        Args:
            failures: Those of the members that it replaces.
            dropped: The number of frames that it does not hear, since fewer are kept.
        """

    def give_up(self, errors: Sequence[ProviderError]) -> None:
        """Report that no member works."""
