"""One LiveKit client in a process of its own: commands come as JSON lines on stdin, answers and events go to stdout.

Nothing of the product is imported: it is the outside view, `livekit.rtc` and numpy only.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

import numpy as np
import numpy.typing as npt
from livekit import rtc

RATE = 48_000
FRAME = RATE // 100
AMPLITUDE = 0.25  # a sine of this peak has 20·log10(0.25/√2) = −15.05 dBFS
STRETCH = RATE // 2
SILENCE = 32  # of 32768: −60 dBFS
HEARING_LIMIT = 60.0


class Peer:
    """The client: each public coroutine is a command."""

    def __init__(self) -> None:
        self.room = rtc.Room()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sources: dict[str, tuple[rtc.AudioSource, asyncio.Task[None], str]] = {}
        self._tracks: dict[str, rtc.Track] = {}
        self._register()

    def emit(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)

    def spawn(self, coro: Coroutine[Any, Any, None]) -> None:
        _ = self._started(coro)

    def _started(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _register(self) -> None:
        room, emit = self.room, self.emit
        room.on("participant_connected", lambda p: emit("participant_connected", identity=p.identity, kind=int(p.kind)))
        room.on(
            "participant_disconnected",
            lambda p: emit("participant_disconnected", identity=p.identity, reason=int(p.disconnect_reason or 0)),
        )
        room.on("track_subscribed", self._on_subscribed)
        room.on("track_unsubscribed", lambda t, pub, p: emit("track_unsubscribed", identity=p.identity, sid=pub.sid))
        room.on("track_unpublished", lambda pub, p: emit("track_unpublished", identity=p.identity, sid=pub.sid))
        room.on("track_muted", lambda p, pub: emit("track_muted", identity=p.identity))
        room.on("track_unmuted", lambda p, pub: emit("track_unmuted", identity=p.identity))
        room.on("local_track_subscribed", lambda track: emit("local_track_subscribed"))
        room.on("active_speakers_changed", lambda s: emit("active_speakers", identities=[p.identity for p in s]))
        room.on(
            "connection_quality_changed", lambda p, q: emit("connection_quality", identity=p.identity, quality=int(q))
        )
        room.on(
            "participant_attributes_changed",
            lambda changed, p: emit("attributes", identity=p.identity, changed=dict(changed)),
        )
        room.on("participant_metadata_changed", lambda p, old, new: emit("metadata", identity=p.identity, metadata=new))
        room.on("room_metadata_changed", lambda old, new: emit("room_metadata", metadata=new))
        room.on("participant_name_changed", lambda p, old, new: emit("name", identity=p.identity, name=new))
        room.on("disconnected", lambda reason: emit("disconnected", reason=int(reason)))
        room.on("reconnecting", lambda: emit("reconnecting"))
        room.on("reconnected", lambda: emit("reconnected"))
        room.on(
            "data_received",
            lambda d: emit(
                "data",
                identity=d.participant.identity if d.participant else "",
                topic=d.topic,
                payload=d.data.decode(errors="replace"),
                reliable=d.kind == rtc.DataPacketKind.KIND_RELIABLE,
            ),
        )

    def _on_subscribed(self, track: rtc.Track, publication: Any, participant: Any) -> None:
        self._tracks[participant.identity] = track
        self.emit("track_subscribed", identity=participant.identity, sid=publication.sid)

    async def connect(self, url: str, token: str, auto_subscribe: bool = True) -> dict[str, Any]:
        await self.room.connect(url, token, rtc.RoomOptions(auto_subscribe=auto_subscribe))
        return {"sid": self.room.local_participant.sid, "others": sorted(self.room.remote_participants)}

    async def disconnect(self) -> None:
        # A source that is fed after the disconnect aborts the process in the native library: feeders first.
        feeders = [feeder for _, feeder, _ in self._sources.values()]
        for feeder in feeders:
            feeder.cancel()
        if feeders:
            await asyncio.wait(feeders)
        await self.room.disconnect()
        for source, _, _ in self._sources.values():
            await source.aclose()
        self._sources.clear()

    async def others(self) -> dict[str, Any]:
        return {
            i: {"attributes": dict(p.attributes), "metadata": p.metadata, "kind": int(p.kind)}
            for i, p in self.room.remote_participants.items()
        }

    async def publish_tone(self, hertz: float, name: str = "tone") -> str:
        source = rtc.AudioSource(RATE, 1, queue_size_ms=100)
        track = rtc.LocalAudioTrack.create_audio_track(name, source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        publication = await self.room.local_participant.publish_track(track, options)
        feeder = self._started(self._feed(source, hertz))
        self._sources[name] = (source, feeder, publication.sid)
        return str(publication.sid)

    async def _feed(self, source: rtc.AudioSource, hertz: float) -> None:
        position = 0
        while True:
            times = (position + np.arange(FRAME)) / RATE
            pcm = (np.sin(2 * np.pi * hertz * times) * AMPLITUDE * 32767).astype(np.int16)
            await source.capture_frame(rtc.AudioFrame(pcm.tobytes(), RATE, 1, FRAME))
            position += FRAME

    async def unpublish(self, name: str = "tone") -> None:
        source, feeder, sid = self._sources.pop(name)
        feeder.cancel()
        await asyncio.wait({feeder})
        await self.room.local_participant.unpublish_track(sid)
        await source.aclose()

    async def mute(self, on: bool) -> None:
        for publication in self.room.local_participant.track_publications.values():
            track = publication.track
            assert isinstance(track, rtc.LocalAudioTrack)
            track.mute() if on else track.unmute()

    async def listen(self, identity: str, seconds: float, skip: float = 0.5) -> dict[str, float]:
        """Measure the audio of one participant: level (dBFS) and frequency (Hz) after the first `skip` seconds.

        Missing audio counts as silence.
        """
        stream = rtc.AudioStream(self._tracks[identity], sample_rate=RATE, num_channels=1)
        parts: list[np.ndarray[Any, Any]] = []
        need, have = int((seconds + skip) * RATE), 0
        try:
            async with asyncio.timeout(seconds + skip + 2.0):
                async for event in stream:
                    part = np.frombuffer(event.frame.data, dtype=np.int16)
                    parts.append(part)
                    have += len(part)
                    if have >= need:
                        break
        except TimeoutError:
            parts.append(np.zeros(need - have, dtype=np.int16))
        await stream.aclose()
        return measured(np.concatenate(parts)[int(skip * RATE) :])

    async def hears(
        self, identity: str, hertz: float, near: float = 5.0, low: float = -16.05, high: float = -14.05
    ) -> None:
        """Wait for half a second of one participant's tone: its frequency within `near` Hz, its level in dBFS.

        A busy machine loses packets: an earlier half second may be broken.
        """
        last: dict[str, float] = {}
        try:
            async with asyncio.timeout(HEARING_LIMIT), aclosing(self._stretches(identity)) as stretches:
                async for pcm in stretches:
                    last = measured(pcm)
                    if abs(last["hertz"] - hertz) <= near and low <= last["level"] <= high:
                        return
        except TimeoutError:
            raise TimeoutError(
                f"no {hertz:g} Hz of {identity} within {HEARING_LIMIT:g} s; the last is {last}"
            ) from None

    async def hears_silence(self, identity: str) -> None:
        """Wait for half a second without a sound of one participant; missing audio counts as silence."""
        async with asyncio.timeout(HEARING_LIMIT), aclosing(self._stretches(identity)) as stretches:
            loudest = SILENCE
            while loudest >= SILENCE:
                try:
                    async with asyncio.timeout(1.0):
                        loudest = np.abs(await anext(stretches)).max()
                except TimeoutError:
                    return

    async def _stretches(self, identity: str) -> AsyncGenerator[npt.NDArray[np.int16]]:
        """The last half second of a participant, again and again."""
        stream = rtc.AudioStream(self._tracks[identity], sample_rate=RATE, num_channels=1)
        last, new = np.zeros(0, np.int16), 0
        try:
            async for event in stream:
                part = np.frombuffer(event.frame.data, dtype=np.int16)
                last, new = np.concatenate([last, part])[-STRETCH:], new + len(part)
                if len(last) == STRETCH and new >= STRETCH // 5:
                    new = 0
                    yield last
        finally:
            await stream.aclose()

    async def send_data(self, text: str, reliable: bool, topic: str = "", to: list[str] | None = None) -> None:
        await self.room.local_participant.publish_data(
            text, reliable=reliable, topic=topic, destination_identities=to or []
        )

    async def receive_text(self, topic: str) -> None:
        async def read(reader: rtc.TextStreamReader, identity: str) -> None:
            text = await reader.read_all()
            self.emit("text", topic=topic, identity=identity, text=text, attributes=dict(reader.info.attributes or {}))

        def on_stream(reader: rtc.TextStreamReader, identity: str) -> None:
            self.spawn(read(reader, identity))

        self.room.register_text_stream_handler(topic, on_stream)

    async def send_text(self, topic: str, chunks: list[str], attributes: dict[str, str] | None = None,
                        sender: str | None = None) -> None:  # fmt: skip
        writer = await self.room.local_participant.stream_text(
            topic=topic, attributes=attributes, sender_identity=sender
        )
        for chunk in chunks:
            await writer.write(chunk)
        await writer.aclose()

    async def serve_rpc(self, method: str) -> None:
        async def answer(data: rtc.RpcInvocationData) -> str:
            return f"{data.caller_identity}:{data.payload}"

        self.room.local_participant.register_rpc_method(method, answer)

    async def call_rpc(self, to: str, method: str, payload: str) -> str:
        return await self.room.local_participant.perform_rpc(
            destination_identity=to, method=method, payload=payload, response_timeout=HEARING_LIMIT
        )

    async def describe(self, attributes: dict[str, str] | None = None, metadata: str | None = None) -> None:
        if attributes is not None:
            await self.room.local_participant.set_attributes(attributes)
        if metadata is not None:
            await self.room.local_participant.set_metadata(metadata)


def measured(pcm: npt.NDArray[np.int16]) -> dict[str, float]:
    """Return level (dBFS) and frequency (Hz)."""
    scaled = pcm.astype(np.float64) / 32768
    spectrum = np.abs(np.fft.rfft(scaled * np.hanning(len(scaled))))
    return {
        "level": float(20 * np.log10(max(np.sqrt(np.mean(scaled**2)), 1e-9))),
        "hertz": float(np.argmax(spectrum) * RATE / len(scaled)),
    }


async def main() -> None:
    peer = Peer()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    peer.emit("started")
    while line := await reader.readline():
        request = json.loads(line)
        peer.spawn(answer(peer, request))
    await peer.disconnect()


async def answer(peer: Peer, request: dict[str, Any]) -> None:
    reply: dict[str, Any] = {"reply": request["id"]}
    try:
        reply["result"] = await getattr(peer, request["command"])(**request["arguments"])
    except Exception as exc:  # noqa: BLE001 - goes to the test, which fails on it
        reply["error"] = f"{type(exc).__name__}: {exc}"
    print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
