"""SessionEmitter: hands events to handlers, on pyee, so that no handler can hurt the session or another handler."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any

from pyee import EventEmitter

from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.hooks import Hooks
from vivavoce.agents.events import EVENT_TYPES, ErrorOccurred, SessionEvent, SpeechIn, SpeechOut
from vivavoce.pipelines.core.checks import nearest, shown
from vivavoce.pipelines.core.errors import ConfigurationError, located

logger = logging.getLogger(__name__)

OLD_EVENTS = {"dialogue_moved": "graph_moved"}
"""Name in an earlier version -> name of today."""

Handler = Callable[[Any], Awaitable[None] | None]
EventKey = str | type[SessionEvent]


AUDIO_EVENTS = (SpeechIn.name, SpeechOut.name)
"""On the audio path: their handlers are called at once for each frame, so none of them may be async."""


class SessionEmitter:
    """Sync handlers run at once; async ones in the session's group, one ordered queue for each handler.

    Args:
        hooks: Runs the async handlers, and reports the errors of all.
        report_frame: Called with each error of a handler that is called for each frame; returns whether it is the first
            one of that handler.
        timeout: Seconds for one run of an async handler.
    """

    def __init__(
        self,
        hooks: Hooks,
        *,
        report_frame: Callable[[Hashable, Exception, str], bool],
        timeout: float,
    ) -> None:
        self._names = {event.name for event in EVENT_TYPES}
        self._emitter = EventEmitter()
        self._hooks = hooks
        self._report_frame = report_frame
        self._timeout = timeout
        self._wrapped: dict[tuple[str, Handler], Callable[[SessionEvent], None]] = {}
        self._listened_to: set[str] = set()
        self.has_speech_in = False
        self.has_speech_out = False
        """Whether audio has handlers: frames are made into events only then."""

    def name_of(self, key: EventKey) -> str:
        """Return the event's name.

        Raises:
            ConfigurationError: There is no such event.
        """
        is_event = isinstance(key, type) and issubclass(key, SessionEvent)
        name = key if isinstance(key, str) else key.name if is_event else None
        if name in OLD_EVENTS:
            raise ConfigurationError(f"the event {name!r} is {OLD_EVENTS[name]!r} now")
        if name not in self._names:
            near = nearest(key, self._names) if isinstance(key, str) else ""
            meant = f"did you mean {near!r}? Events" if near else "events"
            raise ConfigurationError(f"there is no event {shown(key)}; {meant}: {', '.join(sorted(self._names))}")
        return name

    def on(self, key: EventKey, handler: Handler, *, once: bool = False) -> None:
        """Call `handler` with each such event, or with the next one only.

        Raises:
            ConfigurationError: There is no such event, it has this handler already, it cannot have an async one, or
                the handler does not take the event as its only argument.
        """
        name = self.name_of(key)
        _check_handler(handler)
        _check_signature(name, handler)
        if name in AUDIO_EVENTS and _is_async(handler):
            raise ConfigurationError(
                f"a handler of {name!r} is called on the audio path and must be sync, got {shown(handler)}; "
                "let it put the frame into a queue that a task of yours reads"
            )
        if (name, handler) in self._wrapped:
            raise ConfigurationError(f"this handler listens to {name!r} already; call off() first")
        listener = self._listener(name, handler, once=once)
        self._wrapped[name, handler] = listener
        self._emitter.add_listener(name, listener)
        self._note_listeners()

    def off(self, key: EventKey, handler: Handler) -> None:
        """Stop calling `handler`; without effect if it does not listen.

        Raises:
            ConfigurationError: There is no such event, or `handler` cannot be called.
        """
        _check_handler(handler)
        listener = self._wrapped.pop((self.name_of(key), handler), None)
        if listener is not None:
            self._emitter.remove_listener(self.name_of(key), listener)
            self._note_listeners()

    def is_listened_to(self, name: str) -> bool:
        """Return whether the event has handlers; without any it need not be made."""
        return name in self._listened_to

    def _note_listeners(self) -> None:
        self._listened_to = {name for name, _ in self._wrapped}
        self.has_speech_in = SpeechIn.name in self._listened_to
        self.has_speech_out = SpeechOut.name in self._listened_to

    def emit(self, event: SessionEvent) -> None:
        """Hand `event` to its handlers."""
        # pyee raises for an `error` without handlers.
        if event.name != ErrorOccurred.name or self._emitter.listeners(event.name):
            self._emitter.emit(event.name, event)

    def _listener(self, name: str, handler: Handler, *, once: bool) -> Callable[[SessionEvent], None]:
        queue: deque[SessionEvent] = deque()

        def call(event: SessionEvent) -> None:
            if once:
                self.off(name, handler)
            if _is_async(handler):
                queue.append(event)
                if len(queue) == 1:
                    self._start(handler, queue, name)
                return
            try:
                with application_code(_handler_of(name)):
                    _check_sync(handler(event))
            except Exception as error:  # noqa: BLE001 - the user-callback boundary
                if name in AUDIO_EVENTS:
                    self._failed_at_frame(error, name, handler)
                else:
                    self._hooks.failed(_handler_of(name), error, _source(name))

        return call

    def _start(self, handler: Handler, queue: deque[SessionEvent], name: str) -> None:
        if not self._hooks.is_open:
            logger.warning("An async handler of %r was not run: the session is not open", name)
            queue.clear()
            return
        self._hooks.start("handler", name, partial(self._drain, handler, queue, name))

    async def _drain(self, handler: Handler, queue: deque[SessionEvent], name: str) -> None:
        try:
            while queue:
                call: Any = partial(handler, queue[0])
                await self._hooks.run("event", _handler_of(name), call, self._timeout, source=_source(name))
                queue.popleft()
        finally:
            queue.clear()

    def _failed_at_frame(self, error: Exception, name: str, handler: Handler) -> None:
        if self._report_frame((name, handler), error, "handler"):
            logger.warning("A handler of %r raised %s; further errors of it are counted", name, located(error))
            logger.debug("A handler of %r raised", name, exc_info=error)


def _handler_of(name: str) -> str:
    return f"A handler of {name!r}"


def _source(name: str) -> str:
    """Return the source of a handler's error; none for a handler of errors, which would be called with its own."""
    return "" if name == ErrorOccurred.name else "handler"


