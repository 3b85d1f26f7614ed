"""StoredReplies: keeps a session's rich replies in its store, and shows the parts that other processes post there."""

from __future__ import annotations

from functools import partial

from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.posted_parts import PostedParts
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.agents.memory.writer import MemoryWriter
from vivavoce.agents.replies.part import Part
from vivavoce.agents.replies.replies import RichReplies
from vivavoce.pipelines.core.errors import StoreUnavailable


class StoredReplies:
    """The link between the rich replies of a session and the log of its parts in its store.

    Args:
        is_shared: Whether others use the store too. Without them no process reads the records, so none are made.
    """

    def __init__(self, base: MemoryBase, writer: MemoryWriter, health: StoreHealth, *, is_shared: bool) -> None:
        self._writer = writer
        self._health = health
        self._is_shared = is_shared
        self._posts = PostedParts(base)
        self._replies: RichReplies | None = None

    def open(self, replies: RichReplies) -> None:
        """Link the rich replies of the session."""
        self._replies = replies
        if self._is_shared:
            replies.keep_in(self)

    def post(self, part: Part) -> str:
        """Show a part; return its id."""
        return self._shown.post(part)

    def record(self, text: str) -> None:
        """Append a record to the log; the write waits behind the memory's own."""
        self._writer.put(partial(self._posts.record, text), size=len(text))

    async def begin_anew(self) -> None:
        """Begin a new call under the id of an earlier one: parts of the earlier call are left out from now on."""
        await self._posts.begin_anew()

    async def restore(self) -> None:
        """Restore the parts of the session that is resumed."""
        try:
            self._shown.restore(await self._posts.read_all())
        except StoreUnavailable as error:
            self._health.failed(error)

    async def take_posts(self) -> None:
        """Show the parts that other processes have posted."""
        for text in await self._posts.read_new():
            self._shown.take(text)

    @property
    def _shown(self) -> RichReplies:
        assert self._replies is not None, "open() comes first"
        return self._replies
