"""SpanMaker: spans with a session's attributes at a session's times; SpanWatch: a span that is current during work.

Times are the session clock's. They are set on the wall clock once, so that spans contain each other to the nanosecond:
no span begins before its parent, and none ends before it begins or in the future. Only foreign code (a provider that
closes, a hook that is cancelled) may outlast the turn that it works for, and its span says so.

An error is recorded by its type and by the text that `describe()` allows, since foreign texts may quote content; with
`capture_content` by its whole text. Its stack has no values in it.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping, Sequence
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from vivavoce.agents.agent import StopResponse
from vivavoce.agents.telemetry.logs.logs import mask
from vivavoce.agents.telemetry.observer import Watch
from vivavoce.agents.telemetry.texts import type_name
from vivavoce.pipelines.core.characters import whole
from vivavoce.pipelines.core.errors import contained, describe, located, whole_text

if TYPE_CHECKING:
    from vivavoce.agents.telemetry.options import AttributeValue, Redact
    from vivavoce.pipelines.core.clock import Clock

logger = logging.getLogger(__name__)

Attributes = Mapping[str, "AttributeValue | Sequence[str] | None"]
"""Attributes of a span; None leaves a name out."""

KIND = "vivavoce.kind"
"""The kind of a span in the tree, such as `llm`, `tool` or `turn`; its name may be another."""


class SpanMaker:
    """Makes the spans of one session.

    Args:
        common: Attributes of every span.
        redact: Called for every attribute.
        capture: Whether texts of foreign errors may be sent.
    """

    def __init__(
        self, tracer: Tracer, clock: Clock, common: Attributes, redact: Redact | None, *, capture: bool = False
    ) -> None:
        self._capture = capture
        self._tracer = tracer
        self._clock = clock
        self._redact = redact
        self._common = self._cleaned(common)
        self._heads: dict[str, dict[str, AttributeValue | Sequence[str]]] = {}
        """Attributes of every span of a kind."""
        self._watches: dict[SpanWatch, None] = {}
        self._has_failed = False
        self._zero_ns = 0
        self._zero = 0.0

    def begin(self) -> None:
        """Set the session's time on the wall clock; on the session's loop."""
        self._zero_ns, self._zero = int(self._clock.wall() * 1e9), self._clock.now()

    def holds(self, watch: SpanWatch, *, is_open: bool) -> None:
        """Keep track of the work that is being watched."""
        if is_open:
            self._watches[watch] = None
        else:
            self._watches.pop(watch, None)

    def close(self) -> None:
        """End the spans of work that goes on: code that outlives its session, or awaits its end."""
        for watch in reversed(list(self._watches)):
            self.set(watch.span, {"vivavoce.outcome": "left_open"})
            self.end(watch.span)
        self._watches.clear()

    def now(self) -> float:
        """Return the session clock's time."""
        return self._clock.now()

    def nanoseconds(self, at: float | None = None) -> int:
        """Return the wall clock's time for `at` of the session clock, by default now."""
        return self._zero_ns + round(((self._clock.now() if at is None else at) - self._zero) * 1e9)

    def start(
        self,
        kind: str,
        parent: Span | Context,
        *,
        name: str = "",
        at: float | None = None,
        attributes: Attributes | None = None,
        links: Sequence[SpanContext] = (),
        span_kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """Begin a span at `at`, by default now."""
        head = self._heads.get(kind)
        if head is None:
            head = self._heads[kind] = {KIND: kind, **self._common}
        try:
            return self._tracer.start_span(
                whole(name or kind),
                set_span_in_context(parent) if isinstance(parent, Span) else parent,
                span_kind,
                {**head, **self._cleaned(attributes or {})},
                [Link(context) for context in links],
                self._not_before(parent, self.nanoseconds(at)),
            )
        except Exception as error:  # noqa: BLE001 - a sampler or processor of the application's; the call goes on
            self._note_foreign(error)
            return INVALID_SPAN

    def make(self, kind: str, parent: Span, began_at: float, ended_at: float | None, attributes: Attributes) -> None:
        """Make a span that is over, by default now."""
        self.end(self.start(kind, parent, at=began_at, attributes=attributes), at=ended_at)

    def set(self, span: Span, attributes: Attributes) -> None:
        """Add attributes."""
        if span.is_recording():
            span.set_attributes(self._cleaned(attributes))

    def event(self, span: Span, name: str, attributes: Attributes | None = None, *, at: float | None = None) -> None:
        """Add an event."""
        if span.is_recording():
            span.add_event(name, self._cleaned(attributes or {}), self.nanoseconds(at))

    def end(self, span: Span, *, at: float | None = None) -> None:
        """End it at `at`, by default now; without effect where it has ended."""
        if span.is_recording():
            now = self.nanoseconds()
            try:
                span.end(now if at is None else self._not_before(span, min(self.nanoseconds(at), now)))
            except Exception as error:  # noqa: BLE001 - a processor of the application's; the call goes on
                self._note_foreign(error)

    @staticmethod
    def _not_before(other: Span | Context, at: int) -> int:
        """Return `at`, or the start of `other` if that is later and known."""
        began = getattr(other, "start_time", None)  # the SDK's spans have it if they are sampled
        return at if began is None else max(began, at)

    def _note_foreign(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.warning("A tracer provider raised %s; the call goes on, and this is said once", located(error))

    def fail(self, span: Span, error: BaseException) -> None:
        """Record the error, and set the status."""
        if not span.is_recording():
            return
        name = type_name(type(error))
        message = mask(whole_text(error)) if self._capture else describe(error)
        self.event(
            span,
            "exception",
            {
                "exception.type": name,
                "exception.message": message,
                "exception.stacktrace": "".join(traceback.format_tb(error.__traceback__)) + name,
            },
        )
        self.set(span, {"error.type": name})
        self.set_failed(span, message)

    def set_failed(self, span: Span, message: str) -> None:
        """Set the status. `redact` is asked for the message by the name `error.message`."""
        if span.is_recording():
            text = str(self._clean("error.message", message) or "")
            # Half a surrogate pair: attributes fail to encode one by one, a status with its whole batch.
            span.set_status(Status(StatusCode.ERROR, whole(text)))

    def mark_failed(self, span: Span, kind: str) -> None:
        """Set the status for a failure without an exception."""
        if span.is_recording():
            self.set(span, {"error.type": kind})
            span.set_status(Status(StatusCode.ERROR))

    def _cleaned(self, attributes: Attributes) -> dict[str, AttributeValue | Sequence[str]]:
        """Return the attributes that may be sent."""
        known = {name: value for name, value in attributes.items() if value is not None}
        if self._redact is None:
            return known
        cleaned: dict[str, AttributeValue | Sequence[str]] = {}
        for name, value in known.items():
            if isinstance(value, str | bool | int | float):
                kept = self._clean(name, value)
                if kept is not None:
                    cleaned[name] = kept
            else:
                cleaned[name] = [str(part) for each in value if (part := self._clean(name, each)) is not None]
        return cleaned

    def _clean(self, name: str, value: AttributeValue) -> AttributeValue | None:
        if self._redact is None:
            return value
        try:
            return self._redact(name, value)
        except BaseException as raised:  # noqa: BLE001 - the application's; an attribute that it cannot judge is not sent
            error = contained(raised, "redact")
            logger.debug("redact raised %s for attribute %s, which is left out", type(error).__name__, name)
            return None


class SpanWatch(Watch):
    """Holds a span current in the calling task, and ends it with the work."""

    is_current: ClassVar[bool] = True
    """Whether it is current there."""

    __slots__ = ("_error", "_maker", "_token", "began_at", "span")

    def __init__(self, maker: SpanMaker, span: Span) -> None:
        self.span = span
        self.began_at = maker.now()
        """Session clock."""
        self._maker = maker
        self._token: Token[Context] | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> SpanWatch:
        self._maker.holds(self, is_open=True)
        if self.is_current:
            self._token = attach(set_span_in_context(self.span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            detach(self._token)
        if isinstance(error, StopResponse):
            self._maker.set(self.span, {"vivavoce.outcome": "stopped"})
        elif isinstance(error, Exception):
            self.failed(error)
        elif error is not None and self._error is None:
            self.cancelled()
        self._over(self._error)
        self._maker.end(self.span)
        self._maker.holds(self, is_open=False)

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return self._maker.now() - self.began_at

    def cancelled(self) -> None:
        """Note that the work was cancelled."""
        self._maker.set(self.span, {"vivavoce.outcome": "cancelled"})

    def failed(self, error: BaseException) -> None:
        """Record an error; the first one counts."""
        if self._error is None:
            self._error = error
            self._maker.fail(self.span, error)

    def _over(self, error: BaseException | None) -> None:
        """For subclasses: set the last attributes, and measure."""


class Current(Watch):
    """Makes a span current in the calling task; it ends elsewhere."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token: Token[Context] | None = None

    def __enter__(self) -> Current:
        self._token = attach(set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        detach(self._token)


NO_SPAN = INVALID_SPAN
