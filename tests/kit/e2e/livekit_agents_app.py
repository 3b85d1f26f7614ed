"""A worker written with livekit-agents, run by that package's own Python; nothing of Vivavoce is imported.

It hears with livekit's VAD and pocketsphinx, answers by rules, and speaks WAV files: the test made one for each
sentence. Environment: LIVEKIT_*, HOST_AGENT_NAME, HOST_GRAMMAR (a JSGF file), HOST_SOUNDS (a JSON file: text to WAV
file), HOST_PACKAGES (the folder of pocketsphinx). It runs as `python livekit_agents_app.py start`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import wave
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path
from typing import Any

sys.path.append(os.environ["HOST_PACKAGES"])  # last, so that only packages missing here come from there

import pocketsphinx
from livekit import rtc
from livekit.agents import Agent, AgentSession, JobContext, WorkerOptions, cli, inference, llm, stt

GREETING = "Hello, for which day would you like a table?"
FRAME_SECONDS = 0.02


class Ears(stt.STT):  # type: ignore[misc]  # its package is not in our environment
    """pocketsphinx on whole utterances."""

    def __init__(self) -> None:
        super().__init__(capabilities=stt.STTCapabilities(streaming=False, interim_results=False))
        self._decoder = pocketsphinx.Decoder(jsgf=os.environ["HOST_GRAMMAR"], loglevel="FATAL")

    async def _recognize_impl(self, buffer: Any, **_: Any) -> stt.SpeechEvent:
        frame = rtc.combine_audio_frames(buffer)
        resampler = rtc.AudioResampler(frame.sample_rate, 16_000, num_channels=1)
        pieces = [*resampler.push(frame), *resampler.flush()]
        pcm = b"".join(bytes(piece.data) for piece in pieces)
        text = await asyncio.to_thread(self._decode, pcm)
        return stt.SpeechEvent(
            type=stt.SpeechEventType.FINAL_TRANSCRIPT, alternatives=[stt.SpeechData(language="en", text=text)]
        )

    def _decode(self, pcm: bytes) -> str:
        self._decoder.start_utt()
        self._decoder.process_raw(pcm, full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return "" if found is None else str(found.hypstr)


class Rules(llm.LLM):  # type: ignore[misc]  # its package is not in our environment
    """Stands where livekit-agents wants a model; the agent's `llm_node` answers."""

    def chat(self, **_: Any) -> Any:
        raise NotImplementedError


class Host(Agent):  # type: ignore[misc]  # its package is not in our environment
    """Asks for day and time, then reads something long."""

    def __init__(self) -> None:
        super().__init__(instructions="Be brief.")
        self._sounds: dict[str, str] = json.loads(Path(os.environ["HOST_SOUNDS"]).read_text())
        self._turns = 0

    async def on_enter(self) -> None:
        self.session.say(GREETING, audio=self._play(GREETING))

    async def llm_node(self, *_: Any) -> AsyncIterator[str]:
        self._turns += 1
        answers = [text for text in self._sounds if text != GREETING]
        yield answers[min(self._turns, len(answers)) - 1]

    async def tts_node(self, text: AsyncIterable[str], _: Any) -> AsyncIterator[rtc.AudioFrame]:
        whole = "".join([piece async for piece in text])
        async for frame in self._play(whole.strip()):
            yield frame

    async def _play(self, text: str) -> AsyncIterator[rtc.AudioFrame]:
        with wave.open(self._sounds[text], "rb") as file:
            rate = file.getframerate()
            samples = round(rate * FRAME_SECONDS)
            while data := file.readframes(samples):
                yield rtc.AudioFrame(data, rate, 1, len(data) // 2)


async def entrypoint(ctx: JobContext) -> None:
    session: AgentSession[None] = AgentSession(stt=Ears(), llm=Rules(), vad=inference.VAD())
    await session.start(Host(), room=ctx.room)


def no_load() -> float:
    """Report no load, so that a busy machine does not refuse the test's one call."""
    return 0.0


if __name__ == "__main__":
    options = WorkerOptions(
        entrypoint_fnc=entrypoint,
        agent_name=os.environ["HOST_AGENT_NAME"],
        load_fnc=no_load,
        load_threshold=float("inf"),
    )
    cli.run_app(options)
