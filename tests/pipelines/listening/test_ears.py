"""Ears: the stages of the frame path, and frames outside of the streams' lifetime."""

from __future__ import annotations

from kit.pipeline import Judge, Muter
from vivavoce.pipelines.events import PipelineEvent
from vivavoce.pipelines.listening.ears import Ears
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.speech import SpeechComponents, SpeechOptions
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD, VirtualClock, run_virtual


def ears_of(components: SpeechComponents, events: list[PipelineEvent]) -> Ears:
    return Ears(components, SpeechOptions(), PipelineContext(clock=VirtualClock(), emit=events.append))


def test_the_way_of_a_frame_can_be_printed() -> None:
    detector = Judge(needs_audio=True)
    components = SpeechComponents(stt=ScriptedSTT(), vad=ScriptedVAD(), denoise=Muter(), turn_detector=detector)

    async def main() -> str:
        return str(ears_of(components, []).stages)

    assert run_virtual(main()) == (
        "[Denoising(muter), Recognizer(scripted) at 16000 Hz, TurnPredictor(judge) at 8000 Hz, "
        "VoiceActivity(scripted) at 16000 Hz]"
    )


def test_a_detector_that_hears_nothing_is_no_stage() -> None:
    async def main() -> list[object]:
        return ears_of(SpeechComponents(turn_detector=Judge()), []).stages

    assert run_virtual(main()) == []


def test_frames_before_opening_and_after_closing_reach_no_vad_and_no_detector() -> None:
    vad, detector, muter = ScriptedVAD(), Judge(needs_audio=True), Muter(sample_rate=16000)
    loud = AudioFrame(b"\x00\x40" * 320, 16000)
    events: list[PipelineEvent] = []

    async def main() -> None:
        ears = ears_of(SpeechComponents(vad=vad, turn_detector=detector, denoise=muter), events)
        for _ in range(10):
            ears.push(loud)
        ears.open()
        ears.close()
        for _ in range(10):
            ears.push(loud)

    run_virtual(main())
    assert events == []
    assert detector.pushed_seconds == muter.pushed_seconds == 0.0
