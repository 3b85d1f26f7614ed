"""npm's `livekit-client` in Chromium holds a call with a Python client: through the embedded room and a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from kit.e2e.browser_client import BrowserClient, browser_client
from kit.e2e.peer_process import PeerProcess
from kit.e2e.proxy import TcpProxy
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

Connect = Callable[..., Awaitable[PeerProcess]]
MICROPHONE_HERTZ = 660.0
CLIENT_INITIATED = 1
"""rtc.DisconnectReason of a client that has said that it leaves."""


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("microphone") / "tone.wav"
    times = np.arange(60 * 48_000) / 48_000
    pcm = (8000 * np.sin(2 * np.pi * MICROPHONE_HERTZ * times)).astype(np.int16)
    write_wav(path, AudioFrame(pcm.tobytes(), 48_000))
    return path


@pytest.fixture
async def browser(microphone: Path) -> AsyncIterator[BrowserClient]:
    async with browser_client(microphone) as client:
        yield client


async def call(
    browser: BrowserClient, server: RoomEndpoint, connect: Connect, room_name: str, url: str = ""
) -> PeerProcess:
    """Join both, and let each hear the other."""
    agent = await connect(server, "agent")
    await agent.call("publish_tone", hertz=440.0)
    await browser.connect(url or server.url, server.token("caller", room_name))
    await asyncio.gather(
        browser.event("track_subscribed", identity="agent"), agent.event("track_subscribed", identity="caller")
    )
    return agent


async def both_are_heard(browser: BrowserClient, agent: PeerProcess) -> None:
    # A browser changes the level of its microphone.
    await asyncio.gather(
        browser.hears("agent", 440.0),
        agent.call("hears", identity="caller", hertz=MICROPHONE_HERTZ, low=-35.0, high=0.0),
    )


@pytest.mark.both_servers
async def test_both_hear_each_other_and_everything_else_goes_both_ways(
    browser: BrowserClient, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    agent = await call(browser, room_server, connect, room_name)
    await both_are_heard(browser, agent)

    await browser.run(
        "() => room.localParticipant.publishData(new TextEncoder().encode('hi'), {reliable: true, topic: 't'})"
    )
    await agent.event("data", identity="caller", payload="hi", topic="t")
    await agent.call("send_data", text="hello", reliable=True, topic="u")
    await browser.event("data", identity="agent", payload="hello", topic="u")

    await agent.call("receive_text", topic="lk.chat")
    await browser.run("() => room.localParticipant.sendText('ünïcode 🎧 '.repeat(3000), {topic: 'lk.chat'})")
    assert (await agent.event("text", identity="caller"))["text"] == "ünïcode 🎧 " * 3000
    await agent.call("send_text", topic="lk.chat", chunks=["a table ", "for two"])
    await browser.event("text", identity="agent", text="a table for two")

    await agent.call("serve_rpc", method="echo")
    ask = "(p) => room.localParticipant.performRpc({destinationIdentity: 'agent', method: 'echo', payload: p})"
    assert await browser.run(ask, "x" * 12_000) == "caller:" + "x" * 12_000
    assert await agent.call("call_rpc", to="caller", method="echo", payload="y" * 100) == "agent:" + "y" * 100

    await agent.call("describe", attributes={"lk.agent.state": "listening"})
    await browser.event("attributes", identity="agent", changed={"lk.agent.state": "listening"})
    await browser.run("() => room.localParticipant.setAttributes({seat: '4'})")
    await agent.event("attributes", identity="caller", changed={"seat": "4"})


async def test_mute_speakers_and_quality_are_told_and_leaving_is_seen_at_once(
    browser: BrowserClient, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    agent = await call(browser, room_server, connect, room_name)
    await browser.event("quality", identity="agent", quality="excellent")
    await browser.run("() => room.localParticipant.setMicrophoneEnabled(false)")
    await agent.event("track_muted", identity="caller")
    await agent.call("hears_silence", identity="caller")
    await agent.call("mute", on=True)
    await browser.event("track_muted", identity="agent")
    await browser.event("speakers", identities=[])
    await agent.call("mute", on=False)
    await browser.event("speakers", identities=["agent"])
    await browser.run("() => room.localParticipant.setMicrophoneEnabled(true)")
    await agent.event("track_unmuted", identity="caller")

    await browser.run("() => room.disconnect()")
    await agent.event("participant_disconnected", identity="caller", reason=CLIENT_INITIATED)  # not lost: it has left


@pytest.mark.both_servers
async def test_a_lost_websocket_is_resumed_and_nobody_sees_a_leave(
    browser: BrowserClient, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    host, _, port = room_server.url.removeprefix("ws://").partition(":")
    async with TcpProxy(host, int(port)) as proxy:
        agent = await call(browser, room_server, connect, room_name, proxy.url)
        await both_are_heard(browser, agent)
        proxy.cut()
        await browser.event("reconnecting")
        await browser.event("reconnected")
        await both_are_heard(browser, agent)
        await agent.call("send_data", text="still there?", reliable=True)
        await browser.event("data", identity="agent", payload="still there?")
        assert not [event for event in agent.events if event["event"] == "participant_disconnected"]
        await browser.run("() => room.disconnect()")


@pytest.mark.test_all("test_two_processes holds the same with another client")
async def test_the_same_identity_elsewhere_ends_the_call_with_its_reason(
    browser: BrowserClient, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    await call(browser, room_server, connect, room_name)
    await connect(room_server, "caller")
    await browser.event("disconnected", reason=2)  # DUPLICATE_IDENTITY


async def test_a_refused_token_is_told_at_once(
    browser: BrowserClient, room_server: RoomEndpoint, room_name: str
) -> None:
    jwt = room_server.token("caller", room_name, ttl=-600.0)
    told = await browser.run(
        "([url, token]) => room.connect(url, token).then(() => 'joined', (e) => `${e.name}: ${e.message}`)",
        [room_server.url, jwt],
    )
    assert told.startswith("ConnectionError")
    if room_server.kind == "embedded":
        assert "expired" in told
        assert jwt not in told
