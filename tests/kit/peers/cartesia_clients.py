"""Sessions with Cartesia's servers by clients written elsewhere; run by the interpreter that has them.

    python cartesia_clients.py < job.json

The job has `url`, `key`, `voice` and, in base64, `speech`: 16 kHz PCM. Each client's observations are printed as one
line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

import aiohttp
import anyio.lowlevel
from cartesia import AsyncCartesia
from livekit import rtc
from livekit.agents import APIError, APIStatusError, stt, tts
from livekit.plugins import cartesia

LIMIT = 30.0
FORMAT = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}

Seen = dict[str, Any]


async def hear(context: Any, *, until: int = 0) -> Seen:
    """Read the events of a context to its end, or until so many pieces of audio."""
    seen: Seen = {"kinds": [], "samples": 0, "levels": [], "words": [], "flushes": [], "error": None}
    async for event in context.receive():
        if event.type not in seen["kinds"]:
            seen["kinds"].append(event.type)
        assert event.context_id == context._context_id
        if event.type == "chunk":
            seen["samples"] += len(event.audio) // 2
            level = int.from_bytes(event.audio[:2], "little")
            seen["levels"] = sorted({*seen["levels"], level})
            seen["flushes"] = sorted({*seen["flushes"], event.flush_id})
            if until and seen["samples"] >= until:
                break
        elif event.type == "timestamps":
            times = event.word_timestamps
            seen["words"] += [list(each) for each in zip(times.words, times.start, times.end, strict=True)]
        elif event.type == "error":
            seen["error"] = [event.status_code, event.error_code, event.title, event.message]
    return seen


async def by_sdk(url: str, key: str, voice: str) -> Seen:
    """Speak by the vendor's SDK: continuations, two contexts at once, a flush, a cancel, and refusals."""
    client = AsyncCartesia(api_key=key, websocket_base_url=url.replace("http", "ws", 1))
    common: Seen = {
        "model_id": "sonic-3",
        "voice": {"mode": "id", "id": voice},
        "output_format": FORMAT,
        "language": "en",
        "add_timestamps": True,
    }
    seen: Seen = {}
    async with client.tts.websocket_connect() as connection:
        first = connection.context(**common, max_buffer_delay_ms=0, generation_config={"speed": 1.2, "emotion": "calm"})
        second = connection.context(**common)
        for text in ("Hello there. ", "How are you?"):
            await first.push(text)
        await second.push("Two at once.", continue_=False)
        await first.no_more_inputs()
        seen["first"], seen["second"] = await asyncio.gather(hear(first), hear(second))

        flushed = connection.context(**common)
        await flushed.push("Stay hungry, ")
        await flushed.push("", flush=True)
        await flushed.push("stay foolish.")
        await flushed.no_more_inputs()
        seen["flushed"] = await hear(flushed)

        cut = connection.context(**common)
        await cut.push("One two three four five six seven eight. ")
        seen["cut"] = await hear(cut, until=1)
        await cut.cancel()
        after = connection.context(**common)
        await after.push("After the cut.", continue_=False)
        seen["after"] = await hear(after)

        wrongs: dict[str, Seen] = {
            "model": {"model_id": "sonic-0"},
            "voice": {"voice": {"mode": "id", "id": "nobody"}},
            "language": {"language": "xx"},
        }
        for name, wrong in wrongs.items():
            context = connection.context(**{**common, **wrong})
            await context.push("Hello.", continue_=False)
            seen[f"wrong {name}"] = (await hear(context))["error"]
    stranger = AsyncCartesia(api_key="another", websocket_base_url=url.replace("http", "ws", 1))
    try:
        async with stranger.tts.websocket_connect():
            seen["wrong key"] = None
    except Exception as error:  # noqa: BLE001 - the kind of the websocket library's error is nothing to pin
        seen["wrong key"] = "401" in str(error)
    return seen


async def speak(voice: cartesia.TTS, *texts: str) -> Seen:
    """Speak a text that comes in pieces by livekit's plugin."""
    stream = voice.stream()
    seen: Seen = {"samples": 0, "levels": [], "words": []}

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


