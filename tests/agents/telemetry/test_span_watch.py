"""A watched piece of work: its span has the work's times, and is made while no caller waits."""

from __future__ import annotations

import anyio
from opentelemetry.trace import get_current_span, set_span_in_context

from kit.telemetry import Watching, seconds_of
from vivavoce.agents.telemetry.tracing.spans import SpanMaker, SpanWatch
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.pipelines.core.clock import LoopClock


class Kit:
    """A session's span, and watches in it."""

    def __init__(self, clock: LoopClock | VirtualClock) -> None:
        self.watching = Watching()
        self.maker = SpanMaker(self.watching.telemetry.tracer, clock, {"vivavoce.session.id": "s"}, None)
        self.maker.begin()
        root = self.watching.tracers.get_tracer("root").start_span("session")
        self.inside = set_span_in_context(root)

    def watch(self, kind: str) -> SpanWatch:
        return SpanWatch(self.maker, self.maker.start(kind, self.inside))

    @property
    def ended(self) -> list[str]:
        return [span.name for span in self.watching.spans]


def test_a_span_ends_at_the_end_of_the_work_and_is_told_of_when_the_loop_has_done_what_it_is_at() -> None:
    async def work() -> Kit:
        kit = Kit(VirtualClock())
        with kit.watch("hook") as watch:
            await anyio.sleep(0.5)
            assert get_current_span() is watch.span
        assert get_current_span() is not watch.span
        assert watch.span.is_recording()
        await anyio.sleep(0.25)
        assert not watch.span.is_recording()
        assert watch.seconds == 0.5
        return kit

    kit = run_virtual(work())
    assert seconds_of(kit.watching.one("hook")) == (0.0, 0.5)


def test_work_that_is_over_as_its_session_closes_is_told_of_before_that_and_work_that_goes_on_is_left_open() -> None:
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


def test_work_that_ends_where_no_loop_runs_is_told_of_at_once() -> None:
    """For example the end of a generator that the garbage collector closes after its loop."""

    class Stopped(LoopClock):
        def now(self) -> float:
            return self.wall()

    kit = Kit(Stopped())
    with kit.watch("hook"):
        pass
    assert kit.ended == ["hook"]
