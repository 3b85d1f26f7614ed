"""MemoryOptions: where a session's memory is kept, for how long, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from vivavoce.agents.extension.extension import Attached, Extension
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.pipelines.core.checks import check_flag, check_number, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.old_names import old_arguments

if TYPE_CHECKING:
    from vivavoce.agents.extension.attachments import Attachments
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.memory.control import MemoryControl


@old_arguments(budget="SessionOptions(budget=…)")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions(Extension):
    """The memory of a session (`session.memory`).

    Each option: docs/options.md.
    """

    key: ClassVar[str] = "memory"
    _is_used: ClassVar[bool] = True

    store: SessionStore | None = None
    """Keeps the memory and the conversation: `SqliteStore("calls.db")` or `RedisStore("redis://…")`; sessions may share
    one, and its maker closes it. None keeps them in this process, until the session is gone."""
    keep: float | None = None
    """Seconds without use after which the store erases the session and its text, or None for never. `pinned` in its
    metadata prevents it. Running sessions look every five minutes; `await store.sweep()` does so at once."""
    images: bool = False
    """Whether the store keeps the pictures of the conversation, as base64; an item that is too long with its pictures
    is kept without them."""
    timeout: float = 2.0
    """Seconds for a call to the store; then it raises StoreUnavailable. A stream's reader takes up to half more."""
    user: str = field(default="", repr=False)
    """The user whose session it is, for `store.sessions(user=…)`; metadata `user`. A session under the id of the
    memory of a user that it does not name does not start (StoreError)."""
    name: str = field(default="", repr=False)
    """Name of the session, for people; metadata `name`."""

    def __post_init__(self) -> None:
        if self.store is not None and not isinstance(self.store, SessionStore):
            raise ConfigurationError(
                f'store must be a SessionStore or None, got {shown(self.store)}; for example SqliteStore("calls.db")'
            )
        check_number("keep", self.keep, above=0, unit="s", or_none=True)
        check_flag("images", self.images)
        check_number("timeout", self.timeout, above=0, unit="s")
        check_text("user", self.user)
        check_text("name", self.name)

    def attach(self, host: Host) -> Attached:
        """Make the memory of one session."""
        from vivavoce.agents.memory.base import memory_base
        from vivavoce.agents.memory.control import MemoryControl

        return MemoryControl(
            host,
            memory_base(self.store, self.timeout, host.context.clock),
            keep=self.keep,
            user=self.user,
            name=self.name,
            images=self.images,
            is_shared=self.store is not None,
            is_used=self._is_used,
        )


class UnusedMemory(MemoryOptions):
    """The memory of a session without options. It does nothing until the application asks for it."""

    _is_used = False


def memory_of(extensions: Attachments) -> MemoryControl:
    """Return the memory of a session; each session has one. Its `face` is what applications use."""
    from vivavoce.agents.memory.control import MemoryControl

    memory = extensions.of(MemoryOptions)
    assert isinstance(memory, MemoryControl), "each session has a memory"
    return memory
