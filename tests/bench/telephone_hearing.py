"""Measures how much of short phrases a recogniser on this machine understands in a room, and how much on a telephone.

    PYTHONPATH=tests .venv/bin/python -P tests/bench/telephone_hearing.py

A telephone is the way of a call on a media stream: 8 kHz and mu-law, then the caller's audio as the transport gives it
to the session. docs/telephony.md has the figures of one run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from kit.speech import RATE, frames, padded, spoken_naturally
from vivavoce.agents.transports.media_stream.inbound import Inbound
from vivavoce.agents.transports.media_stream.wire import Heard
from vivavoce.pipelines.core.words import words_of
from vivavoce.pipelines.media import g711
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.stt.base import STT, STTEvent, STTFinal
from vivavoce.plugins import moonshine

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
OTHERS = """
yes please, no thanks, thank you, please stop, tomorrow, next week, this evening, in the afternoon, that is
fine, cancel my booking, something else, let me speak to a person, what time is it, can you repeat that please,
my order has not arrived, i would like to book a flight, i lost my credit card, where can i park my car, my
phone number has changed, is there a discount for students, i am calling about my invoice, could you spell that
for me, how long does it take, that is too expensive
"""
PHRASES = (
    *(f"on {day}" for day in DAYS),
    *(f"at {hour}" for hour in HOURS),
    *(f"{day} at {hour} please" for day, hour in zip(DAYS, HOURS, strict=False)),
    *(f"a table for {number} people" for number in HOURS[1:9]),
    *(" ".join(phrase.split()) for phrase in OTHERS.split(",")),
)
CONSONANTS = tuple(
    "sister vest fast past ship chip sheep thick sick fine sign thin sin fan van some thumb fish first six".split()
)
"""Words that one consonant tells from another; a telephone has little of "s" and "f"."""
EDGES = {"before": 0.2, "after": 0.26}
"""Seconds of silence around the words, as the VAD cuts them."""


def on_telephone(speech: AudioFrame) -> AudioFrame:
    """Return the audio that a session gets of a caller who says this."""
    down = Resampler(RATE, g711.SAMPLE_RATE)
    codes = g711.encode(down.push(speech).data + down.flush().data, "mulaw")
    heard = bytearray()
    inbound = Inbound(g711.SAMPLE_RATE, lambda frame: heard.extend(frame.data))
    inbound.push(Heard(g711.decode(codes, "mulaw")))
    inbound.flush()
    return AudioFrame(bytes(heard), inbound.output_rate)


async def understood(stt: STT, speech: list[AudioFrame], phrases: tuple[str, ...]) -> str:
    """Return how many of the phrases are right to the word, however a number is written."""
    stream, right = await stt.open(), 0
    events = stream.events()
    for audio, phrase in zip(speech, phrases, strict=True):
        stream.speech_started(0.0)
        for frame in frames(audio):
            stream.push(frame)
        stream.flush()
        right += in_words(await final(events)) == in_words(phrase)
    await stream.aclose()
    return f"{right} of {len(phrases)}"


async def final(events: AsyncIterator[STTEvent]) -> str:
    async for event in events:
        if isinstance(event, STTFinal):
            return event.text
    raise AssertionError("the stream has ended")


def in_words(text: str) -> list[str]:
    return [HOURS[int(word) - 1] if word.isdigit() and 0 < int(word) <= 12 else word for word in words_of(text)]


async def main() -> None:
    stt = moonshine.STT(options=moonshine.STTOptions(interim_interval=None, min_confidence=0.0))
    print("| | in a room | on a telephone |\n|---|---|---|")
    for name, phrases in (("phrases", PHRASES), ("words of one consonant", CONSONANTS)):
        near = [padded(speech, **EDGES) for speech in await spoken_naturally(*phrases)]
        far = [on_telephone(speech) for speech in near]
        print(f"| {name} | {await understood(stt, near, phrases)} | {await understood(stt, far, phrases)} |")


if __name__ == "__main__":
    anyio.run(main)
