"""Fallbacks and lost audio of real sessions are counted, once each, for the failed component."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from livekit import rtc

from kit.speech import BOOKING, frames, white_noise
from kit.telemetry import Watching
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import HANG, ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.agents.transports.livekit import LiveKitSink
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.io import TransportEvents
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeSetup
from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream
from vivavoce.plugins import pocketsphinx
from vivavoce.plugins.pocketsphinx.stt import STTStream as SphinxStream


class First(ScriptedRealtimeModel):
    """Under a name of its own."""

    provider = "first"
    model = "m-1"


class Second(ScriptedRealtimeModel):
    """Likewise."""

    provider = "second"
    model = "m-2"


class Ears(ScriptedSTT):
    """Likewise; with a stream that is lost, the next one takes its time."""

    provider = "ears"
    model = "e-1"
    gap = 0.0

    async def open(self) -> ScriptedSTTStream:
        if self.open_attempts:
            await anyio.sleep(self.gap)
        return await super().open()


DOWN = ProviderConnectionError("down", provider="first", retryable=False)
LOST = ProviderConnectionError("lost", provider="first")
Attributes = dict[str, object]


def fallbacks(watching: Watching) -> list[tuple[int, Attributes]]:
    return [(point.value, dict(point.attributes)) for point in watching.points("vivavoce.fallbacks")]


def facts(component: str, error: str, provider: str = "first", model: str = "m-1") -> Attributes:
    return {
        "vivavoce.component": component,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "error.type": f"vivavoce.pipelines.core.errors.{error}",
    }


def have(
    watching: Watching,
    pipeline: Pipeline,
    *,
    lose: Callable[[], None] | None = None,
    model: ScriptedRealtimeModel,
    closes: bool = False,
) -> SessionHarness:
    """A call of 7 s, in which `lose` is called in a silence, at 3 s."""
    harness = SessionHarness(
        Agent("Help."), model=model, pipeline=pipeline, options=SessionOptions(telemetry=watching.telemetry)
    )

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        if lose is not None:
            lose()

    if closes:
        harness.expects_error("session")
    harness.run(scenario, until=7.0)
    watching.check()
    return harness


# --- fallbacks


@pytest.mark.parametrize(
    ("first", "errors", "kind"),
    [
        (First(), [DOWN], "ProviderConnectionError"),
        (First(open_delay=HANG), [], "ProviderTimeoutError"),
    ],
    ids=["refuses", "hangs"],
)
def test_a_realtime_model_that_cannot_be_had_at_the_start_is_counted_as_passed_over(
    first: First, errors: list[ProviderError], kind: str
) -> None:
    watching, second = Watching(), Second()
    if errors:
        first.fail_open(*errors)
    have(watching, RealtimePipeline(FallbackRealtime([first, second]), vad=ScriptedVAD()), model=second)
    assert fallbacks(watching) == [(1, facts("realtime_model", kind))]
    assert len(second.connections) == 1


def test_a_realtime_model_that_is_lost_in_mid_call_and_not_to_be_had_again_is_counted_as_passed_over() -> None:
    watching, first, second = Watching(), First(), Second()

    def lose() -> None:
        first.fail_open(DOWN)
        first.fail(LOST)

    pipeline = RealtimePipeline(FallbackRealtime([first, second]), vad=ScriptedVAD())
    have(watching, pipeline, lose=lose, model=second)
    assert fallbacks(watching) == [(1, facts("realtime_model", "ProviderConnectionError"))]


def test_a_model_whose_connection_is_lost_and_had_again_was_not_passed_over() -> None:
    watching, first, second = Watching(), First(), Second()
    pipeline = RealtimePipeline(FallbackRealtime([first, second]), vad=ScriptedVAD())
    have(watching, pipeline, lose=lambda: first.fail(LOST), model=first)
    assert len(first.connections) == 2
    assert fallbacks(watching) == []


def test_each_model_that_was_passed_over_is_counted_for_itself() -> None:
    watching, first, second, third = Watching(), First(), Second(), ScriptedRealtimeModel()
    first.fail_open(DOWN)
    second.fail_open(ProviderConnectionError("down", provider="second"))
    have(watching, RealtimePipeline(FallbackRealtime([first, second, third]), vad=ScriptedVAD()), model=third)
    kind = "ProviderConnectionError"
    assert fallbacks(watching) == [
        (1, facts("realtime_model", kind)),
        (1, facts("realtime_model", kind, "second", "m-2")),
    ]


def cascade() -> CascadingPipeline:
    return CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())


@pytest.mark.parametrize("at_the_start", [True, False], ids=["at the start", "in mid call"])
def test_a_pipeline_that_gives_way_to_its_fallback_is_counted_for_its_model(at_the_start: bool) -> None:
    watching, first = Watching(), First()

    def lose() -> None:
        first.fail_open(*[DOWN] * 9)
        first.fail(DOWN)

    if at_the_start:
        first.fail_open(DOWN)
    pipeline = RealtimePipeline(first, vad=ScriptedVAD(), fallback=cascade())
    harness = have(watching, pipeline, lose=None if at_the_start else lose, model=first)
    assert harness.session.pipeline is pipeline.fallback
    assert fallbacks(watching) == [(1, facts("pipeline", "ProviderConnectionError"))]
    (noted,) = [event for event in watching.one("session").events if event.name == "fallback"]
    assert dict(noted.attributes or {}) == facts("pipeline", "ProviderConnectionError")


def test_a_fallback_that_falls_back_is_counted_for_each_pipeline_that_gave_way() -> None:
    watching, first, second = Watching(), First(), Second()
    first.fail_open(DOWN)
    second.fail_open(DOWN)
    spare = RealtimePipeline(second, vad=ScriptedVAD(), fallback=cascade())
    have(watching, RealtimePipeline(first, vad=ScriptedVAD(), fallback=spare), model=first)
    kind = "ProviderConnectionError"
    assert fallbacks(watching) == [
        (1, facts("pipeline", kind)),
        (1, facts("pipeline", kind, "second", "m-2")),
    ]


def test_a_pipeline_that_is_lost_without_a_fallback_is_an_error_and_no_fallback() -> None:
    watching, first = Watching(), First()

    def lose() -> None:
        first.fail_open(*[DOWN] * 9)
        first.fail(DOWN)

    have(watching, RealtimePipeline(first, vad=ScriptedVAD()), lose=lose, model=first, closes=True)
    assert fallbacks(watching) == []
    assert [point.value for point in watching.points("vivavoce.provider.errors")] == [1]


def test_the_fallback_of_a_pipeline_that_a_call_was_changed_to_is_counted_in_that_call() -> None:
    watching, first, second = Watching(), First(), Second("Two.", hears=["again"])
    first.fail_open(DOWN)
    harness = SessionHarness(Agent("Help."), options=SessionOptions(telemetry=watching.telemetry))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model = FallbackRealtime([first, second])
        change = harness.session.update_pipeline(RealtimePipeline(model, vad=ScriptedVAD()))
        await change
        assert change.outcome == "completed"

    harness.run(scenario, until=3.0)
    assert fallbacks(watching) == [(1, facts("realtime_model", "ProviderConnectionError"))]


# --- lost audio


def lost_audio(watching: Watching) -> list[tuple[int, Attributes]]:
    return [(point.value, dict(point.attributes)) for point in watching.points("vivavoce.audio.dropped")]


def with_cascade(ears: Ears) -> Pipeline:
    return CascadingPipeline(stt=ears, llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())


def with_realtime(ears: Ears) -> Pipeline:
    model = First(capabilities=RealtimeCapabilities(turn_detection=frozenset({"local"})))
    return RealtimePipeline(model, stt=ears, vad=ScriptedVAD())


@pytest.mark.parametrize("make", [with_cascade, with_realtime])
@pytest.mark.parametrize(("gap", "lost"), [(9.0, 0), (9.9, 20)])
def test_what_the_caller_says_to_a_recogniser_that_is_away_is_counted_as_lost_beyond_what_is_kept(
    make: Callable[[Ears], Pipeline], gap: float, lost: int
) -> None:
    watching, ears = Watching(), Ears()
    ears.gap = gap  # and 0.5 s before it is tried again; 10 s are kept
    harness = SessionHarness(
        Agent("Help."), stt=ears, pipeline=make(ears), options=SessionOptions(telemetry=watching.telemetry)
    )

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        ears.fail()

    harness.run(scenario, until=20.0)
    of_ears = {"vivavoce.component": "stt", "gen_ai.provider.name": "ears", "gen_ai.request.model": "e-1"}
    assert lost_audio(watching) == ([(lost, of_ears)] if lost else [])
    heard = sum(stream.pushed_seconds for stream in ears.streams)
    assert heard == pytest.approx(20.0 - lost * 0.02, abs=0.05)


class Sphinx(pocketsphinx.STT):
    """Keeps the streams that it opens."""

    stream: SphinxStream

    async def open(self) -> SphinxStream:
        self.stream = await super().open()
        return self.stream


async def test_what_the_caller_says_faster_than_a_decoder_hears_is_counted_for_that_decoder() -> None:
    watching, ears = Watching(), Sphinx(grammar=BOOKING, options=pocketsphinx.STTOptions(max_backlog=0.5))
    pipeline = CascadingPipeline(stt=ears, llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())
    session = AgentSession[None](Agent("Help."), pipeline, options=SessionOptions(telemetry=watching.telemetry))
    room = LocalTransport(LoopClock())
    async with session:
        await session.start(room)
        for frame in frames(white_noise(30, -30)):
            room.push_audio(frame)
    (lost,) = lost_audio(watching)
    assert lost[0] == ears.stream.dropped > 100
    assert (lost[1]["vivavoce.component"], lost[1]["gen_ai.provider.name"]) == ("stt", "pocketsphinx")


class Away(First):
    """Its next connection takes its time."""

    gap = 0.0

    async def open(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        if self.connections:
            await anyio.sleep(self.gap)
        return await super().open(setup)


@pytest.mark.parametrize(("gap", "lost"), [(9.0, 0), (9.9, 20)])
def test_what_the_caller_says_to_a_realtime_model_that_is_away_is_counted_likewise(gap: float, lost: int) -> None:
    watching, model = Watching(), Away()
    model.gap = gap
    harness = SessionHarness(Agent("Help."), model=model, options=SessionOptions(telemetry=watching.telemetry))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model.fail()

    harness.run(scenario, until=20.0)
    of_model = {
        "vivavoce.component": "realtime_model",
        "gen_ai.provider.name": "first",
        "gen_ai.request.model": "m-1",
    }
    assert lost_audio(watching) == ([(lost, of_model)] if lost else [])
    heard = model.connections[-1].record.pushed_seconds
    assert heard == pytest.approx(20.0 - (1.0 + 0.5 + gap) + min(10.0, 1.0 + 0.5 + gap - 0.02 * lost), abs=0.05)


class RefusedSink(LiveKitSink):
    """Its native source has another rate than the frames, and refuses every frame."""

    other: rtc.AudioSource | None = None

    def open(self) -> rtc.AudioSource:
        self.other = self.other or rtc.AudioSource(48000, 1)
        return self.other

    async def aclose(self) -> None:
        await super().aclose()
        if self.other is not None:
            await self.other.aclose()


class Room(LocalTransport):
    """A room whose audio goes into a native source, as in a LiveKit room."""

    def __init__(self, sink: LiveKitSink) -> None:
        super().__init__(LoopClock(), sink=sink)
        self._native = sink

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._native.pump)
            await super().run(events, task_status=task_status)


def speaking_cascade() -> Pipeline:
    llm = ScriptedLLM("One two three.")
    return CascadingPipeline(stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())


def speaking_realtime() -> Pipeline:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
    return RealtimePipeline(ScriptedRealtimeModel("One two three.", capabilities=capabilities), vad=ScriptedVAD())


@pytest.mark.parametrize("make", [speaking_cascade, speaking_realtime])
@pytest.mark.parametrize("kind", [LiveKitSink, RefusedSink])
async def test_what_the_agent_says_is_counted_as_lost_where_the_room_does_not_take_it(
    make: Callable[[], Pipeline], kind: type[LiveKitSink]
) -> None:
    watching, sink = Watching(), kind(LoopClock(), sample_rate=24000)
    session = AgentSession[None](Agent("Help."), make(), options=SessionOptions(telemetry=watching.telemetry))
    with anyio.fail_after(60):
        async with session:
            await session.start(Room(sink))
            is_over = anyio.Event()
            session.on(TurnCompleted, lambda _: is_over.set())
            session.input.text("count please")
            await is_over.wait()
    await sink.aclose()
    if kind is LiveKitSink:
        assert lost_audio(watching) == []
        return
    assert sink.dropped_frames >= 30  # 0.2 s a word
    of_room = {"vivavoce.component": "room", "gen_ai.provider.name": "scripted"}
    assert lost_audio(watching) == [(sink.dropped_frames, of_room)]
