"""Sessions with AssemblyAI's streaming API by clients written elsewhere; run by the interpreter that has them.

    python assemblyai_clients.py < job.json

The job has `url`, `key` and, in base64, 16 kHz PCM: `speech`, a sentence that ends with a full stop, and `begun`, the
beginning of one. Each client's observations are printed as one line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
from assemblyai.streaming.v3 import (
    AsyncRealTimeTranscriber,
    RealTimeEvents,
    RealTimeParameters,
    RealTimeSessionParameters,
    RealTimeTranscriberOptions,
)
from livekit import rtc
from livekit.agents import APIConnectOptions, APIError
from livekit.plugins import assemblyai

RATE = 16_000
LIMIT = 30.0
PIECE = 0.05

Job = dict[str, Any]


def pieces(pcm: bytes, seconds: float = PIECE) -> Iterator[bytes]:
    """Cut PCM, whose last piece is filled up with silence."""
    size = round(seconds * RATE) * 2
    return (pcm[at : at + size].ljust(size, b"\0") for at in range(0, len(pcm), size))


def pause(seconds: float) -> bytes:
    """Return silence."""
    return bytes(round(seconds * RATE) * 2)


async def sdk(
    job: Job, key: str = "", failed: asyncio.Event | None = None, **settings: Any
) -> tuple[AsyncRealTimeTranscriber, list[Job]]:
    """Return a client of the SDK that has tried to connect, and the list of its events."""
    seen: list[Job] = []

    def note(client: AsyncRealTimeTranscriber, event: Any) -> None:
        told = event.model_dump(mode="json") if hasattr(event, "model_dump") else {"code": event.code}
        seen.append({"class": type(event).__name__, **told})
        if failed is not None and "code" in told:
            failed.set()

    options = RealTimeTranscriberOptions(
        api_host=job["url"].replace("http", "ws", 1), api_key=key or job["key"], connect_timeout=10
    )
    client = AsyncRealTimeTranscriber(options)
    for event in RealTimeEvents:
        client.on(event, note)
    await client.connect(RealTimeParameters(sample_rate=RATE, **settings))
    return client, seen


async def sdk_pro(job: Job) -> Job:
    """Recognise by the SDK with a Universal-3 model: a held turn, a forced end, changed settings, a clean end."""
    begun, speech = base64.b64decode(job["begun"]), base64.b64decode(job["speech"])
    client, seen = await sdk(
        job,
        speech_model="universal-3-6-pro",
        keyterms_prompt=["Ada", "Vivavoce"],
        language_codes=["en", "es"],
        language_detection=True,
        speaker_labels=True,
        min_turn_silence=160,
        max_turn_silence=800,
    )
    await client.stream(pieces(begun + pause(0.6) + speech + pause(1.0)))
    await client.set_params(RealTimeSessionParameters(keyterms_prompt=["Grace"]))
    await client.keep_alive()
    await client.stream(pieces(speech))
    await client.force_endpoint()
    await client.stream(pieces(speech))
    await client.disconnect(terminate=True)
    return {"events": seen}


async def sdk_universal(job: Job) -> Job:
    """Recognise by the SDK with a Universal-Streaming model, word by word, with formatted ends."""
    speech = base64.b64decode(job["speech"])
    client, seen = await sdk(job, speech_model="universal-streaming-english", format_turns=True)
    await client.stream(pieces(speech + pause(1.5)))
    await client.disconnect(terminate=True)
    return {"events": seen}


async def sdk_refused(job: Job) -> Job:
    """Be refused: a wrong key, a model that does not exist, a message of 20 ms."""
    told = {}
    for name, key, settings in (
        ("key", "wrong", {"speech_model": "universal-3-6-pro"}),
        ("mode", "", {"speech_model": "universal-streaming-english", "mode": "balanced"}),
        ("short", "", {"speech_model": "universal-3-6-pro"}),
    ):
        failed = asyncio.Event()
        client, seen = await sdk(job, key, failed, **settings)
        if name == "short":
            await client.stream(pause(0.02))
        await failed.wait()
        await client.disconnect()
        told[name] = [event["code"] for event in seen if event["class"] == "RealTimeError"]
    return told


async def lk_hears(job: Job, session: aiohttp.ClientSession, **settings: Any) -> list[Job]:
    """Return the events of livekit's plugin, whose stream ends by `Terminate`."""
    speech, events = base64.b64decode(job["speech"]), []
    recogniser = assemblyai.STT(
        api_key=job["key"], base_url=job["url"].replace("http", "ws", 1), http_session=session, **settings
    )
    stream = recogniser.stream()
    for piece in pieces(speech + pause(1.5) + speech):
        stream.push_frame(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
    stream.end_input()
    async for event in stream:
        told: Job = {"type": event.type.value}
        if event.alternatives:
            best = event.alternatives[0]
            told |= {"text": best.text, "speaker": best.speaker_id, "language": str(best.language)}
            told["words"] = [[str(word), word.start_time, word.end_time] for word in best.words or []]
        events.append(told)
    await stream.aclose()
    return events


async def lk_pro(job: Job) -> Job:
    """Recognise by livekit's plugin with its default model."""
    async with aiohttp.ClientSession() as session:
        return {"events": await lk_hears(job, session, speaker_labels=True, keyterms_prompt=["Ada"])}


async def lk_universal(job: Job) -> Job:
    """Recognise by livekit's plugin, word by word."""
    async with aiohttp.ClientSession() as session:
        model = "universal-streaming-english"
        return {"events": await lk_hears(job, session, model=model, format_turns=True, min_turn_silence=400)}


async def lk_refused(job: Job) -> Job:
    """Be refused by livekit's plugin."""
    async with aiohttp.ClientSession() as session:
        recogniser = assemblyai.STT(api_key="wrong", base_url=job["url"].replace("http", "ws", 1), http_session=session)
        stream = recogniser.stream(conn_options=APIConnectOptions(max_retry=0))
        try:
            async for _ in stream:
                break
        except APIError as error:
            return {"key": getattr(error, "status_code", 0)}
        finally:
            await stream.aclose()
    return {"key": 101}


CLIENTS: tuple[Callable[[Job], Awaitable[Job]], ...] = (
    sdk_pro,
    sdk_universal,
    sdk_refused,
    lk_pro,
    lk_universal,
    lk_refused,
)


async def main() -> None:
    """Run all clients, side by side."""
    job = json.load(sys.stdin)
    async with asyncio.timeout(LIMIT):
        told = await asyncio.gather(*(client(job) for client in CLIENTS))
    print(json.dumps({client.__name__: one for client, one in zip(CLIENTS, told, strict=True)}))


if __name__ == "__main__":
    asyncio.run(main())
