"""SessionInput: input that the application gives to a session in place of the user."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_flag, check_text, check_whole
from vivavoce.pipelines.media.frame import VideoFrame


class SessionInput:
    """`session.input`.

    Args:
        mute: Lets the pipeline hear silence instead of the caller.
        newest_pictures: Returns so many of the caller's newest pictures.
    """

    def __init__(
        self,
        context: SessionContext,
        mute: Callable[[bool], None],
        newest_pictures: Callable[[int], tuple[VideoFrame, ...]],
    ) -> None:
        self._context = context
        self._mute = mute
        self._newest_pictures = newest_pictures

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

    def frames(self, count: int = 1) -> tuple[VideoFrame, ...]:
        """Return the newest pictures of the caller's video, oldest first, for `reply(frames=…)`.

        There are fewer, or none, if the caller has not shown so many; at most `VideoInputOptions.max_images`.

        Args:
            count: At least 1.
        Raises:
            ConfigurationError: `count` is no such number.
            SessionNotStartedError, SessionClosedError: There is no call.
        """
        check_whole("input.frames(count)", count, at_least=1)
        self._context.check_open()
        return self._context.inbox.result_of(lambda: self._newest_pictures(count))

    def _post(self, event: i.TurnInput) -> None:
        self._context.check_open()
        self._context.inbox.post(event)
