"""ConsoleView: shows a conversation at this machine in its terminal, in which a person may be typing."""

from __future__ import annotations

from rich.console import Console, RenderableType

from vivavoce.agents.cli.live.view import View
from vivavoce.agents.states import AgentState

BEFORE_AND_AFTER = frozenset({AgentState.STARTING, AgentState.CLOSING, AgentState.CLOSED})


class ConsoleView(View):
    """Shows one call, from the agent's presence on; for a call that never began it shows no end.

    Args:
        console: The console to print to.
        room: Name of the call.
        is_typed_at: Whether a person types lines into the same terminal. The terminal shows these itself, so they are
            not repeated, and nothing below them is redrawn; output during typing gets a line of its own.
    """

    def __init__(self, console: Console, room: str, *, is_typed_at: bool = False) -> None:
        super().__init__(console, is_live=not is_typed_at)
        self._room = room
        self._is_typed_at = is_typed_at
        self._has_begun = False

    def agent_state(self, state: AgentState) -> None:
        """The agent is present, listens, thinks, speaks."""
        if not self._has_begun and state not in BEFORE_AND_AFTER:
            self._has_begun = True
            self.call_started(self._room)
        super().agent_state(state)

    def call_ended(self, reason: str) -> None:
        """The session is closed."""
        if self._has_begun:
            super().call_ended(reason)

    def caller_said(self, text: str) -> None:
        """Show the caller's words, unless the terminal shows them already."""
        if not self._is_typed_at:
            super().caller_said(text)

    def ready(self) -> None:
        """Show nothing: a person sees that the agent is silent."""

    def part(self, text: str) -> None:
        """Show a part of a rich reply as text."""
        self._said("agent", text)

    def _print(self, *shown: RenderableType) -> None:
        if self._is_typed_at and not self._console.is_dumb_terminal:
            # A line's worth of blanks ends where it began if that was the left edge, and else on the next line: the
            # column of the cursor after typing is unknown.
            self._console.file.write(" " * self._console.width + "\r\x1b[K")
        super()._print(*shown)