async def by_livekit(url: str, key: str, voice: str) -> Seen:
    """Speak by livekit's plugin: two answers on one connection, a voice that does not exist, a wrong key."""
    seen: Seen = {}
    async with aiohttp.ClientSession() as session:
        good = cartesia.TTS(api_key=key, base_url=url, voice=voice, http_session=session, speed=1.2)
        seen["first"] = await speak(good, "Hello the", "re. How ", "are you?")
        seen["second"] = await speak(good, "And again.")
        for name, wrong in {"voice": {"voice": "nobody"}, "key": {"api_key": "another"}}.items():
            bad = cartesia.TTS(**{"api_key": key, "base_url": url, "http_session": session, **wrong})
            stream = bad.stream(conn_options=tts.tts.APIConnectOptions(max_retry=0))
            stream.push_text("Hello there.")
            stream.end_input()
            try:
                async for _ in stream:
                    pass
            except (APIError, APIStatusError) as error:
                seen[f"wrong {name}"] = [getattr(error, "status_code", None), str(error)]
            finally:
                await stream.aclose()
            await bad.aclose()
        await good.aclose()
    return seen


RATE = 16_000


def audio(speech: str, *pauses: float) -> list[bytes]:
    """Return the speech with a pause behind each, in pieces of 50 ms."""
    pcm = b"".join(base64.b64decode(speech) + bytes(round(pause * RATE) * 2) for pause in pauses)
    return [pcm[at : at + RATE // 10] for at in range(0, len(pcm), RATE // 10)]


async def heard_by_sdk(url: str, key: str, speech: str) -> Seen:
    """Recognise by the vendor's SDK: words with times, a finalize, turns, a change of their settings, refusals."""
    client = AsyncCartesia(api_key=key, websocket_base_url=url.replace("http", "ws", 1))
    common: Seen = {"encoding": "pcm_s16le", "sample_rate": RATE}
    seen: Seen = {}
    for model in ("ink-whisper", "ink-2"):
        async with client.stt.manual_finalize.websocket(model=model, **common) as connection:
            for _ in range(2):
                for piece in audio(speech, 0.0):
                    await connection.send_raw(piece)
                await connection.send("finalize")
            await connection.send("close")
            seen[model] = [event.to_dict() async for event in connection]
    terms = ["Ada", "Grace"]
    async with client.stt.auto_finalize.websocket(
        model="ink-2", keyterm=terms, turn_end_threshold=0.1, **common
    ) as connection:
        for piece in audio(speech, 0.7, 1.0):
            await connection.send_raw(piece)
        await connection.send({"type": "config", "turn": {"end_timeout_ms": 700.0}})
        for piece in audio(speech, 0.8, 0.0):
            await connection.send_raw(piece)
        await connection.send({"type": "close"})
        seen["turns"] = [event.to_dict() async for event in connection]
    for name, kind in {"wrong model": client.stt.manual_finalize, "no turns": client.stt.auto_finalize}.items():
        async with kind.websocket(model="ink-whisper" if name == "no turns" else "ink-9", **common) as connection:
            seen[name] = (await connection.recv()).to_dict()
    return seen


async def heard_by_livekit(url: str, key: str, speech: str) -> Seen:
    """Recognise by livekit's plugin: turns, words with times, a wrong key."""
    seen: Seen = {}
    async with aiohttp.ClientSession() as session:
        for name, settings in {"turns": {}, "whisper": {"model": "ink-whisper"}, "wrong key": {"api_key": "x"}}.items():
            recogniser = cartesia.STT(**{"api_key": key, "base_url": url, "http_session": session, **settings})
            stream = recogniser.stream(conn_options=stt.stt.APIConnectOptions(max_retry=0))
            for piece in audio(speech, 0.7, 1.0):
                stream.push_frame(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
            stream.flush()
            events: list[Seen] = []
            try:
                async for event in stream:
                    if not events:
                        stream.end_input()  # earlier, it would not connect at all
                    best = event.alternatives[0] if event.alternatives else None
                    words = [[str(word), word.start_time, word.end_time] for word in (best and best.words) or []]
                    events.append({"type": event.type.value, "text": best.text if best else "", "words": words})
            except APIStatusError as error:
                events.append({"status": error.status_code})
            finally:
                await stream.aclose()
            seen[name] = events
    return seen


async def main(url: str, key: str, voice: str, speech: str) -> None:
    """Hold the sessions, and print what each client saw."""
    speakers = {"sdk": by_sdk, "livekit": by_livekit}
    listeners = {"heard by sdk": heard_by_sdk, "heard by livekit": heard_by_livekit}
    seen = {name: await asyncio.wait_for(hold(url, key, voice), LIMIT) for name, hold in speakers.items()}
    seen |= {name: await asyncio.wait_for(hear(url, key, speech), LIMIT) for name, hear in listeners.items()}
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(**json.load(sys.stdin)))
