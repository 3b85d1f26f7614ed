"""Providers of your own, a voice and a model, without keys: `vivavoce dev examples/custom_plugin.py`.

The agent repeats in Morse what it hears. A provider is a class behind a port; the conformance checks of
`vivavoce.pipelines.testing` test its promises: `await check_tts(MorseTTS)`, `await check_llm(EchoLLM, request)`.
"""

import math
from array import array
from collections.abc import AsyncGenerator, Iterator

import anyio.lowlevel

from vivavoce.agents import Agent, AgentSession, JobContext
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities, Word
from vivavoce.plugins import pocketsphinx, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = yes | no | one | two | three | goodbye;"
SIGNS = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
MORSE = dict(zip("abcdefghijklmnopqrstuvwxyz", SIGNS.split(), strict=True))
RATE, DOT, HERTZ = 16000, 0.05, 600


class MorseTTS(TTS):
    """Speaks Morse, word by word, with the time of each word."""

    provider = "morse"

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=RATE, emits_words=True)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        at, heading = 0.0, text
        for word in text.split():
            pcm = b"".join(beeps(word))
            end = at + len(pcm) / 2 / RATE
            yield AudioChunk(AudioFrame(pcm, RATE), (Word(word, at, end),), heading)
            at, heading = end, ""
            await anyio.lowlevel.checkpoint()  # making sound is work: let other tasks run


def beeps(word: str) -> Iterator[bytes]:
    for letter in word.lower():
        for sign in MORSE.get(letter, ""):
            yield tone(DOT if sign == "." else 3 * DOT) + bytes(2 * round(DOT * RATE))
        yield bytes(2 * round(2 * DOT * RATE))


def tone(seconds: float) -> bytes:
    samples = (round(8000 * math.sin(2 * math.pi * HERTZ * n / RATE)) for n in range(round(seconds * RATE)))
    return array("h", samples).tobytes()


class EchoLLM(LLM):
    """Repeats the user's last words."""

    provider = "echo"

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        users = request.context.messages("user")
        yield TextDelta(users[-1].content if users else "sos")
        yield Done()


class Radio(Agent):
    async def on_enter(self) -> None:
        await self.session.say("hello")


async def entrypoint(ctx: JobContext) -> None:
    stt = pocketsphinx.STT(grammar=CALLER)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=stt, llm=EchoLLM(), tts=MorseTTS())
    await AgentSession(Radio("You repeat."), pipeline).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/custom_plugin.py")
