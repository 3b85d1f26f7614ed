"""SessionStore: the port that keeps the state of sessions, beyond the call and for other processes.

A session has namespaces, each of them entries by name, and logs of records in order. Entries and records are texts
(`values`). A store is a component: sessions may share one, and its maker closes it. It raises StoreUnavailable if it
cannot be reached, and if a call takes too long: after 10 s, since applications call `sessions()` and `delete()` too.
The calls of a session end earlier, by `MemoryOptions.timeout`. A call that was acknowledged survives the process's end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vivavoce.agents.core.values import Json, appended, decoded
from vivavoce.agents.memory.stores.limit import CALL_LIMIT, within
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from vivavoce.pipelines.llm.chat_context import ChatContext

T = TypeVar("T")

Change = Callable[[str | None], tuple[str | None, T]]
"""Takes the text of an entry, or None without one; returns its new text, or None to remove it, and a result. A store
may call it again, with a newer text. An unchanged text is not written.
"""


CALLS = "vivavoce.calls"
"""An id that no session may have: running calls are kept under it (`memory.calls_in_store`)."""

METADATA = "metadata"
"""The namespace with `created_date`, `user`, `name` and `pinned`."""

KEEP = 7 * 24 * 3600.0
"""Seconds for which a session is kept without a call of `keep()`, such as a session that is written to after it was
erased."""

SWEPT = 20
"""Sessions that one sweep erases."""


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace or a log of one session."""

    session_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a log; its index counts from 0, and stays when older records are dropped."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of a log.

    Args:
        next_index: The index of the next record to come.
        closed_by: The reason why it takes no more records; "" while it takes them.
    """

    next_index: int = 0
    closed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session that a store holds.

    Args:
        id: The session's id.
        metadata: The entries of its metadata.
        used_at: Time of the last write, in seconds since the Unix epoch.
    """

    id: str
    metadata: dict[str, Json]
    used_at: float

    @classmethod
    def of(cls, session_id: str, entries: Mapping[str, str], used_at: float) -> SessionSummary:
        """Return the summary of a session by the texts of its namespace `metadata`."""
        return cls(id=session_id, metadata=decoded(entries), used_at=used_at)

    @property
    def is_pinned(self) -> bool:
        """Whether its metadata keep it from being erased."""
        return self.metadata.get("pinned") is True


def removing(_: str | None) -> tuple[None, None]:
    """Remove an entry: a `Change`."""
    return None, None


