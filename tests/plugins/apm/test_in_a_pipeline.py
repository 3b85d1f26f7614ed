"""apm in front of a VAD, a recogniser and both turn detectors: real parts in one CascadingPipeline."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import kit.networks
from kit.speech import BOOKING, frames, mixed, padded, spoken, white_noise
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.events import PipelineEvent, UserFinal, UserSpeechEnded, UserSpeechStarted, UserTurnPredicted
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.turn_detector.base import TurnDetector
from vivavoce.plugins import apm, pocketsphinx, silero, smart_turn, text_turn


@pytest.mark.parametrize("kind", ["text_turn", "smart_turn"])
async def test_noisy_speech_is_cleaned_understood_and_judged(kind: str, tmp_path: Path) -> None:
    (speech,) = await spoken("tomorrow evening at half past six")
    call = padded(speech, before=1.5, after=1.5)
    noisy = mixed(call, white_noise(call.duration, -45))
    detector: TurnDetector = text_turn.TurnDetector()
    if kind == "smart_turn":
        detector = smart_turn.TurnDetector(kit.networks.quiet_end(tmp_path / "quiet_end.onnx"))
    told: list[PipelineEvent] = []
    came = {UserFinal: anyio.Event(), UserTurnPredicted: anyio.Event()}

    def emit(event: PipelineEvent) -> None:
        told.append(event)
        if type(event) in came:
            came[type(event)].set()

    pipeline = CascadingPipeline(
        stt=pocketsphinx.STT(grammar=BOOKING), vad=silero.VAD(), denoise=apm.Denoiser(), turn_detector=detector
    )
    connection = pipeline.open(PipelineContext(clock=LoopClock(), emit=emit))
    async with anyio.create_task_group() as tasks:
        await tasks.start(connection.run)
        for frame in frames(noisy):
            connection.push_audio(frame)
        await came[UserFinal].wait()
        (final,) = [event for event in told if isinstance(event, UserFinal)]
        connection.predict_end_of_turn(final.text, "When would you like to come?")
        await came[UserTurnPredicted].wait()
        tasks.cancel_scope.cancel()
    await connection.aclose()
    assert final.text == "tomorrow evening at half past six"
    assert [type(event) for event in told[:1]] == [UserSpeechStarted]
    assert any(isinstance(event, UserSpeechEnded) for event in told)
    assert [event.complete for event in told if isinstance(event, UserTurnPredicted)] == [True]
