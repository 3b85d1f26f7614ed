"""npm's `livekit-client` in Chromium, as a test's client: one room, its events, its audio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from aiohttp import web
from playwright.async_api import Page

from kit.page.browser import chromium
from kit.servers import install
from kit.servers.missing import missing

LIMIT = 20.0

SETUP = """() => {
  const { Room, RoomEvent } = LivekitClient;
  const room = (window.room = new Room());
  const events = (window.events = []);
  const tell = (event, fields = {}) => events.push({ event, ...fields });
  room.on(RoomEvent.Reconnecting, () => tell("reconnecting"));
  room.on(RoomEvent.SignalReconnecting, () => tell("reconnecting"));
  room.on(RoomEvent.Reconnected, () => tell("reconnected"));
  room.on(RoomEvent.Disconnected, (reason) => tell("disconnected", { reason }));
  room.on(RoomEvent.ParticipantConnected, (p) => tell("participant_connected", { identity: p.identity }));
  room.on(RoomEvent.ParticipantDisconnected, (p) => tell("participant_disconnected", { identity: p.identity }));
  room.on(RoomEvent.TrackMuted, (t, p) => tell("track_muted", { identity: p.identity }));
  room.on(RoomEvent.TrackUnmuted, (t, p) => tell("track_unmuted", { identity: p.identity }));
  room.on(RoomEvent.ConnectionQualityChanged, (quality, p) => tell("quality", { identity: p.identity, quality }));
  room.on(RoomEvent.ActiveSpeakersChanged, (all) => tell("speakers", { identities: all.map((p) => p.identity) }));
  room.on(RoomEvent.ParticipantAttributesChanged, (changed, p) =>
    tell("attributes", { identity: p.identity, changed }));
  room.on(RoomEvent.RoomMetadataChanged, (metadata) => tell("room_metadata", { metadata }));
  room.on(RoomEvent.DataReceived, (data, p, kind, topic) =>
    tell("data", { identity: p?.identity ?? "", payload: new TextDecoder().decode(data), topic: topic ?? "" }));
  room.on(RoomEvent.TrackSubscribed, (track, publication, p) => {
    if (track.kind !== "audio") return;
    const element = track.attach();
    document.body.append(element);
    const context = new AudioContext();
    const analyser = new AnalyserNode(context, { fftSize: 32768, smoothingTimeConstant: 0 });
    context.createMediaStreamSource(new MediaStream([track.mediaStreamTrack])).connect(analyser);
    (window.heard ??= {})[p.identity] = { context, analyser };
    tell("track_subscribed", { identity: p.identity });
  });
  room.registerTextStreamHandler("lk.chat", async (reader, from) =>
    tell("text", { identity: from.identity, text: await reader.readAll() }));
  room.registerRpcMethod("echo", async (call) => `${call.callerIdentity}:${call.payload}`);
}"""

MEASURE = """async (identity) => {
  const { context, analyser } = window.heard[identity];
  const samples = new Float32Array(analyser.fftSize);
  analyser.getFloatTimeDomainData(samples);
  const bins = new Float32Array(analyser.frequencyBinCount);
  analyser.getFloatFrequencyData(bins);
  const peak = bins.indexOf(Math.max(...bins));
  const square = samples.reduce((sum, x) => sum + x * x, 0) / samples.length;
  return { hertz: (peak * context.sampleRate) / analyser.fftSize, level: 10 * Math.log10(Math.max(square, 1e-12)) };
}"""


class BrowserClient:
    """One page with one room."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def connect(self, url: str, token: str) -> None:
        """Join, and open the microphone."""
        async with asyncio.timeout(LIMIT):
            await self.page.evaluate("([url, token]) => room.connect(url, token)", [url, token])
            await self.page.evaluate("() => room.localParticipant.setMicrophoneEnabled(true)")

    async def run(self, script: str, argument: Any = None) -> Any:
        """Evaluate a function in the page; `room` is there."""
        async with asyncio.timeout(LIMIT):
            return await self.page.evaluate(script, argument)

    async def hears(self, identity: str, hertz: float, *, near: float = 3.0, low: float = -25.0) -> None:
        """Wait for two thirds of a second of a participant's tone: within `near` Hz, and louder than `low` dBFS."""
        last: dict[str, float] = {}
        with anyio.move_on_after(LIMIT):
            while not last or abs(last["hertz"] - hertz) > near or last["level"] <= low:
                await anyio.sleep(0.2)
                last = dict(await self.run(MEASURE, identity))
            return
        raise AssertionError(f"no {hertz:g} Hz of {identity} within {LIMIT:g} s; the last is {last}")

    async def event(self, event: str, limit: float = LIMIT, **fields: Any) -> None:
        """Wait for an event with these fields; past ones count."""
        wanted = {"event": event, **fields}
        find = """(wanted) => events.some((e) =>
            Object.entries(wanted).every(([k, v]) => JSON.stringify(e[k]) === JSON.stringify(v)))"""
        with anyio.move_on_after(limit):
            await self.page.wait_for_function(find, arg=wanted, timeout=0)
            return
        seen = json.dumps(await self.page.evaluate("() => events"))
        raise AssertionError(f"no event {wanted} within {limit:g} s; seen: {seen}")


@asynccontextmanager
async def browser_client(microphone: Path) -> AsyncIterator[BrowserClient]:
    """Open livekit-client in a browser whose microphone plays a WAV file of 48 kHz mono."""
    try:
        script = await anyio.to_thread.run_sync(install.livekit_client)
    except install.InstallError as error:
        missing("livekit-client", str(error))
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium(microphone))
        # From a real server: for pages that Playwright answers itself, browsers limit access to loopback differently.
        url = await stack.enter_async_context(_empty_page())
        page = await browser.new_page()
        await page.goto(url)
        await page.add_script_tag(path=script)
        await page.evaluate(SETUP)
        yield BrowserClient(page)
        await page.evaluate("() => room.disconnect()")


@asynccontextmanager
async def _empty_page() -> AsyncIterator[str]:
    async def serve(request: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>livekit-client</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://localhost:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
