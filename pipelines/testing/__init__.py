"""The test kit for plugin authors and apps: scripted providers, a scripted caller, conformance checks, virtual time.

Scripted providers play a test's script, at exact times on virtual time (`virtual_time`), and record the requests. The
checks verify the promises of a provider's port, in a test of its own package:

    async def test_my_voice_keeps_the_promises_of_a_tts(server: FakeServer) -> None:
        await check_tts(lambda: mine.TTS(base_url=server.url))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names
from vivavoce.pipelines.testing.checks_listening import check_denoiser, check_stt, check_turn_detector, check_vad
from vivavoce.pipelines.testing.checks_realtime import check_realtime_model
from vivavoce.pipelines.testing.checks_speaking import check_llm, check_tts
from vivavoce.pipelines.testing.loop_guard import LOOP_LIMIT, LoopGuard, LoopHeldError
from vivavoce.pipelines.testing.positions import positions
from vivavoce.pipelines.testing.promises import check_failure
from vivavoce.pipelines.testing.script import HANG, ScriptError, Step, StepItem, words_at
from vivavoce.pipelines.testing.scripted_embedder import ScriptedEmbedder, check_embedder
from vivavoce.pipelines.testing.scripted_llm import ScriptedLLM
from vivavoce.pipelines.testing.scripted_realtime import (
    RealtimeRecord,
    ScriptedRealtimeConnection,
    ScriptedRealtimeModel,
)
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTT, ScriptedSTTStream
from vivavoce.pipelines.testing.scripted_tts import ScriptedTTS, ScriptedTTSOptions, Spoken, TTSFault
from vivavoce.pipelines.testing.scripted_turn_detector import ScriptedTurnDetector
from vivavoce.pipelines.testing.scripted_vad import ScriptedCaller, ScriptedVAD, ScriptedVADStream
from vivavoce.pipelines.testing.virtual_time import VirtualClock, VirtualTimeError, VirtualTimeLoop, run_virtual

if TYPE_CHECKING:
    from vivavoce.pipelines.testing.realtime_server import ScriptedRealtimeServer

_PLACES = {"vivavoce.pipelines.testing.realtime_server": "ScriptedRealtimeServer"}
"""Loaded on first use: it needs aiohttp's server."""

__all__ = [
    "HANG",
    "LOOP_LIMIT",
    "LoopGuard",
    "LoopHeldError",
    "ScriptError",
    "ScriptedCaller",
    "ScriptedEmbedder",
    "ScriptedLLM",
    "RealtimeRecord",
    "ScriptedRealtimeConnection",
    "ScriptedRealtimeModel",
    "ScriptedRealtimeServer",
    "ScriptedSTT",
    "ScriptedSTTStream",
    "ScriptedTTS",
    "ScriptedTTSOptions",
    "ScriptedTurnDetector",
    "ScriptedVAD",
    "ScriptedVADStream",
    "Spoken",
    "Step",
    "StepItem",
    "TTSFault",
    "VirtualClock",
    "VirtualTimeError",
    "VirtualTimeLoop",
    "check_denoiser",
    "check_embedder",
    "check_failure",
    "check_llm",
    "check_realtime_model",
    "check_stt",
    "check_tts",
    "check_turn_detector",
    "check_vad",
    "positions",
    "run_virtual",
    "words_at",
]

if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, _PLACES)
