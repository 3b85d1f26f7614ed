"""The test kit for applications: one session in virtual time, a scripted caller, everything recorded.

`SessionHarness` runs an agent as a call would, an hour in milliseconds and every time exact. The scripted providers are
those of `vivavoce.pipelines.testing`, whose names are here too, so that a test needs one import.
"""

from __future__ import annotations

from vivavoce.agents.testing.caller import Caller
from vivavoce.agents.testing.harness import Scenario, SessionHarness
from vivavoce.agents.testing.recording import Played, Recording
from vivavoce.pipelines.testing import (
    HANG,
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedTTSOptions,
    ScriptedVAD,
    ScriptError,
    TTSFault,
    VirtualClock,
    VirtualTimeError,
    run_virtual,
)

__all__ = [
    "HANG",
    "Caller",
    "Played",
    "Recording",
    "Scenario",
    "ScriptError",
    "ScriptedLLM",
    "ScriptedRealtimeModel",
    "ScriptedSTT",
    "ScriptedTTS",
    "ScriptedTTSOptions",
    "ScriptedVAD",
    "SessionHarness",
    "TTSFault",
    "VirtualClock",
    "VirtualTimeError",
    "run_virtual",
]
