"""Sessions with ElevenLabs' servers by clients written elsewhere; run by the interpreter that has them.

    python elevenlabs_clients.py < job.json

The job has `url`, `key`, `voice` and, in base64, `speech`: 16 kHz PCM. Each client's observations are printed as one
line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import anyio.lowlevel
from elevenlabs import AsyncElevenLabs
from elevenlabs.realtime import AudioFormat, CommitStrategy, RealtimeEvents
from livekit import rtc
from livekit.agents import APIError, tts
from livekit.plugins import elevenlabs

RATE = 16_000
LIMIT = 40.0

Job = dict[str, Any]


def pieces(pcm: bytes, seconds: float = 0.1) -> Iterator[bytes]:
    """Cut PCM."""
    size = round(seconds * RATE) * 2
    return (pcm[at : at + size] for at in range(0, len(pcm), size))


async def sdk_scribe(job: Job) -> Job:
    """Recognise by the SDK: two commits, the second one of too little audio."""
    client = AsyncElevenLabs(api_key=job["key"], base_url=job["url"])
    connection = await client.speech_to_text.realtime.connect(
        {
            "model_id": "scribe_v2_realtime",
            "audio_format": AudioFormat.PCM_16000,
            "sample_rate": RATE,
            "commit_strategy": CommitStrategy.MANUAL,
            "include_timestamps": True,
            "include_language_detection": True,
            "secondary_languages": ["es"],
            "keyterms": ["Ada"],
        }
    )
    seen: list[Job] = []
    changed = asyncio.Event()

    def note(told: Job) -> None:
        seen.append(told)
        changed.set()

    async def until(kind: str) -> None:
        while not any(told.get("message_type") == kind for told in seen):
            changed.clear()
            await changed.wait()

    for event in RealtimeEvents:
        if event not in (RealtimeEvents.OPEN, RealtimeEvents.CLOSE, RealtimeEvents.ERROR):
            connection.on(event, note)
    closed: list[Job] = []

    def note_close(told: Job) -> None:
        closed.append(told)
        changed.set()

    connection.on(RealtimeEvents.CLOSE, note_close)
    for piece in pieces(base64.b64decode(job["speech"])):
        await connection.send({"audio_base_64": base64.b64encode(piece).decode()})
    await connection.commit()
    await until("committed_transcript_with_timestamps")
    await connection.send({"audio_base_64": base64.b64encode(bytes(RATE // 5)).decode()})
    await connection.commit()
    await until("commit_throttled")
    while not closed:
        changed.clear()
        await changed.wait()
    return {"messages": seen, "closed": closed[0]}


async def sdk_vad(job: Job) -> Job:
    """Recognise by the SDK with the server's own commits, and with a wrong key."""
    told: Job = {}
    for name, key in (("good", job["key"]), ("wrong", "another")):
        client = AsyncElevenLabs(api_key=key, base_url=job["url"])
        connection = await client.speech_to_text.realtime.connect(
            {
                "model_id": "scribe_v2_realtime",
                "audio_format": AudioFormat.PCM_16000,
                "sample_rate": RATE,
                "commit_strategy": CommitStrategy.VAD,
                "vad_silence_threshold_secs": 0.5,
                "language_code": "en",
            }
        )
        heard: asyncio.Future[Job] = asyncio.get_running_loop().create_future()

        def keep(message: Job, heard: asyncio.Future[Job] = heard) -> None:
            if not heard.done():
                heard.set_result(message)

        connection.on(RealtimeEvents.COMMITTED_TRANSCRIPT, keep)
        connection.on(RealtimeEvents.AUTH_ERROR, keep)
        if name == "good":
            for piece in pieces(base64.b64decode(job["speech"]) + bytes(RATE * 2)):
                await connection.send({"audio_base_64": base64.b64encode(piece).decode()})
        told[name] = await heard
        await connection.close()
    return told


