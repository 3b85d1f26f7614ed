"""LightTracer: spans that cost an event loop little: what the SDK checks and copies, the export thread does.

A span of the SDK costs 42 µs where caches are hot and 100 where they are cold, most of it for the cleaning of its
attributes, its locks and its bounded lists (tests/bench/tracing_cost.py). A call makes a hundred of them a minute, some
while a caller waits for the answer. A `LightSpan` only takes what it is told; `readable()` makes of it what exporters
read, with the SDK's own classes and limits.

The SDK still begins the first span of a trace here (`job`, or `session`), and so decides on sampling: what is in a span
that it samples is sampled. That is what each sampler of the SDK's own says; with another one, each span is the SDK's.
So it is from when on an application adds a processor of its own, which is told of spans as they begin and end.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
)

from vivavoce.agents.telemetry.texts import encodable, type_name
from vivavoce.pipelines.core.clock import LoopClock

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.util.types import AnyValue, Attributes

logger = logging.getLogger(__name__)

_PLAIN = frozenset({str, int, float, bool})
"""Nobody can change such a value."""
_NONE = BoundedAttributes()
_UNSET = Status(StatusCode.UNSET)


class LightSpan(Span):
    """One, until it is readable.

    It bears to be used from several threads: what the interpreter may divide, the tracer's lock holds together.
    """

    __slots__ = (
        "_attributes",
        "_context",
        "_dropped",
        "_events",
        "_links",
        "_records_exception",
        "_sets_status",
        "_tracer",
        "end_time",
        "kind",
        "name",
        "parent",
        "start_time",
        "status",
    )

    def __init__(
        self,
        tracer: LightTracer,
        name: str,
        context: SpanContext,
        parent: SpanContext,
        *,
        kind: SpanKind,
        start_time: int,
        records_exception: bool,
        sets_status: bool,
    ) -> None:
        self._tracer = tracer
        self._context = context
        self._attributes: dict[str, AnyValue] = {}
        self._dropped = 0
        self._events: BoundedList[Event] | None = None
        self._links: BoundedList[Link] | None = None
        self._records_exception = records_exception
        self._sets_status = sets_status
        self.name = name
        self.parent = parent
        self.kind = kind
        self.start_time = start_time
        """Nanoseconds on the wall clock, as is `end_time`."""
        self.end_time: int | None = None
        self.status = _UNSET

    def __repr__(self) -> str:
        return f"LightSpan(name={self.name!r}, context={self._context})"

    @property
    def resource(self) -> Resource:
        """Whose span it is."""
        return self._tracer.resource

    # The API has no reading; the SDK's spans have, and instrumentations do read the current one's.

    @property
    def context(self) -> SpanContext:
        """Its ids."""
        return self._context

    @property
    def attributes(self) -> Mapping[str, AnyValue]:
        """Those that it has now."""
        return MappingProxyType(self._attributes.copy())

    @property
    def events(self) -> Sequence[Event]:
        """Those that it has now."""
        return tuple(self._events or ())

    @property
    def links(self) -> Sequence[Link]:
        """Those that it has now."""
        return tuple(self._links or ())

    def get_span_context(self) -> SpanContext:
        """Return its ids."""
        return self._context

    def is_recording(self) -> bool:
        """Whether it has not ended."""
        return self.end_time is None

    def end(self, end_time: int | None = None) -> None:
        """End it, by default now, and hand it over; only the first call counts."""
        at = self._tracer.now() if end_time is None else end_time
        with self._tracer.lock:
            is_first = self.end_time is None
            if is_first:
                self.end_time = at
        if is_first:
            self._tracer.take(self)
        else:
            self._warn("end")  # not with the lock, which a handler of logs may want

    def set_attributes(self, attributes: Mapping[str, AnyValue]) -> None:
        """Add attributes; beyond the limit of their number, new ones are dropped and counted."""
        if not self._may_change("set attributes of"):
            return
        limits, held = self._tracer.limits, self._attributes
        most, longest = limits.max_span_attributes, limits.max_span_attribute_length
        for name, value in attributes.items():
            kind = type(value)
            if kind not in _PLAIN or (kind is str and longest is not None) or type(name) is not str or not name:
                checked = BoundedAttributes(attributes={name: value}, max_value_len=longest)
                self._dropped += checked.dropped
                if not checked:
                    continue
                ((name, value),) = checked.items()
            if most is not None and len(held) >= most and name not in held:
                self._dropped += 1
            else:
                held[name] = value

    def set_attribute(self, key: str, value: AnyValue) -> None:
        """Add an attribute."""
        self.set_attributes({key: value})

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        """Add an event, by default of now."""
        if self._may_change("add an event to"):
            limits = self._tracer.limits
            with self._tracer.lock:
                if self._events is None:
                    self._events = BoundedList(limits.max_events)
            bounded = _NONE
            if attributes:
                bounded = BoundedAttributes(
                    limits.max_event_attributes, attributes, max_value_len=limits.max_attribute_length
                )
            self._events.append(
                Event(encodable(str(name)), bounded, self._tracer.now() if timestamp is None else timestamp)
            )

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        """Add a link; one to nothing is left out."""
        if (context.is_valid or attributes or context.trace_state) and self._may_change("add a link to"):
            limits = self._tracer.limits
            with self._tracer.lock:
                if self._links is None:
                    self._links = BoundedList(limits.max_links)
            bounded = BoundedAttributes(
                limits.max_link_attributes, attributes, max_value_len=limits.max_attribute_length
            )
            self._links.append(Link(context, bounded))

    def update_name(self, name: str) -> None:
        """Give it another name."""
        if self._may_change("rename"):
            self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set its status; OK is final, and neither unset nor what is no status sets anything."""
        if isinstance(status, StatusCode):
            status = Status(status, description)
        told = status if isinstance(status, Status) else _UNSET
        is_news = self.status.status_code is not StatusCode.OK and told.status_code is not StatusCode.UNSET
        if is_news and self._may_change("set the status of"):
            self.status = told

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Add an event that tells of an exception, with its text and where it was raised."""
        told: dict[str, AnyValue] = {
            "exception.type": type_name(type(exception)),
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
            **(attributes or {}),
        }
        self.add_event("exception", told, timestamp)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.is_recording():
            if self._records_exception:
                self.record_exception(error, escaped=True)
            if self._sets_status:
                self.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        super().__exit__(kind, error, trace)

    def readable(self) -> ReadableSpan:
        """Return what exporters read."""
        tracer = self._tracer
        attributes: Attributes = dict(self._attributes)  # in one go: another thread may be adding to it
        if self._dropped:
            attributes = bounded = BoundedAttributes(attributes=attributes)
            bounded.dropped = self._dropped
        status = self.status
        if status.description:
            status = Status(status.status_code, encodable(status.description))
        return ReadableSpan(
            encodable(str(self.name)),
            self._context,
            self.parent,
            tracer.resource,
            attributes,
            () if self._events is None else self._events,
            () if self._links is None else self._links,
            self.kind,
            status=status,
            start_time=self.start_time,
            end_time=self.end_time,
            instrumentation_scope=tracer.scope,
        )

    def _may_change(self, what: str) -> bool:
        if self.end_time is None:
            return True
        self._warn(what)
        return False

    def _warn(self, what: str) -> None:
        logger.warning("Too late to %s span %s: it has ended", what, self.name)


class LightTracer(Tracer):
    """Begins light spans in spans of its provider that are sampled; elsewhere the SDK begins them.

    Args:
        provider: Whose resource, ids and sampling they have.
        limits: The provider's.
        scope: What the spans come from.
        take: Takes a span that has ended; from any thread, and it must not wait.
    """

    def __init__(
        self,
        provider: TracerProvider,
        limits: SpanLimits,
        scope: InstrumentationScope,
        take: Callable[[LightSpan], None],
    ) -> None:
        self._sdk = provider.get_tracer(scope.name, scope.version)
        self._ids = provider.id_generator
        self._wall = LoopClock().wall
        self._is_known = type(provider.sampler).__module__ == "opentelemetry.sdk.trace.sampling"
        self.is_light = True
        """Whether nobody but `take` is told of spans; otherwise they are the SDK's."""
        self.lock = threading.RLock()  # what the garbage collector ends while it is held may be a span
        self.resource = provider.resource
        self.limits = limits
        self.scope = scope
        self.take = take

    def now(self) -> int:
        """Return the wall clock's time in nanoseconds: for who calls a span's methods without one, as tools may."""
        return int(self._wall() * 1e9)

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> Span:
        """Begin one, by default in the current span and now."""
        outer = get_current_span(context)
        parent = outer.get_span_context()
        is_ours = getattr(outer, "resource", None) is self.resource
        if not (is_ours and self.is_light and self._is_known and parent.trace_flags.sampled):
            return self._sdk.start_span(
                name, context, kind, attributes, links, start_time, record_exception, set_status_on_exception
            )
        own = SpanContext(parent.trace_id, self._ids.generate_span_id(), False, parent.trace_flags, parent.trace_state)
        span = LightSpan(
            self,
            name,
            own,
            parent,
            kind=kind,
            start_time=start_time or self.now(),
            records_exception=record_exception,
            sets_status=set_status_on_exception,
        )
        span.set_attributes(attributes or {})
        for link in links or ():
            span.add_link(link.context, link.attributes)
        return span

    # It needs `start_span` only, and decorates coroutine functions too. To mypy its `self` is the SDK's.
    start_as_current_span = cast("Any", SdkTracer.start_as_current_span)
