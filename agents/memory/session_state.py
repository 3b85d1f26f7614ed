"""SessionState: whether a session runs, as other processes see it in the store, and their request to close it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from vivavoce.agents.core.values import decode, encode
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.stores.limit import within

LOG = "session"
"""The log of a session's begins, ends and requests."""
CALL, BEGAN = "call", "began"
"""The namespace of the newest call, and the entry with the time when it began, seconds since the Unix epoch."""
KEPT = 100
"""Records of the log that are kept."""
GRACE = 6.0
"""Seconds without a lease after which a session counts as ended. A store that lost its leases gets them back in that
time."""

Entry = Literal["created", "running", "resumed", "stop", "ended", "posted"]
"""An entry of the log. `created`: it has begun without a call; `posted`: another process has posted a part of a rich
reply."""


@dataclass(frozen=True, slots=True)
class Life:
    """The state of a session by its log.

    Args:
        following: Index of the next record of the log.
        is_stop_asked: Whether another process has asked it to close.
        has_call: Whether a process runs it, which has a lease while it lives.
    """

    following: int = 0
    has_begun: bool = False
    has_ended: bool = False
    is_stop_asked: bool = False
    has_call: bool = False


class SessionState:
    """The state of one session in its store."""

    def __init__(self, base: MemoryBase) -> None:
        self._base = base

    async def create(self) -> None:
        """Note that the session has begun without a call; an earlier request to close it does not count."""
        await self._note("created")

    async def begin(self, at: float) -> bool:
        """Note that a call has begun at that time; return whether it is the first with that id in the store.

        An earlier request to close the session does not count.
        """
        await self._base.within(self._base.store.write(self._base.place(CALL), BEGAN, encode(at)))
        return await self._note("running") == 1

    async def resume(self) -> bool:
        """Note that the call continues; return whether the store has not seen it before.

        An earlier request to close the session counts.
        """
        return await self._note("resumed") == 1

    async def began_at(self) -> float:
        """Return when the newest call began, in seconds since the Unix epoch, or 0 if that is not known."""
        text = await self._base.within(self._base.store.read(self._base.place(CALL), BEGAN))
        return 0.0 if text is None else float(decode(text))

    async def end(self) -> None:
        """Note that the session has ended."""
        await self._note("ended")

    async def ask_stop(self, end_streams: Callable[[], Awaitable[None]]) -> None:
        """Ask the session to close. If its process has died, it has ended; a session that resumes it then closes.

        Args:
            end_streams: Called for a session whose process has died.
        """
        life = await self.read()
        if not life.has_begun or life.has_ended:
            return
        if not await self._is_held():
            await end_streams()
            await self._note("ended")
        await self._note("stop")

    async def note_post(self) -> None:
        """Note that this process has posted a part of a rich reply; it is not the session's own process."""
        await self._note("posted")

    async def read(self) -> Life:
        """Return the state as it is now."""
        following, has_begun, has_ended, is_stop_asked, has_call = 0, False, False, False, True
        for record in await self._base.within(self._base.store.records(self._base.place(LOG), 0, KEPT)):
            following, has_begun, entry = record.index + 1, True, decode(record.text)
            if entry == "posted":
                continue
            has_call = entry in ("running", "resumed") or (entry != "created" and has_call)
            has_ended = entry == "ended" or (entry == "stop" and has_ended)
            is_stop_asked = entry == "stop" or (entry == "resumed" and is_stop_asked)
        return Life(following, has_begun, has_ended, is_stop_asked, has_begun and has_call)

    async def changed(self, since: Life, seconds: float) -> None:
        """Wait for a change, for at most so many seconds.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        call = self._base.store.wait(self._base.place(LOG), since.following, seconds)
        await within(seconds + self._base.timeout, call)

    async def ended(self) -> None:
        """Wait until the session has ended, or until its process has died and no other one has resumed it."""
        clock = self._base.clock
        held_at = clock.now()
        while not (life := await self.read()).has_ended:
            is_without_call = life.has_begun and not life.has_call  # whose end is that of no process
            if is_without_call or await self._is_held():
                held_at = clock.now()
            elif clock.now() - held_at > GRACE:
                return
            await self.changed(life, GRACE / 2)

    async def _note(self, entry: Entry) -> int | None:
        return await self._base.within(self._base.store.log(self._base.place(LOG), [encode(entry)], keep=KEPT))

    async def _is_held(self) -> bool:
        return await self._base.within(self._base.store.is_held(self._base.id))
