"""A call to an agent on a realtime model in a room: real ears, a real websocket, and a scripted server behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from livekit import rtc

from kit.e2e.calls import LINES, OPTIONS, Call
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import Talker, calling, record
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.testing import Recording
from vivavoce.pipelines import RealtimePipeline
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.testing.realtime_server import ScriptedRealtimeServer
from vivavoce.plugins import openai, silero

SECONDS_PER_WORD = 0.2
"""The server's voice is a tone of this length for each word, without pauses."""


class RealtimeCall(Call):
    """One call: `server` is the address of the model's connection."""

    def __init__(
        self, session: AgentSession[object], talker: Talker, recording: Recording, server: ScriptedRealtimeServer
    ) -> None:
        self.session = session
        self.talker = talker
        self.recording = recording
        self.server = server


@asynccontextmanager
async def caller_and_realtime_agent(
    endpoint: RoomEndpoint, room_name: str, room: rtc.Room, *, texts: Iterable[str] = LINES
) -> AsyncIterator[Callable[..., Awaitable[RealtimeCall]]]:
    """Yield a function that starts the call; it gets the server, with its script, and the agent.

    Turns are ended here, by silero's word; without `is_local` the server ends them, by its own. The words are the
    server's transcripts, or those of the `stt`.

    Args:
        texts: The lines of the caller.
    """
    async with AsyncExitStack() as stack:
        vad = await stack.enter_async_context(silero.VAD())
        lines = await record(texts)

        async def call(
            server: ScriptedRealtimeServer,
            agent: Agent | None = None,
            *,
            is_local: bool = True,
            stt: STT | None = None,
            fallback: Pipeline | None = None,
            options: SessionOptions = OPTIONS,
        ) -> RealtimeCall:
            await stack.enter_async_context(server)
            model = await stack.enter_async_context(openai.RealtimeModel(model="scripted", base_url=server.url))
            pipeline = RealtimePipeline(model, stt=stt, vad=vad if is_local else None, fallback=fallback)
            session = AgentSession[object](agent or Agent("Be brief."), pipeline, options=options)
            stack.push_async_callback(session.close)
            recording = Recording()
            recording.listen(session)
            await session.start(room)
            talker = await stack.enter_async_context(calling(endpoint, room_name, lines))
            return RealtimeCall(session, talker, recording, server)

        yield call
