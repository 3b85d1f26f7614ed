"""Sessions with Deepgram's servers by clients written elsewhere; run by the interpreter that has them.

    python deepgram_clients.py < job.json

The job has `url`, `key` and, in base64, `speech`: 16 kHz PCM. Each client's observations are printed as one line of
JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
from deepgram import AsyncDeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from deepgram.listen.v1.types import ListenV1Configure
from deepgram.listen.v2.types import ListenV2Configure, ListenV2ConfigureThresholds
from deepgram.speak.v2.types import SpeakV2Interrupt, SpeakV2InterruptPlaybackOffset, SpeakV2Speak
from livekit import rtc
from livekit.agents import APIStatusError
from livekit.plugins import deepgram

RATE = 16_000
LIMIT = 30.0

Job = dict[str, Any]


def pieces(pcm: bytes, seconds: float = 0.05) -> Iterator[bytes]:
    """Cut PCM."""
    size = round(seconds * RATE) * 2
    return (pcm[at : at + size] for at in range(0, len(pcm), size))


def sdk(job: Job, key: str = "") -> AsyncDeepgramClient:
    """Return the SDK's client for the server."""
    http, websocket = job["url"], job["url"].replace("http", "ws", 1)
    environment = DeepgramClientEnvironment(base=http, production=websocket, agent=websocket, agent_rest=http)
    return AsyncDeepgramClient(api_key=key or job["key"], environment=environment)


async def sdk_nova(job: Job) -> Job:
    """Recognise by the SDK: pauses, a Finalize, a change of key terms, and a clean end."""
    seen: list[Job] = []
    options = {
        "model": "nova-3",
        "language": "multi",
        "encoding": "linear16",
        "sample_rate": RATE,
        "channels": 1,
        "interim_results": "true",
        "punctuate": "true",
        "diarize": "true",
        "vad_events": "true",
        "endpointing": 300,
        "utterance_end_ms": 1000,
        "keyterm": ["Ada", "Vivavoce"],
    }
    speech, silence = base64.b64decode(job["speech"]), bytes(RATE * 4)
    async with sdk(job).listen.v1.connect(**options) as socket:
        await socket.send_keep_alive()
        for piece in (*pieces(speech), *pieces(silence), *pieces(speech)):
            await socket.send_media(piece)
        await socket.send_finalize()
        await socket.send_configure(ListenV1Configure(keyterms=["Grace"]))
        await socket.send_close_stream()
        async for message in socket:
            seen.append({"class": type(message).__name__, **message.dict(exclude_none=True)})
    return {"messages": seen}


async def sdk_refused(job: Job) -> Job:
    """Be refused for a wrong key, and for a model that does not exist."""
    told = {}
    for name, key, model in (("key", "wrong", "nova-3"), ("model", "", "nova-9")):
        try:
            async with sdk(job, key).listen.v1.connect(model=model, encoding="linear16", sample_rate=RATE):
                told[name] = 101
        except ApiError as error:
            told[name] = error.status_code or 0
    return told


def pause(seconds: float) -> bytes:
    """Return silence."""
    return bytes(round(seconds * RATE) * 2)


async def sdk_flux(job: Job) -> Job:
    """Take turns by the SDK: a pause that is taken back, an end, a changed threshold, a turn that is ended by force."""
    seen: list[Job] = []
    options = {
        "model": "flux-general-multi",
        "encoding": "linear16",
        "sample_rate": RATE,
        "eager_eot_threshold": 0.4,
        "eot_threshold": 0.8,
        "eot_timeout_ms": 3000,
        "keyterm": ["Ada"],
        "language_hint": ["en", "es"],
    }
    speech = base64.b64decode(job["speech"])
    async with sdk(job).listen.v2.connect(**options) as socket:
        for piece in pieces(speech + pause(0.5) + speech + pause(1.0), 0.08):
            await socket.send_media(piece)
        await socket.send_configure(
            ListenV2Configure(thresholds=ListenV2ConfigureThresholds(eot_threshold=1.0), keyterms=["Grace"])
        )
        for piece in pieces(speech, 0.08):
            await socket.send_media(piece)
        await socket.send_force_end_turn()
        await socket.send_close_stream()
        async for message in socket:
            seen.append({"class": type(message).__name__, **message.dict(exclude_none=True)})
    return {"messages": seen}


