"""TurnInHand: a turn of the caller on the way to its answer, as extensions get it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vivavoce.agents.turn.inputs import ToolsAwaited, ToolsFinished

if TYPE_CHECKING:
    from vivavoce.agents.core.inbox import Inbox
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.extension.text_parts import TextParts
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder


@dataclass(slots=True, eq=False, kw_only=True)
class TurnInHand:
    """A turn of the caller.

    Args:
        handle: Of the speech that answers it.
        text: The caller's words, behind the hook of the agent and the content guard.
        record: Of the turn.
        is_remote: Whether the model's server has begun the answer, so that nothing waits for the extensions: `add` and
            `answer` have no effect.
    """

    handle: SpeechHandle
    turn_id: str
    text: str = field(repr=False)
    record: TurnRecordBuilder
    inbox: Inbox
    note_taken: Callable[[bool], None]
    """Called with whether the state of an extension has the effect of the turn: after a crash, the extension does not
    get a turn again that its snapshot has the effect of."""
    is_remote: bool = False
    material: list[str] = field(default_factory=list, repr=False)
    """Added to the instructions of the answer's first request."""
    answering: TextParts | None = field(default=None, repr=False)
    """The text that answers the turn in place of the model."""
    is_dropped: bool = False
    _has_left: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether an extension has answered or dropped it."""
        return self.is_dropped or self.answering is not None

    def add(self, material: str, *, source: str = "") -> None:
        """Give the model `material` for this answer alone; the history does not get it.

        Args:
            source: Where it comes from, for the model.
        """
        title = f"Material from {source}" if source else "Material"
        self.material.append(f"{title} for this answer:\n<material>\n{material}\n</material>")

    def answer(self, parts: TextParts) -> None:
        """Answer the turn by that text, in place of the model. The first answer counts."""
        if not self.is_settled:
            self.answering = parts

    def drop(self) -> None:
        """Drop the turn: nobody answers it, and the history does not keep it."""
        self.is_dropped = self.answering is None

    def leave_floor(self) -> None:
        """Wait without the floor, which code that runs may need."""
        if not self._has_left:
            self._has_left = True
            self.inbox.post(ToolsAwaited(self.handle.id))

    def want_floor(self) -> None:
        """Wait for the floor again, if the turn has left it."""
        if self._has_left:
            self._has_left = False
            self.inbox.post(ToolsFinished(self.handle.id))
