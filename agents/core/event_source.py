"""EventSource: the session's face as an event emitter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, overload

from vivavoce.agents import events as ev
from vivavoce.agents.core.emitter import EventKey, Handler, SessionEmitter
from vivavoce.pipelines.core.checks import nearest

E = TypeVar("E", bound=ev.SessionEvent)
R = TypeVar("R", Awaitable[None], None)


class EventSource:
    """Lets handlers listen to the events of `agents.events`, by class or by name."""

    def __init__(self, emitter: SessionEmitter) -> None:
        self._emitter = emitter

    @overload
    def on(self, event: type[E], handler: Callable[[E], R]) -> Callable[[E], R]: ...
    @overload
    def on(self, event: type[E]) -> Callable[[Callable[[E], R]], Callable[[E], R]]: ...
    @overload
    def on(self, event: str, handler: Handler) -> Handler: ...
    @overload
    def on(self, event: str) -> Callable[[Handler], Handler]: ...
    def on(self, event: EventKey, handler: Handler | None = None) -> Any:
        """Call `handler` with each such event (a class of `agents.events` or its name); without one, decorate.

        An async function runs in the session, one event after the other. Any other handler is called at once, and its
        result is ignored: `lambda event: session.say("…")` will do. A coroutine as its result is an error: nothing
        awaits it. A handler that raises is an `error` event. A handler of `on_speech_in` or `on_speech_out` is called
        for each frame: its first error is an event, and `times` in the report's `errors` counts the rest.

        Raises:
            ConfigurationError: There is no such event, or it cannot have this handler.
        """
        return self._listen(event, handler, once=False)

    @overload
    def once(self, event: type[E], handler: Callable[[E], R]) -> Callable[[E], R]: ...
    @overload
    def once(self, event: type[E]) -> Callable[[Callable[[E], R]], Callable[[E], R]]: ...
    @overload
    def once(self, event: str, handler: Handler) -> Handler: ...
    @overload
    def once(self, event: str) -> Callable[[Handler], Handler]: ...
    def once(self, event: EventKey, handler: Handler | None = None) -> Any:
        """Call `handler` with the next such event only."""
        return self._listen(event, handler, once=True)

    def off(self, event: EventKey, handler: Handler) -> None:
        """Stop calling `handler`."""
        self._emitter.off(event, handler)

    def _listen(self, event: EventKey, handler: Handler | None, *, once: bool) -> Any:
        if handler is None:
            self._emitter.name_of(event)

            def decorate(function: Handler) -> Handler:
                self._emitter.on(event, function, once=once)
                return function

            return decorate
        self._emitter.on(event, handler, once=once)
        return handler


def unknown_attribute(name: str, settable: Sequence[str]) -> AttributeError:
    """Return the error for setting an attribute that a session does not have; it names the nearest one, or the event.

    Args:
        settable: The attributes that may be set.
    """
    events = {f"on_{each.name.removeprefix('on_')}": each.name for each in ev.EVENT_TYPES}
    near = nearest(name, [*settable, *events])
    meant = repr(near) if near in settable else f"session.on({events.get(near)!r}, …)"
    return AttributeError(
        f"'AgentSession' object has no attribute {name!r}" + (f"; did you mean {meant}?" if near else "")
    )
