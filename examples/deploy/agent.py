"""The agent of the container image: a worker with the options of a deployment (see docs/production.md)."""

from typing import Any

from vivavoce.agents import Agent, AgentSession, JobContext, Worker, WorkerOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import openai, silero


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    async def on_enter(self) -> None:
        await self.session.say("Hello! A table for when?")


def prewarm(shared: dict[str, Any]) -> None:
    """Load the parts that all calls of a process share."""
    shared["vad"], shared["llm"] = silero.VAD(), openai.LLM()


async def entrypoint(ctx: JobContext) -> None:
    stt, tts = openai.STT(), openai.TTS()
    for component in (stt, tts):
        ctx.add_shutdown_callback(component.aclose)
    pipeline = CascadingPipeline(vad=ctx.shared["vad"], stt=stt, llm=ctx.shared["llm"], tts=tts)
    await AgentSession(Host(), pipeline).start()


worker = Worker(
    entrypoint,
    agent_name="host",
    options=WorkerOptions(
        prewarm=prewarm,
        max_jobs=20,  # measure: docs/production.md, "Sizing"
        max_load=0.8,  # further calls go to other workers
        drain_timeout=1800.0,  # the longest call; kubernetes.yaml gives a little more
        health_port=8081,
        health_host="0.0.0.0",  # for the probes
    ),
)
