"""The app of `run.py`: scripted speech recognition, model and voice with Silero, and a line in a file for each job.

A dispatch's metadata says how many seconds after its begin the agent ends the call; empty: the caller ends it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import anyio

from bench.calls.vivavoce_app import ScriptedLLM, ScriptedSTT, ScriptedTTS, prewarm
from vivavoce.agents import Agent, AgentSession, CrashSafety, JobContext, ProcessExecution, Worker, WorkerOptions
from vivavoce.pipelines import CascadingPipeline

BOOK = Path(os.environ["KILLS_BOOK"])
NAME = os.environ["KILLS_NAME"]


def note(ctx: JobContext, event: str, **facts: object) -> None:
    """Add a line; short lines of several processes stay whole."""
    line = json.dumps({"at": time.time(), "event": event, "job": ctx.job.id, "pid": os.getpid(), **facts}) + "\n"
    with BOOK.open("ab", buffering=0) as book:
        book.write(line.encode())


async def entrypoint(ctx: JobContext) -> None:
    """Have one call."""
    kept = (ctx.resume_from or {}).get("counters", {}).get("items", 0)
    note(ctx, "begin", room=ctx.job.room, resumes=ctx.job.resumes, heals=ctx.job.heals, kept=kept)
    ctx.add_shutdown_callback(lambda reason: note(ctx, "end", reason=reason))
    pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ctx.shared["vad"])
    session = AgentSession[None](Agent("Be brief."), pipeline)
    await ctx.connect()
    note(ctx, "joined", identity=ctx.room.local_participant.identity)
    await session.start()
    note(ctx, "started", items=len(session.history.items))
    if ctx.job.metadata:
        await anyio.sleep(float(ctx.job.metadata))
        await session.close()


worker = Worker(
    entrypoint,
    agent_name=NAME,
    options=WorkerOptions(
        prewarm=prewarm,
        max_jobs=8,
        drain_timeout=float(os.environ["KILLS_DRAIN"]),
        executor=ProcessExecution(processes=2),
        crash_safety=CrashSafety(sentence="Sorry, we were cut off. A table for when?"),
    ),
)
