"""An avatar that is missing, is lost, comes back, or reports nonsense: each has a named outcome, and the call goes on.

The avatar is a plain client of the SDK in the test's own process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from livekit import api, rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Watched, joined, loud
from kit.limits import LIMIT
from vivavoce.agents import Agent, AgentSession, CloseReason, RoomOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import Recording
from vivavoce.agents.transports import AvatarOptions, avatar_token
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import AvatarError, CapabilityError, ConfigurationError, RoomError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav
from vivavoce.pipelines.testing import ScriptedTTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SAYS = "one two three four five"
"""One second of the scripted voice."""


class PlainAvatar(Watched):
    """Receives the agent's audio, and reports what the test wants."""

    def __init__(self, room: rtc.Room) -> None:
        super().__init__()
        self.room = room
        self.received = 0
        self.formats: list[dict[str, str]] = []
        self.ended = 0
        self.cleared = 0
        self.plays = True
        self._tasks: set[asyncio.Task[None]] = set()
        room.register_byte_stream_handler("lk.audio_stream", self._on_stream)
        room.local_participant.register_rpc_method("lk.clear_buffer", self._on_clear)

    def _on_stream(self, reader: rtc.ByteStreamReader, sender: str) -> None:
        assert sender == "agent"
        self.formats.append(dict(reader.info.attributes or {}))
        self._tasks.add(asyncio.create_task(self._read(reader)))

    async def _read(self, reader: rtc.ByteStreamReader) -> None:
        samples, has_started = 0, False
        async for piece in reader:
            samples += len(piece) // 2
            self.received += len(piece) // 2
            if self.plays and not has_started:
                has_started = True
                await self.report("lk.playback_started", "")
            self.changed()
        self.ended += 1
        self.changed()
        if self.plays:
            await anyio.sleep(samples / 24000)
            await self.report(
                "lk.playback_finished", json.dumps({"playback_position": samples / 24000, "interrupted": False})
            )

    def _on_clear(self, data: rtc.RpcInvocationData) -> str:
        self.cleared += 1
        self.changed()
        return "ok"

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.room.disconnect()

    async def report(self, method: str, payload: str) -> str:
        return await self.room.local_participant.perform_rpc(
            destination_identity="agent", method=method, payload=payload
        )


@asynccontextmanager
async def plain_avatar(server: RoomEndpoint, token: str) -> AsyncIterator[PlainAvatar]:
    room = rtc.Room()
    await room.connect(server.url, token)
    avatar = PlainAvatar(room)
    try:
        yield avatar
    finally:
        await avatar.aclose()


