"""vivavoce.pipelines: the ports, and the two pipelines that hear, think and speak. Public names load on first use, so
importing this is cheap.

Layers, lowest first: `core` → `media` → the ports (`stt`, `llm`, `tts`, `vad`, `denoise`, `turn_detector`,
`realtime_model`) → `io`, `pipeline`, `events` and `speech` → `listening` and `speaking` → `cascading`, `realtime` →
`testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
    from vivavoce.pipelines.pipeline import Pipeline
    from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
    from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime

_PLACES = {
    "CascadingOptions": "cascading",
    "CascadingPipeline": "cascading",
    "FallbackRealtime": "realtime_model.fallback",
    "Pipeline": "pipeline",
    "RealtimeOptions": "realtime",
    "RealtimePipeline": "realtime",
}

__all__ = [
    "CascadingOptions",
    "CascadingPipeline",
    "FallbackRealtime",
    "Pipeline",
    "RealtimeOptions",
    "RealtimePipeline",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
