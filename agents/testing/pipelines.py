"""The pipelines of scripted parts that a harness makes, and the part of one that gets the caller's words."""

from __future__ import annotations

from typing import TypedDict, Unpack

from vivavoce.agents.testing.caller import Recognises
from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import TurnDetection
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD, ScriptError
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
    options = CascadingOptions(find_turn_detector=False)  # a test is the same on each machine
    return CascadingPipeline(stt=stt, llm=llm, tts=tts, options=options, **parts)


def realtime(model: ScriptedRealtimeModel, **listening: Unpack[Listening]) -> Pipeline:
    """Return a speech-to-speech model as a pipeline; its server decides turns if it can."""
    decides: TurnDetection = "remote" if "remote" in model.capabilities.turn_detection else "local"
    parts: Listening = {"vad": ScriptedVAD(), **listening}
    return RealtimePipeline(model, options=RealtimeOptions(turn_detection=decides), **parts)


def recogniser_of(stt: ScriptedSTT, model: ScriptedRealtimeModel | None, pipeline: Pipeline | None) -> Recognises:
    """Return the part that gets the caller's words, which only a scripted one can take.

    Args:
        pipeline: The test's own, which perhaps has another recogniser.
    Raises:
        ConfigurationError: It is another one.
    """
    remedy = "or put yours into pipeline=… and give the scripted part that gets the caller's words here"
    for name, part, kind in (("stt", stt, ScriptedSTT), ("model", model, ScriptedRealtimeModel)):
        if not isinstance(part, kind | None):
            raise ConfigurationError(f"need {name} as a {kind.__name__}, got {shown(part)}; give one, {remedy}")

    def recognise(text: str, is_final: bool, item_id: str) -> None:
        if model is not None:
            model.transcript(text, item_id=item_id, is_final=is_final)
            return
        if pipeline is not None and not stt.open_attempts and all(part is not stt for _, part in pipeline.parts()):
            raise ScriptError(
                "the harness's stt is not in this pipeline; give it too: SessionHarness(…, stt=stt, pipeline=…), "
                "or model=model if a realtime model hears the caller"
            )
        if is_final:
            stt.final(text)
        else:
            stt.interim(text)

    return recognise