class SessionStore(ABC):
    """Keeps namespaces, logs and leases of sessions.

    The port for stores of your own: docs/stores.md.
    """

    # --- namespaces

    @abstractmethod
    async def read(self, place: Place, entry: str) -> str | None:
        """Return the text of an entry, or None without one."""

    @abstractmethod
    async def read_all(self, place: Place) -> dict[str, str]:
        """Return the texts of all entries, by name."""

    @abstractmethod
    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        """Set the text of an entry; with `nx` only if it does not exist. Return whether it was written."""

    async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
        """Set the texts of these entries, by name; after an error some of them may be set."""
        for entry, text in texts.items():
            await self.write(place, entry, text)

    @abstractmethod
    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        """Change an entry by a function, atomically, and return the function's result.

        If the function raises, nothing changes, and the exception is raised here.
        """

    async def append(self, place: Place, entry: str, item: str) -> int:
        """Append `item`, the JSON of a value, to the list of an entry, atomically; return the list's length.

        Raises:
            StoreTypeError: The entry holds no list.
            StoreValueError: The list would become too long.
        """
        return await self.change(place, entry, lambda text: appended(text, item))

    # --- logs

    @abstractmethod
    async def log(self, place: Place, texts: Sequence[str], *, keep: int, closes: str = "") -> int | None:
        """Append records and drop all but the newest `keep`; return the index of the next record to come.

        A closed log stays as it is, and the result is None.

        Args:
            closes: The reason for which to close the log behind these records; "" leaves it open.
        """

    @abstractmethod
    async def log_state(self, place: Place) -> LogState:
        """Return the state of a log."""

    @abstractmethod
    async def reopen(self, session_id: str, closed_by: str) -> None:
        """Open the logs of a session again that were closed for that reason."""

    @abstractmethod
    async def follow(self, starts: Mapping[Place, int], limit: int, seconds: float) -> dict[Place, list[Record]]:
        """Return the next records of logs as soon as there are any, or none after that time.

        Args:
            starts: For each log, the index of its first record to return; if that was dropped, the oldest one left.
            limit: The most records of one log.
            seconds: Seconds to wait; 0 to return at once.
        Returns:
            The logs with records, each with one or more.
        """

    async def records(self, place: Place, start: int, limit: int) -> list[Record]:
        """Return up to `limit` records from index `start` on, or from the oldest record that is left."""
        return (await self.follow({place: start}, limit, 0.0)).get(place, [])

    async def wait(self, place: Place, start: int, seconds: float) -> None:
        """Return when the record with index `start` or a later one exists, or after that time."""
        await self.follow({place: start}, 1, seconds)

    # --- sessions

    @abstractmethod
    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        """Take or renew the lease of a session for so long; return False if another holder has it.

        Args:
            takes_over: Whether to take it from another holder, whose next call returns False.
        """

    @abstractmethod
    async def release(self, session_id: str, holder: str) -> None:
        """Give the lease up, if this holder has it."""

    @abstractmethod
    async def is_held(self, session_id: str) -> bool:
        """Return whether a holder has the lease of a session."""

    @abstractmethod
    async def keep(self, session_id: str, seconds: float | None) -> None:
        """Have the session erased after so many seconds without use, unless it is pinned or held; None for never.

        Without this call the time is a week.
        """

    @abstractmethod
    async def sweep(self, limit: int = SWEPT) -> list[str]:
        """Erase up to `limit` sessions whose time is over; return their ids.

        Running sessions call it from time to time. If none runs for long, a job of your own may call it.
        """

    @abstractmethod
    async def summaries(self) -> list[SessionSummary]:
        """Return all sessions, the one written last first."""

    async def sessions(self, user: str | None = None) -> list[SessionSummary]:
        """Return the sessions of a user, or of all users for None; the one written last first."""
        found = [one for one in await self.summaries() if one.id != CALLS]
        return [one for one in found if user is None or one.metadata.get("user", "") == user]

    async def history(self, session_id: str) -> ChatContext:
        """Return the conversation of a session: all calls under its id in the order of time; empty without any.

        Raises:
            ConfigurationError: `session_id` is no id, or an item is of another version or shape.
            StoreUnavailable: The store did not answer within 10 s.
        """
        from vivavoce.agents.memory.history.stored_items import HISTORY, items_of
        from vivavoce.pipelines.llm.chat_context import ChatContext

        check_session_id(session_id)
        return ChatContext(items_of(await within(CALL_LIMIT, self.read_all(Place(session_id, HISTORY)))))

    async def snapshot(self, session_id: str) -> dict[str, Any]:
        """Return the snapshot of a session's newest call, for `start(resume_from=…)`.

        It equals `session.snapshot()` after the newest turn that is over, the newest message of a dialogue, or the
        close. Pictures are in it if the store keeps them (`MemoryOptions.images`), and an item that the store has lost
        is left out.

        Args:
            session_id: The id of the session's memory, `session.memory.id`.
        Raises:
            ConfigurationError: `session_id` is no id.
            StoreError: The store has no such session, no snapshot of it yet, or the session could make none: its
                userdata cannot be JSON.
            StoreUnavailable: The store did not answer within 10 s.
        """
        from vivavoce.agents.memory.history.stored_items import HEAD, HISTORY, SNAPSHOT, whole_snapshot

        check_session_id(session_id)
        head = await within(CALL_LIMIT, self.read(Place(session_id, SNAPSHOT), HEAD))
        if head is not None:
            return whole_snapshot(head, await within(CALL_LIMIT, self.read_all(Place(session_id, HISTORY))))
        if await within(CALL_LIMIT, self.read(Place(session_id, METADATA), "created_date")) is None:
            raise StoreError(f"the store has no session {session_id!r}; store.sessions() lists them")
        raise StoreError(f"the session {session_id!r} has no snapshot yet; the first one comes after its `on_enter`")

    @abstractmethod
    async def delete(self, session_id: str) -> bool:
        """Erase a session with its namespaces, logs and lease; return whether it existed."""

    async def aclose(self) -> None:
        """Release the store's resources."""


def check_session_id(session_id: object) -> None:
    """Check that it is the id of a session.

    Raises:
        ConfigurationError: It is not an id.
    """
    if not isinstance(session_id, str) or not session_id:
        raise ConfigurationError(f"need session_id as the id of a session, got {shown(session_id)}")
