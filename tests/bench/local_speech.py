"""Measures the offline recognisers and voices side by side: CPU for a second of audio, and latency.

    PYTHONPATH=tests .venv/bin/python -P tests/bench/local_speech.py

docs/local.md has the figures of one run.
"""

from __future__ import annotations

import resource
import time
from collections.abc import AsyncIterator
from statistics import median

import anyio

from kit.speech import BOOKING, PHRASES, RATE, frames, padded, spoken, spoken_naturally
from vivavoce.pipelines.core.words import words_of
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT, STTEvent, STTFinal
from vivavoce.pipelines.tts.base import TTS
from vivavoce.plugins import espeak, hibari, moonshine, pocketsphinx

SENTENCES = (
    "Do you have a table for six on Sunday evening?",
    "Could we sit outside by the window, if the weather is nice?",
    "My sister does not eat any fish or nuts.",
    "Thank you very much, that is all.",
    "No, I would like to come on Friday.",
    "Yes, please.",
    "I am calling because I have lost my bag in your restaurant.",
    "How late are you open on Saturday?",
)


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def final(events: AsyncIterator[STTEvent]) -> tuple[str, int]:
    interims = 0
    async for event in events:
        if isinstance(event, STTFinal):
            return event.text, interims
        interims += 1
    raise AssertionError("the stream has ended")


async def listen(name: str, stt: STT, speech: list[AudioFrame], expected: tuple[str, ...], *, pace: float) -> None:
    """Push the audio in `pace` times its own time; 0: at once."""
    stream = await stt.open()
    events = stream.events()
    right, interims, seconds, latencies = 0, 0, 0.0, list[float]()
    began = cpu()
    for audio, words in zip(speech, expected, strict=True):
        heard: list[tuple[str, int]] = []

        async def take(into: list[tuple[str, int]] = heard) -> None:
            into.append(await final(events))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            stream.speech_started(0.0)
            for frame in frames(audio):
                stream.push(frame)
                await anyio.sleep(pace * frame.duration)
            at = time.perf_counter()
            stream.flush()
        latencies.append(time.perf_counter() - at)
        seconds += audio.duration
        interims += heard[0][1]
        right += words_of(heard[0][0]) == words_of(words)
    used = cpu() - began
    await stream.aclose()
    print(
        f"| {name} | {used / seconds:.3f} s | {median(latencies) * 1000:.0f} ms | {max(latencies) * 1000:.0f} ms | "
        f"{interims / seconds:.1f} | {right} of {len(expected)} |"
    )


async def listen_many(count: int, speech: list[AudioFrame]) -> None:
    """Hear `count` callers on one model, in real time; each begins 0.2 s after the one before."""
    latencies, seconds, right = list[float](), 0.0, 0

    async def call(number: int) -> None:
        nonlocal seconds, right
        stream = await moonshine.STT().open()
        events = stream.events()
        audio, words = speech[number % len(speech)], SENTENCES[number % len(speech)]
        heard: list[tuple[str, int]] = []

        async def take() -> None:
            heard.append(await final(events))

        await anyio.sleep(0.2 * number)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            stream.speech_started(0.0)
            for frame in frames(audio):
                stream.push(frame)
                await anyio.sleep(frame.duration)
            at = time.perf_counter()
            stream.flush()
        latencies.append(time.perf_counter() - at)
        seconds += audio.duration
        right += words_of(heard[0][0]) == words_of(words)
        await stream.aclose()

    began = cpu()
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(call, number)
    print(
        f"| moonshine, {count} sessions | {(cpu() - began) / seconds:.3f} s | {median(latencies) * 1000:.0f} ms | "
        f"{max(latencies) * 1000:.0f} ms | | {right} of {count} |"
    )


async def speak(name: str, tts: TTS) -> None:
    async for _ in tts.synthesize("Hello."):
        pass
    firsts, seconds, wall = list[float](), 0.0, 0.0
    began = cpu()
    for sentence in SENTENCES:
        at = time.perf_counter()
        first = 0.0
        async for chunk in tts.synthesize(sentence):
            first = first or time.perf_counter() - at
            seconds += chunk.frame.duration
        firsts.append(first)
        wall += time.perf_counter() - at
    await tts.aclose()  # a child's CPU counts when it has ended
    used = cpu() - began
    print(
        f"| {name} | {used / seconds:.3f} s | {median(firsts) * 1000:.0f} ms | {max(firsts) * 1000:.0f} ms | "
        f"{wall / seconds:.3f} |"
    )


async def main() -> None:
    print("| voice | CPU for 1 s of speech | first audio, median | longest | time for 1 s |\n|---|---|---|---|---|")
    await speak("hibari", hibari.TTS())
    await speak("espeak", espeak.TTS())
    natural = [padded(speech, before=0.2, after=0.25) for speech in await spoken_naturally(*SENTENCES)]
    robot = [padded(speech, before=0.2, after=0.25) for speech in await spoken(*PHRASES)]
    phrases = tuple(phrase.replace(",", "") for phrase in PHRASES)
    print("\n| recogniser | CPU for 1 s of speech | final, median | longest | interims a second | right |")
    print("|---|---|---|---|---|---|")
    none = moonshine.STTOptions(interim_interval=None)
    moonshine.STT().load()
    await listen("moonshine", moonshine.STT(), natural, SENTENCES, pace=1.0)
    await listen("moonshine, no interims", moonshine.STT(options=none), natural, SENTENCES, pace=1.0)
    await listen_many(20, natural)
    await listen("pocketsphinx, grammar", pocketsphinx.STT(grammar=BOOKING), robot, phrases, pace=1.0)
    await listen("pocketsphinx, no grammar", pocketsphinx.STT(), natural, SENTENCES, pace=1.0)
    print(
        f"\n{RATE} Hz, {len(SENTENCES)} sentences; peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss} kB"
    )


if __name__ == "__main__":
    anyio.run(main)
