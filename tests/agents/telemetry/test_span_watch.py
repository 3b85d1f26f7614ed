"""A watched piece of work: its span has the work's times."""

from __future__ import annotations

import anyio
from opentelemetry.trace import get_current_span, set_span_in_context

from kit.telemetry import Watching, seconds_of
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.telemetry.tracing.spans import SpanMaker, SpanWatch
from vivavoce.agents.testing import VirtualClock, run_virtual


class Kit:
    """A session's span, and watches in it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.watching = Watching()
        self.maker = SpanMaker(
            TelemetryControl.of(self.watching.telemetry).tracer, clock, {"vivavoce.session.id": "s"}, None
        )
        self.maker.begin()
        root = self.watching.tracers.get_tracer("root").start_span("session")
        self.inside = set_span_in_context(root)

    def watch(self, kind: str) -> SpanWatch:
        return SpanWatch(self.maker, self.maker.start(kind, self.inside))

    @property
    def ended(self) -> list[str]:
        return [span.name for span in self.watching.spans]


def test_a_span_is_current_during_the_work_and_ends_with_it() -> None:
    async def work() -> Kit:
        kit = Kit(VirtualClock())
        with kit.watch("hook") as watch:
            await anyio.sleep(0.5)
            assert get_current_span() is watch.span
        assert get_current_span() is not watch.span
        assert not watch.span.is_recording()
        return kit

    kit = run_virtual(work())
    assert seconds_of(kit.watching.one("hook")) == (0.0, 0.5)


def test_work_that_goes_on_as_its_session_closes_is_left_open() -> None:
    async def work() -> Kit:
        kit = Kit(VirtualClock())
        with kit.watch("llm"):
            with kit.watch("hook"):
                await anyio.sleep(0.5)
            kit.maker.close()
            assert kit.ended == ["hook", "llm"]  # both are out before the session's span ends
            await anyio.sleep(0.5)
        return kit

    kit = run_virtual(work())
    assert kit.ended == ["hook", "llm"]  # neither is reported twice
    assert "vivavoce.outcome" not in (kit.watching.one("hook").attributes or {})
    assert (kit.watching.one("llm").attributes or {})["vivavoce.outcome"] == "left_open"
    assert seconds_of(kit.watching.one("llm")) == (0.0, 0.5)
