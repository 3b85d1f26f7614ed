"""vivavoce.pipelines: the ports, and the two pipelines that hear, think and speak. Public names load on first use, so
importing this is cheap.

Layers, lowest first: `core` → `media` → the ports (`stt`, `llm`, `tts`, `vad`, `denoise`, `turn_detector`,
`realtime_model`) → `io`, `pipeline`, `events` and `speech` → `listening` and `speaking` → `cascading`, `realtime`,
`silent` → `testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
    from vivavoce.pipelines.llm.fallback import FallbackLLM, FallbackLLMOptions
    from vivavoce.pipelines.llm.summary import LLMSummariser, SummaryWindow
    from vivavoce.pipelines.pipeline import Pipeline
    from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
    from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime
    from vivavoce.pipelines.silent import SilentPipeline
    from vivavoce.pipelines.stt.fallback import FallbackSTT, FallbackSTTOptions
    from vivavoce.pipelines.tts.fallback import FallbackTTS, FallbackTTSOptions

_PLACES = {
    "vivavoce.pipelines.cascading": "CascadingOptions CascadingPipeline",
    "vivavoce.pipelines.llm.fallback": "FallbackLLM FallbackLLMOptions",
    "vivavoce.pipelines.llm.summary": "LLMSummariser SummaryWindow",
    "vivavoce.pipelines.pipeline": "Pipeline",
    "vivavoce.pipelines.realtime": "RealtimeOptions RealtimePipeline",
    "vivavoce.pipelines.realtime_model.fallback": "FallbackRealtime",
    "vivavoce.pipelines.silent": "SilentPipeline",
    "vivavoce.pipelines.stt.fallback": "FallbackSTT FallbackSTTOptions",
    "vivavoce.pipelines.tts.fallback": "FallbackTTS FallbackTTSOptions",
}

__all__ = [
    "CascadingOptions",
    "CascadingPipeline",
    "FallbackLLM",
    "FallbackLLMOptions",
    "FallbackRealtime",
    "FallbackSTT",
    "FallbackSTTOptions",
    "FallbackTTS",
    "FallbackTTSOptions",
    "LLMSummariser",
    "Pipeline",
    "RealtimeOptions",
    "RealtimePipeline",
    "SilentPipeline",
    "SummaryWindow",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
