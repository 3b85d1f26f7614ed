"""vivavoce.pipelines: the ports, and the two pipelines that hear, think and speak. Public names load on first use, so
importing this is cheap.

Layers, lowest first: `core` → `media` → the ports (`stt`, `llm`, `tts`, `vad`, `denoise`, `turn_detector`,
`realtime_model`) → `io`, `pipeline`, `events` and `speech` → `listening` and `speaking` → `cascading`, `realtime`,
`silent` → `testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
    from vivavoce.pipelines.llm.fallback import FallbackLLM, FallbackLLMOptions
    from vivavoce.pipelines.pipeline import Pipeline
    from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
    from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime
    from vivavoce.pipelines.silent import SilentPipeline
    from vivavoce.pipelines.stt.fallback import FallbackSTT, FallbackSTTOptions
    from vivavoce.pipelines.tts.fallback import FallbackTTS, FallbackTTSOptions

_PLACES = {
    "CascadingOptions": "cascading",
    "CascadingPipeline": "cascading",
    "FallbackLLM": "llm.fallback",
    "FallbackLLMOptions": "llm.fallback",
    "FallbackRealtime": "realtime_model.fallback",
    "FallbackSTT": "stt.fallback",
    "FallbackSTTOptions": "stt.fallback",
    "FallbackTTS": "tts.fallback",
    "FallbackTTSOptions": "tts.fallback",
    "Pipeline": "pipeline",
    "RealtimeOptions": "realtime",
    "RealtimePipeline": "realtime",
    "SilentPipeline": "silent",
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
    "Pipeline",
    "RealtimeOptions",
    "RealtimePipeline",
    "SilentPipeline",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vivavoce.pipelines.core.field_docs import with_field_docs

    return with_field_docs(getattr(import_module(f"{__name__}.{_PLACES[name]}"), name))


def __dir__() -> list[str]:
    return __all__
