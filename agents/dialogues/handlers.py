"""Handlers: runs the handlers of a session's dialogues, in a task for each conversation that has messages waiting."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.dialogues.context import DialogueContext
from vivavoce.agents.dialogues.conversations import Kept
from vivavoce.agents.dialogues.dialogue import DialogueControl, DialogueLink
from vivavoce.agents.dialogues.edge import Handler
from vivavoce.pipelines.core.checks import awaited

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WAITING = 64
"""Messages of one conversation that may wait for its handlers."""

Place = tuple[DialogueControl, str]
"""A conversation: its dialogue, and its id."""


class Received:
    """A message that waits for its handlers, or is at work."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.is_unanswered = False
        """Whether the last message that its handlers sent did not arrive."""

    def note_answer(self, *, has_arrived: bool) -> None:
        """Note how the delivery of a message ended that its handlers sent."""
        self.is_unanswered = not has_arrived


class Handlers:
    """Runs the handlers for the messages of each conversation, one message after the other.

    A message that was handled is noted as such in its conversation. It stays noted as one that waits if its answer did
    not arrive, or if the close cuts its handlers: a session that is resumed runs them again then.

    Args:
        limit: Seconds for one run of a handler, between its speeches.
        source: Of `error` events.
        changed: Called when a message was handled.
    """

    def __init__(
        self, context: SessionContext, link: DialogueLink, *, limit: float, source: str, changed: Callable[[], None]
    ) -> None:
        self._context = context
        self._link = link
        self._limit = limit
        self._source = source
        self._changed = changed
        self._waiting: dict[Place, deque[Received]] = {}
        """The messages that wait; the first one is at work."""

    def is_full(self, place: Place) -> bool:
        """Return whether a conversation has too many messages that wait."""
        return len(self._waiting.get(place, ())) > MAX_WAITING

    def at_work(self, place: Place) -> Received | None:
        """Return the message of a conversation that is at work."""
        return next(iter(self._waiting.get(place, ())), None)

    def has(self, place: Place, kept: Kept) -> bool:
        """Return whether a message waits here, or is at work."""
        return any(one.kept is kept for one in self._waiting.get(place, ()))

    def take(self, place: Place, kept: Kept) -> None:
        """Have a message handled soon."""
        waiting = self._waiting.setdefault(place, deque())
        waiting.append(Received(kept))
        if len(waiting) == 1:
            # By the inbox: the calling task may be one of another session, whose context the handlers must not get.
            self._context.inbox.call(partial(self._begin, place))

    def drop_waiting(self) -> None:
        """Handle no further message; those at work go on."""
        for waiting in self._waiting.values():
            while len(waiting) > 1:
                waiting.pop()

    def _begin(self, place: Place) -> None:
        name = f"messages of the dialogue {place[0].structure.name!r}"
        self._context.group.start_soon(self._handle, place, name=name)

    async def _handle(self, place: Place) -> None:
        control, session_id = place
        waiting = self._waiting[place]
        context = self._link.context(control, session_id)
        try:
            while waiting:
                received = waiting[0]
                is_over = await self._handle_one(control, context, received.kept)
                waiting.popleft()
                if is_over and not received.is_unanswered:
                    control.conversations.handled(session_id, received.kept)
                    self._changed()
        finally:
            del self._waiting[place]

    async def _handle_one(self, control: DialogueControl, context: DialogueContext, kept: Kept) -> bool:
        """Run the handlers of a message; return False if the close has cut them."""
        assert kept.edge is not None, "it has moved the conversation"
        for kind, handler in control.handlers_of(kept.edge):
            title = f"{kind} handler of {kept.edge.name!r} in the dialogue {control.structure.name!r}"
            run = self._context.hooks.start(
                "callback",
                title,
                partial(_call, title, handler, context, kept),
                self._limit,
                "between its speeches",
                source=self._source,
            )
            await run.finish()
            if run.error is not None or run.is_cut:
                return not (run.is_cut and self._context.closing.is_asked)
        return True


async def _call(title: str, handler: Handler, context: DialogueContext, kept: Kept) -> None:
    await awaited(title, handler(context, kept.message.sender, kept.message.content))
