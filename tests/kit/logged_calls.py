"""Calls whose log records are looked at: an agent whose tool logs and raises content, on both pipelines, in a job."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.current_job import job_scope
from vivavoce.agents.job import JobInfo
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    VirtualClock,
)
from vivavoce.agents.transports.local import LocalTransport
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


@asynccontextmanager
async def in_job(name: str) -> AsyncIterator[None]:
    """Run the block in a job without a room, which ends with it."""
    async with anyio.create_task_group() as tasks:
        job = ConsoleJob(JobInfo(id=name, room="r"), LocalTransport(VirtualClock()), shared={}, tasks=tasks)
        with job_scope(job):
            yield
