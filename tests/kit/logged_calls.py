"""Calls whose log records are looked at: an agent whose tool logs and raises content, on both pipelines, in a job."""

from __future__ import annotations

import logging

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.job import CloseCall, JobInfo, WaitForClose
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

LOOK_UP = ToolCall(call_id="c1", name="look_up", arguments="{}")
mine = logging.getLogger("my.app")


class Finder(Agent):
    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        mine.info("looking", extra={"shelf": 4, "api_key": "abc"})
        card = 4000 + 711
        raise ValueError(f"she said: my card is {card}")


def cascading() -> Pipeline:
    llm = ScriptedLLM([LOOK_UP], "Found it.")
    return CascadingPipeline(stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())


def realtime() -> Pipeline:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
    return RealtimePipeline(ScriptedRealtimeModel([LOOK_UP], "Found it.", capabilities=capabilities), vad=ScriptedVAD())


class Job:
    """A running job, as far as logs look at it."""

    def __init__(self, name: str) -> None:
        self.job = JobInfo(id=name, room="r")

    def attach_session(self, close: CloseCall) -> None:
        """It ends after its sessions."""

    def session_begins(self, wait_closed: WaitForClose) -> None:
        """It does not end with its sessions."""