@pytest.fixture(autouse=True)
def keys(embedded_room: RoomEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("url", "api_key", "api_secret"):
        monkeypatch.setenv(f"LIVEKIT_{name.upper()}", getattr(embedded_room, name))


@pytest.fixture
async def room(embedded_room: RoomEndpoint, room_name: str) -> AsyncIterator[rtc.Room]:
    room = rtc.Room()
    await room.connect(embedded_room.url, embedded_room.token("agent", room_name, agent=True))
    yield room
    await room.disconnect()


def agent_session() -> tuple[AgentSession[object], Recording]:
    session = AgentSession[object](Agent("Be brief."), CascadingPipeline(tts=ScriptedTTS()))
    events = Recording()
    events.listen(session)
    return session, events


def options(**avatar: Any) -> RoomOptions:
    return RoomOptions(avatar=AvatarOptions(identity="avatar", waits_for_video=False, **avatar))


def errors(events: Recording) -> list[tuple[str, str, bool]]:
    found = events.of(ErrorOccurred)
    return [(e.source, e.error.outcome, e.is_recovered) for e in found if isinstance(e.error, AvatarError)]


async def test_without_the_avatar_the_agents_own_track_speaks_and_an_error_says_so(
    embedded_room: RoomEndpoint, room_name: str, room: rtc.Room
) -> None:
    session, events = agent_session()
    async with joined(embedded_room, room_name, "caller") as caller:
        await session.start(room, room_options=options(join_limit=0.3))
        said = session.say(SAYS)
        await said
        await caller.until(lambda: len(caller.audio()) > 48000)
        assert (said.outcome, said.heard_text) == ("completed", SAYS)
        assert errors(events) == [("avatar", "own_audio", True)]
        assert (await session.close()).is_clean


async def test_a_session_that_needs_the_avatar_does_not_start_without_it(room: rtc.Room) -> None:
    session, _ = agent_session()
    with pytest.raises(AvatarError, match=r"'avatar' is not there 0\.3 s after the start; the session needs it"):
        await session.start(room, room_options=options(join_limit=0.3, is_required=True))


async def test_a_session_that_needs_the_avatar_closes_when_it_leaves(
    embedded_room: RoomEndpoint, room: rtc.Room
) -> None:
    session, events = agent_session()
    async with plain_avatar(embedded_room, avatar_token("avatar", room=room)):
        await session.start(room, room_options=options(is_required=True))
    with anyio.fail_after(LIMIT):
        report = await session.wait_closed()
    assert report.reason == CloseReason.ERROR
    assert errors(events) == [("avatar", "closed", False)]


async def test_an_avatar_that_leaves_in_mid_speech_is_followed_by_the_own_track_and_returns_with_the_next_speech(
    embedded_room: RoomEndpoint, room_name: str, room: rtc.Room
) -> None:
    session, events = agent_session()
    async with joined(embedded_room, room_name, "caller") as caller:
        async with plain_avatar(embedded_room, avatar_token("avatar", room=room)) as avatar:
            await session.start(room, room_options=options())
            said = session.say(" ".join([SAYS] * 4))
            await avatar.until(lambda: avatar.received > 24000)
            assert not len(loud(caller.audio()))
        await said
        assert said.outcome == "completed"
        assert errors(events) == [("avatar", "own_audio", True)]
        await caller.until(lambda: len(loud(caller.audio())) > 0)
        async with plain_avatar(embedded_room, avatar_token("avatar", room=room)) as avatar:
            with anyio.fail_after(LIMIT):
                while "avatar" not in room.remote_participants:  # noqa: ASYNC110 - the room is the agent's own
                    await anyio.sleep(0.02)
            again = session.say(SAYS)
            await again
            assert avatar.received == 24000
            assert avatar.formats == [{"sample_rate": "24000", "num_channels": "1"}]
        assert again.heard_text == SAYS
        assert (await session.close()).is_clean


async def test_an_avatar_that_is_there_and_does_not_play_is_given_up(
    embedded_room: RoomEndpoint, room_name: str, room: rtc.Room
) -> None:
    session, events = agent_session()
    async with (
        joined(embedded_room, room_name, "caller") as caller,
        plain_avatar(embedded_room, avatar_token("avatar", room=room)) as avatar,
    ):
        avatar.room.local_participant.unregister_rpc_method("lk.clear_buffer")
        await session.start(room, room_options=options())
        said = session.say(SAYS)
        await avatar.until(lambda: avatar.received > 6000)
        await session.interrupt()
        await said
        with anyio.fail_after(LIMIT):
            while not errors(events):  # noqa: ASYNC110 - an error of the session's own events
                await anyio.sleep(0.05)
        assert errors(events) == [("avatar", "own_audio", True)]  # it cannot be interrupted
        await session.say(SAYS)
        await caller.until(lambda: len(loud(caller.audio())) > 0)
        assert (await session.close()).is_clean


async def test_a_report_of_another_form_is_refused_and_changes_nothing(
    embedded_room: RoomEndpoint, room_name: str, room: rtc.Room
) -> None:
    session, events = agent_session()
    async with (
        joined(embedded_room, room_name, "caller"),
        plain_avatar(embedded_room, avatar_token("avatar", room=room)) as avatar,
    ):
        await session.start(room, room_options=options())
        for payload in ("", "{}", '{"playback_position": "NaN", "interrupted": true}', "[1]"):
            with pytest.raises(rtc.RpcError, match="playback_position"):
                await avatar.report("lk.playback_finished", payload)
        said = session.say(SAYS)
        await said
        assert said.heard_text == SAYS
        assert errors(events) == []
        assert (await session.close()).is_clean


async def test_only_the_avatar_reports_its_playback(
    embedded_room: RoomEndpoint, room_name: str, room: rtc.Room
) -> None:
    session, _ = agent_session()
    async with (
        joined(embedded_room, room_name, "caller") as caller,
        plain_avatar(embedded_room, avatar_token("avatar", room=room)),
    ):
        await session.start(room, room_options=options())
        with pytest.raises(rtc.RpcError, match="only the avatar"):
            await caller.room.local_participant.perform_rpc(
                destination_identity="agent", method="lk.playback_started", payload=""
            )
        assert (await session.close()).is_clean


async def test_the_avatars_token_names_the_agent_and_its_room(
    embedded_room: RoomEndpoint, room_name: str, room: rtc.Room
) -> None:
    token = avatar_token("avatar", room=room, name="Ada", ttl=60.0)
    claims = api.TokenVerifier(embedded_room.api_key, embedded_room.api_secret).verify(token)
    assert (claims.identity, claims.name, claims.kind) == ("avatar", "Ada", "agent")
    assert claims.attributes == {"lk.publish_on_behalf": "agent"}
    assert claims.video is not None
    assert (claims.video.room, claims.video.room_join) == (room_name, True)


async def test_a_token_needs_a_room_and_a_key(room: rtc.Room, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RoomError, match="connect"):
        avatar_token("avatar", room=rtc.Room())
    with pytest.raises(ConfigurationError, match="identity"):
        avatar_token(" ", room=room)
    with pytest.raises(ConfigurationError, match="ttl"):
        avatar_token("avatar", room=room, ttl=0)
    monkeypatch.delenv("LIVEKIT_API_SECRET")
    with pytest.raises(ConfigurationError, match="LIVEKIT_API_SECRET"):
        avatar_token("avatar", room=room)


async def test_background_audio_beside_an_avatar_is_refused_at_the_start(
    embedded_room: RoomEndpoint, room: rtc.Room, tmp_path: Any
) -> None:
    write_wav(tmp_path / "hum.wav", AudioFrame(bytes(48000), 24000))
    session = AgentSession[object](
        Agent("Be brief."), CascadingPipeline(tts=ScriptedTTS()), background_audio=str(tmp_path / "hum.wav")
    )
    with pytest.raises(CapabilityError, match="background audio"):
        await session.start(room, room_options=options(join_limit=0.3))
