"""The pipelines of scripted parts that a harness makes."""

from __future__ import annotations

from typing import TypedDict, Unpack

from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import TurnDetection
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD
from vivavoce.pipelines.tts.base import TTS
from vivavoce.pipelines.turn_detector.base import TurnDetector
from vivavoce.pipelines.vad.base import VAD


class Listening(TypedDict, total=False):
    """Parts of a pipeline that listen beside its STT; without `vad` the harness makes a `ScriptedVAD`."""

    vad: VAD | None
    denoise: Denoiser | None
    turn_detector: TurnDetector | None


def cascade(llm: LLM, stt: ScriptedSTT, tts: TTS, **listening: Unpack[Listening]) -> Pipeline:
    """Return these parts as a cascading pipeline."""
    parts: Listening = {"vad": ScriptedVAD(), **listening}
    return CascadingPipeline(stt=stt, llm=llm, tts=tts, **parts)


def realtime(model: ScriptedRealtimeModel, **listening: Unpack[Listening]) -> Pipeline:
    """Return a speech-to-speech model as a pipeline; its server decides turns if it can."""
    decides: TurnDetection = "remote" if "remote" in model.capabilities.turn_detection else "local"
    parts: Listening = {"vad": ScriptedVAD(), **listening}
    return RealtimePipeline(model, options=RealtimeOptions(turn_detection=decides), **parts)
