"""The end of a call on both servers: the agent leaves with its session or hangs up, and the job is reported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import numpy as np
import numpy.typing as npt
import pytest
from livekit import rtc
from livekit.protocol.agent import JobStatus, UpdateJobStatus

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import PEER_RATE, Peer, joined, loud, pitch, tone
from kit.e2e.worker_tap import WorkerTap
from kit.e2e.working import Working
from kit.limits import LIMIT
from vivavoce.agents import Agent, AgentSession, RoomOptions, SessionOptions, WakeUp
from vivavoce.agents.job import JobContext
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.media.frame import AudioFrame

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

Entrypoint = Callable[[JobContext], Awaitable[None]]
FAREWELL = 1.5
"""Seconds of the tone that the agent says goodbye with."""


def a_session(
    wake_up: WakeUp | None = None, llm: ScriptedLLM | None = None, *, max_errors: int = 3
) -> AgentSession[None]:
    pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=ScriptedSTT(), llm=llm or ScriptedLLM(), tts=ScriptedTTS())
    return AgentSession(Agent("Help."), pipeline, wake_up=wake_up, options=SessionOptions(max_errors=max_errors))


class Ended:
    """How a call ended for its caller."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.left: list[str] = []
        self.reasons: list[int] = []
        peer.room.on("participant_disconnected", self._on_left)
        peer.room.on("disconnected", self._on_disconnected)

    def _on_left(self, participant: rtc.RemoteParticipant) -> None:
        self.left.append(participant.identity)
        self.peer.changed()

    def _on_disconnected(self, reason: int) -> None:
        self.reasons.append(reason)
        self.peer.changed()


@asynccontextmanager
async def called(
    server: RoomEndpoint, room_name: str, entrypoint: Entrypoint
) -> AsyncIterator[tuple[Ended, WorkerTap]]:
    """A caller in a new room, with a worker that runs `entrypoint` there."""
    async with WorkerTap(server.url) as tap:
        options = WorkerOptions(
            url=tap.url,
            api_key=server.api_key,
            api_secret=server.api_secret,
            executor=TaskExecution(),
            identity="agent",
            entrypoint_timeout=5.0,
        )
        async with Working(Worker(entrypoint, options=options)), joined(server, room_name, "caller") as caller:
            yield Ended(caller), tap


async def is_done_well(tap: WorkerTap) -> UpdateJobStatus:
    report = await tap.report(JobStatus.JS_SUCCESS)
    assert not report.error
    return report


@pytest.mark.both_servers
async def test_an_agent_whose_session_has_closed_leaves_the_room_and_its_job_is_done(
    room_server: RoomEndpoint, room_name: str
) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        session = a_session()
        await session.start()
        await ctx.wait_for_participant("caller")
        await session.close()

    async with called(room_server, room_name, entrypoint) as (caller, tap):
        await is_done_well(tap)
        await caller.peer.until(lambda: caller.left == ["agent"])
        assert caller.reasons == []


async def test_a_session_that_closes_by_errors_fails_its_job(room_server: RoomEndpoint, room_name: str) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        down = ScriptedLLM([ProviderError("the model is down", provider="scripted", retryable=False)])
        session = a_session(llm=down, max_errors=1)
        await session.start()
        await ctx.wait_for_participant("caller")
        session.input.text("hello")

    async with called(room_server, room_name, entrypoint) as (caller, tap):
        report = await tap.report(JobStatus.JS_FAILED)
        assert "the model is down" in report.error
        await caller.peer.until(lambda: caller.left == ["agent"])


def goodbye() -> AudioFrame:
    return AudioFrame(b"".join(frame.data for frame in tone(440.0, FAREWELL, 24000)), 24000)


HANG_UPS = pytest.mark.parametrize(
    ("whom", "reason"),
    [("participant", rtc.DisconnectReason.PARTICIPANT_REMOVED), ("room", rtc.DisconnectReason.ROOM_DELETED)],
)


async def heard_before_the_hang_up(
    server: RoomEndpoint, room_name: str, whom: str, reason: int
) -> npt.NDArray[np.int16]:
    """Return what a caller has heard who is hung up on, for that reason, after a goodbye."""

    async def entrypoint(ctx: JobContext) -> None:
        session = a_session()
        await session.start(room_options=RoomOptions(hangup=whom))  # type: ignore[arg-type]  # one of its choices
        await ctx.wait_for_participant("caller")
        _ = session.say("Goodbye.", audio=goodbye())
        await session.hangup()
        report = await session.wait_closed()
        assert report.reason == "user_initiated"

    async with called(server, room_name, entrypoint) as (caller, tap):
        await caller.peer.until(lambda: caller.reasons == [reason])
        await is_done_well(tap)
        heard = loud(caller.peer.audio())
    assert pitch(heard[-PEER_RATE // 4 :], PEER_RATE) == pytest.approx(440.0, abs=8.0)
    return heard


@HANG_UPS
@pytest.mark.both_servers
async def test_a_caller_is_hung_up_on_after_the_goodbye(
    room_server: RoomEndpoint, room_name: str, whom: str, reason: int
) -> None:
    assert len(await heard_before_the_hang_up(room_server, room_name, whom, reason)) > PEER_RATE / 2


@pytest.mark.test_all("a busy machine may play the last tenths of a second too late")
@HANG_UPS
async def test_a_caller_who_is_hung_up_on_has_heard_the_goodbye_to_its_end(
    room_server: RoomEndpoint, room_name: str, whom: str, reason: int
) -> None:
    heard = await heard_before_the_hang_up(room_server, room_name, whom, reason)
    assert len(heard) >= (FAREWELL - 0.05) * PEER_RATE


async def test_a_silent_caller_is_hung_up_on(room_server: RoomEndpoint, room_name: str) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        session = a_session(WakeUp(after=0.3, then="hangup"))
        await session.start()
        report = await session.wait_closed()
        assert report.reason == "user_away"

    async with called(room_server, room_name, entrypoint) as (caller, tap):
        await caller.peer.until(lambda: caller.reasons == [rtc.DisconnectReason.PARTICIPANT_REMOVED])
        await is_done_well(tap)


async def test_a_session_without_the_servers_keys_names_them_where_it_is_to_hang_up(
    embedded_room: RoomEndpoint, room_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"):
        monkeypatch.delenv(name, raising=False)
    async with joined(embedded_room, room_name, "agent", "agent") as agent:
        with pytest.raises(ConfigurationError, match="set LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET"):
            await a_session(WakeUp(after=5.0, then="hangup")).start(agent.room)
        async with a_session() as session:
            await session.start(agent.room)
            with pytest.raises(ConfigurationError, match="LIVEKIT_API_SECRET"):
                _ = session.hangup()


@pytest.mark.real_server
async def test_a_session_outside_of_a_job_hangs_up_by_the_keys_of_the_environment(
    room_server: RoomEndpoint, room_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVEKIT_URL", room_server.url)
    monkeypatch.setenv("LIVEKIT_API_KEY", room_server.api_key)
    monkeypatch.setenv("LIVEKIT_API_SECRET", room_server.api_secret)
    async with joined(room_server, room_name, "agent", "agent") as agent:
        session = a_session()
        await session.start(agent.room)
        async with joined(room_server, room_name, "caller") as peer:
            caller = Ended(peer)
            with anyio.fail_after(LIMIT):
                while "caller" not in agent.room.remote_participants:  # noqa: ASYNC110 - the SDK may emit no event
                    await anyio.sleep(0.05)
            await session.hangup()
            await peer.until(lambda: caller.reasons == [rtc.DisconnectReason.PARTICIPANT_REMOVED])
        await session.wait_closed()
