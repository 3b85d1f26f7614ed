"""LiveKitSink on a real native audio source, without a room: positions, clearing, bounds."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents.transports.livekit import LiveKitSink
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame

RATE = 24000
FRAME = AudioFrame.silence(0.02, RATE)


async def counted_out(sink: LiveKitSink, seconds: float) -> None:
    """Wait until no more than that is queued."""
    while sink.queued() > seconds * RATE:  # noqa: ASYNC110 - the sink reports no position, it is asked
        await anyio.sleep(0.005)


async def test_written_audio_is_counted_out_in_real_time() -> None:
    sink, clock = LiveKitSink(LoopClock(), sample_rate=RATE), LoopClock()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sink.pump)
        began = clock.now()
        for _ in range(5):
            sink.write(FRAME)
        assert sink.queued() == 5 * 480
        await anyio.sleep(0.05)
        queued = sink.queued()
        elapsed = clock.now() - began
        # At least the rest of real time; more if a busy machine delayed the pump.
        assert (0.1 - elapsed - 0.01) * RATE <= queued <= 5 * 480
        await counted_out(sink, 0)
        tasks.cancel_scope.cancel()
    await sink.aclose()
    assert sink.dropped_frames == 0


async def test_clear_counts_what_waits_and_what_was_handed_over() -> None:
    sink, clock = LiveKitSink(LoopClock(), sample_rate=RATE), LoopClock()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sink.pump)
        began = clock.now()
        for _ in range(20):  # 0.4 s: more than the native queue takes at once
            sink.write(FRAME)
        await counted_out(sink, 0.36)  # some is handed over
        queued, seen_at = sink.queued(), clock.now()
        cleared = sink.clear()
        assert (0.4 - (seen_at - began) - 0.01) * RATE <= queued
        assert queued - (clock.now() - seen_at + 0.01) * RATE <= cleared <= queued
        assert sink.queued() == 0
        sink.write(FRAME)
        assert sink.queued() == 480
        tasks.cancel_scope.cancel()
    await sink.aclose()


async def test_what_is_written_before_the_room_takes_it_is_bounded() -> None:
    sink = LiveKitSink(LoopClock(), sample_rate=RATE)
    for _ in range(60):
        sink.write(FRAME)
    assert sink.queued() == RATE
    assert sink.dropped_frames == 10
    await sink.aclose()
    assert sink.queued() == 0


async def test_stopped_sink_lets_the_position_go_on() -> None:
    sink = LiveKitSink(LoopClock(), sample_rate=RATE)
    sink.stop()
    began = anyio.current_time()
    sink.write(FRAME)
    queued = sink.queued()
    assert (0.02 - (anyio.current_time() - began)) * RATE - 1 <= queued <= 480
    await counted_out(sink, 0)
    await sink.aclose()
    await sink.aclose()


async def test_audio_of_another_rate_is_refused_with_advice() -> None:
    sink = LiveKitSink(LoopClock(), sample_rate=RATE)
    with pytest.raises(ConfigurationError, match=r"24000 Hz, got 16000 Hz .*output_rate"):
        sink.write(AudioFrame.silence(0.02, 16000))
