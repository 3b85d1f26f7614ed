"""The begin of a test's app file that takes table bookings by voice: its talk, its pipeline, its log."""

from __future__ import annotations

BOOKING = '''
from pathlib import Path

from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

HERE = Path(__file__).parent
CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (friday | saturday) | at (seven | eight) | goodbye;"


def pipeline_of(ctx, done):
    """The parts of one call; `done` is the sentence about a booking."""
    talk = rules.SlotFilling(
        slots=(
            rules.Slot(name="day", parser=rules.days(), ask="For which day?"),
            rules.Slot(name="time", parser=rules.times(), ask="At what time?", say=rules.time_in_words),
        ),
        tool="book",
        done=done,
    )
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    return CascadingPipeline(
        vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(talk), tts=tts
    )


def log(text):
    with (HERE / "log.txt").open("a") as file:
        print(text, file=file)
'''
