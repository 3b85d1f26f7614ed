"""SessionInput: input that the application gives to a session in place of the user."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_flag, check_text


class SessionInput:
    """`session.input`.

    Args:
        mute: Lets the pipeline hear silence instead of the caller.
    """

    def __init__(self, context: SessionContext, mute: Callable[[bool], None]) -> None:
        self._context = context
        self._mute = mute

    def text(self, text: str) -> None:
        """Take `text` as a whole user turn: it interrupts and is answered like a spoken one.

        Raises:
            SessionNotStartedError, SessionClosedError: The session accepts no input now.
            ConfigurationError: `text` is no str.
        """
        self._post(i.TextReceived(check_text("input.text(text)", text)))

    def commit_turn(self) -> None:
        """End the user's turn now, with the words there are."""
        self._post(i.TurnCommitRequested())

    def clear_turn(self) -> None:
        """Drop the user's open turn."""
        self._post(i.TurnClearRequested())

    def mute(self, is_muted: bool = True) -> None:
        """Hear silence instead of the caller, or hear the caller again; words before the silence count."""
        check_flag("is_muted", is_muted)
        self._context.check_open()
        self._context.inbox.on_loop(lambda: self._mute(is_muted))

    def _post(self, event: i.TurnInput) -> None:
        self._context.check_open()
        self._context.inbox.post(event)
