"""PostedParts: the log of a session's parts in its store."""

from __future__ import annotations

from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.session_state import SessionState
from vivavoce.agents.replies.kept import BEGIN, MAX_RECORDED_BYTES, kept_part, record_of
from vivavoce.agents.replies.part import Form, Part
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id

LOG = "parts"
KEPT = 500
"""The newest records of the log, which are kept; an answer is a record too."""


class PostedParts:
    """Writes and reads the log of one session."""

    def __init__(self, base: MemoryBase) -> None:
        self._base = base
        self._next: int | None = None
        """Index of the next record to read; None until the index behind the records of earlier calls is known."""

    async def post_from_outside(self, part: Part) -> str:
        """Record a part posted by another process than the session's; the session then sends it. Return its id.

        Raises:
            ConfigurationError: Another process cannot post it.
        """
        if isinstance(part, Form):
            raise ConfigurationError("a Form needs its model: post it in the session's own process")
        kept = kept_part(new_id("part"), part)
        if len(kept.data) > MAX_RECORDED_BYTES:
            raise ConfigurationError(
                f"from another process, images and files have at most {MAX_RECORDED_BYTES} bytes, got "
                f"{len(kept.data)}; post it in the session's own process, or a link"
            )
        await self.record(record_of(kept, self._base.clock.wall(), is_foreign=True))
        await SessionState(self._base).note_post()
        return kept.id

    async def record(self, text: str) -> None:
        base = self._base
        await base.within(base.store.log(base.place(LOG), [text], keep=KEPT))

    async def begin_anew(self) -> None:
        """Begin a new call under the id of an earlier one: parts of the earlier call are left out from now on."""
        following = await self._following()
        if following:
            await self.record(BEGIN)
        self._next = following

    async def read_all(self) -> list[str]:
        """Return all records, oldest first."""
        self._next = 0
        return await self.read_new()

    async def read_new(self) -> list[str]:
        """Return the records since the last call."""
        base = self._base
        if self._next is None:
            self._next = await self._following()
        elif self._next and await self._following() < self._next:  # the store has lost the records
            self._next = 0
        found = await base.within(base.store.records(base.place(LOG), self._next, KEPT))
        if found:
            self._next = found[-1].index + 1
        return [record.text for record in found]

    async def _following(self) -> int:
        base = self._base
        return (await base.within(base.store.log_state(base.place(LOG)))).next_index
