"""The watch over sessions that running code starts: the port, and how a session finds its watch.

The worker, `vivavoce dev` and the console set a watch; a session finds it. A context variable carries it, so every task
started from there sees it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

Conversation = Mapping[str, Any]
"""The value of `AgentSession.snapshot()`."""

Keep = Callable[[str], Awaitable[None]]
"""Keeps the conversation of a running session, the JSON text of its `snapshot()`; raises if it cannot."""


class SessionWatch(Protocol):
    """Follows sessions from outside of the code that starts them, as `vivavoce dev` does."""

    @property
    def publishes_turns(self) -> bool:
        """Whether sessions send their turn records to the caller, in spite of their room options."""
        ...

    def session_begins(self, session: Any) -> None:
        """A session is about to start; listen to it now to miss nothing."""
        ...

    @property
    def has_conversation(self) -> bool:
        """Whether the next session continues the conversation of another one, instead of greeting."""
        ...

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        """Return that conversation, once its old session has released it; None: there is none after all.

        The new session has opened its pipeline and published its track by then, and hears nothing.

        Args:
            check: Raises if the new session cannot continue the conversation; called while the old one still can.
        """
        ...

    def keeper(self, room: str) -> Keep | None:
        """Return the call that keeps the conversation of the session that starts now in that room; None: it is not
        kept.
        """
        ...


_watch: ContextVar[SessionWatch | None] = ContextVar("vivavoce_watch", default=None)


def current_watch() -> SessionWatch | None:
    """Return the watch over sessions that the calling code starts, if there is one."""
    return _watch.get()


@contextmanager
def watch_scope(watch: SessionWatch) -> Iterator[None]:
    """Have `watch` follow the sessions that are started in this context and in the tasks started from it."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)
