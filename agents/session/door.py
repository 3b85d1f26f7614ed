"""SessionDoor: calls from outside, on their way in: whether the session takes them, and over to its loop."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.core.loop_bound import LoopBound
from vivavoce.agents.session.lifecycle.task import SessionLifecycle
from vivavoce.agents.session.runtime import SessionRuntime
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.errors import SessionClosedError, SessionNotStartedError


class SessionDoor:
    """Shut until the session starts and after it has closed; calls may come from any thread."""

    def __init__(self, lifecycle: SessionLifecycle, runtime: SessionRuntime) -> None:
        self._lifecycle = lifecycle
        self._runtime = runtime
        self._loop = LoopBound()

    def open(self) -> None:
        """The session starts, on the running loop."""
        self._loop.bind()

    @property
    def was_opened(self) -> bool:
        """Whether the session was started."""
        return self._loop.is_bound

    @property
    def is_closed(self) -> bool:
        """Whether the session is over."""
        return self._lifecycle.closed.is_set()

    @property
    def is_on_loop(self) -> bool:
        """Whether the caller is on the session's loop, and not in another thread."""
        return self._loop.is_here

    def check(self) -> None:
        """Check that the session takes calls.

        Raises:
            SessionNotStartedError, SessionClosedError: It does not.
        """
        if not self.was_opened and not self.is_closed:
            raise SessionNotStartedError("the session was not started; call start() first")
        if self.is_closed or not self._lifecycle.accepts_speech:
            raise SessionClosedError("the session is closed; make another one")

    def call(self, function: Callable[[], None]) -> None:
        """Call `function` on the session's loop: at once from there, soon from a thread."""
        self._loop.soon(function)

    def post(self, event: i.TurnInput) -> None:
        """Enqueue an input."""
        self.call(lambda: self._runtime.post(event))

    def post_checked(self, event: i.TurnInput) -> None:
        """Enqueue an input if the session takes calls; raises as `check()`."""
        self.check()
        self.post(event)

    def mute(self, is_muted: bool) -> None:
        """Let the pipeline hear silence instead of the caller; raises as `check()`."""
        self.check()
        self.call(lambda: self._lifecycle.mute(is_muted))
