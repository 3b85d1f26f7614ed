"""Follow: converts a session's events to calls of a display, which may be in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from vivavoce.agents import events
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.session_watch import Conversation, Keep
from vivavoce.agents.states import AgentState, UserState
from vivavoce.pipelines.llm.chat_context import ChatMessage

if TYPE_CHECKING:
    from vivavoce.agents.records import TurnRecord


class Display(Protocol):
    """Shows a call."""

    def user_state(self, state: UserState) -> None: ...
    def agent_state(self, state: AgentState) -> None: ...
    def interim(self, text: str) -> None: ...
    def caller_said(self, text: str) -> None: ...
    def agent_said(self, text: str, *, interrupted: bool) -> None: ...
    def tool(self, name: str, arguments: str, output: str, *, is_error: bool) -> None: ...
    def turn(self, record: TurnRecord) -> None: ...
    def problem(self, text: str) -> None: ...
    def call_ended(self, reason: str) -> None: ...


class LocalWatch:
    """Follows the sessions of one call of this process: a display shows them.

    Args:
        publishes_turns: Whether the caller gets the turn records, as a development page shows them.
        on_session: Called with each session that begins.
    """

    has_conversation = False

    def __init__(
        self,
        display: Display,
        *,
        publishes_turns: bool = False,
        on_session: Callable[[AgentSession[Any]], None] | None = None,
    ) -> None:
        self.publishes_turns = publishes_turns
        self._display = display
        self._on_session = on_session

    def session_begins(self, session: AgentSession[Any]) -> None:
        """Show it."""
        follow(session, self._display)
        if self._on_session is not None:
            self._on_session(session)

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        """Return None: there is no conversation to continue."""
        return None

    def keeper(self, room: str) -> Keep | None:
        """Return None: the conversation is not kept for a crash."""
        return None


def follow(session: AgentSession[Any], display: Display) -> None:
    """Have the display show a session from now on."""
    session.on(events.UserStateChanged, lambda event: display.user_state(event.state))
    session.on(events.AgentStateChanged, lambda event: display.agent_state(event.state))
    session.on(events.TurnCompleted, lambda event: display.turn(event.record))
    session.on(events.Closed, lambda event: display.call_ended(event.report.reason))

    @session.on(events.UserTranscript)
    def on_transcript(event: events.UserTranscript) -> None:
        if not event.is_final:
            display.interim(event.text)

    @session.on(events.HistoryItemAdded)
    def on_item(event: events.HistoryItemAdded) -> None:
        if not isinstance(event.item, ChatMessage):
            return
        if event.item.role == "user":
            parts = event.item.by_voice() if len(event.item.speakers) > 1 else [("", event.item.content)]
            display.caller_said("\n".join(f"{speaker}: {said}" if speaker else said for speaker, said in parts))
        elif event.item.role == "assistant":
            display.agent_said(event.item.content, interrupted=event.item.interrupted)

    @session.on(events.ToolCalled)
    def on_tool(event: events.ToolCalled) -> None:
        display.tool(event.tool, event.arguments, event.output, is_error=event.is_error)

    @session.on(events.ErrorOccurred)
    def on_error(event: events.ErrorOccurred) -> None:
        display.problem(f"{event.source}: {event.error}")