async def lk_scribe(job: Job) -> Job:
    """Recognise by livekit's plugin: an utterance that a flush ends."""
    events: list[Job] = []
    async with aiohttp.ClientSession() as session:
        recogniser = elevenlabs.STT(
            base_url=f"{job['url']}/v1",
            api_key=job["key"],
            http_session=session,
            model="scribe_v2_realtime",
            include_timestamps=True,
            keyterms=["Ada"],
        )
        stream = recogniser.stream()
        for piece in pieces(base64.b64decode(job["speech"]), 0.05):
            stream.push_frame(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
        stream.flush()
        async for event in stream:
            told: Job = {"type": event.type.value}
            if event.alternatives:
                best = event.alternatives[0]
                told |= {"text": best.text, "language": str(best.language), "confidence": best.confidence}
                told["words"] = [[str(word), word.start_time, word.end_time] for word in best.words or []]
            events.append(told)
            if told["type"] == "final_transcript":
                break
        await stream.aclose()
    return {"events": events}


async def speak(voice: elevenlabs.TTS, *texts: str) -> Job:
    """Speak a text that comes in pieces by livekit's plugin."""
    stream = voice.stream()
    seen: Job = {"samples": 0, "levels": [], "words": []}

    async def push() -> None:
        for text in texts:
            stream.push_text(text)
            await anyio.lowlevel.checkpoint()
        stream.end_input()

    async with stream:
        pushing = asyncio.create_task(push())
        async for heard in stream:
            frame = heard.frame
            seen["samples"] += frame.samples_per_channel
            seen["levels"] = sorted({*seen["levels"], *(abs(sample) for sample in frame.data)})
            for word in frame.userdata.get(tts.tts.USERDATA_TIMED_TRANSCRIPT, []):
                seen["words"].append([str(word).strip(), word.start_time, word.end_time])
        await pushing
    return seen


async def lk_speak(job: Job) -> Job:
    """Speak by livekit's plugin: two answers side by side, one after a cut, a wrong voice, a wrong key."""
    seen: Job = {}
    async with aiohttp.ClientSession() as session:
        common: Job = {"base_url": f"{job['url']}/v1", "http_session": session, "encoding": "pcm_24000"}
        settings = elevenlabs.VoiceSettings(stability=0.5, similarity_boost=0.75, speed=1.1)
        good = elevenlabs.TTS(api_key=job["key"], voice_id=job["voice"], voice_settings=settings, **common)
        seen["first"], seen["second"] = await asyncio.gather(
            speak(good, "Hello the", "re. How ", "are you?"), speak(good, "And again.")
        )
        cut = good.stream()
        cut.push_text("This is a long sentence that is cut. And here is another one, which is not heard at all. ")
        async for _ in cut:
            break
        await cut.aclose()
        seen["after"] = await speak(good, "After the cut.")
        await good.aclose()
        for name, wrong in {"voice": {"voice_id": "nobody"}, "key": {"api_key": "another"}}.items():
            bad = elevenlabs.TTS(**{"api_key": job["key"], "voice_id": job["voice"], **common, **wrong})
            stream = bad.stream(conn_options=tts.tts.APIConnectOptions(max_retry=0))
            stream.push_text("Hello there.")
            stream.end_input()
            try:
                async for _ in stream:
                    pass
            except APIError as error:
                seen[f"wrong {name}"] = str(error)
            finally:
                await stream.aclose()
            await bad.aclose()
    return seen


CLIENTS: tuple[Callable[[Job], Awaitable[Job]], ...] = (sdk_scribe, sdk_vad, lk_scribe, lk_speak)


async def main() -> None:
    """Run all clients, side by side."""
    job = json.load(sys.stdin)
    async with asyncio.timeout(LIMIT):
        told = await asyncio.gather(*(client(job) for client in CLIENTS))
    print(json.dumps({client.__name__: one for client, one in zip(CLIENTS, told, strict=True)}))


if __name__ == "__main__":
    asyncio.run(main())
