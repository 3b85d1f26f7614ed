"""An agent to be called by `vivavoce call`, in a process of its own; made good or bad by its argument, JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
from livekit import api

import vivavoce.agents.cli.demo
from vivavoce.agents import (
    Agent,
    AgentSession,
    CompletedTurn,
    ConversationFlow,
    InterruptionOptions,
    JobContext,
    SessionOptions,
    StopResponse,
    Worker,
    get_job_context,
)
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.process import run_worker
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, silero

GRAMMAR = Path(vivavoce.agents.cli.demo.__path__[0], "caller_says.gram")
RULES = (
    "Please let me read you our house rules, we keep every table for fifteen minutes, the kitchen takes the last order "
    "at ten in the evening, children and quiet dogs are welcome in the garden, and we ask you to be on time."
)
ARGUMENTS = json.loads(sys.argv[1])
FAULT = ARGUMENTS.pop("fault", "")
AGENT_NAME = ARGUMENTS.pop("agent_name")


class Host(Agent):
    leaving: asyncio.Task[None] | None = None

    async def on_enter(self) -> None:
        await self.session.say("Hello, for which day would you like a table?")

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if FAULT == "says goodbye and leaves":
            self.leaving = asyncio.create_task(self._say_goodbye())  # it is said after this turn's hook
            raise StopResponse
        if FAULT == "leaves":
            await self.session.leave()
        if FAULT == "deletes the room":
            async with api.LiveKitAPI(ARGUMENTS["url"], ARGUMENTS["api_key"], ARGUMENTS["api_secret"]) as server:
                await server.room.delete_room(api.DeleteRoomRequest(room=get_job_context().room.name))

    async def _say_goodbye(self) -> None:
        await self.session.say("We are closed. Goodbye.")
        await self.session.leave()


class Answers(ConversationFlow):
    """Asks for the time, then reads the rules until it is stopped."""

    def __init__(self) -> None:
        self._turns = 0

    async def run(self, transcript: str) -> AsyncIterator[str]:
        self._turns += 1
        if FAULT == "late":
            await anyio.sleep(2.5)
        if self._turns == 1:
            yield "I am sorry that did not work." if FAULT == "says something else" else "At what time?"
        elif self._turns == 2:
            yield RULES
        else:
            yield "Certainly. Goodbye."


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS(voice="en-us+f5", rate=160)
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(stt=pocketsphinx.STT(grammar=GRAMMAR), tts=tts, vad=silero.VAD())
    interruption = InterruptionOptions(enabled=FAULT != "ignores barge-ins")
    options = SessionOptions(interruption=interruption, away_after=None)
    await AgentSession(Host("Be brief."), pipeline, Answers(), options=options).start()


async def main() -> None:
    worker = Worker(entrypoint, agent_name=AGENT_NAME, options=WorkerOptions(**ARGUMENTS))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, worker)
        await run_worker(worker)
        tasks.cancel_scope.cancel()


async def _tell(worker: Worker) -> None:
    while worker.status is None or not worker.status.is_registered:  # noqa: ASYNC110 - no event to wait for
        await anyio.sleep(0.02)
    print("registered", flush=True)


if __name__ == "__main__":
    anyio.run(main)
