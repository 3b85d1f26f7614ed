"""The test kit for applications: sessions in virtual time, a scripted caller, everything recorded.

`SessionHarness` runs an agent as a call would, an hour in milliseconds and with exact times; `Harnesses` runs several
sessions in one time. `harness.expect` checks messages, tool calls and handoffs in order; `judge` asks a model whether
words meet a requirement. The scripted providers of `vivavoce.pipelines.testing` can be imported from here too, so that
a test needs one import. How to use it: README.md beside this file.
"""

from __future__ import annotations

from vivavoce.agents.testing.caller import Caller
from vivavoce.agents.testing.expectations import Expect, ExpectCall, ExpectHandoff, ExpectMessage
from vivavoce.agents.testing.harness import Scenario, SessionHarness
from vivavoce.agents.testing.harnesses import Harnesses, JointScenario
from vivavoce.agents.testing.judging import JudgeError, Verdict, judge
from vivavoce.agents.testing.pipelines import Listening
from vivavoce.agents.testing.recording import Played, Recording
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import (
    HANG,
    LoopGuard,
    LoopHeldError,
    ScriptedEmbedder,
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedTTSOptions,
    ScriptedTurnDetector,
    ScriptedVAD,
    ScriptError,
    Spoken,
    TTSFault,
    VirtualClock,
    VirtualTimeError,
    positions,
    run_virtual,
)
from vivavoce.pipelines.vad.base import VADOptions

__all__ = [
    "HANG",
    "Caller",
    "Expect",
    "ExpectCall",
    "ExpectHandoff",
    "ExpectMessage",
    "Harnesses",
    "JointScenario",
    "JudgeError",
    "Listening",
    "LoopGuard",
    "LoopHeldError",
    "Played",
    "Recording",
    "Scenario",
    "ScriptError",
    "ScriptedEmbedder",
    "ScriptedLLM",
    "ScriptedRealtimeModel",
    "ScriptedSTT",
    "ScriptedTTS",
    "ScriptedTTSOptions",
    "ScriptedTurnDetector",
    "ScriptedVAD",
    "SessionHarness",
    "Spoken",
    "TTSFault",
    "ToolCall",
    "VADOptions",
    "Verdict",
    "VirtualClock",
    "VirtualTimeError",
    "judge",
    "positions",
    "run_virtual",
]