async def lk_flux(job: Job) -> Job:
    """Take turns by livekit's plugin."""
    events: list[Job] = []
    speech = base64.b64decode(job["speech"])
    async with aiohttp.ClientSession() as session:
        recogniser = deepgram.STTv2(
            base_url=f"{job['url']}/v2/listen",
            api_key=job["key"],
            http_session=session,
            eager_eot_threshold=0.4,
            eot_threshold=0.8,
        )
        stream = recogniser.stream()
        for piece in pieces(speech + pause(0.5) + speech + pause(1.0)):
            stream.push_frame(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
        stream.end_input()
        async for event in stream:
            events.append({"type": event.type.value, "text": event.alternatives[0].text if event.alternatives else ""})
        await stream.aclose()
    return {"events": events}


async def lk_nova(job: Job) -> Job:
    """Recognise by livekit's plugin: two utterances, the second one ended by a flush."""
    events: list[Job] = []
    speech, silence = base64.b64decode(job["speech"]), bytes(RATE * 4)
    async with aiohttp.ClientSession() as session:
        recogniser = deepgram.STT(
            base_url=f"{job['url']}/v1/listen",
            api_key=job["key"],
            http_session=session,
            enable_diarization=True,
            keyterm=["Ada"],
            utterance_end_ms=1000,
        )
        stream = recogniser.stream()
        for piece in (*pieces(speech), *pieces(silence), *pieces(speech)):
            stream.push_frame(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
        stream.flush()
        stream.end_input()
        async for event in stream:
            told: Job = {"type": event.type.value}
            if event.alternatives:
                best = event.alternatives[0]
                told |= {"text": best.text, "speaker": best.speaker_id, "language": str(best.language)}
                told["words"] = [[str(word), word.start_time, word.end_time] for word in best.words or []]
            events.append(told)
        await stream.aclose()
    return {"events": events}


async def lk_refused(job: Job) -> Job:
    """Be refused by livekit's plugin."""
    async with aiohttp.ClientSession() as session:
        recogniser = deepgram.STT(base_url=f"{job['url']}/v1/listen", api_key="wrong", http_session=session)
        stream = recogniser.stream()
        stream.end_input()
        try:
            async for _ in stream:
                break
        except APIStatusError as error:
            return {"key": error.status_code}
        finally:
            await stream.aclose()
    return {"key": 101}


async def sdk_speak(job: Job) -> Job:
    """Speak by the SDK's request."""
    options = {"model": "aura-2-thalia-en", "encoding": "linear16", "container": "none", "sample_rate": 24_000}
    told: Job = {"size": 0}
    async for data in sdk(job).speak.v1.audio.generate(text="Hello there.", **options):
        told["size"] += len(data)
    try:
        async for _ in sdk(job).speak.v1.audio.generate(text="Hello.", **(options | {"model": "aura-2-nobody-en"})):
            break
    except ApiError as error:
        told["refused"] = [error.status_code, error.body]
    return told


async def lk_speak(job: Job) -> Job:
    """Speak by the request of livekit's plugin."""
    async with aiohttp.ClientSession() as session:
        voice = deepgram.TTS(
            model="aura-2-thalia-en", base_url=f"{job['url']}/v1/speak", api_key=job["key"], http_session=session
        )
        seconds = 0.0
        async for audio in voice.synthesize("Hello there."):
            seconds += audio.frame.duration
        await voice.aclose()
    return {"seconds": seconds}


async def sdk_turns(job: Job) -> Job:
    """Speak turns by the SDK: two in a row, one that is interrupted behind its audio, a clean end."""
    told: Job = {"size": 0, "messages": []}
    options = {"model": "flux-alexis-en", "encoding": "linear16", "sample_rate": 24_000}
    async with sdk(job).speak.v2.connect(**options) as socket:
        for text in ("Hello there.", "One two three four five."):
            await socket.send_speak(SpeakV2Speak(text=text))
            await socket.send_flush()
        ends = 0
        async for message in socket:
            if isinstance(message, bytes):
                told["size"] += len(message)
                continue
            told["messages"].append({"class": type(message).__name__, **message.dict(exclude_none=True)})
            ends += told["messages"][-1]["class"] == "SpeakV2Flushed"
            if ends == 2:
                ends = 0
                offset = SpeakV2InterruptPlaybackOffset(value=1200)
                await socket.send_interrupt(SpeakV2Interrupt(playback_offset=offset))
                await socket.send_interrupt(SpeakV2Interrupt(playback_offset=offset))
                await socket.send_close()
    try:
        async with sdk(job).speak.v2.connect(**(options | {"model": "flux-nobody-en"})):
            told["refused"] = 101
    except ApiError as error:
        told["refused"] = error.status_code
    return told


async def lk_turns(job: Job) -> Job:
    """Speak by livekit's plugin for Flux, two answers on one connection."""
    told: Job = {"seconds": []}
    async with aiohttp.ClientSession() as session:
        voice = deepgram.TTSv2(base_url=f"{job['url']}/v2/speak", api_key=job["key"], http_session=session)
        for text in ("Hello there.", "And again."):
            stream = voice.stream()
            stream.push_text(text)
            stream.end_input()
            told["seconds"].append(sum([audio.frame.duration async for audio in stream]))
            await stream.aclose()
        await voice.aclose()
    return told


CLIENTS: tuple[Callable[[Job], Awaitable[Job]], ...] = (
    sdk_nova,
    sdk_refused,
    sdk_flux,
    sdk_speak,
    sdk_turns,
    lk_speak,
    lk_turns,
    lk_nova,
    lk_refused,
    lk_flux,
)


async def main() -> None:
    """Run all clients, side by side."""
    job = json.load(sys.stdin)
    async with asyncio.timeout(LIMIT):
        told = await asyncio.gather(*(client(job) for client in CLIENTS))
    print(json.dumps({client.__name__: one for client, one in zip(CLIENTS, told, strict=True)}))


if __name__ == "__main__":
    asyncio.run(main())
