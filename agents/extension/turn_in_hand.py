"""TurnInHand: a turn of the caller on the way to its answer, as extensions get it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.turn.inputs import ToolsAwaited, ToolsFinished

if TYPE_CHECKING:
    from vivavoce.agents.core.inbox import Inbox
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.extension.text_parts import TextParts
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder

_MARKS = re.compile(r"<(?=\s*/?\s*material\b)", re.IGNORECASE)

NoteTaken = Callable[[str, bool], None]
"""Called with the key of an extension, and whether its state has the effect of the turn."""


def quoted(material: str) -> str:
    """Return material between marks, for a model; it cannot hold the marks itself, and so not end the quotation."""
    return f"<material>\n{_MARKS.sub('‹', material)}\n</material>"


class TurnInHand:
    """A turn of the caller.

    It is *ahead* while it may still change: an answer to its words is begun before the turn is over. Then no speech
    exists yet, so code that speaks cannot come before one. `answer` and `drop` take effect if the turn is committed
    with the same words; no model is asked for them meanwhile. If it is not, the extension gets `undo`, and another turn
    with the new words.

    Args:
        text: The caller's words; of a turn that is over, behind the hook of the agent and the content guard. `said` has
            them as they came.
        taken_by: The keys of the extensions that had the turn before a crash; they do not get it again.
    """

    def __init__(
        self, turn_id: str, text: str, *, inbox: Inbox, note_taken: NoteTaken, taken_by: Collection[str] = ()
    ) -> None:
        self.turn_id = turn_id
        self.text = text
        self.said = text
        self.is_ahead = True
        """Whether the turn may still change."""
        self.is_remote = False
        """Whether the model's server has begun the answer. Then it does not wait for the extensions, and `add`,
        `answer` and `drop` have no effect."""
        self.material: list[str] = []
        """Added to the instructions of the answer's first request."""
        self.answering: TextParts | None = None
        """The text that answers the turn in place of the model."""
        self.is_dropped = False
        self.settled_by = ""
        """The key of the extension that answers the turn, or has dropped it."""
        self.is_cut = False
        """Whether no `on_turn` may go on: the turn is taken back, or the session closes."""
        self.is_undone = False
        """Whether the turn is taken back."""
        self._inbox = inbox
        self._note_taken = note_taken
        self._taken_by = taken_by
        self._handle: SpeechHandle | None = None
        self._record: TurnRecordBuilder | None = None
        self._asked: list[str] = []
        self._asks = ""
        """The key of the extension whose `on_turn` runs; "" without one."""
        self._scope = anyio.CancelScope()
        """The cancel scope around that `on_turn`."""
        self._ended = anyio.Event()
        """Set when that `on_turn` has ended."""
        self._has_left = False
        self._once_over: list[Callable[[], None]] = []

    @property
    def handle(self) -> SpeechHandle:
        """The handle of the speech that answers the turn; not while the turn is ahead."""
        assert self._handle is not None, "a turn that is ahead has no speech"
        return self._handle

    @property
    def record(self) -> TurnRecordBuilder:
        """The record of the turn; not while it is ahead."""
        assert self._record is not None, "a turn that is ahead has no record"
        return self._record

    # --- for extensions

    def add(self, material: str, *, source: str = "") -> None:
        """Give the model `material` for the first request of this answer; the history does not get it.

        Args:
            source: Where it comes from, for the model.
        """
        if self.is_remote:
            return
        title = f"Material from {source}" if source else "Material"
        self.material.append(f"{title} for this answer:\n{quoted(material)}")

    def once_over(self, call: Callable[[], None]) -> None:
        """Call `call` once the turn is over with these words: at once if it is, and not if it goes on with others."""
        if self.is_ahead:
            self._once_over.append(call)
        else:
            call()

    def answer(self, parts: TextParts) -> None:
        """Answer the turn by that text, in place of the model; in `on_turn`. The first answer counts."""
        if self._may_settle:
            self.answering, self.settled_by = parts, self._asks

    def drop(self) -> None:
        """Drop the turn, in `on_turn`: it gets no answer, and the history does not keep it."""
        if self._may_settle:
            self.is_dropped, self.settled_by = True, self._asks

    def note_taken(self, key: str, *, is_taken: bool) -> None:
        """Note whether the state of that extension has the effect of the turn; ignored while the turn is ahead.

        After a crash, an extension does not get a turn again whose effect is in its snapshot.
        """
        if not self.is_ahead:
            self._note_taken(key, is_taken)

    def leave_floor(self) -> None:
        """Give up the floor while waiting: code that runs may need it."""
        if not (self._has_left or self.is_ahead):
            self._has_left = True
            self._inbox.post(ToolsAwaited(self.handle.id))

    def want_floor(self) -> None:
        """Wait for the floor again, if it was given up."""
        if self._has_left:
            self._has_left = False
            self._inbox.post(ToolsFinished(self.handle.id))

    # --- for the session

    @property
    def is_settled(self) -> bool:
        """Whether an extension has answered or dropped the turn."""
        return bool(self.settled_by)

    @property
    def _may_settle(self) -> bool:
        return bool(self._asks) and not (self.is_settled or self.is_remote or self.is_cut)

    def commit(
        self, handle: SpeechHandle, record: TurnRecordBuilder, text: str, *, said: str = "", is_remote: bool = False
    ) -> None:
        """Commit the turn with these words, which came as `said`; `handle` is the speech that answers it."""
        self._handle, self._record = handle, record
        self.text, self.said, self.is_remote, self.is_ahead = text, said or text, is_remote, False
        while self._once_over:
            self._once_over.pop(0)()

    def awaits(self, key: str) -> bool:
        """Return whether that extension is still to get the turn."""
        return key not in self._asked and key not in self._taken_by

    def had(self, key: str) -> bool:
        """Return whether that extension has got the turn."""
        return key in self._asked

    def unsettle(self, key: str) -> None:
        """Take back the extension's effect on the turn: its `on_turn` failed, and the turn goes on."""
        if self.settled_by == key:
            if self.answering is not None:
                self.answering.close()
            self.answering, self.is_dropped, self.settled_by = None, False, ""

    def begin(self, key: str) -> anyio.CancelScope:
        """Note that `on_turn` of that extension begins; return the scope for it."""
        self._asked.append(key)
        self._asks = key
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        return self._scope

    def end(self) -> None:
        """Note that `on_turn` has ended."""
        self._asks = ""
        self._ended.set()

    def cut(self) -> None:
        """Cancel the `on_turn` that runs, if any, and let none begin."""
        self.is_cut = True
        self._scope.cancel()

    def take_back(self) -> None:
        """Note that the turn is taken back, and cut its `on_turn`."""
        self.is_undone = True
        self.cut()

    async def ended(self) -> None:
        """Wait until the `on_turn` that runs has ended."""
        if self._asks:
            await self._ended.wait()
