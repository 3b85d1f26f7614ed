"""Incidents: fallbacks and dropped frames, reported to a listener that counts them, if there is one.

The listeners are context variables, so that the tasks of a session report to that session and to no other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class FellBack:
    """A component failed and another one takes its place.

    Args:
        component: Its kind, such as `"llm"`.
        provider, model: Of the one that failed.
        successor: Provider and model of the other one, such as `"openai/gpt-4o"`; empty if there is none.
        is_reported: Whether the failure is reported as an error elsewhere.
    """

    component: str
    provider: str
    model: str
    error: Exception
    successor: str = ""
    is_reported: bool = False


OnFallback = Callable[[FellBack], None]
"""Called with each fallback."""

OnDroppedFrames = Callable[[str, int], None]
"""Called with the component that lost frames, and the number of frames of 20 ms."""

on_fallback: ContextVar[OnFallback | None] = ContextVar("on_fallback", default=None)
"""The listener for fallbacks of this task, and of the tasks that it starts."""

on_dropped_frames: ContextVar[OnDroppedFrames | None] = ContextVar("on_dropped_frames", default=None)
"""The listener for audio that this task, and the tasks that it starts, could not deliver."""


def passed_over(fell: FellBack) -> None:
    """Report that a component failed and another one takes its place."""
    listener = on_fallback.get()
    if listener is not None:
        listener(fell)


def dropped_frames(component: str, frames: int = 1) -> None:
    """Report audio that did not reach its component in time and is lost."""
    listener = on_dropped_frames.get()
    if listener is not None:
        listener(component, frames)


def dropping(component: str) -> Callable[[], None]:
    """Return a function that reports one lost frame to the present task's listener, also when another task calls it.

    For code that receives the caller's audio: a room's frames come from tasks and callbacks outside of the session.
    """
    listener = on_dropped_frames.get()
    return _nobody if listener is None else partial(listener, component, 1)


def _nobody() -> None:
    """No listener counts."""
