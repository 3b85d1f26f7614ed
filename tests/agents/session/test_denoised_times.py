"""The true times of speech behind a denoiser, whatever its delay and its rate: the turn ends as without it."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.denoise.base import DenoiseCapabilities, Denoiser, DenoiseStream
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD


class Delaying(Denoiser, DenoiseStream):
    """Passes audio on, later."""

    provider = "delaying"

    def __init__(self, delay: float, sample_rate: int) -> None:
        self._can = DenoiseCapabilities(sample_rate=sample_rate, delay=delay)
        self._held = bytearray(bytes(2 * round(delay * sample_rate)))

    @property
    def capabilities(self) -> DenoiseCapabilities:
        return self._can

    def open(self) -> DenoiseStream:
        return self

    def push(self, frame: AudioFrame) -> AudioFrame:
        self._held += frame.data
        out = bytes(self._held[: len(frame.data)])
        del self._held[: len(frame.data)]
        return AudioFrame(out, frame.sample_rate)


def times(kind: str, denoise: Denoiser | None) -> tuple[float, ...]:
    """When the caller began and ended, and the seconds to the answer."""
    more: dict[str, Any] = {} if denoise is None else {"denoise": denoise}
    if kind == "cascading":
        stt = ScriptedSTT(["hello"], final_delay=0.1)
        harness = SessionHarness(Agent("Help."), ScriptedLLM("One.", delay=0.1), stt=stt, **more)
    else:
        model = ScriptedRealtimeModel("One.", hears=["hello"], delay=0.1)
        pipeline = RealtimePipeline(model, vad=ScriptedVAD(), **more)
        harness = SessionHarness(Agent("Help."), model=model, pipeline=pipeline)
    harness.caller.makes_noise(0.5, 1.5)
    harness.run(until=5.0)
    (turn,) = harness.session.turns
    assert turn.user_started_at is not None
    assert turn.user_ended_at is not None
    assert turn.e2e_latency is not None
    return turn.user_started_at, turn.user_ended_at, turn.user_ended_at + turn.e2e_latency


@pytest.mark.parametrize("rate", [16000, 48000])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.04])
@pytest.mark.parametrize("kind", ["cascading", "realtime"])
def test_the_turn_begins_and_ends_as_without_a_denoiser(kind: str, delay: float, rate: int) -> None:
    assert times(kind, Delaying(delay, rate)) == pytest.approx(times(kind, None), abs=0.02)