def _check_handler(handler: Callable[..., Any]) -> None:
    """Check a handler of events.

    Raises:
        ConfigurationError: It cannot be called, or it has no hash.
    """
    if not callable(handler):
        raise ConfigurationError(f"need a handler that can be called, got {shown(handler)}; give a function")
    try:
        hash(handler)
    except Exception as error:  # noqa: BLE001 - the application's own __hash__
        raise ConfigurationError(f"need a handler with a hash, got {shown(handler)}; give its method") from error


def _check_signature(name: str, handler: Handler) -> None:
    """Refuse a handler that could not be called with one event, in the line that adds it.

    Raises:
        ConfigurationError: It takes another number of arguments.
    """
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # a builtin that does not give one
        return
    try:
        signature.bind(None)
    except TypeError as error:
        code = getattr(inspect.unwrap(handler), "__code__", None)
        place = "" if code is None else f" (at {code.co_filename}:{code.co_firstlineno})"
        raise ConfigurationError(
            f"a handler of {name!r} is called with the event as its only argument, got {shown(handler)}{place} "
            f"with the arguments {signature}: {error}; let it take one"
        ) from None


def _check_sync(result: object) -> None:
    """Refuse a coroutine from a handler that looked sync, for example a lambda that calls an async function.

    Other results of a handler are ignored, also awaitable ones: `lambda event: session.say("…")` returns a handle, and
    the speech proceeds without being awaited.

    Raises:
        ConfigurationError: It is a coroutine, which does nothing unless it is awaited.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise ConfigurationError("a handler returned a coroutine, which is not awaited; give an async function")


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - its kind, not its presence
