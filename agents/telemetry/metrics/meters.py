"""Meters: the instruments of one Telemetry, by the names of the GenAI conventions if these define them.

Their attributes, with the source of provider and model: docs/telemetry.md.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from vivavoce.pipelines.core.errors import located

if TYPE_CHECKING:
    from vivavoce.agents.telemetry.options import AttributeValue
    from vivavoce.pipelines.core.clock import Clock, TimerHandle

logger = logging.getLogger(__name__)

Measure: TypeAlias = "Callable[[float, Mapping[str, AttributeValue]], None]"
"""Gives one value, with its attributes, to an instrument. It never raises."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Bounds for times that a caller waits."""

LONG_SECONDS = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
"""Bounds for calls."""

TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""Bounds that the GenAI conventions advise."""

LAG_INTERVAL = 0.5
"""Seconds between two looks at an event loop."""


class Queue(Protocol):
    """Counts of the spans and log records that are sent."""

    @property
    def dropped_spans(self) -> int: ...
    @property
    def waiting_spans(self) -> int: ...
    @property
    def dropped_logs(self) -> int: ...
    @property
    def waiting_logs(self) -> int: ...


class Meters:
    """The instruments, shared by the sessions of one Telemetry.

    Args:
        meter: The SDK's, or the application's: if an instrument raises, the call continues and one warning is logged.
    """

    def __init__(self, meter: Meter, queue: Queue) -> None:
        self._meter = meter
        self._has_failed = False
        histogram, counter = self._histogram, self._counter
        self.e2e_latency = histogram("vivavoce.turn.e2e_latency", "From the user's last sound to the agent's")
        self.stage = histogram("vivavoce.turn.stage.duration", "Parts of that silence, on its critical path")
        self.first_chunk = histogram(
            "gen_ai.client.operation.time_to_first_chunk", "From a model's request to its first word, call or sound"
        )
        self.operation = histogram("gen_ai.client.operation.duration", "A model's step")
        self.tokens = histogram("gen_ai.client.token.usage", "Tokens of a model's step", "{token}", TOKENS)
        self.first_byte = histogram("vivavoce.tts.first_byte", "From a voice's request to its first audio")
        self.interruption = histogram(
            "vivavoce.interruption.latency", "From the user's first sound to the agent's silence"
        )
        self.tool_duration = histogram("vivavoce.tool.duration", "A tool call")
        self.tool_calls = counter("vivavoce.tool.calls", "{call}", "Tool calls")
        self.lag = histogram("vivavoce.event_loop.lag", "How late the event loop is")
        self.phase = histogram("vivavoce.session.phase.duration", "A session's start or close, by step")
        self.session = histogram("vivavoce.session.duration", "A session", bounds=LONG_SECONDS)
        self.turns = counter("vivavoce.turns", "{turn}", "Turns by outcome")
        self.interruptions = counter("vivavoce.interruptions", "{interruption}", "Interruptions")
        self.errors = counter("vivavoce.provider.errors", "{error}", "Errors of components")
        self.fallbacks = counter("vivavoce.fallbacks", "{fallback}", "Components that were replaced by their fallback")
        self.dropped = counter("vivavoce.audio.dropped", "{frame}", "Frames of 20 ms that were not used")
        self.speech = counter("vivavoce.speech.seconds", "s", "Speech recognised and made")
        self.characters = counter("vivavoce.speech.characters", "{character}", "Text spoken")
        self.closed = counter("vivavoce.sessions.closed", "{session}", "Sessions by close reason")
        self.active = self._up_down_counter("vivavoce.sessions.active", "{session}", "Sessions going on")
        self.speeches = self._up_down_counter(
            "vivavoce.speeches.open", "{speech}", "Speeches that wait for the floor or have it"
        )
        waiting = _observing(lambda: (queue.waiting_spans, queue.waiting_logs))
        meter.create_observable_gauge(
            "vivavoce.telemetry.waiting", [waiting], "{item}", "Spans and log records not sent yet"
        )
        dropped = _observing(lambda: (queue.dropped_spans, queue.dropped_logs))
        meter.create_observable_counter(
            "vivavoce.telemetry.dropped", [dropped], "{item}", "Spans and log records never delivered"
        )
        self._loops: dict[asyncio.AbstractEventLoop, _LoopWatch] = {}

    def _histogram(self, name: str, description: str, unit: str = "s", bounds: tuple[float, ...] = SECONDS) -> Measure:
        made = self._meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
        return self._guarded(made.record)

    def _counter(self, name: str, unit: str, description: str) -> Measure:
        return self._guarded(self._meter.create_counter(name, unit, description).add)

    def _up_down_counter(self, name: str, unit: str, description: str) -> Measure:
        return self._guarded(self._meter.create_up_down_counter(name, unit, description).add)

    def _guarded(self, give: Measure) -> Measure:
        def measure(value: float, attributes: Mapping[str, AttributeValue]) -> None:
            try:
                give(value, attributes)
            except Exception as error:  # noqa: BLE001 - the application's provider, or no number from a plugin
                if not self._has_failed:
                    self._has_failed = True
                    logger.warning("An instrument raised %s; calls go on, and this is said once", located(error))

        return measure

    def watch_loop(self, clock: Clock) -> None:
        """Measure the running event loop's lag from now on, with one timer for all sessions."""
        loop = asyncio.get_running_loop()
        watch = self._loops.get(loop)
        if watch is None:
            watch = self._loops[loop] = _LoopWatch(clock, self.lag)
            contextvars.Context().run(watch.arm)  # it outlives the session that calls first
        watch.users += 1

    def unwatch_loop(self) -> None:
        """One session ends; with the last one the timer does."""
        loop = asyncio.get_running_loop()
        watch = self._loops[loop]
        watch.users -= 1
        if not watch.users:
            watch.stop()
            del self._loops[loop]


@dataclass(slots=True)
class _LoopWatch:
    """Measures the delay of timers with a timer of the loop's own."""

    clock: Clock
    lag: Measure
    users: int = 0
    _due: float = 0.0
    _timer: TimerHandle | None = None

    def arm(self) -> None:
        self._due = self.clock.now() + LAG_INTERVAL
        self._timer = self.clock.call_at(self._due, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.lag(max(0.0, self.clock.now() - self._due), {})
        self.arm()


class _Reading(Protocol):
    def __call__(self) -> tuple[int, int]: ...


class _Observing(Protocol):
    def __call__(self, options: CallbackOptions) -> Iterable[Observation]: ...


def _observing(read: _Reading) -> _Observing:
    def observe(options: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, {"vivavoce.signal": signal})
            for signal, value in zip(("traces", "logs"), read(), strict=True)
        ]

    return observe
