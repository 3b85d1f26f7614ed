"""Incidents: fallbacks and dropped frames, told to whoever counts them; nobody needs to, and nothing waits for it.

The listeners are context variables, so that what a session starts tells that session and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

OnFallback = Callable[[str, str, str, Exception], None]
"""Told which component was passed over, its provider and model, and why."""

OnDroppedFrames = Callable[[str, int], None]
"""Told which component lost how many frames of 20 ms."""

on_fallback: ContextVar[OnFallback | None] = ContextVar("on_fallback", default=None)
"""Who wants to know of fallbacks of this task, and of those that it starts."""

on_dropped_frames: ContextVar[OnDroppedFrames | None] = ContextVar("on_dropped_frames", default=None)
"""Who wants to know of audio that this task, and those that it starts, could not deliver."""


def passed_over(component: str, provider: str, model: str, error: Exception) -> None:
    """Tell that a component of that provider and model failed and another one takes its place."""
    listener = on_fallback.get()
    if listener is not None:
        listener(component, provider, model, error)


def dropped_frames(component: str, frames: int = 1) -> None:
    """Tell that audio did not reach its component in time and is lost."""
    listener = on_dropped_frames.get()
    if listener is not None:
        listener(component, frames)


def dropping(component: str) -> Callable[[], None]:
    """Return what tells the present task's listener of one lost frame, whichever task calls it.

    For what takes the caller's audio: a room's frames come from tasks and callbacks that are not the session's.
    """
    listener = on_dropped_frames.get()
    return _nobody if listener is None else partial(listener, component, 1)


def _nobody() -> None:
    """Nobody counts."""
